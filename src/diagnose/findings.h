/* findings.h - a diagnosis under construction. */
#ifndef HM_FINDINGS_H
#define HM_FINDINGS_H

#include "diagnose.h"

enum { MOST_CAUSES = 16, MOST_FIXES = 16 };

struct hm_findings {
    struct hm_diagnosis d; /* first: hm_diagnosis_free gets back to the whole */
    struct hm_cause causes[MOST_CAUSES];
    struct hm_fix fixes[MOST_FIXES];
    size_t n_causes, n_fixes;
    void **owned;
    size_t n_owned, owned_capacity;
    bool failed;
};

/* Fills d.edge_slack_s. 0, or -1 without memory. */
int hm_find_slack(const struct hm_effects *e, const struct hm_analysis *a, struct hm_findings *f);

#endif
