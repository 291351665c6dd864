/* synth.c - `hindmost synth`: a trace made to order. */
#include "cli.h"
#include "hindmost/synth.h"

#include <stdlib.h>

enum {
    O_OUTPUT = 1,
    O_DP,
    O_PP,
    O_VPP,
    O_TP,
    O_MICROBATCHES,
    O_STEPS,
    O_SEED,
    O_OVERLAP,
    O_FORWARD,
    O_BACKWARD,
    O_P2P,
    O_DP_COMM,
    O_NOISE,
    O_INJECT,
    O_FLOAT32,
    O_THREADS
};

static const struct option_spec specs[] = {{"output", 'o', true, O_OUTPUT},
                                           {"dp", 0, true, O_DP},
                                           {"pp", 0, true, O_PP},
                                           {"vpp", 0, true, O_VPP},
                                           {"tp", 0, true, O_TP},
                                           {"microbatches", 0, true, O_MICROBATCHES},
                                           {"steps", 0, true, O_STEPS},
                                           {"seed", 0, true, O_SEED},
                                           {"overlap-dp", 0, false, O_OVERLAP},
                                           {"forward-ms", 0, true, O_FORWARD},
                                           {"backward-ms", 0, true, O_BACKWARD},
                                           {"p2p-ms", 0, true, O_P2P},
                                           {"dp-comm-ms", 0, true, O_DP_COMM},
                                           {"noise", 0, true, O_NOISE},
                                           {"inject", 0, true, O_INJECT},
                                           {"float32", 0, false, O_FLOAT32},
                                           {"threads", 'j', true, O_THREADS},
                                           {NULL, 0, false, 0}};

const char synth_help[] =
    "usage: hindmost synth -o TRACE [options]\n\n"
    "Makes a trace of a given layout and schedule, with stragglers where you say. TRACE ends in .parquet or .csv; its "
    "metadata go\n"
    "to the same name with .yaml. The same options give the same bytes.\n\n"
    "  -o, --output TRACE        the file to write\n"
    "      --dp N, --pp N        data-parallel replicas (default 4), pipeline stages (4)\n"
    "      --vpp N               model chunks a stage (1); more: Megatron's interleaved schedule, microbatches a "
    "multiple of pp\n"
    "      --tp N                ranks in a tensor-parallel group (1)\n"
    "      --microbatches N      a step (8)\n"
    "      --steps N             recorded (16)\n"
    "      --seed N              of the random numbers (1)\n"
    "      --overlap-dp          reduce gradients while later backwards run\n"
    "      --forward-ms T, --backward-ms T   of a microbatch in a model chunk (50, 100)\n"
    "      --p2p-ms T            a transfer between stages (1)\n"
    "      --dp-comm-ms T        a params-all-gather or grads-reduce-scatter (10)\n"
    "      --noise CV            coefficient of variation of all durations (0)\n"
    "      --float32             times in single precision, as the public traces have them\n"
    "  -j, --threads N           threads (default: all cores)\n"
    "      --inject KIND:key=value,...   repeatable; every key may be left out:\n"
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
    "      Further keys: steps=A-B (step numbers), mb=A-B, forward=F and backward=F instead of factor, stage=A-B, "
    "dp=A-B.\n";

int synth_main(int argc, char **argv) {
    struct hm_synth_options s;
    const char *output = NULL, **inject = calloc((size_t)argc, sizeof *inject);
    int status = inject ? EXIT_DONE : complain_text("out of memory");
    struct options o;
    hm_synth_defaults(&s);
    s.progress = progress_bar;
    s.inject = inject;
    options_begin(&o, command_named("synth"), specs, argc, argv);
    for (int id; status == EXIT_DONE && (id = options_next(&o)) != OPTION_END;) {
        const struct {
            int id;
            const char *name;
            uint32_t *value;
        } sizes[] = {{O_DP, "--dp", &s.dp},
                     {O_PP, "--pp", &s.pp},
                     {O_VPP, "--vpp", &s.vpp},
                     {O_TP, "--tp", &s.tp},
                     {O_MICROBATCHES, "--microbatches", &s.microbatches},
                     {O_STEPS, "--steps", &s.steps}};
        const struct {
            int id;
            const char *name;
            double *value;
        } times[] = {{O_FORWARD, "--forward-ms", &s.forward_s},
                     {O_BACKWARD, "--backward-ms", &s.backward_s},
                     {O_P2P, "--p2p-ms", &s.p2p_s},
                     {O_DP_COMM, "--dp-comm-ms", &s.dp_comm_s}};
        long n;
        double ms;
        bool good = true;
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            if (id == sizes[k].id && (good = option_integer(&o, sizes[k].name, 1, 1 << 30, &n)))
                *sizes[k].value = (uint32_t)n;
        for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
            if (id == times[k].id &&
                (good =
                     option_number(&o, times[k].name,
                                   times[k].value == &s.p2p_s || times[k].value == &s.dp_comm_s ? 0 : 0.001, 1e8, &ms)))
                *times[k].value = ms * 1e-3;
        switch (id) {
        case OPTION_BAD:
            good = false;
            break;
        case OPTION_HELP:
            free(inject);
            return EXIT_DONE;
        case O_OUTPUT:
            output = o.value;
            break;
        case O_SEED:
            if ((good = option_integer(&o, "--seed", 0, INT64_MAX, &n))) s.seed = (uint64_t)n;
            break;
        case O_OVERLAP:
            s.overlap_dp = true;
            break;
        case O_NOISE:
            good = option_number(&o, "--noise", 0, 2, &s.noise);
            break;
        case O_INJECT:
            inject[s.n_inject++] = o.value;
            break;
        case O_FLOAT32:
            s.float32 = true;
            break;
        case O_THREADS:
            if ((good = option_integer(&o, "--threads", 1, 256, &n))) s.threads = (int)n;
            break;
        default:
            break;
        }
        if (!good) status = EXIT_UNUSABLE;
    }
    if (status == EXIT_DONE && o.inputs)
        status = complain_text("%s: synth reads no input; name the trace to write with -o", argv[1]);
    if (status == EXIT_DONE && !output)
        status = complain_text("synth needs -o TRACE, a name that ends in .parquet or .csv");
    if (status == EXIT_DONE) {
        struct hm_error err = {0};
        if (hm_synth(output, &s, &err) != 0) status = complain(&err);
    }
    free(inject);
    return status;
}
