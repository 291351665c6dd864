/* plan.c - pairs and groups of hosts, and the verdict on them. */
#include "pairs/plan.h"

#include <math.h>
#include <stdlib.h>

static int up(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hm_better_median(double *x, int n, bool lower_is_better) {
    qsort(x, (size_t)n, sizeof *x, up);
    return n > 0 ? x[lower_is_better ? (n - 1) / 2 : n / 2] : NAN;
}

struct hm_normal hm_normal_of(const struct hm_host *host, int n, struct hm_limits limits) {
    double *x = calloc(2 * (size_t)n, sizeof *x), *y = x ? x + n : NULL;
    struct hm_normal normal = {NAN, NAN, limits};
    int count = 0;
    for (int i = 0; x && i < n; i++)
        if (host[i].links > 0) x[count] = host[i].gbs, y[count++] = host[i].latency_us;
    if (count) normal.gbs = hm_better_median(x, count, false), normal.latency_us = hm_better_median(y, count, true);
    free(x);
    return normal;
}

double hm_times_slower(const struct hm_host *host, struct hm_normal normal) {
    return host->links ? normal.gbs / host->gbs : INFINITY;
}

double hm_times_later(const struct hm_host *host, struct hm_normal normal) {
    if (!host->links) return INFINITY;
    return host->latency_us - normal.latency_us > normal.limits.floor_us ? host->latency_us / normal.latency_us : 0;
}

double hm_times_normal(const struct hm_host *host, struct hm_normal normal) {
    return fmax(hm_times_slower(host, normal), hm_times_later(host, normal));
}

void hm_count_link(struct hm_host *host, const struct hm_link *link) {
    const int end[] = {link->a, link->b};
    for (int i = 0; i < 2; i++) {
        struct hm_host *h = &host[end[i]];
        h->gbs = h->links ? fmax(h->gbs, link->gbs) : link->gbs;
        h->latency_us = h->links ? fmin(h->latency_us, link->latency_us) : link->latency_us;
        h->links++;
    }
}

struct ranked {
    int host;
    double times;
};

static int slowest_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->times > y->times ? -1 : x->times < y->times ? 1 : x->host - y->host;
}

static struct hm_link link_of(int a, int b, int round) {
    return (struct hm_link){.a = a < b ? a : b, .b = a < b ? b : a, .round = round};
}

int hm_plan_links(const struct hm_host *host, int n, int round, struct hm_limits limits, struct hm_link *link) {
    int links = 0;
    if (n == 3) { /* too few for a good partner to be left: every link once */
        link[0] = link_of(round % 3, (round + 1) % 3, round);
        return 1;
    }
    if (round == 0) {
        for (; links < n / 2; links++) link[links] = link_of(2 * links, 2 * links + 1, round);
        return links;
    }
    struct ranked *order = calloc((size_t)n, sizeof *order);
    struct hm_normal normal = hm_normal_of(host, n, limits);
    if (!order) return -1;
    for (int i = 0; i < n; i++) order[i] = (struct ranked){i, hm_times_normal(&host[i], normal)};
    qsort(order, (size_t)n, sizeof *order, slowest_first);
    if (round == 1)
        for (; links < n / 2; links++) link[links] = link_of(order[links].host, order[n - 1 - links].host, round);
    else
        for (; links < n - 1 && order[links].times > limits.factor; links++)
            link[links] = link_of(order[links].host, order[n - 1].host, round);
    free(order);
    return links;
}

int hm_group_of(int host, int n, int m, int partition) {
    int groups = n / m, row = host / m;
    if (partition == 1) return host % groups;
    return row < groups ? row : groups - 1; /* what is left over joins the last */
}

int hm_find_suspects(const double *gbs, int n, int m, double factor, bool *suspect, int *slow_groups, double *normal) {
    int groups = n / m, found = 0;
    double *x = calloc(2 * (size_t)groups, sizeof *x);
    if (!x) return -1;
    for (int i = 0; i < 2 * groups; i++) x[i] = gbs[i];
    *normal = hm_better_median(x, 2 * groups, false);
    free(x);
    *slow_groups = 0;
    for (int i = 0; i < 2 * groups; i++) *slow_groups += gbs[i] * factor < *normal;
    for (int i = 0; i < n; i++) {
        suspect[i] = true;
        for (int p = 0; p < 2; p++)
            suspect[i] = suspect[i] && gbs[p * groups + hm_group_of(i, n, m, p)] * factor < *normal;
        found += suspect[i];
    }
    return found;
}

int hm_trial_group(const double *gbs, const bool *suspect, int host, int n, int m, int *member) {
    int groups = n / m, size = 1;
    member[0] = host;
    while (size < m) {
        int best = -1;
        double best_gbs = 0;
        for (int i = 0; i < n; i++) {
            bool taken = suspect[i];
            for (int k = 0; k < size; k++) taken = taken || member[k] == i;
            double fast = fmax(gbs[hm_group_of(i, n, m, 0)], gbs[groups + hm_group_of(i, n, m, 1)]);
            if (!taken && fast > best_gbs) best = i, best_gbs = fast;
        }
        if (best < 0) break;
        member[size++] = best;
    }
    return size;
}
