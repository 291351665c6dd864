/* kineto.c - one pass over a profiler trace, keeping its steps and collectives. */
#include "kineto.h"

#include "base/json_stream.h"
#include "kineto_file.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_NAMES = 1 << 12,
    MOST_GROUPS = 1 << 12
}; /* a job has tens; more are looked up too slowly, and made to be */

/* What is known of the event being read. */
struct event {
    char phase, category[40], name[200];
    int64_t ts_ns, dur_ns;
    bool has_ts, has_dur;
    char collective[64], group[256], ranks[1024], dtype[24];
    int64_t seq, elements;
};

/* A process group as distributedInfo lists it: kernels name it, and its members are what ranks agree on. */
struct group {
    char name[128], *members;
};

struct reader {
    struct hm_json_stream json;
    struct hm_kineto_rank *rank;
    struct group *group;
    size_t n_groups, group_capacity;
    int64_t *launch; /* c10d calls and ends of gloo's work, to be paired in their order */
    size_t n_launches, launch_capacity;
    struct hm_kineto_step *optimizer; /* Optimizer.step calls */
    size_t n_optimizers, optimizer_capacity;
    struct hm_phase_spans phase[HM_PHASES];
    bool failed; /* no memory */
};

/* ---- numbers ---- */

/* Microseconds in decimal, as ns: exactly, where a double has lost the last digits. */
static bool parse_us(const char *text, int64_t *ns) {
    const char *c = text + (*text == '-');
    int64_t whole = 0, part = 0;
    int digits = 0;
    if (!isdigit((unsigned char)*c)) return false;
    for (; isdigit((unsigned char)*c); c++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *c - '0', &whole)) return false;
    if (*c == '.')
        for (c++; isdigit((unsigned char)*c); c++)
            if (digits < 3) part = part * 10 + (*c - '0'), digits++;
    for (; digits < 3; digits++) part *= 10;
    if (*c == 'e' || *c == 'E') {
        double value = strtod(text, NULL) * 1e3;
        if (!(fabs(value) < 9e18)) return false;
        *ns = (int64_t)value;
        return true;
    }
    if (*c || __builtin_mul_overflow(whole, 1000, &whole) || __builtin_add_overflow(whole, part, &whole)) return false;
    *ns = *text == '-' ? -whole : whole;
    return true;
}

static int64_t parse_integer(const char *text, int64_t otherwise) {
    char *end;
    long long n = strtoll(text, &end, 10);
    return end == text || n < 0 ? otherwise : n;
}

static void copy(char *to, size_t size, const struct hm_json_stream *json) {
    size_t n = json->length < size - 1 ? json->length : size - 1;
    memcpy(to, json->text, n);
    to[n] = 0;
}

/* ---- names and groups ---- */

static uint32_t intern(struct reader *r, const char *name) {
    struct hm_kineto_rank *k = r->rank;
    for (size_t i = 0; i < k->n_names; i++)
        if (strcmp(k->name[i], name) == 0) return (uint32_t)i;
    if (k->n_names == MOST_NAMES) return 0;
    char **grown = hm_grow(k->name, k->n_names, &k->name_capacity, sizeof *grown);
    if (grown) k->name = grown;
    if (!grown || !(k->name[k->n_names] = hm_strdup(name))) {
        r->failed = true;
        return 0;
    }
    return (uint32_t)k->n_names++;
}

/* "[0, 1]" or [0,1] without blanks. */
static void squeeze(char *text) {
    char *to = text;
    for (const char *c = text; *c; c++)
        if (*c != ' ' && *c != '\n') *to++ = *c;
    *to = 0;
}

/* By its members, on which ranks agree, where they are known: names of subgroups may differ from rank to rank. */
static uint32_t group_of(struct reader *r, struct event *e) {
    for (size_t g = 0; e->group[0] && g < r->n_groups; g++)
        if (r->group[g].members && strcmp(r->group[g].name, e->group) == 0) return intern(r, r->group[g].members);
    squeeze(e->ranks);
    size_t n = strlen(e->ranks);
    if (n > 2 && e->ranks[0] == '[' && e->ranks[n - 1] == ']' && !strstr(e->ranks, "...")) return intern(r, e->ranks);
    return intern(r, e->group);
}

/* ---- what counts ---- */

static bool is_category(const struct event *e, const char *name) {
    return strcasecmp(e->category, name) == 0;
}

