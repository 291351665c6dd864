/* jobs.c - random small jobs: schedule, graph, times, table. */
#include "jobs.h"

#include <duckdb.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[JOB_TYPES] = {"forward-compute",
                                             "backward-compute",
                                             "forward-send",
                                             "forward-recv",
                                             "backward-send",
                                             "backward-recv",
                                             "params-all-gather",
                                             "grads-reduce-scatter",
                                             "layernorm-grads-all-reduce",
                                             "embedding-grads-all-reduce",
                                             "separate-grads-all-reduce",
                                             "optimizer-clip-main-grad",
                                             "optimizer",
                                             "gc"};

static void *must(void *block) {
    if (!block) abort();
    return block;
}

static int random_to(struct hm_rng *rng, int given, int most) {
    return given ? given : 1 + (int)hm_rng_below(rng, (uint64_t)most);
}

/* ---- the graph ---------------------------------------------------------------------------------------------------------------- */

static int add_op(struct job *j, int stage, int type, int mc, int mb) {
    int i = j->n_ops++, seq = 0;
    for (int k = 0; k < i; k++) seq += j->op[k].stage == stage && j->op[k].type == type;
    j->op[i] = (struct job_op){.stage = stage,
                               .type = type,
                               .seq = seq,
                               .mc = mc,
                               .mb = mb,
                               .gmc = mc < 0 ? -1 : mc * j->pp + stage,
                               .group = i};
    return i;
}

static void wait_for(struct job *j, int after, int before) {
    if (after < 0 || before < 0) return;
    struct job_op *op = &j->op[after];
    for (int k = 0; k < op->n_deps; k++)
        if (op->deps[k] == before) return;
    if (op->n_deps == JOB_MAX_DEPS) abort();
    op->deps[op->n_deps++] = before;
}

static int find(const struct job *j, int stage, int type, int mc, int mb) {
    for (int i = 0; i < j->n_ops; i++)
        if (j->op[i].stage == stage && j->op[i].type == type && j->op[i].mc == mc && j->op[i].mb == mb) return i;
    return -1;
}

static void join(struct job *j, int a, int b) {
    if (a < 0 || b < 0) return;
    int low = j->op[a].group < j->op[b].group ? j->op[a].group : j->op[b].group;
    j->op[a].group = j->op[b].group = low;
}

/* The k-th forward or backward of a stage in Megatron's interleaved schedule: chunks take turns, pp microbatches each. */
static void turn(const struct job *j, int k, bool backward, int *mc, int *mb) {
    int in_group = k % (j->pp * j->vpp), chunk = in_group / j->pp;
    *mc = backward ? j->vpp - 1 - chunk : chunk;
    *mb = k / (j->pp * j->vpp) * j->pp + in_group % j->pp;
    if (j->vpp == 1) *mc = 0, *mb = k;
}

/* One compute with its receive before and its send after it. `previous` is the last compute of the same direction, `last` of either. */
static int add_compute(struct job *j, int stage, bool backward, int mc, int mb, int *previous, int last, int *last_send,
                       int *last_recv) {
    int gmc = mc * j->pp + stage, chunks = j->pp * j->vpp;
    bool receives = backward ? gmc + 1 < chunks : gmc > 0, sends = backward ? gmc > 0 : gmc + 1 < chunks;
    int recv = receives ? add_op(j, stage, backward ? JOB_BACKWARD_RECV : JOB_FORWARD_RECV, mc, mb) : -1;
    int compute = add_op(j, stage, backward ? JOB_BACKWARD : JOB_FORWARD, mc, mb);
    int send = sends ? add_op(j, stage, backward ? JOB_BACKWARD_SEND : JOB_FORWARD_SEND, mc, mb) : -1;
    wait_for(j, recv, *previous);
    wait_for(j, recv, *last_recv);
    wait_for(j, compute, recv);
    wait_for(j, compute, last);
    wait_for(j, send, compute);
    wait_for(j, send, *last_send);
    if (recv >= 0) *last_recv = recv;
    if (send >= 0) *last_send = send;
    *previous = compute;
    return compute;
}

