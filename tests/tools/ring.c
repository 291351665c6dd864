/* ring.c - writes the rings of a small made job, as a probe in it would: ring FOLDER JOB RANKS STEPS. All times are made: step s of a rank
 * takes 100 ms from s * 100 ms; `forward` holds an all-reduce of pairs; gradients go asynchronously and are waited for. */
#include "hindmost_probe.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t ms = 1000000;

static void put(struct hm_probe *p, enum hm_probe_kind kind, const char *name, uint16_t group, uint32_t seq, int stream,
                int64_t begin, int64_t end) {
    struct hm_probe_event e = hm_probe_begin(p, kind, hm_probe_name(p, name));
    e.begin_ns = begin;
    e.end_ns = end;
    e.group = group;
    e.seq = seq;
    e.stream = (uint16_t)stream;
    if (kind == HM_PROBE_COLLECTIVE) e.amount = 4096;
    if (stream > 0) e.flags = HM_PROBE_ASYNC;
    hm_probe_record(p, &e);
}

static void write_rank(const struct hm_probe_options *o, int steps) {
    char why[512];
    struct hm_probe *p = hm_probe_open(o, why, sizeof why);
    if (!p) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    int all[64], pair[2] = {o->rank / 2 * 2, o->rank / 2 * 2 + 1};
    for (int i = 0; i < 64; i++) all[i] = i;
    uint16_t world = hm_probe_group(p, "world", all, (size_t)o->world), tp = hm_probe_group(p, "tp", pair, 2);
    int64_t zero = hm_probe_now();
    for (int s = 0; s < steps; s++) {
        int64_t t = zero + s * 100 * ms;
        uint32_t first = (uint32_t)(2 * s);
        hm_probe_step(p, s);
        put(p, HM_PROBE_DATA, "data", 0, UINT32_MAX, 0, t, t + 5 * ms);
        put(p, HM_PROBE_COLLECTIVE, "all_reduce", tp, (uint32_t)s, 0, t + 20 * ms, t + 25 * ms);
        put(p, HM_PROBE_COMPUTE, "forward", 0, UINT32_MAX, 0, t + 5 * ms, t + 40 * ms);
        put(p, HM_PROBE_COLLECTIVE, "all_reduce", world, first, 1, t + 50 * ms, t + 70 * ms);
        put(p, HM_PROBE_COLLECTIVE, "all_reduce", world, first + 1, 1, t + 60 * ms, t + 80 * ms);
        put(p, HM_PROBE_COMPUTE, "backward", 0, UINT32_MAX, 0, t + 40 * ms, t + 65 * ms);
        put(p, HM_PROBE_WAIT, "wait", world, first, 0, t + 65 * ms, t + 70 * ms);
        put(p, HM_PROBE_WAIT, "wait", world, first + 1, 0, t + 70 * ms, t + 80 * ms);
        put(p, HM_PROBE_COMPUTE, "optimizer", 0, UINT32_MAX, 0, t + 80 * ms, t + 95 * ms);
    }
    hm_probe_close(p);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: ring FOLDER JOB RANKS STEPS\n");
        return 3;
    }
    struct hm_probe_options o = hm_probe_defaults();
    o.folder = argv[1];
    o.job = argv[2];
    o.world = atoi(argv[3]);
    o.records = 1024;
    for (o.rank = 0; o.rank < o.world; o.rank++) {
        o.dp = o.rank / 2;
        o.tp = o.rank % 2;
        write_rank(&o, atoi(argv[4]));
    }
    return 0;
}
