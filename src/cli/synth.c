/* synth.c - `hindmost synth`: a trace made to order. */
#include "cli.h"
#include "hindmost/synth.h"

#include <stdlib.h>

struct request {
    struct hm_synth_options s;
    const char *output;
    struct texts inject;
    double forward_ms, backward_ms, p2p_ms, dp_comm_ms; /* negative: the default */
};

#define FIELD(name) offsetof(struct request, name)
#define SIZE(name, field, what)                                                                                        \
    { name, 0, "N", what, OPTION_UINT32, FIELD(s.field), 1, 1 << 30, NULL }
#define TIME(name, field, what, least)                                                                                 \
    { name, 0, "T", what, OPTION_NUMBER, FIELD(field), least, 1e8, NULL }
static const struct option options[] = {
    {"output", 'o', "TRACE", "the file to write", OPTION_OUTPUT, FIELD(output), 0, 0, NULL},
    SIZE("dp", dp, "data-parallel replicas (4)"),
    SIZE("pp", pp, "pipeline stages (4)"),
    SIZE("vpp", vpp, "model chunks a stage (1); more: Megatron's interleaved schedule, microbatches a multiple of pp"),
    SIZE("tp", tp, "ranks in a tensor-parallel group (1)"),
    SIZE("microbatches", microbatches, "a step (8)"),
    SIZE("steps", steps, "recorded (16)"),
    {"seed", 0, "N", "of the random numbers (1)", OPTION_UINT64, FIELD(s.seed), 0, 9.3e18, NULL},
    {"overlap-dp", 0, NULL, "reduce gradients while later backwards run", OPTION_FLAG, FIELD(s.overlap_dp), 0, 0, NULL},
    TIME("forward-ms", forward_ms, "of a microbatch in a model chunk (50)", 0.001),
    TIME("backward-ms", backward_ms, "likewise (100)", 0.001),
    TIME("p2p-ms", p2p_ms, "a transfer between stages (1)", 0),
    TIME("dp-comm-ms", dp_comm_ms, "a params-all-gather or grads-reduce-scatter (10)", 0),
    {"noise", 0, "CV", "coefficient of variation of all durations (0)", OPTION_NUMBER, FIELD(s.noise), 0, 2, NULL},
    {"float32", 0, NULL, "times in single precision, as the public traces have them", OPTION_FLAG, FIELD(s.float32), 0,
     0, NULL},
    OPTION_THREADS(struct request, s.threads),
    {"inject", 0, "KIND:key=value,...", "a straggler; repeatable, every key may be left out", OPTION_TEXTS,
     FIELD(inject), 0, 0, NULL},
    {NULL, 0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL}};

const struct usage synth_usage = {
    "-o TRACE [options]",
    "Makes a trace of a given layout and schedule, with stragglers where you say. TRACE ends in .parquet or .csv; its "
    "metadata go\n"
    "to the same name with .yaml. The same options give the same bytes.\n",
    NULL, options,
    "Kinds of --inject:\n"
    "        slow-worker:stage=0,dp=0,factor=2     one worker computes slower\n"
    "        last-stage:factor=2                   the last stage is heavier; stage:stage=1,factor=2 another one\n"
    "        replica:dp=0,factor=2                 a replica computes slower\n"
    "        sequences:max=32768,tail=1.2          microbatches packed with sequences of long-tailed length;\n"
    "                                              min=max/256, quadratic=0.5 (share of the time that is attention)\n"
    "        gc:every=40,ms=300                    each worker collects garbage once in so many steps, within a "
    "forward\n"
    "        link:stage=0,dp=0,factor=10           transfers between that stage and the next, both ways; share=0.1: "
    "now and then\n"
    "        data-loading:dp=0,ms=200,share=0.1    late first forward, in that share of the steps; stage=0\n"
    "        slow-op:type=NAME,factor=2            any op type\n"
    "        wander:spread=0.02,memory=0.8         the pace of each worker wanders from step to step\n"
    "        machines:spread=0.015                 each worker has a pace of its own\n"
    "        tails:spread=0.02,tail=3              noise with heavy tails on each compute\n"
    "Further keys: steps=A-B (step numbers), mb=A-B, stage=A-B, dp=A-B. Where ops take a factor: forward=F and "
    "backward=F\n"
    "instead of it; op=forward|backward|optimizer; every=N,for=K (K of every N steps); from=F (grows from F to "
    "factor).\n"};

static void set_times(struct request *q) {
    const struct {
        double ms, *s;
    } times[] = {{q->forward_ms, &q->s.forward_s},
                 {q->backward_ms, &q->s.backward_s},
                 {q->p2p_ms, &q->s.p2p_s},
                 {q->dp_comm_ms, &q->s.dp_comm_s}};
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
        if (times[k].ms >= 0) *times[k].s = times[k].ms * 1e-3;
}

static int run(struct request *q, const char *first_input) {
    struct hm_error err = {0};
    if (first_input) return complain_text("%s: synth reads no input; name the trace to write with -o", first_input);
    if (!q->output) return complain_text("synth needs -o TRACE, a name that ends in .parquet or .csv");
    set_times(q);
    q->s.progress = progress_bar;
    q->s.inject = q->inject.text;
    q->s.n_inject = q->inject.n;
    return hm_synth(q->output, &q->s, &err) == 0 ? EXIT_DONE : complain(&err);
}

int synth_main(int argc, char **argv) {
    struct request q = {.inject.text = calloc((size_t)argc, sizeof(char *)),
                        .forward_ms = -1,
                        .backward_ms = -1,
                        .p2p_ms = -1,
                        .dp_comm_ms = -1};
    int inputs = 0;
    if (!q.inject.text) return complain_text("out of memory");
    hm_synth_defaults(&q.s);
    int status = options_read(command_named("synth"), &q, argc, argv, &inputs);
    if (status == EXIT_DONE) status = run(&q, inputs ? argv[1] : NULL);
    free(q.inject.text);
    return status < 0 ? EXIT_DONE : status;
}