static void add_schedule(struct job *j, int stage) {
    int total = j->microbatches * j->vpp,
        warmup = j->vpp == 1 ? j->pp - stage - 1 : (j->pp - stage - 1) * 2 + (j->vpp - 1) * j->pp;
    if (warmup > total || (j->vpp > 1 && j->microbatches == j->pp)) warmup = total;
    int last = -1, before_last = -1, previous[2] = {-1, -1}, last_send[2] = {-1, -1}, last_recv[2] = {-1, -1},
        done[2] = {0, 0};
    bool first_backward = true;
    for (int k = 0; k < 2 * total; k++) {
        bool backward = k >= warmup && (k >= 2 * total - warmup || (k - warmup) % 2 == 1);
        int mc, mb;
        turn(j, done[backward]++, backward, &mc, &mb);
        int from = j->n_ops;
        int compute = add_compute(j, stage, backward, mc, mb, &previous[backward], last, &last_send[backward],
                                  &last_recv[backward]);
        /* the first backward transfers are posted after the compute two places before the first backward */
        if (backward && first_backward && before_last >= 0)
            for (int i = from; i < j->n_ops; i++)
                if (j->op[i].type == JOB_BACKWARD_RECV || j->op[i].type == JOB_BACKWARD_SEND)
                    wait_for(j, i, before_last);
        first_backward = first_backward && !backward;
        before_last = last;
        last = compute;
    }
}

static int last_of_chunk(const struct job *j, int stage, int type, int mc) {
    for (int i = j->n_ops - 1; i >= 0; i--)
        if (j->op[i].stage == stage && j->op[i].type == type && j->op[i].mc == mc) return i;
    return -1;
}

static int first_of_chunk(const struct job *j, int stage, int type, int mc) {
    for (int i = 0; i < j->n_ops; i++)
        if (j->op[i].stage == stage && j->op[i].type == type && j->op[i].mc == mc) return i;
    return -1;
}

static int last_compute(const struct job *j, int stage) {
    for (int i = j->n_ops - 1; i >= 0; i--)
        if (j->op[i].stage == stage && j->op[i].type <= JOB_BACKWARD) return i;
    return -1;
}

static int after(struct job *j, int before, int stage, int type, bool across) {
    int i = add_op(j, stage, type, -1, -1);
    j->op[i].across = across;
    wait_for(j, i, before);
    return i;
}

static void add_data_parallel(struct job *j, int stage, bool dp_ops) {
    bool dp = dp_ops && j->dp > 1;
    int stream = -1, scatter = -1;
    for (int c = 0; c < j->vpp && dp; c++) {
        int i = add_op(j, stage, JOB_GATHER, c, -1);
        j->op[i].across = true;
        wait_for(j, i, stream);
        wait_for(j, first_of_chunk(j, stage, JOB_FORWARD, c), i);
        stream = i;
    }
    int end = last_compute(j, stage), tail;
    for (int c = j->vpp - 1; c >= 0 && dp && j->overlap; c--) { /* the last chunk's gradients are ready first */
        int i = scatter = add_op(j, stage, JOB_SCATTER, c, -1);
        j->op[i].across = true;
        wait_for(j, i, stream);
        wait_for(j, i, last_of_chunk(j, stage, JOB_BACKWARD, c));
        stream = i;
    }
    tail = after(j, end, stage, JOB_GC, false);
    tail = after(j, tail, stage, JOB_LAYERNORM, false);
    wait_for(j, tail, scatter);
    if (stage == 0 || stage == j->pp - 1) tail = after(j, tail, stage, JOB_EMBEDDING, false);
    if (dp && j->overlap) tail = after(j, tail, stage, JOB_SEPARATE, true);
    for (int c = 0; c < j->vpp && dp && !j->overlap; c++) {
        tail = after(j, tail, stage, JOB_SCATTER, true);
        j->op[tail].mc = c;
        j->op[tail].gmc = c * j->pp + stage;
        wait_for(j, tail, stream);
        stream = tail;
    }
    if (dp_ops) tail = after(j, tail, stage, JOB_CLIP, true);
    after(j, tail, stage, JOB_OPTIMIZER, false);
}

static void connect(struct job *j) {
    for (int i = 0; i < j->n_ops; i++) {
        const struct job_op *op = &j->op[i];
        int step = op->type == JOB_FORWARD_SEND ? 1 : op->type == JOB_BACKWARD_SEND ? -1 : 0;
        if (step == 0) continue;
        int gmc = op->gmc + step;
        join(j, i, find(j, gmc % j->pp, op->type + 1, gmc / j->pp, op->mb));
    }
    if (j->pp > 1) join(j, find(j, 0, JOB_EMBEDDING, -1, -1), find(j, j->pp - 1, JOB_EMBEDDING, -1, -1));
    for (int s = 1; s < j->pp; s++) join(j, find(j, 0, JOB_CLIP, -1, -1), find(j, s, JOB_CLIP, -1, -1));
}

