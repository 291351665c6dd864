/* node_lemons.c - `hindmost node lemons` and `hindmost node spares`. */
#include "cli.h"
#include "hindmost/node.h"
#include "hindmost/tor.h"
#include "node_actions.h"

#include <stdlib.h>
#include <string.h>

enum { O_JOBS = 1, O_AT, O_WINDOW, O_FLEET, O_WORST, O_JSON, O_NODES, O_PROBABILITY, O_RATE, O_REPAIR, O_QUANTILE };

static const struct option_spec specs[] = {{"jobs", 0, true, O_JOBS},         {"at", 0, true, O_AT},
                                           {"window", 0, true, O_WINDOW},     {"fleet", 0, true, O_FLEET},
                                           {"worst", 0, true, O_WORST},       {"json", 0, WRITES, O_JSON},
                                           {"nodes", 0, true, O_NODES},       {"probability", 0, true, O_PROBABILITY},
                                           {"failure-rate", 0, true, O_RATE}, {"repair", 0, true, O_REPAIR},
                                           {"quantile", 0, true, O_QUANTILE}, {NULL, 0, false, 0}};

#define BIT(id) (1u << (id))
static const unsigned of_lemons = BIT(O_JOBS) | BIT(O_AT) | BIT(O_WINDOW) | BIT(O_FLEET) | BIT(O_WORST) | BIT(O_JSON),
                      of_spares = BIT(O_NODES) | BIT(O_PROBABILITY) | BIT(O_RATE) | BIT(O_REPAIR) | BIT(O_QUANTILE) |
                                  BIT(O_JSON);

struct arguments {
    unsigned given;
    struct hm_lemon_options lemons;
    const char *json;
    long worst, nodes, fleet;
    double probability, rate, repair, quantile;
};

static int parse(struct arguments *a, int argc, char **argv) {
    struct options o;
    struct hm_error err = {0};
    bool good = true, lemons = strcmp(argv[0], "lemons") == 0;
    *a = (struct arguments){
        .lemons = {.at_day = -1}, .worst = 10, .probability = -1, .rate = -1, .repair = -1, .quantile = 0.99};
    options_begin(&o, command_named("node"), specs, argc, argv);
    for (int id; good && (id = options_next(&o)) != OPTION_END;) {
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return -1;
        if (id == O_JOBS) a->lemons.jobs = o.value;
        if (id == O_JSON) a->json = o.value;
        if (id == O_AT) good = option_number(&o, "--at", 0, 1e6, &a->lemons.at_day);
        if (id == O_WINDOW) good = option_number(&o, "--window", 0.01, 1e6, &a->lemons.window_days);
        if (id == O_FLEET) good = option_integer(&o, "--fleet", 1, 100000000, &a->fleet);
        if (id == O_WORST) good = option_integer(&o, "--worst", 1, 100000000, &a->worst);
        if (id == O_NODES) good = option_integer(&o, "--nodes", 1, 100000000, &a->nodes);
        if (id == O_PROBABILITY) good = option_number(&o, "--probability", 0, 1, &a->probability);
        if (id == O_REPAIR && hm_tor_parse_time(o.value, "--repair", &a->repair, &err) != 0) return complain(&err);
        if (id == O_QUANTILE) good = option_number(&o, "--quantile", 1e-9, 1 - 1e-9, &a->quantile);
        if (id == O_RATE && hm_tor_parse_rate(o.value, "--failure-rate", &a->rate, &err) != 0) return complain(&err);
        a->given |= BIT(id);
    }
    if (!good) return EXIT_UNUSABLE;
    for (const struct option_spec *s = specs; s->name; s++)
        if ((a->given & BIT(s->id)) && !((lemons ? of_lemons : of_spares) & BIT(s->id)))
            return complain_text("--%s: node %s has no use for it; see 'hindmost help node'", s->name, argv[0]);
    if (!lemons && o.inputs) return complain_text("node spares takes no file; see 'hindmost help node'");
    a->lemons.fleet = (size_t)a->fleet;
    if (o.inputs > 1) return complain_text("node %s takes one file; see 'hindmost help node'", argv[0]);
    a->lemons.faults = o.inputs ? argv[1] : NULL;
    return EXIT_DONE;
}

