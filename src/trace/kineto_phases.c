/* kineto_phases.c - time of the host in data loading, forward, backward and optimizer.
 *
 * A phase is the union of the events that bear its name: they nest (FSDP in FSDP), and lie on several threads. Backward has no event of
 * its own: it is its autograd functions, and what lies between two that are near. */
#include "kineto_phases.h"

#include "base/base.h"
#include "kineto.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Between two functions of one backward lie tens of us of the engine's own time; between two backwards the rest of a step. */
static const int64_t near_ns = 100000;

int hm_phase_of(const char *event) {
    static const struct {
        const char *begins;
        int phase;
    } names[] = {
        {"enumerate(DataLoader)#", HM_PHASE_DATA},             /* torch/utils/data/dataloader.py */
        {"enumerate(DataPipe)#", HM_PHASE_DATA},               /* torch/utils/data/datapipes/_hook_iterator.py */
        {"DistributedDataParallel.forward", HM_PHASE_FORWARD}, /* torch/nn/parallel/distributed.py */
        {"FullyShardedDataParallel.forward", HM_PHASE_FORWARD},
        {"autograd::engine::evaluate_function: ", HM_PHASE_BACKWARD}, /* torch/csrc/autograd/engine.cpp */
        {"Optimizer.step#", HM_PHASE_OPTIMIZER},                      /* torch/optim/optimizer.py */
        {"Optimizer.zero_grad#", HM_PHASE_OPTIMIZER},
    };
    /* what people call it with record_function, as "## forward ##" */
    static const struct {
        const char *word;
        int phase;
    } words[] = {{"data loading", HM_PHASE_DATA}, {"data_loading", HM_PHASE_DATA},  {"dataloader", HM_PHASE_DATA},
                 {"load data", HM_PHASE_DATA},    {"load_data", HM_PHASE_DATA},     {"forward", HM_PHASE_FORWARD},
                 {"backward", HM_PHASE_BACKWARD}, {"optimizer", HM_PHASE_OPTIMIZER}};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strncmp(event, names[k].begins, strlen(names[k].begins)) == 0) return names[k].phase;
    const char *from = event + strspn(event, "# \t");
    size_t n = strlen(from);
    while (n > 0 && (from[n - 1] == '#' || from[n - 1] == ' ')) n--;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strlen(words[k].word) == n && strncasecmp(from, words[k].word, n) == 0) return words[k].phase;
    return -1;
}

/* Events come mostly in their order: what joins the last span needs no room. */
int hm_phase_add(struct hm_phase_spans *s, int64_t start_ns, int64_t end_ns) {
    if (start_ns < INT64_MIN + near_ns) return 0;
    struct hm_phase_span *last = s->n ? &s->span[s->n - 1] : NULL;
    if (last && start_ns >= last->start_ns && start_ns - near_ns <= last->end_ns) {
        if (end_ns > last->end_ns) last->end_ns = end_ns;
        return 0;
    }
    struct hm_phase_span *grown = hm_grow(s->span, s->n, &s->capacity, sizeof *grown);
    if (!grown) return -1;
    s->span = grown;
    s->span[s->n++] = (struct hm_phase_span){start_ns, end_ns};
    return 0;
}

static int by_start(const void *a, const void *b) {
    int64_t x = ((const struct hm_phase_span *)a)->start_ns, y = ((const struct hm_phase_span *)b)->start_ns;
    return (x > y) - (x < y);
}

static void unite(struct hm_phase_spans *s) {
    size_t n = 1;
    qsort(s->span, s->n, sizeof *s->span, by_start);
    for (size_t i = 1; i < s->n; i++) {
        if (s->span[i].start_ns > s->span[n - 1].end_ns)
            s->span[n++] = s->span[i];
        else if (s->span[i].end_ns > s->span[n - 1].end_ns)
            s->span[n - 1].end_ns = s->span[i].end_ns;
    }
    s->n = n;
}

struct hm_arrival_phase hm_phase_measure(struct hm_phase_spans *s, const struct hm_kineto_step *step, size_t n_steps) {
    struct hm_arrival_phase phase = {NAN, NAN};
    if (s->n == 0 || n_steps == 0) return phase;
    unite(s);
    double sum = 0;
    phase.most_s = 0;
    size_t first = 0; /* of the spans that end after the step's start; steps and spans are by time */
    for (size_t k = 0; k < n_steps; k++) {
        /* steps do not overlap; a file in which they do would cost spans times steps */
        bool cut = k + 1 < n_steps && step[k + 1].start_ns < step[k].end_ns;
        int64_t step_end = cut ? step[k + 1].start_ns : step[k].end_ns;
        double inside = 0;
        while (first < s->n && s->span[first].end_ns <= step[k].start_ns) first++;
        for (size_t i = first; i < s->n && s->span[i].start_ns < step_end; i++) {
            int64_t from = s->span[i].start_ns > step[k].start_ns ? s->span[i].start_ns : step[k].start_ns,
                    to = s->span[i].end_ns < step_end ? s->span[i].end_ns : step_end, length;
            if (to > from && !__builtin_sub_overflow(to, from, &length)) inside += 1e-9 * (double)length;
        }
        sum += inside;
        if (inside > phase.most_s) phase.most_s = inside;
    }
    phase.mean_s = sum / (double)n_steps;
    return phase;
}