/* ---- times -------------------------------------------------------------------------------------------------------------------- */

struct solver {
    struct job *j;
    size_t base; /* of the step */
    const double *delay;
    double *ready, *end; /* [dp][op]; NaN: not known yet */
};

static double end_of(struct solver *s, int lane, int i);

static double ready_at(struct solver *s, int lane, int i) {
    size_t at = (size_t)(lane * s->j->n_ops + i);
    if (!isnan(s->ready[at])) return s->ready[at];
    double ready = 0;
    for (int k = 0; k < s->j->op[i].n_deps; k++) ready = fmax(ready, end_of(s, lane, s->j->op[i].deps[k]));
    return s->ready[at] = ready + s->delay[at];
}

static double end_of(struct solver *s, int lane, int i) {
    const struct job *j = s->j;
    size_t at = (size_t)(lane * j->n_ops + i);
    if (!isnan(s->end[at])) return s->end[at];
    double begin = 0;
    for (int l = 0; l < j->dp; l++) {
        if (l != lane && !j->op[i].across) continue;
        for (int k = 0; k < j->n_ops; k++)
            if (j->op[k].group == j->op[i].group) begin = fmax(begin, ready_at(s, l, k));
    }
    return s->end[at] = begin + j->duration[s->base + at];
}

void job_solve(struct job *j, uint64_t seed, double delay_s) {
    struct hm_rng rng;
    hm_rng_seed(&rng, seed);
    size_t n = (size_t)(j->dp * j->n_ops);
    double *ready = must(calloc(n, sizeof *ready)), *end = must(calloc(n, sizeof *end)),
           *delay = must(calloc(n, sizeof *delay));
    for (int t = 0; t < j->steps; t++) {
        struct solver s = {j, (size_t)t * n, delay, ready, end};
        for (size_t i = 0; i < n; i++) ready[i] = end[i] = NAN;
        /* the op that starts the step starts at 0: the recording's clock counts from it */
        for (size_t i = 0; i < n; i++)
            delay[i] = j->op[i % (size_t)j->n_ops].n_deps ? delay_s * hm_rng_uniform(&rng) : 0;
        j->step_s[t] = 0;
        for (int l = 0; l < j->dp; l++)
            for (int i = 0; i < j->n_ops; i++) {
                size_t at = (size_t)(l * j->n_ops + i);
                double e = end_of(&s, l, i);
                j->start[s.base + at] = ready_at(&s, l, i);
                j->recorded[s.base + at] = e - ready[at];
                if (j->op[i].type == JOB_OPTIMIZER) j->step_s[t] = fmax(j->step_s[t], e);
            }
    }
    free(ready);
    free(end);
    free(delay);
}

static void draw_durations(struct job *j, struct hm_rng *rng) {
    double scale[JOB_TYPES];
    for (int k = 0; k < JOB_TYPES; k++) scale[k] = (k <= JOB_BACKWARD ? 0.1 : 0.01) * (0.5 + hm_rng_uniform(rng));
    for (int t = 0; t < j->steps; t++)
        for (int l = 0; l < j->dp; l++)
            for (int i = 0; i < j->n_ops; i++) {
                double x = scale[j->op[i].type] * exp(0.3 * hm_rng_normal(rng));
                if (hm_rng_below(rng, 50) == 0) x *= 4; /* now and then something is slow */
                j->duration[(size_t)((t * j->dp + l) * j->n_ops + i)] = x;
            }
}

