/* html.c - the report page of one job. What it looks like is in web/; here its data go in. */
#include "hindmost/report.h"
#include "page.h"
#include "page_data.h"
#include "page_report.h"

#include <string.h>

struct report {
    const struct hm_trace *trace;
    const struct hm_analysis *analysis;
    const struct hm_diagnosis *diagnosis;
};

static int fill(void *context, const char *name, struct hm_out *out, struct hm_error *err) {
    const struct report *r = context;
    if (strcmp(name, "version") == 0) {
        hm_out_printf(out, "%s", hm_version());
    } else if (strcmp(name, "extra") == 0) {
        return hm_page_data_write(r->trace, r->analysis, out, err);
    } else {
        struct hm_analysis small = *r->analysis; /* every step's figures go in packed, with the extra data */
        small.step_by_op_type = small.step_by_stage = small.step_by_dp_rank = small.step_by_worker = NULL;
        hm_analysis_write_json(&small, r->diagnosis, out);
    }
    return 0;
}

int hm_report_html(const struct hm_trace *trace, const struct hm_analysis *analysis,
                   const struct hm_diagnosis *diagnosis, const char *path, struct hm_error *err) {
    struct report r = {trace, analysis, diagnosis};
    return hm_page_write(hm_page_report, sizeof hm_page_report, fill, &r, path, err);
}
