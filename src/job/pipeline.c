/* pipeline.c - jobs out of a pipeline's op table: the dependency rules of spec "Dependencies" (OSDI 2025, section 3, and its artefact), one function a rule.
 *
 * The rules are those of the public artefact wherever it gives an answer. Where it refuses a trace (P2P records missing
 * on a middle stage, interleaved schedules without the records that move nothing, no gc, no reduce-scatter), the same
 * rules are carried on: a transfer without a record is a dependency between the computes on its two sides. */
#include "edges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };
static const double clock_slack_s = 5e-5; /* artefact: EPS of the records that move nothing */
static const double moves_nothing = 0.1;  /* of a backward: receives that are all shorter may be such records */

/* Ops of one stage, by type, in seq order; and its compute ops by start. */
struct stage_ops {
    int32_t *of[HM_OP_TYPES];
    size_t n[HM_OP_TYPES];
    int32_t *compute; /* forward and backward, by (start, seq, name) */
    size_t n_compute;
};

/* A P2P record: the compute it serves, and whether it moves data. */
struct record {
    int32_t op, compute; /* compute: NONE if it serves none */
    bool real;
};

struct builder {
    struct hm_edges *e;
    bool uses_dp, overlapped, trailing;
    const struct hm_ref_op *op;
    size_t seen, stages,
        chunks; /* seen: stages up to the last one that has ops; chunks: model chunks of the whole model (vpp * pp) */
    struct stage_ops *stage;
    uint32_t *place; /* [op] its index among the ops of its type on its stage */
    bool *unseen;    /* [op] a transfer with a stage of which nothing was recorded */
    size_t n_peers;
    uint32_t *class_of_peers; /* [n_peers] the job's, in the end */
};

static void wait_for(struct builder *b, int32_t after, int32_t before) {
    if (after != NONE && before != NONE) hm_edges_wait(b->e, (uint32_t)after, (uint32_t)before);
}

static void join(struct builder *b, int32_t x, int32_t y) {
    hm_edges_join(b->e, (uint32_t)x, (uint32_t)y);
}

/* ---- lists ---- */

struct sort_key {
    double start;
    uint32_t seq;
    const char *name;
    int32_t op;
};

