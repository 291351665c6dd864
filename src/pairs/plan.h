/* plan.h - who is measured with whom, and whom the figures accuse: arithmetic only, so that it is tested without a fabric. */
#ifndef HM_PAIRS_PLAN_H
#define HM_PAIRS_PLAN_H

#include <stdbool.h>

enum { HM_HOST_NAME = 64, HM_ROUNDS = 3 };
/* What is slow: beyond `factor` x the median (2: DLRover's node check); latencies that differ by less than floor_us are not
 * told apart. */
struct hm_limits {
    double factor, floor_us;
};

/* One host with the best of its links so far: its own share in a slow link is what is left. */
struct hm_host {
    char name[HM_HOST_NAME];
    double gbs, latency_us; /* 0 and INFINITY before the first link */
    int links;
};
/* What is measured once: a link between hosts a < b. */
struct hm_link {
    int a, b, round;
    double gbs, latency_us, repeats;
};
struct hm_normal {
    double gbs, latency_us;
    struct hm_limits limits;
};

/* The median of n values (of two middle ones the better: at most half of the hosts may be slow). x is sorted. */
double hm_better_median(double *x, int n, bool lower_is_better);
/* The medians over all hosts that were measured. */
struct hm_normal hm_normal_of(const struct hm_host *host, int n, struct hm_limits limits);
/* How many times worse than normal, in bandwidth, in latency (0 within the floor), and in what is worse; INFINITY if it was
 * not measured. */
double hm_times_slower(const struct hm_host *host, struct hm_normal normal);
double hm_times_later(const struct hm_host *host, struct hm_normal normal);
double hm_times_normal(const struct hm_host *host, struct hm_normal normal);
void hm_count_link(struct hm_host *host, const struct hm_link *link);

/* The links of a round (0, 1, 2) into link[n]; returns how many. Rounds 0 and 1 are passes of disjoint pairs: neighbours;
 * then, sorted by speed, the slow with the fast. Round 2: each doubtful host with the fastest, to be measured alone, one
 * after another; none if nobody is doubtful. Of three hosts, every round measures one link. */
int hm_plan_links(const struct hm_host *host, int n, int round, struct hm_limits limits, struct hm_link *link);

/* Groups of about m of n hosts (ByteRobust): in partition 0 by x / m, in partition 1 by x mod (n / m). */
int hm_group_of(int host, int n, int m, int partition);
/* gbs[2 * (n / m)]: speeds of the groups, partition after partition. Marks the hosts both of whose groups are slower
 * than the median by `factor`; returns their number. *slow_groups is the number of slow groups, *normal the groups' median. */
int hm_find_suspects(const double *gbs, int n, int m, double factor, bool *suspect, int *slow_groups, double *normal);
/* A group of m hosts for a suspect: with hosts that were in a good group, the fastest group's first. Returns its size. */
int hm_trial_group(const double *gbs, const bool *suspect, int host, int n, int m, int *member);

#endif
