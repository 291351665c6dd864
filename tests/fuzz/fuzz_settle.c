/* fuzz_settle.c - bytes as a small recording in memory, with holes, surplus rows and odd times: settling, the model, the replay and the
 * attribution must refuse it in one line or agree with the plain replay. No files, no engine: thousands of recordings a second.
 *
 * Layout of the input: 5 bytes (replicas, steps, stages, flags, ops), 4 bytes an op of the template cell (type and stage, chunk and
 * microbatch, start after the op before, duration), then 3 bytes a change (what, cell, op). */
#include "fuzz.h"
#include "trace/trace.h"
#include "whatif/whatif.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 192, MOST_ROWS = 8192 };

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned take(struct input *in) {
    if (in->size == 0) return 0;
    in->size--;
    return *in->data++;
}

struct template_op {
    uint32_t stage, type, seq;
    int32_t mc, mb, gmc;
    double start_s, duration_s;
};

static struct template_op template[MOST_OPS];
static struct hm_side_row rows[MOST_ROWS];
static size_t n_rows;

static void add_row(uint32_t step, uint32_t dp, const struct template_op *op, double start_s, double duration_s) {
    if (n_rows == MOST_ROWS) return;
    rows[n_rows++] = (struct hm_side_row){
        hm_key(step, dp, op->stage, op->type, op->seq), op->mc, op->mb, op->gmc, start_s, start_s + duration_s};
}

static size_t read_template(struct input *in, unsigned stages, unsigned flags, size_t n) {
    uint32_t count[8][16] = {{0}};
    double now = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned what = take(in), place = take(in), later = take(in), lasts = take(in);
        struct template_op *op = &template[i];
        op->type = what % HM_OP_TYPES;
        op->stage = what / HM_OP_TYPES % stages;
        op->seq = count[op->stage][op->type]++;
        op->mc = flags & 1 ? (int32_t)(place & 3) - 1 : 0;
        op->mb = (int32_t)(place >> 2);
        op->gmc = flags & 2 ? -1 : op->mc < 0 ? -1 : op->mc * (int32_t)stages + (int32_t)op->stage;
        now += later * 1e-4;
        op->start_s = flags & 4 ? later * 1e-2 : now;
        op->duration_s = lasts * 1e-3;
    }
    return n;
}

static void make_rows(struct input *in, unsigned dp, unsigned steps, size_t n) {
    n_rows = 0;
    for (unsigned t = 0; t < steps; t++)
        for (unsigned l = 0; l < dp; l++)
            for (size_t i = 0; i < n; i++) {
                double noise = (double)((t * 7 + l * 13 + i * 29) % 17) * 1e-5;
                add_row(t * 3, l, &template[i], template[i].start_s + noise, template[i].duration_s + noise);
            }
    while (in->size >= 3 && n_rows) {
        unsigned kind = take(in), a = take(in), b = take(in);
        struct hm_side_row *row = &rows[(a * 256 + b) % n_rows];
        switch (kind % 8) {
        case 0:
            *row = rows[--n_rows];
            break; /* a hole */
        case 1:    /* written twice */
            if (n_rows < MOST_ROWS) rows[n_rows++] = *row;
            break;
        case 2:
            row->key += (kind >> 3) + 1;
            break; /* another number, or the next type */
        case 3:
            row->end_s += kind * 0.01;
            break;
        case 4:
            row->start_s = row->end_s;
            break;
        case 5: /* moved to another replica or step */
            row->key = hm_key(kind & 8 ? 3 * (b % 5) : hm_key_step(row->key), kind & 16 ? b % 4 : hm_key_dp(row->key),
                              hm_key_stage(row->key), hm_key_type(row->key), hm_key_seq(row->key));
            break;
        case 6:
            row->start_s = kind * 1e-3, row->end_s = row->start_s + b * 1e-3;
            break;
        default:
            row->mc = (int32_t)(kind >> 3) - 2, row->gmc = (int32_t)b - 2, row->mb = (int32_t)a - 2;
            break;
        }
        if (hm_key_type(row->key) >= HM_OP_TYPES) *row = rows[--n_rows];
    }
}