static int64_t bytes_of(const struct event *e) {
    static const struct {
        const char *dtype;
        int bytes;
    } sizes[] = {{"Float", 4}, {"BFloat16", 2}, {"Half", 2}, {"Double", 8}, {"Long", 8},
                 {"Int", 4},   {"Byte", 1},     {"Char", 1}, {"Short", 2},  {"Bool", 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        if (e->elements >= 0 && e->elements < INT64_MAX / 8 && strcmp(e->dtype, sizes[k].dtype) == 0)
            return e->elements * sizes[k].bytes;
    return -1;
}

/* "all_reduce" of a kernel's name, without the algorithm, which may differ from rank to rank. */
static void kernel_operation(const char *kernel, char *name, size_t size) {
    const char *at = strstr(kernel, "Kernel_"), *from = at ? at + 7 : kernel;
    (void)snprintf(name, size, "%.*s", (int)strcspn(from, "_("), from);
}

static void add_collective(struct reader *r, const struct event *e, const char *name, uint32_t group) {
    struct hm_kineto_rank *k = r->rank;
    struct hm_kineto_collective *grown =
        hm_grow(k->collective, k->n_collectives, &k->collective_capacity, sizeof *grown);
    if (!grown) {
        r->failed = true;
        return;
    }
    k->collective = grown;
    k->collective[k->n_collectives++] = (struct hm_kineto_collective){.launch_ns = e->ts_ns,
                                                                      .end_ns = e->ts_ns + e->dur_ns,
                                                                      .seq = e->seq,
                                                                      .bytes = bytes_of(e),
                                                                      .name = intern(r, name),
                                                                      .group = group};
}

static void take_kernel(struct reader *r, struct event *e) {
    char name[64];
    bool named = e->collective[0] != 0;
    if (!named && !strstr(e->name, "nccl") && !strstr(e->name, "rccl")) return;
    if (strcmp(e->collective, "send") == 0 || strcmp(e->collective, "recv") == 0) {
        r->rank->point_to_point++;
        return;
    }
    if (named)
        (void)snprintf(name, sizeof name, "%s", e->collective);
    else
        kernel_operation(e->name, name, sizeof name);
    add_collective(r, e, name, group_of(r, e));
}

static void add_step(struct reader *r, struct hm_kineto_step **list, size_t *n, size_t *capacity, const struct event *e,
                     int64_t number) {
    struct hm_kineto_step *grown = hm_grow(*list, *n, capacity, sizeof *grown);
    if (!grown) {
        r->failed = true;
        return;
    }
    *list = grown;
    (*list)[(*n)++] = (struct hm_kineto_step){number, e->ts_ns, e->ts_ns + e->dur_ns};
}

static void add_launch(struct reader *r, int64_t at) {
    int64_t *grown = hm_grow(r->launch, r->n_launches, &r->launch_capacity, sizeof *grown);
    if (!grown) {
        r->failed = true;
        return;
    }
    r->launch = grown;
    r->launch[r->n_launches++] = at;
}

static void take_event(struct reader *r, struct event *e) {
    struct hm_kineto_rank *k = r->rank;
    int64_t end;
    k->events++;
    if (e->phase != 'X' || !e->has_ts || !e->has_dur || e->dur_ns < 0 ||
        __builtin_add_overflow(e->ts_ns, e->dur_ns, &end))
        return;
    if (is_category(e, "kernel")) {
        take_kernel(r, e);
        return;
    }
    if (strncmp(e->category, "gpu_", 4) == 0) return; /* an annotation's twin */
    int phase = hm_phase_of(e->name);
    if (phase >= 0) r->failed |= hm_phase_add(&r->phase[phase], e->ts_ns, end) != 0;
    if (strncmp(e->name, "ProfilerStep#", 13) == 0)
        add_step(r, &k->step, &k->n_steps, &k->step_capacity, e, parse_integer(e->name + 13, (int64_t)k->n_steps));
    else if (strncmp(e->name, "Optimizer.step#", 15) == 0)
        add_step(r, &r->optimizer, &r->n_optimizers, &r->optimizer_capacity, e, (int64_t)r->n_optimizers);
    else if (strncmp(e->name, "gloo:", 5) == 0)
        add_collective(r, e, e->name + 5, group_of(r, e));
    else if (strncmp(e->name, "c10d::", 6) == 0)
        add_launch(r, e->ts_ns);
}

/* ---- the document ---- */

/* A value that is to be a text or a number; anything else is passed over, and false. */
static bool scalar(struct reader *r, enum hm_json_token *token) {
    *token = hm_json_stream_next(&r->json);
    if (*token == HM_JSON_STRING || *token == HM_JSON_NUMBER) return true;
    if (*token != HM_JSON_CUT && *token != HM_JSON_BAD) *token = hm_json_stream_skip(&r->json, *token);
    return false;
}

/* Calls take(r, what, key) for each key of an object whose brace was read; it must take the value. Returns what ended it. */
typedef enum hm_json_token (*key_fn)(struct reader *r, void *what, const char *key);
static enum hm_json_token each_key(struct reader *r, key_fn take, void *what) {
    char key[64];
    for (;;) {
        enum hm_json_token token = hm_json_stream_next(&r->json);
        if (token != HM_JSON_KEY) return token;
        copy(key, sizeof key, &r->json);
        token = take(r, what, key);
        if (token == HM_JSON_CUT || token == HM_JSON_BAD) return token;
    }
}

static enum hm_json_token argument(struct reader *r, void *what, const char *key) {
    struct event *e = what;
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {{"Collective name", e->collective, sizeof e->collective},
                 {"Process Group Name", e->group, sizeof e->group},
                 {"Process Group Ranks", e->ranks, sizeof e->ranks},
                 {"dtype", e->dtype, sizeof e->dtype}};
    enum hm_json_token token;
    if (!scalar(r, &token)) return token;
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        if (strcmp(key, texts[k].key) == 0) copy(texts[k].to, texts[k].size, &r->json);
    if (strcmp(key, "Seq") == 0) e->seq = parse_integer(r->json.text, -1);
    if (strcmp(key, "In msg nelems") == 0) e->elements = parse_integer(r->json.text, -1);
    return token;
}

static enum hm_json_token event_key(struct reader *r, void *what, const char *key) {
    struct event *e = what;
    enum hm_json_token token;
    if (strcmp(key, "args") == 0) {
        token = hm_json_stream_next(&r->json);
        /* only kernels' arguments matter; their category stands before */
        if (token == HM_JSON_OBJECT && (!e->category[0] || is_category(e, "kernel"))) return each_key(r, argument, e);
        return hm_json_stream_skip(&r->json, token);
    }
    if (!scalar(r, &token)) return token;
    if (strcmp(key, "ph") == 0)
        e->phase = r->json.text[0];
    else if (strcmp(key, "cat") == 0)
        copy(e->category, sizeof e->category, &r->json);
    else if (strcmp(key, "name") == 0)
        copy(e->name, sizeof e->name, &r->json);
    else if (strcmp(key, "ts") == 0)
        e->has_ts = parse_us(r->json.text, &e->ts_ns);
    else if (strcmp(key, "dur") == 0)
        e->has_dur = parse_us(r->json.text, &e->dur_ns);
    return token;
}

/* The elements of traceEvents, or of a bare list. */
static enum hm_json_token read_events(struct reader *r) {
    for (;;) {
        enum hm_json_token token = hm_json_stream_next(&r->json);
        if (token == HM_JSON_ARRAY_END || token == HM_JSON_CUT || token == HM_JSON_BAD) return token;
        if (token != HM_JSON_OBJECT) {
            token = hm_json_stream_skip(&r->json, token);
        } else {
            struct event e;
            e.phase = e.category[0] = e.name[0] = e.collective[0] = e.group[0] = e.ranks[0] = e.dtype[0] = 0;
            e.has_ts = e.has_dur = false;
            e.seq = e.elements = -1;
            token = each_key(r, event_key, &e);
            if (token == HM_JSON_OBJECT_END) take_event(r, &e);
        }
        if (token == HM_JSON_CUT || token == HM_JSON_BAD) return token;
        if (r->failed) return HM_JSON_END;
    }
}

/* A list of ranks, or the same as a text, as "[0,1]". */
static enum hm_json_token members(struct reader *r, char **text) {
    enum hm_json_token token = hm_json_stream_next(&r->json);
    struct hm_str list = {0};
    if (token == HM_JSON_STRING) {
        hm_str_add(&list, "%s", r->json.text);
        if (list.text) squeeze(list.text);
    } else if (token == HM_JSON_ARRAY) {
        hm_str_add(&list, "[");
        while ((token = hm_json_stream_next(&r->json)) == HM_JSON_NUMBER)
            hm_str_add(&list, "%s%s", list.length > 1 ? "," : "", r->json.text);
        hm_str_add(&list, "]");
        if (token != HM_JSON_ARRAY_END && token != HM_JSON_CUT) token = HM_JSON_BAD;
    } else {
        return hm_json_stream_skip(&r->json, token);
    }
    r->failed |= list.failed;
    hm_free(*text);
    *text = list.text;
    return token;
}

static enum hm_json_token group_key(struct reader *r, void *what, const char *key) {
    struct group *g = what;
    enum hm_json_token token;
    if (strcmp(key, "ranks") == 0) return members(r, &g->members);
    if (scalar(r, &token) && strcmp(key, "pg_name") == 0) copy(g->name, sizeof g->name, &r->json);
    return token;
}

static enum hm_json_token read_groups(struct reader *r) {
    enum hm_json_token token = hm_json_stream_next(&r->json);
    if (token != HM_JSON_ARRAY) return hm_json_stream_skip(&r->json, token);
    while ((token = hm_json_stream_next(&r->json)) == HM_JSON_OBJECT) {
        struct group g = {0};
        token = each_key(r, group_key, &g);
        struct group *grown =
            r->n_groups < MOST_GROUPS ? hm_grow(r->group, r->n_groups, &r->group_capacity, sizeof *grown) : NULL;
        if (grown) {
            r->group = grown;
            r->group[r->n_groups++] = g;
        } else {
            hm_free(g.members);
        }
        if (token != HM_JSON_OBJECT_END) return token;
    }
    return token;
}

static enum hm_json_token distributed_key(struct reader *r, void *what, const char *key) {
    (void)what;
    enum hm_json_token token;
    if (strcmp(key, "pg_config") == 0) return read_groups(r);
    if (!scalar(r, &token)) return token;
    if (strcmp(key, "rank") == 0) r->rank->rank = parse_integer(r->json.text, -1);
    if (strcmp(key, "world_size") == 0) r->rank->world = parse_integer(r->json.text, 0);
    return token;
}

static enum hm_json_token top_key(struct reader *r, void *what, const char *key) {
    (void)what;
    enum hm_json_token token;
    if (strcmp(key, "traceEvents") == 0 || strcmp(key, "distributedInfo") == 0) {
        token = hm_json_stream_next(&r->json);
        if (token == HM_JSON_ARRAY && key[0] == 't') return read_events(r);
        if (token == HM_JSON_OBJECT && key[0] == 'd') return each_key(r, distributed_key, NULL);
        return hm_json_stream_skip(&r->json, token);
    }
    if (!scalar(r, &token)) return token;
    if (strcmp(key, "baseTimeNanoseconds") == 0) r->rank->base_ns = parse_integer(r->json.text, 0);
    if (strcmp(key, "host_name") == 0 && !r->rank->host) r->failed |= !(r->rank->host = hm_strdup(r->json.text));
    return token;
}

/* ---- after the last event ---- */

static int by_start(const void *a, const void *b) {
    int64_t x = ((const struct hm_kineto_step *)a)->start_ns, y = ((const struct hm_kineto_step *)b)->start_ns;
    return (x > y) - (x < y);
}

static int by_launch(const void *a, const void *b) {
    const struct hm_kineto_collective *x = a, *y = b;
    if (x->launch_ns != y->launch_ns) return (x->launch_ns > y->launch_ns) - (x->launch_ns < y->launch_ns);
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Gloo works on threads of its own, two a group, which take the calls in their order: the call is when the rank was there. */
static void pair_launches(struct reader *r) {
    struct hm_kineto_rank *k = r->rank;
    if (r->n_launches != k->n_collectives || r->n_launches == 0) return;
    qsort(r->launch, r->n_launches, sizeof *r->launch, by_time);
    for (size_t i = 0; i < r->n_launches; i++)
        if (r->launch[i] > k->collective[i].launch_ns) return; /* not its call after all */
    for (size_t i = 0; i < r->n_launches; i++) k->collective[i].launch_ns = r->launch[i];
}

/* A step ends with its optimizer; the first begins with the recording. */
static void steps_of_optimizer(struct reader *r) {
    struct hm_kineto_rank *k = r->rank;
    if (k->n_steps > 0 || r->n_optimizers == 0) return;
    qsort(r->optimizer, r->n_optimizers, sizeof *r->optimizer, by_start);
    int64_t begin = k->n_collectives && k->collective[0].launch_ns < r->optimizer[0].start_ns
                        ? k->collective[0].launch_ns
                        : r->optimizer[0].start_ns;
    for (size_t i = 0; i < r->n_optimizers; i++) {
        struct hm_kineto_step *s = &r->optimizer[i];
        int64_t end = s->end_ns;
        *s = (struct hm_kineto_step){(int64_t)i, begin, end};
        begin = end;
    }
    k->step = r->optimizer;
    k->n_steps = r->n_optimizers;
    r->optimizer = NULL;
    k->steps_inferred = true;
}

/* The number behind "rank" or "worker" in the file's name, or the only one in it. */
static int64_t rank_in_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    static const char *const words[] = {"rank", "worker"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        const char *at = strcasestr(name, words[k]);
        if (!at) continue;
        at += strlen(words[k]);
        while (*at == '-' || *at == '_' || *at == '.' || *at == '=') at++;
        if (isdigit((unsigned char)*at)) return parse_integer(at, -1);
    }
    const char *digits = strpbrk(name, "0123456789");
    if (!digits || strpbrk(digits + strspn(digits, "0123456789"), "0123456789")) return -1;
    return parse_integer(digits, -1);
}

static void finish(struct reader *r) {
    struct hm_kineto_rank *k = r->rank;
    if (k->n_collectives) qsort(k->collective, k->n_collectives, sizeof *k->collective, by_launch);
    if (k->n_steps) qsort(k->step, k->n_steps, sizeof *k->step, by_start);
    pair_launches(r);
    steps_of_optimizer(r);
    for (int p = 0; p < HM_PHASES; p++) k->phase[p] = hm_phase_measure(&r->phase[p], k->step, k->n_steps);
    if (k->rank < 0) k->rank = rank_in_name(k->path);
}

static int read_one(struct hm_kineto_file *file, struct hm_kineto_rank *rank, struct hm_error *err) {
    struct reader r = {.rank = rank};
    int status = 0;
    if (hm_json_stream_open(&r.json, hm_kineto_file_read, file) != 0 || (intern(&r, ""), r.failed)) {
        hm_json_stream_close(&r.json);
        return hm_fail_memory(err);
    }
    enum hm_json_token token = hm_json_stream_next(&r.json);
    if (token == HM_JSON_OBJECT)
        token = each_key(&r, top_key, NULL);
    else if (token == HM_JSON_ARRAY)
        token = read_events(&r);
    rank->bytes = hm_json_stream_position(&r.json);
    rank->cut = token == HM_JSON_CUT;
    if (r.failed)
        status = hm_fail_memory(err);
    else if (token == HM_JSON_BAD)
        status = hm_fail(err, HM_ERR_INPUT, "%s: byte %llu: not JSON; was the file damaged?", rank->path,
                         (unsigned long long)rank->bytes);
    else if (rank->cut && rank->events == 0)
        status = hm_fail(err, HM_ERR_INPUT, "%s: ends before its first event; record whole steps", rank->path);
    else
        finish(&r);
    for (size_t g = 0; g < r.n_groups; g++) hm_free(r.group[g].members);
    hm_free(r.group);
    hm_free(r.launch);
    hm_free(r.optimizer);
    for (int p = 0; p < HM_PHASES; p++) hm_free(r.phase[p].span);
    hm_json_stream_close(&r.json);
    return status;
}

int hm_kineto_read(const struct hm_input *input, struct hm_kineto_rank **ranks, size_t *n, struct hm_error *err) {
    struct hm_kineto_file file;
    size_t before = *n, capacity = *n;
    int status = hm_kineto_file_open(&file, input, err);
    while (status == 0 && hm_kineto_file_next(&file)) {
        struct hm_kineto_rank *grown =
            *n < capacity ? *ranks : hm_realloc(*ranks, capacity = *n * 2 + 1, sizeof *grown);
        if (!grown) {
            status = hm_fail_memory(err);
            break;
        }
        *ranks = grown;
        struct hm_kineto_rank *rank = &(*ranks)[(*n)++];
        *rank = (struct hm_kineto_rank){.rank = -1};
        rank->path = file.member[0] ? hm_sprintf("%s: %s", input->path, file.member) : hm_strdup(input->path);
        status = rank->path ? read_one(&file, rank, err) : hm_fail_memory(err);
    }
    hm_kineto_file_close(&file);
    if (status == 0 && *n == before)
        status = hm_fail(err, HM_ERR_INPUT, "%s: holds no trace (.json); was it written completely?", input->path);
    return status;
}

void hm_kineto_free(struct hm_kineto_rank *ranks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < ranks[i].n_names; k++) hm_free(ranks[i].name[k]);
        hm_free(ranks[i].name);
        hm_free(ranks[i].step);
        hm_free(ranks[i].collective);
        hm_free(ranks[i].host);
        hm_free(ranks[i].path);
    }
    hm_free(ranks);
}

/* ---- recognising one ---- */

bool hm_kineto_detect(const struct hm_head *head) {
    const char *text = (const char *)head->bytes;
    size_t blank = strspn(text, " \t\r\n");
    if (hm_is_tar(head->bytes, head->n)) return true;
    if (text[blank] == '[') return strstr(text, "\"ph\"") != NULL && strstr(text, "\"ts\"") != NULL;
    return text[blank] == '{' && (strstr(text, "\"traceEvents\"") || strstr(text, "\"schemaVersion\"") ||
                                  strstr(text, "\"deviceProperties\"") || strstr(text, "\"distributedInfo\""));
}
