/* timeline.c - Chrome JSON timelines, recorded and ideal, written event by event.
 *
 * Events of one track never overlap and never go back, which is what Perfetto's importer needs to lay them out on one
 * line. Times are whole nanoseconds before they are compared, so that rounding cannot make two neighbours overlap. */
#include "hindmost/timeline.h"

#include "whatif/whatif.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum stream { COMPUTE, DP_COMM, P2P_FIRST, STREAMS = P2P_FIRST + 4 };
static const char *const stream_name[STREAMS] = {"compute",      "DP communication", "forward-send",
                                                 "forward-recv", "backward-send",    "backward-recv"};
/* Thread ids: unique over the whole file, never equal to a process id. */
enum { TIDS_A_LANE = HM_MAX_STAGES * STREAMS + 1 };

static uint32_t stream_of(const struct hm_class *c) {
    if (hm_is_point_to_point(c)) return P2P_FIRST + (c->phase == HM_BACKWARD ? 2u : 0u) + (c->kind == HM_RECV);
    return c->kind == HM_COLLECTIVE ? DP_COMM : COMPUTE;
}

struct event {
    int64_t start_ns, end_ns;
    uint32_t slot;
};

struct timeline {
    const struct hm_trace *t;
    struct hm_out *out;
    uint32_t *track;       /* slots, track after track, in the model's order */
    uint32_t *track_first; /* [stage * STREAMS + stream]; one more for the end */
    size_t tracks;
    char **args;         /* [slot] the part of an event that is the same everywhere: name and args but the step */
    struct event *event; /* room for the longest track */
    double *start, *end; /* [slot][8] of one lane; ideal: [slot] */
    struct hm_groups groups;
    double *step_at_s; /* [step] where it begins in the timeline */
    char *buffer;
    size_t used;
};
enum { BUFFER = 1 << 16 };

/* ---- text ---- */

static void put(struct timeline *w, const char *text, size_t n) {
    if (w->used + n > BUFFER) {
        hm_out_write(w->out, w->buffer, w->used);
        w->used = 0;
    }
    if (n > BUFFER) {
        hm_out_write(w->out, text, n);
        return;
    }
    memcpy(w->buffer + w->used, text, n);
    w->used += n;
}

static void put_text(struct timeline *w, const char *text) {
    put(w, text, strlen(text));
}

static void put_integer(struct timeline *w, int64_t value) {
    char digits[24], *c = digits + sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--c = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0) *--c = '-';
    put(w, c, (size_t)(digits + sizeof digits - c));
}

/* Nanoseconds as microseconds with three decimals. */
static void put_time(struct timeline *w, int64_t ns) {
    int rest = (int)(ns % 1000);
    const char decimals[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)};
    put_integer(w, ns / 1000);
    put(w, decimals, sizeof decimals);
}

/* False without memory. */
static bool name_tracks(struct timeline *w) {
    const struct hm_recording *r = w->t->recording;
    for (size_t lane = 0; lane < r->n_lanes; lane++) {
        uint32_t pid = r->lanes[lane] + 1;
        struct hm_str s = {0};
        hm_str_add(&s, "%s\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"DP rank %u\"}}",
                   lane ? "," : "", pid, r->lanes[lane]);
        hm_str_add(&s, ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", pid,
                   pid);
        for (uint32_t k = 0; k < w->tracks; k++) {
            if (w->track_first[k] == w->track_first[k + 1]) continue;
            uint32_t tid = pid * TIDS_A_LANE + k;
            hm_str_add(
                &s,
                ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"stage %u %s\"}}",
                pid, tid, k / STREAMS, stream_name[k % STREAMS]);
            hm_str_add(
                &s,
                ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
                pid, tid, k);
        }
        if (s.failed) {
            hm_str_free(&s);
            return false;
        }
        put(w, s.text, s.length);
        hm_str_free(&s);
    }
    return true;
}

static void put_event(struct timeline *w, const struct event *e, uint32_t lane, uint32_t track, int64_t step) {
    uint32_t pid = w->t->recording->lanes[lane] + 1;
    put_text(w, ",\n{\"ph\":\"X\",\"pid\":");
    put_integer(w, pid);
    put_text(w, ",\"tid\":");
    put_integer(w, (int64_t)pid * TIDS_A_LANE + track);
    put_text(w, ",\"ts\":");
    put_time(w, e->start_ns);
    put_text(w, ",\"dur\":");
    put_time(w, e->end_ns - e->start_ns);
    put_text(w, w->args[e->slot]);
    put_integer(w, step);
    put_text(w, "}}");
}

/* ---- what is drawn ---- */

static void add_or_null(struct hm_str *s, int32_t value) {
    if (value < 0)
        hm_str_add(s, "null");
    else
        hm_str_add(s, "%d", value);
}