/* As a reader leaves it. */
static struct hm_recording *recording_of_rows(void) {
    struct hm_recording *r = hm_alloc(1, sizeof *r);
    FUZZ_CHECK(r);
    r->path = hm_strdup("recording");
    r->threads = 1;
    r->memory_bytes = (uint64_t)1 << 30;
    r->step_table = hm_step_table_new();
    r->groups = hm_alloc(1, sizeof *r->groups);
    r->groups[0] = (struct hm_group){0, INT64_MAX};
    r->n_groups = 1;
    r->side = hm_alloc(n_rows, sizeof *r->side);
    size_t first = 0;
    FUZZ_CHECK(hm_rows_reserve(&r->rows, n_rows, &first) == 0);
    for (size_t i = 0; i < n_rows; i++) {
        uint64_t key = rows[i].key;
        uint32_t slot = hm_step_intern(r->step_table, hm_key_step(key));
        key = hm_key(slot, hm_key_dp(key), hm_key_stage(key), hm_key_type(key), hm_key_seq(key));
        double start = rows[i].start_s, duration = fmax(0, rows[i].end_s - start);
        *hm_rows_at(&r->rows, first + i) = (struct hm_row){key, start, duration};
        r->side[r->sides] = rows[i];
        r->side[r->sides].end_s = start + duration;
        r->side[r->sides++].key = key;
        if ((int64_t)hm_key_dp(key) + 1 > r->layout.dp) r->layout.dp = hm_key_dp(key) + 1;
        if (rows[i].mc + 1 > r->layout.vpp) r->layout.vpp = rows[i].mc + 1;
    }
    return r;
}

static void free_recording(struct hm_recording *r) {
    hm_recording_free(r);
}

/* The compiled replay of the recorded durations against the plain one, to the last bit. */
static void check_replay(struct hm_trace *t, const struct hm_analysis *a) {
    size_t lanes = t->grid.lanes, slots = t->grid.slots;
    double *duration = hm_alloc(lanes * slots, sizeof(double)), *start = hm_alloc(lanes * slots, sizeof(double)),
           *end = hm_alloc(lanes * slots, sizeof(double));
    for (size_t step = 0; step < t->grid.steps; step++) {
        double any = 0, first = 0;
        for (size_t l = 0; l < lanes; l++)
            for (size_t s = 0; s < slots; s++) {
                duration[l * slots + s] =
                    hm_grid_lane(&t->grid, t->grid.duration, step / HM_WIDTH, l)[s * HM_WIDTH + step % HM_WIDTH];
                FUZZ_CHECK(isfinite(duration[l * slots + s]));
            }
        hm_replay_plain(t->job, lanes, duration, start, end);
        for (size_t i = 0; i < lanes * slots; i++) any = fmax(any, end[i]), first = fmin(first, start[i]);
        FUZZ_CHECK(a->steps[step].replayed_s == any - first);
    }
    hm_free(duration);
    hm_free(start);
    hm_free(end);
}

static void check_analysis(const struct hm_analysis *a) {
    FUZZ_CHECK(a->slowdown > 0 && isfinite(a->slowdown));
    size_t kept = 0;
    for (size_t w = 0; w < a->pp * a->dp; w++) kept += isnan(a->by_worker[w]) ? 0 : 1;
    FUZZ_CHECK(kept > 0 && a->n_steps > 0);
    for (size_t i = 0; i < a->n_dropped; i++) FUZZ_CHECK(a->dropped[i].count > 0 && strlen(a->dropped[i].why) > 0);
}

static void analyse(struct hm_recording *r, struct hm_error *err) {
    struct hm_trace t = {.recording = r};
    struct hm_analysis *a = NULL;
    t.job = hm_job_pipeline(r->ref, r->n_ref, r->layout.dp, r->path, err);
    bool ends = false;
    for (size_t i = 0; t.job && i < t.job->n_slots; i++) ends |= t.job->slot[i].cls == HM_OPTIMIZER;
    if (t.job && !ends) hm_fail(err, HM_ERR_INPUT, "no end");
    if (t.job && ends && (t.program = hm_program_compile(t.job, err)) != NULL &&
        hm_grid_fill(&t.grid, r, t.job, 1, err) == 0 && hm_recording_layout(r, NULL, err) == 0 &&
        hm_trace_idealise(&t, 1, err) == 0) {
        struct hm_analysis_options o = {.threads = 1, .per_step = true};
        a = hm_analyze(&t, &o, err);
    }
    if (a) {
        check_analysis(a);
        check_replay(&t, a);
    } else {
        fuzz_check_error(err);
    }
    hm_analysis_free(a);
    hm_program_free(t.program);
    hm_job_free(t.job);
    hm_grid_free(&t.grid);
    hm_free(t.ideal_fill);
    hm_free(t.ideal_s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, size};
    unsigned dp = 1 + take(&in) % 3, steps = 1 + take(&in) % 10, stages = 1 + take(&in) % 4, flags = take(&in);
    size_t n = read_template(&in, stages, flags, take(&in) % MOST_OPS);
    make_rows(&in, dp, steps, n);
    if (n_rows == 0) return 0;
    struct hm_error err = {0};
    struct hm_recording *r = recording_of_rows();
    if (hm_settle(r, &err) == 0)
        analyse(r, &err);
    else
        fuzz_check_error(&err);
    free_recording(r);
    return 0;
}