static void write_lemons(const struct hm_lemons *l, const struct arguments *a, struct hm_out *out) {
    size_t tail = 0, worst = (size_t)a->worst < hm_lemons_count(l) ? (size_t)a->worst : hm_lemons_count(l);
    for (size_t i = 0; i < hm_lemons_count(l); i++) tail += hm_lemons_node(l, i)->faults >= 4;
    hm_out_printf(out,
                  "{\"schema\": \"hindmost.lemons/1\", \"nodes_with_faults\": %zu, \"nodes_with_4_or_more\": %zu, "
                  "\"worst\": %zu, \"saved_share\": %.9g,\n \"nodes\": [",
                  hm_lemons_count(l), tail, worst, hm_lemons_saved(l, worst));
    for (size_t i = 0; i < hm_lemons_count(l); i++) {
        const struct hm_lemon *n = hm_lemons_node(l, i);
        hm_out_printf(out, "%s\n  {\"node\": \"", i ? "," : "");
        for (const char *c = n->node; *c; c++) { /* a name may hold anything */
            if (*c == 34 || *c == 92 || (unsigned char)*c < 32)
                hm_out_printf(out, "\\u%04x", (unsigned)(unsigned char)*c);
            else
                hm_out_write(out, c, 1);
        }
        hm_out_printf(out,
                      "\", \"score\": %.9g, \"observed\": %.9g, \"expected\": %.9g, \"faults\": %zu, "
                      "\"exposure_days\": %.9g, \"downtime_after_days\": %.9g}",
                      n->score, n->observed, n->expected, n->faults, n->exposure_days, n->downtime_after_days);
    }
    hm_out_printf(out, "]}\n");
}

static void print_lemons(const struct hm_lemons *l, const struct arguments *a) {
    size_t tail = 0, count = hm_lemons_count(l), worst = (size_t)a->worst < count ? (size_t)a->worst : count;
    for (size_t i = 0; i < count; i++) tail += hm_lemons_node(l, i)->faults >= 4;
    printf("%zu nodes had faults, %zu of them 4 or more\n", count, tail);
    printf("removing the %zu worst at the decision would have saved %.1f %% of the downtime after it\n", worst,
           100 * hm_lemons_saved(l, worst));
    for (size_t i = 0; i < worst; i++) {
        const struct hm_lemon *n = hm_lemons_node(l, i);
        printf("  %-40s score %6.2f  (%g failures, %.2f expected)\n", n->node, n->score, n->observed, n->expected);
    }
}

int node_lemons(int argc, char **argv) {
    struct arguments a;
    struct hm_error err = {0};
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    if (!a.lemons.faults) return complain_text("node lemons takes a file of faults; see 'hindmost help node'");
    struct hm_lemons *l = hm_lemons_read(&a.lemons, &err);
    if (!l) return complain(&err);
    if (a.json) {
        struct hm_out *out = hm_out_open(a.json, &err);
        if (out) write_lemons(l, &a, out);
        if (!out || hm_out_commit(out, &err) != 0) status = complain(&err);
    }
    if (!(a.json && strcmp(a.json, "-") == 0)) print_lemons(l, &a);
    hm_lemons_free(l);
    return status;
}

int node_spares(int argc, char **argv) {
    struct arguments a;
    struct hm_error err = {0};
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    if (a.nodes == 0 || (a.probability < 0 && (a.rate < 0 || a.repair < 0)))
        return complain_text("node spares needs --nodes and --probability, or --failure-rate and --repair");
    /* up for 1/rate, down for repair: the share of time that a node is down */
    double p = a.probability >= 0 ? a.probability : a.rate * a.repair / (1 + a.rate * a.repair);
    long spares = hm_spares(a.nodes, p, a.quantile);
    if (a.json) {
        struct hm_out *out = hm_out_open(a.json, &err);
        if (out)
            hm_out_printf(out,
                          "{\"schema\": \"hindmost.spares/1\", \"nodes\": %ld, \"probability\": %.9g, \"quantile\": "
                          "%.9g, \"spares\": %ld}\n",
                          a.nodes, p, a.quantile, spares);
        if (!out || hm_out_commit(out, &err) != 0) return complain(&err);
    }
    if (!(a.json && strcmp(a.json, "-") == 0))
        printf("%ld spares for %ld nodes: with probability %g no more are down at once (each is down %.4g %% of the "
               "time)\n",
               spares, a.nodes, a.quantile, 100 * p);
    return EXIT_DONE;
}
