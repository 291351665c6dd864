/* report.c - hindmost.pairs/1, and result lines for node judge. */
#include "pairs/report.h"

#include <math.h>

static const char *const verdicts[] = {"pass", "unknown", "fail"};

int hm_fabric_verdict(const struct hm_fabric *f) {
    for (int i = 0; i < f->hosts; i++)
        if (f->bad[i]) return 2;
    return f->hosts < 3 || f->inconsistent;
}

static void number(FILE *out, const char *key, double value) {
    if (isfinite(value))
        fprintf(out, ", \"%s\": %.6g", key, value);
    else
        fprintf(out, ", \"%s\": null", key);
}

static double repeats_of(const struct hm_fabric *f) {
    double least = INFINITY;
    for (int i = 0; i < f->links; i++) least = fmin(least, f->link[i].repeats);
    for (int i = 0; i < f->groups; i++) least = fmin(least, f->group[i].repeats);
    return least;
}

/* Precisions: the spread of runs on healthy hosts, measured (docs/sweep-tests.md). */
static void write_tests(const struct hm_fabric *f, struct hm_normal normal, FILE *out) {
    fprintf(out, "\"tests\": [{\"name\": \"%s\", \"unit\": \"GB/s\", \"precision\": 0.5",
            f->mode ? "mpi-allreduce/bus_gbs" : "mpi-pairs/bandwidth_gbs");
    number(out, "median", f->mode ? f->group_normal : normal.gbs);
    number(out, "repeats", repeats_of(f));
    if (!f->mode) {
        fprintf(out, "},\n  {\"name\": \"mpi-pairs/latency_us\", \"unit\": \"us\", \"precision\": 0.5");
        number(out, "median", normal.latency_us);
    }
    fprintf(out, "}],\n ");
}

static double best_group(const struct hm_fabric *f, int host) {
    double best = 0;
    for (int g = 0; g < f->groups; g++)
        for (int k = 0; k < f->group[g].size; k++)
            if (f->group[g].member[k] == host) best = fmax(best, f->group[g].gbs);
    return best;
}

static void write_nodes(const struct hm_fabric *f, struct hm_normal normal, FILE *out) {
    fprintf(out, "\"nodes\": [");
    for (int i = 0; i < f->hosts; i++) {
        const struct hm_host *h = &f->host[i];
        double gbs = f->mode ? best_group(f, i) : h->gbs;
        fprintf(out, "%s\n  {\"node\": \"%s\", \"verdict\": \"%s\"", i ? "," : "", h->name,
                verdicts[f->bad[i]      ? 2
                         : f->hosts < 3 ? 1
                                        : 0]);
        number(out, f->mode ? "bus_gbs" : "bandwidth_gbs", gbs);
        if (f->mode) {
            number(out, "times_median", f->group_normal / gbs);
        } else {
            number(out, "latency_us", h->latency_us);
            number(out, "times_median", hm_times_normal(h, normal));
            bool slow = hm_times_slower(h, normal) > f->limits.factor,
                 late = hm_times_later(h, normal) > f->limits.factor;
            if (f->bad[i])
                fprintf(out, ", \"why\": \"%s above %g x the median\"",
                        slow && late ? "transfer time and latency"
                        : slow       ? "transfer time"
                                     : "latency",
                        f->limits.factor);
        }
        fprintf(out, "}");
    }
    fprintf(out, "],\n ");
}

void hm_fabric_write_json(const struct hm_fabric *f, FILE *out) {
    struct hm_normal normal = hm_normal_of(f->host, f->hosts, f->limits);
    fprintf(out,
            "{\"schema\": \"hindmost.pairs/1\", \"mode\": \"%s\", \"hosts\": %d, \"rounds\": %d, \"bytes\": %d, "
            "\"verdict\": \"%s\",\n \"culprits\": [",
            f->mode ? "groups" : "pairs", f->hosts, f->rounds, f->bytes, verdicts[hm_fabric_verdict(f)]);
    for (int i = 0, named = 0; i < f->hosts; i++)
        if (f->bad[i]) fprintf(out, "%s\"%s\"", named++ ? ", " : "", f->host[i].name);
    fprintf(out, "],\n ");
    write_tests(f, normal, out);
    write_nodes(f, normal, out);
    fprintf(out, "\"%s\": [", f->mode ? "groups" : "links");
    for (int i = 0; i < f->links; i++) {
        const struct hm_link *l = &f->link[i];
        fprintf(out, "%s\n  {\"round\": %d, \"hosts\": [\"%s\", \"%s\"]", i ? "," : "", l->round + 1,
                f->host[l->a].name, f->host[l->b].name);
        number(out, "bandwidth_gbs", l->gbs);
        number(out, "latency_us", l->latency_us);
        number(out, "repeats", l->repeats);
        fprintf(out, "}");
    }
    for (int i = 0; i < f->groups; i++) {
        const struct hm_group *g = &f->group[i];
        fprintf(out, "%s\n  {\"round\": %d, \"hosts\": [", i ? "," : "", g->round + 1);
        for (int k = 0; k < g->size; k++) fprintf(out, "%s\"%s\"", k ? ", " : "", f->host[g->member[k]].name);
        fprintf(out, "]");
        number(out, "bus_gbs", g->gbs);
        number(out, "repeats", g->repeats);
        fprintf(out, "}");
    }
    fprintf(out, "]}\n");
}

void hm_fabric_write_results(const struct hm_fabric *f, FILE *out) {
    for (int i = 0; i < f->hosts; i++) {
        fprintf(out, "{\"node\": \"%s\"", f->host[i].name);
        if (f->mode) {
            number(out, "mpi-allreduce/bus_gbs", best_group(f, i));
        } else {
            number(out, "mpi-pairs/bandwidth_gbs", f->host[i].gbs);
            number(out, "mpi-pairs/latency_us", f->host[i].latency_us);
        }
        fprintf(out, "}\n");
    }
}