/* Microbatch and chunk of every slot; those of a transfer are those of the compute it serves. */
static int describe_slots(struct timeline *w) {
    const struct hm_job *m = w->t->job;
    int32_t *serves = hm_alloc(m->n_slots, sizeof *serves); /* a slot + 1 */
    if (!serves) return -1;
    for (uint32_t i = 0; i < m->n_slots; i++)
        for (uint32_t d = m->slot[i].first_dep; d < m->slot[i].first_dep + m->slot[i].n_deps; d++) {
            uint32_t on = m->dep[d];
            const struct hm_class *c = hm_class_of(m, i), *other = hm_class_of(m, on);
            if (m->slot[i].stage != m->slot[on].stage) continue;
            if (c->kind == HM_SEND && hm_is_pass(other) && other->phase == c->phase) {
                if (!serves[i] || m->slot[on].seq > m->slot[serves[i] - 1].seq) serves[i] = (int32_t)on + 1;
            } else if (other->kind == HM_RECV && hm_is_pass(c) && other->phase == c->phase) {
                serves[on] = (int32_t)i + 1;
            }
        }
    bool good = true;
    for (uint32_t i = 0; i < m->n_slots && good; i++) {
        const struct hm_slot *slot = &m->slot[i], *of = serves[i] ? &m->slot[serves[i] - 1] : slot;
        struct hm_str s = {0};
        hm_str_add(&s, ",\"name\":\"%s\",\"args\":{\"microbatch\":", hm_class_of(m, i)->name);
        add_or_null(&s, hm_class_of(m, i)->kind == HM_PAUSE ? -1 : of->mb); /* gc rows say 0 there, whichever it was */
        hm_str_add(&s, ",\"chunk\":");
        add_or_null(&s, of->mc);
        hm_str_add(&s, ",\"seq\":%u,\"step\":", slot->seq);
        good = !s.failed;
        w->args[i] = s.text;
    }
    hm_free(serves);
    return good ? 0 : -1;
}

static void list_tracks(struct timeline *w) {
    const struct hm_job *m = w->t->job;
    uint32_t *first = w->track_first;
    for (uint32_t i = 0; i < m->n_slots; i++) first[m->slot[i].stage * STREAMS + stream_of(hm_class_of(m, i)) + 1]++;
    for (size_t k = 0; k < w->tracks; k++) first[k + 1] += first[k];
    for (uint32_t i = 0; i < m->n_slots; i++)
        w->track[first[m->slot[i].stage * STREAMS + stream_of(hm_class_of(m, i))]++] = i;
    memmove(first + 1, first, w->tracks * sizeof *first); /* each first has become the next one's */
    first[0] = 0;
}

/* Sorts by start, then end: an op without duration comes before the one that starts when it ends. Tracks are nearly in
 * order. */
static void sort_events(struct event *e, size_t n) {
    for (size_t i = 1; i < n; i++) {
        struct event moved = e[i];
        size_t j = i;
        for (; j > 0 && (e[j - 1].start_ns > moved.start_ns ||
                         (e[j - 1].start_ns == moved.start_ns && e[j - 1].end_ns > moved.end_ns));
             j--)
            e[j] = e[j - 1];
        e[j] = moved;
    }
}

/* One lane's step; slot i starts at start[i * stride]. */
static void draw_step(struct timeline *w, uint32_t lane, size_t step, const double *start, const double *end,
                      size_t stride) {
    for (uint32_t k = 0; k < w->tracks; k++) {
        size_t n = w->track_first[k + 1] - w->track_first[k];
        for (size_t i = 0; i < n; i++) {
            uint32_t slot = w->track[w->track_first[k] + i];
            w->event[i] = (struct event){llround((w->step_at_s[step] + start[slot * stride]) * 1e9),
                                         llround((w->step_at_s[step] + end[slot * stride]) * 1e9), slot};
        }
        sort_events(w->event, n);
        int64_t free_ns = 0; /* the stream is busy until then */
        for (size_t i = 0; i < n; i++) {
            struct event *e = &w->event[i];
            if (e->start_ns < free_ns) e->start_ns = free_ns;
            if (e->end_ns < e->start_ns) e->end_ns = e->start_ns;
            free_ns = e->end_ns;
            put_event(w, e, lane, k, w->t->recording->steps[step]);
        }
    }
}

/* ---- the recording ---- */

/* The grid holds transfer durations: a member of a group ends when the last one has launched and the data have moved. */
static void find_ends(struct timeline *w, size_t block, size_t lane) {
    const struct hm_job *m = w->t->job;
    const struct hm_grid *g = &w->t->grid;
    const double *duration = hm_grid_lane(g, g->duration, block, lane);
    for (uint32_t k = 0; k < m->n_nodes; k++) {
        const struct hm_node *node = &m->node[k];
        double begin[HM_WIDTH];
        hm_group_start(&w->groups, lane, k, begin);
        for (size_t i = (size_t)node->first_slot * HM_WIDTH; i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH;
             i++)
            w->end[i] = begin[i % HM_WIDTH] + duration[i];
    }
}