static int by_start(const void *a, const void *b) {
    const struct sort_key *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The order in which a stage launched ops: by start, then seq, then name, as the artefact sorts. */
static bool sort_by_start(const struct builder *b, int32_t *ops, size_t n) {
    struct sort_key *key = hm_alloc(n, sizeof *key);
    if (!key) {
        b->e->failed = true;
        return false;
    }
    for (size_t i = 0; i < n; i++)
        key[i] =
            (struct sort_key){b->op[ops[i]].start_s, b->op[ops[i]].seq, hm_op_types[b->op[ops[i]].type].name, ops[i]};
    qsort(key, n, sizeof *key, by_start);
    for (size_t i = 0; i < n; i++) ops[i] = key[i].op;
    hm_free(key);
    return true;
}

/* Of one type on one stage: how many, the mean and the longest of their durations, from when to when. */
struct sum {
    size_t n;
    double mean_s, longest_s, last_start_s, first_end_s;
};

static struct sum sum_up(const struct builder *b, size_t stage, int type) {
    struct sum s = {.last_start_s = -INFINITY, .first_end_s = INFINITY};
    for (size_t i = 0; i < b->e->n; i++) {
        const struct hm_ref_op *op = &b->op[i];
        if (op->stage != stage || (int)op->type != type) continue;
        s.n++;
        s.mean_s += op->end_s - op->start_s;
        s.longest_s = fmax(s.longest_s, op->end_s - op->start_s);
        s.last_start_s = fmax(s.last_start_s, op->start_s);
        s.first_end_s = fmin(s.first_end_s, op->end_s);
    }
    if (s.n) s.mean_s /= (double)s.n;
    return s;
}

/* How many stages the model has, which may be more than were recorded: with several chunks a stage their numbers tell; else a stage that sends
 * forward, and waits for what comes back, is not the last one. */
static size_t stages_of_model(const struct builder *b, size_t seen) {
    size_t told = seen;
    bool chunks = false;
    for (size_t i = 0; i < b->e->n; i++) {
        const struct hm_ref_op *op = &b->op[i];
        if (!hm_is_compute((int)op->type) || op->mc <= 0) continue;
        chunks = true;
        int64_t stages = op->gmc > (int64_t)op->stage ? (op->gmc - (int64_t)op->stage) / op->mc : 0;
        if (stages < (int64_t)seen || stages > HM_MAX_STAGES || stages * op->mc + (int64_t)op->stage != op->gmc)
            return seen;
        told = (size_t)stages;
    }
    if (chunks) return told;
    const struct sum send = sum_up(b, seen - 1, HM_FORWARD_SEND), recv = sum_up(b, seen - 1, HM_BACKWARD_RECV),
                     forward = sum_up(b, seen - 1, HM_FORWARD_COMPUTE),
                     backward = sum_up(b, seen - 1, HM_BACKWARD_COMPUTE);
    bool sends = send.n && send.n >= forward.n && send.first_end_s >= forward.first_end_s - clock_slack_s,
         waits = recv.n && recv.n >= backward.n && recv.last_start_s <= backward.last_start_s + clock_slack_s &&
                 recv.longest_s > moves_nothing * backward.mean_s;
    return sends && waits && seen < HM_MAX_STAGES ? seen + 1 : seen;
}

/* The ops come sorted by (stage, type, seq). */
static int list_ops(struct builder *b) {
    size_t n = b->e->n;
    for (size_t i = 0; i < n; i++)
        if (b->op[i].stage + 1 > b->stages) b->stages = b->op[i].stage + 1;
    b->seen = b->stages;
    if (b->seen) b->stages = stages_of_model(b, b->seen);
    int32_t most = 0;
    for (size_t i = 0; i < n; i++)
        if (hm_is_compute((int)b->op[i].type) && b->op[i].mc > most) most = b->op[i].mc;
    b->chunks = ((size_t)most + 1) * b->stages;
    b->stage = hm_alloc(b->stages, sizeof *b->stage);
    b->place = hm_alloc(n, sizeof *b->place);
    b->unseen = hm_alloc(n, sizeof *b->unseen);
    if (!b->stage || !b->place || !b->unseen) return -1;
    for (size_t s = 0; s < b->stages; s++) {
        struct stage_ops *st = &b->stage[s];
        for (size_t i = 0; i < n; i++)
            if (b->op[i].stage == s) st->n[b->op[i].type]++;
        for (int t = 0; t < HM_OP_TYPES; t++) {
            if (!(st->of[t] = hm_alloc(st->n[t], sizeof(int32_t)))) return -1;
            st->n[t] = 0;
        }
        for (size_t i = 0; i < n; i++)
            if (b->op[i].stage == s) {
                b->place[i] = (uint32_t)st->n[b->op[i].type];
                st->of[b->op[i].type][st->n[b->op[i].type]++] = (int32_t)i;
            }
        size_t forward = st->n[HM_FORWARD_COMPUTE], backward = st->n[HM_BACKWARD_COMPUTE];
        if (!(st->compute = hm_alloc(forward + backward, sizeof(int32_t)))) return -1;
        memcpy(st->compute, st->of[HM_FORWARD_COMPUTE], forward * sizeof(int32_t));
        memcpy(st->compute + forward, st->of[HM_BACKWARD_COMPUTE], backward * sizeof(int32_t));
        st->n_compute = forward + backward;
        if (!sort_by_start(b, st->compute, st->n_compute)) return -1;
    }
    return 0;
}

static void free_lists(struct builder *b) {
    for (size_t s = 0; b->stage && s < b->stages; s++) {
        for (int t = 0; t < HM_OP_TYPES; t++) hm_free(b->stage[s].of[t]);
        hm_free(b->stage[s].compute);
    }
    hm_free(b->stage);
    hm_free(b->place);
    hm_free(b->unseen);
    b->unseen = NULL;
}

static void chain(struct builder *b, const int32_t *ops, size_t n) {
    for (size_t i = 1; i < n; i++) wait_for(b, ops[i], ops[i - 1]);
}

/* Chunk of the model: from the trace, or from the chunk in the stage. */
static int64_t chunk_of(const struct builder *b, int32_t compute) {
    const struct hm_ref_op *op = &b->op[compute];
    if (op->gmc >= 0) return op->gmc;
    return (int64_t)(op->mc > 0 ? op->mc : 0) * (int64_t)b->stages + op->stage;
}

/* ---- rules 1, 5: streams ---- */

static void order_streams(struct builder *b, const struct stage_ops *st) {
    chain(b, st->compute, st->n_compute);
    for (int t = HM_FORWARD_SEND; t <= HM_BACKWARD_RECV; t++) {
        int32_t *sorted = hm_alloc(st->n[t], sizeof *sorted);
        if (!sorted) {
            b->e->failed = true;
            return;
        }
        memcpy(sorted, st->of[t], st->n[t] * sizeof *sorted);
        if (sort_by_start(b, sorted, st->n[t])) chain(b, sorted, st->n[t]);
        hm_free(sorted);
    }
    /* The first backward send and receive wait for the forward two places before the first backward. */
    size_t first = 0;
    while (first < st->n_compute && b->op[st->compute[first]].type != HM_BACKWARD_COMPUTE) first++;
    if (first < 2 || first == st->n_compute) return;
    for (int t = HM_BACKWARD_SEND; t <= HM_BACKWARD_RECV; t++)
        if (st->n[t]) wait_for(b, st->of[t][0], st->compute[first - 2]);
}

/* ---- rules 3, 4, 8, 9: point-to-point ---- */

/* Where a record of type t on this stage meets its peer, and the model chunk on the other side; next = +1 towards the
 * end of the model. */
static int peer_direction(int type) {
    return type == HM_FORWARD_SEND || type == HM_BACKWARD_RECV ? +1 : -1;
}

static int peer_type(int type) {
    static const int peer[] = {HM_FORWARD_RECV, HM_FORWARD_SEND, HM_BACKWARD_RECV, HM_BACKWARD_SEND};
    return peer[type - HM_FORWARD_SEND];
}

static bool moves_data(const struct builder *b, int type, int32_t compute) {
    int64_t other = chunk_of(b, compute) + peer_direction(type);
    return other >= 0 && other < (int64_t)b->chunks;
}

/* Records that moved nothing: a receive that starts after the last compute of its direction started, a send that ends
 * before the first one ended. Lists the others in launch order. */
static size_t live_records(const struct builder *b, const struct stage_ops *st, int type, int32_t *live) {
    int compute = type <= HM_FORWARD_RECV ? HM_FORWARD_COMPUTE : HM_BACKWARD_COMPUTE;
    double last_start = -INFINITY, first_end = INFINITY;
    for (size_t i = 0; i < st->n[compute]; i++) {
        last_start = fmax(last_start, b->op[st->of[compute][i]].start_s);
        first_end = fmin(first_end, b->op[st->of[compute][i]].end_s);
    }
    size_t n = 0;
    for (size_t i = 0; i < st->n[type]; i++) {
        const struct hm_ref_op *op = &b->op[st->of[type][i]];
        if (hm_is_send(type) ? op->end_s >= first_end - clock_slack_s : op->start_s <= last_start + clock_slack_s)
            live[n++] = st->of[type][i];
    }
    sort_by_start(b, live, n);
    return n;
}

/* Which compute each live record serves. records[i].compute for i in 0..n-1, from the computes in seq order. */
static void match_computes(const struct builder *b, const struct stage_ops *st, int type, struct record *records,
                           size_t n) {
    int compute_type = type <= HM_FORWARD_RECV ? HM_FORWARD_COMPUTE : HM_BACKWARD_COMPUTE;
    const int32_t *compute = st->of[compute_type];
    size_t n_compute = st->n[compute_type], needed = 0;
    for (size_t k = 0; k < n_compute; k++) needed += moves_data(b, type, compute[k]);
    if (n == n_compute) { /* one record a compute, also where nothing moves (interleaved schedules) */
        for (size_t i = 0; i < n; i++) records[i].compute = compute[i];
    } else if (n == needed) { /* only the transfers that move something */
        for (size_t i = 0, k = 0; i < n; k++)
            if (moves_data(b, type, compute[k])) records[i++].compute = compute[k];
    } else if (n + 1 == n_compute && !hm_is_send(type) &&
               !moves_data(b, type, compute[0])) { /* the first receive, which moves nothing, is missing */
        for (size_t i = 0; i < n; i++) records[i].compute = compute[i + 1];
    } else { /* records are missing: a receive serves the first compute that starts after it, a send the last one that
                ended before it */
        size_t k = 0;
        for (size_t i = 0; i < n; i++) {
            const struct hm_ref_op *op = &b->op[records[i].op];
            size_t best = SIZE_MAX;
            for (size_t j = k; j < n_compute; j++) {
                if (!moves_data(b, type, compute[j])) continue;
                const struct hm_ref_op *c = &b->op[compute[j]];
                if (hm_is_send(type)) {
                    if (c->end_s <= op->start_s + clock_slack_s) best = j;
                } else if (c->start_s >= op->end_s - clock_slack_s) {
                    best = j;
                    break;
                }
            }
            if (best == SIZE_MAX) continue;
            records[i].compute = compute[best];
            k = best + 1;
        }
    }
    for (size_t i = 0; i < n; i++)
        records[i].real = records[i].compute != NONE && moves_data(b, type, records[i].compute);
}

/* The compute of this type before `compute` on its stage. */
static int32_t compute_before(const struct builder *b, int32_t compute) {
    const struct hm_ref_op *op = &b->op[compute];
    return b->place[compute] ? b->stage[op->stage].of[op->type][b->place[compute] - 1] : NONE;
}

/* A send waits for its compute; a compute waits for its receive, which is posted after the compute before it. */
static void tie_to_computes(struct builder *b, int type, const struct record *records, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t compute = records[i].compute;
        if (compute == NONE) continue;
        if (hm_is_send(type)) {
            wait_for(b, records[i].op, compute);
            continue;
        }
        wait_for(b, compute, records[i].op);
        wait_for(b, records[i].op, compute_before(b, compute));
    }
}