struct job *job_make(uint64_t seed, const struct job_options *options) {
    const struct job_options defaults = {.overlap = -1}, *o = options ? options : &defaults;
    struct hm_rng rng;
    hm_rng_seed(&rng, seed);
    struct job *j = must(calloc(1, sizeof *j));
    j->pp = random_to(&rng, o->pp, 4);
    j->dp = random_to(&rng, o->dp, 4);
    j->vpp = j->pp > 1 ? random_to(&rng, o->vpp, 3) : 1;
    j->microbatches = o->microbatches ? o->microbatches
                      : j->vpp > 1    ? j->pp * (1 + (int)hm_rng_below(&rng, 2))
                                      : 1 + (int)hm_rng_below(&rng, 6);
    j->steps = random_to(&rng, o->steps, 10);
    j->overlap = o->overlap < 0 ? hm_rng_below(&rng, 2) != 0 : o->overlap != 0;
    j->op = must(calloc((size_t)(j->pp * (j->microbatches * j->vpp * 6 + j->vpp * 2 + 8)), sizeof *j->op));
    for (int s = 0; s < j->pp; s++) {
        add_schedule(j, s);
        add_data_parallel(j, s, !o->no_dp_ops);
    }
    connect(j);
    size_t cells = (size_t)(j->steps * j->dp * j->n_ops);
    j->step_number = must(calloc((size_t)j->steps, sizeof *j->step_number));
    for (int t = 0, number = (int)hm_rng_below(&rng, 100); t < j->steps; t++) {
        j->step_number[t] = number;
        number += 1 + (int)hm_rng_below(&rng, 9); /* steps are sampled, not consecutive */
    }
    j->duration = must(calloc(cells, sizeof(double)));
    j->start = must(calloc(cells, sizeof(double)));
    j->recorded = must(calloc(cells, sizeof(double)));
    j->step_s = must(calloc((size_t)j->steps, sizeof(double)));
    draw_durations(j, &rng);
    job_solve(j, seed + 1, o->no_delays ? 0 : 0.002);
    return j;
}

void job_free(struct job *j) {
    if (!j) return;
    free(j->op);
    free(j->step_number);
    free(j->duration);
    free(j->start);
    free(j->recorded);
    free(j->step_s);
    free(j);
}

/* ---- the table ---------------------------------------------------------------------------------------------------------------- */

static void write_csv(const struct job *j, const char *path, const struct job_table *table) {
    const struct job_table straight = {0}, *o = table ? table : &straight;
    size_t n = (size_t)(j->steps * j->dp * j->n_ops);
    size_t *order = must(calloc(n, sizeof *order));
    for (size_t i = 0; i < n; i++) order[i] = i;
    if (o->shuffle) {
        struct hm_rng rng;
        hm_rng_seed(&rng, o->shuffle);
        for (size_t i = n - 1; i > 0; i--) {
            size_t k = hm_rng_below(&rng, i + 1), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
    }
    FILE *f = must(fopen(path, "w"));
    fputs("dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n", f);
    for (size_t k = 0; k < n; k++) {
        size_t at = order[k];
        int i = (int)(at % (size_t)j->n_ops), lane = (int)(at / (size_t)j->n_ops % (size_t)j->dp),
            t = (int)(at / (size_t)(j->n_ops * j->dp));
        const struct job_op *op = &j->op[i];
        int dp_rank = o->dp_rank ? o->dp_rank[lane] : lane;
        double clock = o->clock_s > 0 ? o->clock_s + 100.0 * t : 0;
        fprintf(f, "%d,%d,%d,%d,%s,%.17g,%.17g,%d,%d,%d,%d\n", dp_rank, op->stage, op->stage * j->dp + dp_rank,
                j->step_number[t], names[op->type], clock + j->start[at], j->recorded[at], op->seq, op->mc, op->mb,
                op->gmc);
    }
    if (fclose(f) != 0) abort();
    free(order);
}

/* The same rows as Parquet, by the engine: complete recordings are read another way from it than from CSV. */
static void write_parquet(const char *csv, const char *path) {
    duckdb_database db;
    duckdb_connection con;
    char statement[600];
    (void)snprintf(statement, sizeof statement, "COPY (SELECT * FROM read_csv('%s')) TO '%s' (FORMAT parquet)", csv,
                   path);
    if (duckdb_open(NULL, &db) != DuckDBSuccess || duckdb_connect(db, &con) != DuckDBSuccess ||
        duckdb_query(con, statement, NULL) != DuckDBSuccess)
        abort();
    duckdb_disconnect(&con);
    duckdb_close(&db);
}

void job_write(const struct job *j, const char *path, const struct job_table *table) {
    size_t n = strlen(path);
    if (n < 8 || strcmp(path + n - 8, ".parquet") != 0) {
        write_csv(j, path, table);
        return;
    }
    char csv[220];
    (void)snprintf(csv, sizeof csv, "%s.csv", path);
    write_csv(j, csv, table);
    write_parquet(csv, path);
    unlink(csv);
}

static char folder[] = "/tmp/hm-jobs-XXXXXX";

static void remove_folder(void) {
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) perror(folder); /* NOLINT(cert-env33-c): a name of our own making */
}

const char *job_path(const char *name) {
    static char path[200];
    static bool made;
    if (!made) {
        if (!mkdtemp(folder)) abort();
        made = true;
        (void)atexit(remove_folder);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
