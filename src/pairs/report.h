/* report.h - what was measured, and its JSON. */
#ifndef HM_PAIRS_REPORT_H
#define HM_PAIRS_REPORT_H

#include "pairs/plan.h"

#include <stdio.h>

/* A group that was measured in a round. */
struct hm_group {
    int *member, size, round;
    double gbs, repeats;
};
struct hm_fabric {
    struct hm_host *host;
    int hosts, rounds, bytes, mode; /* mode: 0 pairs, else hosts a group */
    struct hm_link *link;
    struct hm_group *group;
    int links, groups;
    bool *bad;           /* [hosts] named */
    bool inconsistent;   /* groups were slow, but no host was in a slow group of both partitions */
    double group_normal; /* median of the groups */
    struct hm_limits limits;
};
/* 0 pass, 1 unknown or inconsistent, 2 a host is named: also the exit status. */
int hm_fabric_verdict(const struct hm_fabric *f);
void hm_fabric_write_json(const struct hm_fabric *f, FILE *out);
/* One line a host in SuperBench's naming, for node judge. */
void hm_fabric_write_results(const struct hm_fabric *f, FILE *out);

#endif
