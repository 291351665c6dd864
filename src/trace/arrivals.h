/* arrivals.h - what the files of the arrivals share: ranks, and collectives matched across them. */
#ifndef HM_TRACE_ARRIVALS_H
#define HM_TRACE_ARRIVALS_H

#include "hindmost/arrivals.h"
#include "kineto.h"

/* One rank in one collective. Times in seconds since the recording's origin; clocks.c corrects them. */
struct hm_member {
    uint32_t rank; /* index */
    double launch_s, end_s;
    bool flying; /* the rank's collective before had not ended when it came */
};

struct hm_matched {
    size_t first, n; /* its members */
    uint32_t group, name;
    int64_t step, seq;
};

struct hm_meeting {
    struct hm_kineto_rank *rank; /* by number */
    size_t n_ranks;
    char **name; /* of groups and collectives, common to all ranks */
    size_t n_names, name_capacity;
    struct hm_matched *matched;
    size_t n_matched, matched_capacity;
    struct hm_member *member;
    size_t n_members, member_capacity;
    size_t unmatched, outside; /* collectives that peers did not run likewise; that lie before the first step */
    int64_t origin_ns;
    double *offset_s, *drift; /* [rank], clocks.c; NaN: shares no collective with others */
    double middle_s, uncertainty_s;
};

/* arrivals_match.c: finds which collectives of the ranks are one. */
int hm_meeting_match(struct hm_meeting *m, struct hm_error *err);
/* clocks.c: brings all times to a common clock by the ends of collectives. */
int hm_meeting_align(struct hm_meeting *m, struct hm_error *err);

#endif