struct link {
    struct record *records;
    int32_t *of_compute; /* [place of the compute] its real record, or NONE */
    size_t n, n_real, n_needed;
};

/* Computes of one stage by microbatch and chunk. */
struct work {
    int64_t chunk;
    int32_t mb, op;
};

static int by_work(const void *a, const void *b) {
    const struct work *x = a, *y = b;
    if (x->mb != y->mb) return x->mb < y->mb ? -1 : 1;
    if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static struct work *list_work(const struct builder *b, size_t stage, int compute_type) {
    const struct stage_ops *st = &b->stage[stage];
    struct work *list = hm_alloc(st->n[compute_type], sizeof *list);
    for (size_t k = 0; list && k < st->n[compute_type]; k++) {
        int32_t op = st->of[compute_type][k];
        list[k] = (struct work){chunk_of(b, op), b->op[op].mb, op};
    }
    if (list) qsort(list, st->n[compute_type], sizeof *list, by_work);
    return list;
}

/* The compute among `list` that works on the same microbatch as `compute`, `step` chunks further in the model. */
static int32_t partner(const struct builder *b, const struct work *list, size_t n, int32_t compute, int step) {
    struct work wanted = {chunk_of(b, compute) + step, b->op[compute].mb, -1};
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_work(&list[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && list[low].mb == wanted.mb && list[low].chunk == wanted.chunk ? list[low].op : NONE;
}

static int32_t record_of(const struct builder *b, const struct link *l, int32_t compute) {
    return l->of_compute[b->place[compute]];
}

/* Pairs the sends of one stage with the receives of the next: the k-th real one with the k-th real one if all are
 * there, otherwise by microbatch and chunk; a transfer that lacks a record becomes a dependency between the two sides. */
static void pair_link(struct builder *b, size_t stage, int send_type, const struct link *send, size_t peer_stage,
                      const struct link *recv) {
    if (send->n_real == recv->n_real && send->n_real == send->n_needed) {
        for (size_t i = 0, k = 0; i < send->n; i++) {
            if (!send->records[i].real) continue;
            while (!recv->records[k].real) k++;
            join(b, send->records[i].op, recv->records[k++].op);
        }
        return;
    }
    int compute_type = send_type == HM_FORWARD_SEND ? HM_FORWARD_COMPUTE : HM_BACKWARD_COMPUTE;
    const struct stage_ops *st = &b->stage[stage];
    size_t n_peer = b->stage[peer_stage].n[compute_type];
    struct work *peers = list_work(b, peer_stage, compute_type);
    if (!peers) b->e->failed = true;
    for (size_t k = 0; peers && k < st->n[compute_type]; k++) {
        int32_t from = st->of[compute_type][k];
        if (!moves_data(b, send_type, from)) continue;
        int32_t to = partner(b, peers, n_peer, from, peer_direction(send_type));
        int32_t sent = record_of(b, send, from), received = to == NONE ? NONE : record_of(b, recv, to);
        if (sent != NONE && received != NONE) {
            join(b, sent, received);
        } else if (received != NONE) {
            wait_for(b, received, from);
            b->e->lonely[received] = true;
        } else {
            wait_for(b, to, sent != NONE ? sent : from);
            if (sent == NONE || to == NONE) continue;
            wait_for(b, sent, compute_before(b, to)); /* the receive would be posted after it */
            b->e->lonely[sent] = true;
        }
    }
    hm_free(peers);
}

static bool is_empty(const struct builder *b, size_t stage) {
    return b->stage[stage].n_compute == 0;
}

/* The stage on the other side of a link. */
static size_t peer_of(const struct builder *b, size_t stage, int type) {
    return (stage + b->stages + (peer_direction(type) > 0 ? 1 : b->stages - 1)) % b->stages;
}

/* Over stages that were not recorded: what arrives behind them left before them, and what comes back from an end of the model that was not
 * recorded was sent there by its forward. The stages between show as the receive's transfer. */
static void bridge(struct builder *b, size_t stage, int send_type, const struct link *links) {
    const int way = peer_direction(send_type), back = HM_BACKWARD_RECV;
    const int compute_type = send_type == HM_FORWARD_SEND ? HM_FORWARD_COMPUTE : HM_BACKWARD_COMPUTE;
    const struct stage_ops *st = &b->stage[stage];
    for (size_t k = 0; k < st->n[compute_type] && !b->e->failed; k++) {
        int32_t from = st->of[compute_type][k], to = NONE;
        int64_t chunk = chunk_of(b, from) + way;
        int steps = way;
        for (; chunk >= 0 && chunk < (int64_t)b->chunks && is_empty(b, (size_t)chunk % b->stages); chunk += way)
            steps += way;
        bool inside = chunk >= 0 && chunk < (int64_t)b->chunks;
        if (!moves_data(b, send_type, from) || steps == way || (!inside && send_type == HM_BACKWARD_SEND)) continue;
        size_t other = inside ? (size_t)chunk % b->stages : stage;
        int type = inside ? compute_type : HM_BACKWARD_COMPUTE;
        struct work *peers = list_work(b, other, type);
        if (!peers) b->e->failed = true;
        if (peers) to = partner(b, peers, b->stage[other].n[type], from, inside ? steps : 0);
        hm_free(peers);
        if (to == NONE) continue;
        int32_t received =
            record_of(b, &links[other * 4 + (size_t)((inside ? peer_type(send_type) : back) - HM_FORWARD_SEND)], to);
        wait_for(b, received != NONE ? received : to, from);
        if (received != NONE) b->e->lonely[received] = true;
    }
}

static int point_to_point(struct builder *b) {
    int status = 0;
    struct link *links = hm_alloc(b->stages * 4, sizeof *links);
    if (!links) return -1;
    for (size_t s = 0; s < b->stages && status == 0; s++)
        for (int t = HM_FORWARD_SEND; t <= HM_BACKWARD_RECV && status == 0; t++) {
            const struct stage_ops *st = &b->stage[s];
            struct link *l = &links[s * 4 + (size_t)(t - HM_FORWARD_SEND)];
            int compute_type = t <= HM_FORWARD_RECV ? HM_FORWARD_COMPUTE : HM_BACKWARD_COMPUTE;
            int32_t *live = hm_alloc(st->n[t], sizeof *live);
            l->records = hm_alloc(st->n[t], sizeof *l->records);
            l->of_compute = hm_alloc(st->n[compute_type], sizeof *l->of_compute);
            if (!live || !l->records || !l->of_compute) {
                status = -1;
            } else {
                l->n = live_records(b, st, t, live);
                for (size_t i = 0; i < l->n; i++) l->records[i] = (struct record){live[i], NONE, false};
                match_computes(b, st, t, l->records, l->n);
                tie_to_computes(b, t, l->records, l->n);
                for (size_t k = 0; k < st->n[compute_type]; k++) {
                    l->n_needed += moves_data(b, t, st->of[compute_type][k]);
                    l->of_compute[k] = NONE;
                }
                for (size_t i = l->n; i-- > 0;) { /* the first one of a compute counts */
                    if (l->records[i].real) l->of_compute[b->place[l->records[i].compute]] = l->records[i].op;
                    l->n_real += l->records[i].real;
                }
            }
            hm_free(live);
        }
    if (status == 0 && b->stages > 1)
        for (size_t s = 0; s < b->stages; s++)
            for (int t = HM_FORWARD_SEND; t <= HM_BACKWARD_SEND; t += 2) {
                size_t peer = peer_of(b, s, t);
                pair_link(b, s, t, &links[s * 4 + (size_t)(t - HM_FORWARD_SEND)], peer,
                          &links[peer * 4 + (size_t)(peer_type(t) - HM_FORWARD_SEND)]);
                if (is_empty(b, peer)) bridge(b, s, t, links);
            }
    for (size_t k = 0; status == 0 && k < b->stages * 4; k++)
        for (size_t i = 0; is_empty(b, peer_of(b, k / 4, HM_FORWARD_SEND + (int)(k % 4))) && i < links[k].n; i++)
            if (links[k].records[i].real) b->unseen[links[k].records[i].op] = true;
    for (size_t k = 0; k < b->stages * 4; k++) {
        hm_free(links[k].records);
        hm_free(links[k].of_compute);
    }
    hm_free(links);
    return status;
}

/* ---- rules 2, 6, 7: data parallelism and the tail of the step ---- */

/* DP communication runs in one stream, in launch order. */
static void order_dp_stream(struct builder *b, const struct stage_ops *st) {
    size_t gathers = st->n[HM_PARAMS_ALL_GATHER], scatters = st->n[HM_GRADS_REDUCE_SCATTER];
    int32_t *stream = hm_alloc(gathers + scatters, sizeof *stream);
    if (!stream) {
        b->e->failed = true;
        return;
    }
    memcpy(stream, st->of[HM_PARAMS_ALL_GATHER], gathers * sizeof *stream);
    memcpy(stream + gathers, st->of[HM_GRADS_REDUCE_SCATTER], scatters * sizeof *stream);
    if (sort_by_start(b, stream, gathers + scatters)) chain(b, stream, gathers + scatters);
    hm_free(stream);
}

/* The first forward of chunk mc by start; with mc < 0 (not recorded) the first of all. */
static int32_t first_forward(const struct builder *b, const struct stage_ops *st, int32_t mc) {
    for (size_t i = 0; i < st->n_compute; i++) {
        const struct hm_ref_op *op = &b->op[st->compute[i]];
        if (op->type == HM_FORWARD_COMPUTE && (mc < 0 || op->mc == mc)) return st->compute[i];
    }
    return NONE;
}

/* The backward of chunk mc that ends last. */
static int32_t last_backward(const struct builder *b, const struct stage_ops *st, int32_t mc) {
    int32_t last = NONE;
    for (size_t i = 0; i < st->n_compute; i++) {
        const struct hm_ref_op *op = &b->op[st->compute[i]];
        if (op->type != HM_BACKWARD_COMPUTE || (mc >= 0 && op->mc != mc)) continue;
        if (last == NONE || op->end_s > b->op[last].end_s) last = st->compute[i];
    }
    return last;
}

static bool chunk_comes_again(const struct builder *b, const int32_t *ops, size_t from, size_t to, int32_t mc) {
    for (size_t k = from; k < to; k++)
        if (b->op[ops[k]].mc == mc) return true;
    return false;
}

/* The last all-gather of a chunk gates its first forward. One that starts after the stage's optimizer did is for the next step
 * (Megatron-LM's distributed optimizer without overlap): it waits for the optimizer, and no forward of this step waits for it. */
static void gate_forwards(struct builder *b, const struct stage_ops *st) {
    const int32_t *gather = st->of[HM_PARAMS_ALL_GATHER], *optimizer = st->of[HM_OPTIMIZER];
    size_t n = st->n[HM_PARAMS_ALL_GATHER], updates = st->n[HM_OPTIMIZER];
    for (size_t i = 0; i < st->n[HM_PARAMS_ALL_GATHER]; i++)
        if (updates && b->op[gather[i]].start_s >= b->op[optimizer[updates - 1]].start_s) {
            wait_for(b, gather[i], optimizer[updates - 1]);
            b->trailing = true;
            if (i < n) n = i;
        }
    for (size_t i = 0; i < n; i++)
        if (!chunk_comes_again(b, gather, i + 1, n, b->op[gather[i]].mc))
            wait_for(b, first_forward(b, st, b->op[gather[i]].mc), gather[i]);
}

/* Overlapped: the first reduce-scatter of a chunk waits for the chunk's last backward. */
static void gate_reduce_scatters(struct builder *b, const struct stage_ops *st) {
    const int32_t *scatter = st->of[HM_GRADS_REDUCE_SCATTER];
    for (size_t i = 0; i < st->n[HM_GRADS_REDUCE_SCATTER]; i++)
        if (!chunk_comes_again(b, scatter, 0, i, b->op[scatter[i]].mc))
            wait_for(b, scatter[i], last_backward(b, st, b->op[scatter[i]].mc));
}

/* Appends all ops of a type to the chain that ends in *last. */
static void append(struct builder *b, const struct stage_ops *st, int type, int32_t *last) {
    for (size_t i = 0; i < st->n[type]; i++) {
        wait_for(b, st->of[type][i], *last);
        *last = st->of[type][i];
    }
}

/* What follows a stage's last compute. */
static void order_tail(struct builder *b, const struct stage_ops *st) {
    int32_t last = NONE;
    for (size_t i = 0; i < st->n_compute; i++)
        if (last == NONE || b->op[st->compute[i]].end_s > b->op[last].end_s) last = st->compute[i];
    append(b, st, HM_GC, &last);
    bool overlapped = b->uses_dp && b->overlapped;
    append(b, st, HM_LAYERNORM_ALL_REDUCE, &last);
    append(b, st, HM_EMBEDDING_ALL_REDUCE, &last);
    if (overlapped) {
        append(b, st, HM_SEPARATE_ALL_REDUCE, &last);
    } else {
        if (b->uses_dp) append(b, st, HM_GRADS_REDUCE_SCATTER, &last);
        append(b, st, HM_SEPARATE_ALL_REDUCE, &last);
    }
    append(b, st, HM_CLIP_MAIN_GRAD, &last);
    append(b, st, HM_OPTIMIZER, &last);
    size_t scatters = st->n[HM_GRADS_REDUCE_SCATTER];
    if (overlapped && scatters) { /* the first op after gc also waits for the last reduce-scatter */
        static const int tail[] = {HM_LAYERNORM_ALL_REDUCE, HM_EMBEDDING_ALL_REDUCE, HM_SEPARATE_ALL_REDUCE,
                                   HM_CLIP_MAIN_GRAD, HM_OPTIMIZER};
        for (size_t k = 0; k < sizeof tail / sizeof tail[0]; k++)
            if (st->n[tail[k]]) {
                wait_for(b, st->of[tail[k]][0], st->of[HM_GRADS_REDUCE_SCATTER][scatters - 1]);
                break;
            }
    }
}

static void make_groups(struct builder *b) {
    const struct stage_ops *first = &b->stage[0], *last = &b->stage[b->stages - 1];
    if (b->stages > 1)
        for (size_t k = 0; k < first->n[HM_EMBEDDING_ALL_REDUCE] && k < last->n[HM_EMBEDDING_ALL_REDUCE]; k++)
            join(b, first->of[HM_EMBEDDING_ALL_REDUCE][k], last->of[HM_EMBEDDING_ALL_REDUCE][k]);
    int32_t clip[64] = {0}; /* [k]: the k-th clip's first member + 1 */
    for (size_t s = 0; s < b->stages; s++) {
        const struct stage_ops *st = &b->stage[s];
        for (size_t k = 0; k < st->n[HM_CLIP_MAIN_GRAD]; k++) {
            int32_t op = st->of[HM_CLIP_MAIN_GRAD][k];
            b->e->across[op] = true;
            if (k >= 64) continue;
            if (clip[k])
                join(b, op, clip[k] - 1);
            else
                clip[k] = op + 1;
        }
        if (!b->uses_dp) continue;
        static const int dp_types[] = {HM_PARAMS_ALL_GATHER, HM_GRADS_REDUCE_SCATTER, HM_SEPARATE_ALL_REDUCE};
        for (size_t t = 0; t < 3; t++)
            for (size_t k = 0; k < st->n[dp_types[t]]; k++) b->e->across[st->of[dp_types[t]][k]] = true;
    }
}

/* Streams of a worker: compute, DP communication, and one for each kind of transfer between stages. */
static uint32_t stream_of(uint32_t type) {
    if (hm_is_p2p((int)type)) return 2 + type - HM_FORWARD_SEND;
    return hm_is_compute((int)type) || type == HM_GC || type == HM_OPTIMIZER ? 0 : 1;
}

/* How long a transfer with a stage that was not recorded takes is waiting for that stage, above all, and differs from one microbatch to the
 * next: each has only itself, in the other replicas and steps, to be compared with. All others of a type are peers. */
static int own_peers(struct builder *b) {
    b->n_peers = HM_OP_TYPES;
    for (size_t i = 0; i < b->e->n; i++) {
        b->e->stream[i] = stream_of(b->op[i].type);
        b->e->peers[i] = b->unseen[i] ? (uint32_t)b->n_peers++ : b->op[i].type;
    }
    uint32_t *cls = hm_alloc(b->n_peers, sizeof *cls);
    if (!cls) return -1;
    for (uint32_t t = 0; t < HM_OP_TYPES; t++) cls[t] = t;
    for (size_t i = 0; i < b->e->n; i++) cls[b->e->peers[i]] = b->op[i].type;
    b->class_of_peers = cls;
    return 0;
}

/* Fills the edges of the ops. 0, or -1 without memory. */
static int connect_ops(struct builder *b, struct hm_edges *e, const struct hm_ref_op *ops, size_t n, int64_t dp_size) {
    *b = (struct builder){.e = e, .op = ops, .uses_dp = dp_size > 1};
    int status = hm_edges_begin(e, ops, n) != 0 || list_ops(b) != 0 ? -1 : 0;
    for (size_t i = 0; i < n; i++) {
        b->overlapped |= ops[i].type == HM_SEPARATE_ALL_REDUCE;
        /* one DP rank in the trace, yet DP communication: sequence-parallel ranks that metadata did not name */
        b->uses_dp |= ops[i].type == HM_PARAMS_ALL_GATHER || ops[i].type == HM_GRADS_REDUCE_SCATTER;
    }
    if (status == 0) status = point_to_point(b);
    for (size_t s = 0; s < b->stages && status == 0; s++) {
        const struct stage_ops *st = &b->stage[s];
        order_streams(b, st);
        if (b->uses_dp) {
            order_dp_stream(b, st);
            gate_forwards(b, st);
            if (b->overlapped) gate_reduce_scatters(b, st);
        }
        order_tail(b, st);
    }
    if (status == 0) make_groups(b);
    if (status == 0) status = own_peers(b);
    free_lists(b);
    return e->failed ? -1 : status;
}

/* ---- the job ---- */

/* Op types whose ops are tied to no op of another type: no rule says where in a step they belong. The last op of a step needs no rule. */
static uint32_t unplaced_types(const struct hm_edges *e) {
    uint32_t seen = 0, placed = 1u << HM_OPTIMIZER;
    for (size_t i = 0; i < e->n; i++) {
        const uint32_t type = e->op[i].type, other = e->op[e->group[i]].type;
        seen |= 1u << type;
        if (other != type) placed |= 1u << type | 1u << other;
    }
    for (size_t k = 0; k < e->n_edges; k++) {
        const uint32_t after = e->op[e->edge[k].after].type, before = e->op[e->edge[k].before].type;
        if (after != before) placed |= 1u << after | 1u << before;
    }
    return seen & ~placed;
}

/* The classes are the op types, also those that do not occur: a class is an op type's number. */
static int name_classes(struct hm_job *job) {
    static const struct {
        enum hm_kind kind;
        enum hm_phase phase;
    } what[HM_OP_TYPES] = {
        [HM_FORWARD_COMPUTE] = {HM_COMPUTE, HM_FORWARD},
        [HM_BACKWARD_COMPUTE] = {HM_COMPUTE, HM_BACKWARD},
        [HM_FORWARD_SEND] = {HM_SEND, HM_FORWARD},
        [HM_FORWARD_RECV] = {HM_RECV, HM_FORWARD},
        [HM_BACKWARD_SEND] = {HM_SEND, HM_BACKWARD},
        [HM_BACKWARD_RECV] = {HM_RECV, HM_BACKWARD},
        [HM_PARAMS_ALL_GATHER] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_GRADS_REDUCE_SCATTER] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_LAYERNORM_ALL_REDUCE] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_EMBEDDING_ALL_REDUCE] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_SEPARATE_ALL_REDUCE] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_CLIP_MAIN_GRAD] = {HM_COLLECTIVE, HM_NO_PHASE},
        [HM_OPTIMIZER] = {HM_COMPUTE, HM_OPTIMIZE},
        [HM_GC] = {HM_PAUSE, HM_NO_PHASE},
    };
    struct hm_class *cls = hm_alloc(HM_OP_TYPES, sizeof *cls);
    const char **family = hm_alloc(HM_FAMILIES, sizeof *family);
    job->partition = hm_alloc(1, sizeof *job->partition);
    job->cls = cls;
    job->family = family;
    if (!cls || !family || !job->partition) return -1;
    for (int t = 0; t < HM_OP_TYPES; t++)
        cls[t] =
            (struct hm_class){hm_op_types[t].name,  (uint32_t)hm_family_of(t),      what[t].kind,     what[t].phase,
                              hm_op_types[t].scope, hm_op_types[t].ideal_is_median, t == HM_OPTIMIZER};
    for (int f = 0; f < HM_FAMILIES; f++) family[f] = hm_family_name(f);
    job->partition[0].blocks = 1;
    job->n_partitions = 1;
    job->n_classes = HM_OP_TYPES;
    job->n_families = HM_FAMILIES;
    return 0;
}

