/* page_data.h - what the report page shows beyond the analysis: every step's workers and the timeline of the slowest step. */
#ifndef HM_PAGE_DATA_H
#define HM_PAGE_DATA_H

#include "whatif/whatif.h"

/* Writes the JSON object that web/report.js calls `extra` (its shape: docs/page.md). Long arrays are integers, packed: byte planes,
 * zlib, base64. 0, or -1 with the error filled. */
int hm_page_data_write(const struct hm_trace *trace, const struct hm_analysis *analysis, struct hm_out *out,
                       struct hm_error *err);

/* Packs n integers: the lowest bytes of all, then the next ones, ...; four planes; zlib; base64. NULL without memory. */
char *hm_pack(const int32_t *values, size_t n);

#endif