static void draw_recording(struct timeline *w) {
    const struct hm_grid *g = &w->t->grid;
    for (size_t block = 0; block < g->blocks; block++) {
        hm_groups_gather_all(&w->groups, block);
        for (uint32_t lane = 0; lane < g->lanes; lane++) {
            const double *start = hm_grid_lane(g, g->start, block, lane);
            find_ends(w, block, lane);
            for (size_t k = 0; k < hm_grid_width(g, block); k++)
                draw_step(w, lane, block * HM_WIDTH + k, start + k, w->end + k, HM_WIDTH);
            hm_grid_release(g, block, lane, 1);
        }
    }
}

/* ---- the ideal ---- */

/* With ideal durations all replicas and steps are alike: one lane stands for them. */
static double replay_ideal(struct timeline *w, double *duration) {
    const struct hm_job *m = w->t->job;
    double last = 0;
    for (size_t i = 0; i < m->n_slots; i++) duration[i] = w->t->ideal_s[m->slot[i].peers];
    hm_replay_plain(m, 1, duration, w->start, w->end);
    for (size_t i = 0; i < m->n_slots; i++) last = fmax(last, w->end[i]);
    return last;
}

static void draw_ideal(struct timeline *w) {
    const struct hm_grid *g = &w->t->grid;
    for (size_t step = 0; step < g->steps; step++)
        for (uint32_t lane = 0; lane < g->lanes; lane++) draw_step(w, lane, step, w->start, w->end, 1);
}

/* ---- writing ---- */

/* Steps one after the other; between them a fiftieth of the longest, so that the eye sees where one ends. */
static void lay_out_steps(struct timeline *w, double ideal_step_s) {
    const struct hm_grid *g = &w->t->grid;
    double longest = 0, at = 0;
    for (size_t k = 0; k < g->steps; k++) longest = fmax(longest, isnan(ideal_step_s) ? g->actual_s[k] : ideal_step_s);
    for (size_t k = 0; k < g->steps; k++) {
        w->step_at_s[k] = at;
        at += (isnan(ideal_step_s) ? g->actual_s[k] : ideal_step_s) + fmax(longest / 50, 1e-6);
    }
}

static int prepare(struct timeline *w) {
    const struct hm_job *m = w->t->job;
    w->tracks = m->stages * STREAMS;
    w->track = hm_alloc(m->n_slots, sizeof *w->track);
    w->track_first = hm_alloc(w->tracks + 2, sizeof *w->track_first);
    w->args = hm_alloc(m->n_slots, sizeof *w->args);
    w->event = hm_alloc(m->n_slots, sizeof *w->event);
    w->start = hm_alloc(m->n_slots, sizeof(double));
    w->end = hm_alloc(m->n_slots * HM_WIDTH, sizeof(double));
    w->step_at_s = hm_alloc(w->t->grid.steps, sizeof(double));
    w->buffer = hm_alloc(BUFFER, 1);
    if (!w->track || !w->track_first || !w->args || !w->event || !w->start || !w->end ||
        hm_groups_begin(&w->groups, &w->t->grid, m) != 0 || !w->step_at_s || !w->buffer)
        return -1;
    list_tracks(w);
    return describe_slots(w);
}

static void release(struct timeline *w) {
    for (size_t i = 0; w->args && i < w->t->job->n_slots; i++) hm_free(w->args[i]);
    hm_free(w->args);
    hm_free(w->track);
    hm_free(w->track_first);
    hm_free(w->event);
    hm_free(w->start);
    hm_free(w->end);
    hm_groups_end(&w->groups);
    hm_free(w->step_at_s);
    hm_free(w->buffer);
}

static int write_all(struct timeline *w, bool ideal, struct hm_error *err) {
    double ideal_step_s = NAN;
    double *duration = hm_alloc(w->t->job->n_slots, sizeof *duration);
    if (!duration) return hm_fail_memory(err);
    if (ideal) ideal_step_s = replay_ideal(w, duration);
    hm_free(duration);
    lay_out_steps(w, ideal_step_s);
    put_text(w, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"durations\":");
    put_text(w, ideal ? "\"ideal\"},\"traceEvents\":[" : "\"recorded\"},\"traceEvents\":[");
    if (!name_tracks(w)) return hm_fail_memory(err);
    if (ideal)
        draw_ideal(w);
    else
        draw_recording(w);
    put_text(w, "\n]}\n");
    hm_out_write(w->out, w->buffer, w->used);
    return 0;
}

int hm_timeline_write(const struct hm_trace *trace, bool ideal, const char *path, struct hm_error *err) {
    struct timeline w = {.t = trace};
    int status = -1;
    if (!ideal && !trace->grid.start) {
        hm_fail(err, HM_ERR_ARGUMENT, "%s: the recorded starts of this trace were released; open it again", path);
    } else if (prepare(&w) != 0) {
        hm_fail_memory(err);
    } else if ((w.out = hm_out_open(path, err)) != NULL) {
        status = write_all(&w, ideal, err);
        if (status == 0)
            status = hm_out_commit(w.out, err);
        else
            hm_out_abort(w.out);
    }
    release(&w);
    return status;
}