/* The ops without those of some types; *n becomes their number. */
static struct hm_ref_op *without_types(const struct hm_ref_op *ops, size_t *n, uint32_t types) {
    struct hm_ref_op *kept = hm_alloc(*n, sizeof *kept);
    size_t k = 0;
    for (size_t i = 0; kept && i < *n; i++)
        if (!(types >> ops[i].type & 1)) kept[k++] = ops[i];
    *n = k;
    return kept;
}

struct hm_job *hm_job_pipeline(const struct hm_ref_op *ops, size_t n, int64_t dp_size, const char *path,
                               struct hm_error *err) {
    struct hm_job *job = hm_alloc(1, sizeof *job);
    struct hm_ref_op *kept = NULL;
    struct hm_edges e = {0};
    struct builder b = {0};
    int status = job && name_classes(job) == 0 && connect_ops(&b, &e, ops, n, dp_size) == 0 ? 0 : hm_fail_memory(err);
    if (status == 0 && (job->unplaced = unplaced_types(&e)) != 0) {
        hm_edges_free(&e);
        hm_free(b.class_of_peers);
        kept = without_types(ops, &n, job->unplaced);
        if (!kept || connect_ops(&b, &e, kept, n, dp_size) != 0) status = hm_fail_memory(err);
    }
    if (job) job->class_of_peers = b.class_of_peers, job->n_peers = b.n_peers;
    if (status == 0) status = hm_job_assemble(job, &e, path, err);
    if (status == 0) job->uses_dp = b.uses_dp, job->overlapped = b.overlapped, job->trailing = b.trailing;
    if (status == 0) job->model_stages = b.stages;
    hm_edges_free(&e);
    hm_free(kept);
    if (status == 0) return job;
    hm_job_free(job);
    return NULL;
}
