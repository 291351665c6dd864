/* hindmost/report.h - an analysis as a page and as a picture, and many analyses as a fleet. */
#ifndef HINDMOST_REPORT_H
#define HINDMOST_REPORT_H

#include "hindmost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one job -------------------------------------------------------------------------------------------------------------------- */

/* Writes one self-contained HTML page (no network, below 3 MB): the verdict, heatmaps, step series, causes, fixes and a timeline of
 * the slowest step. `analysis` must be of this trace; with per_step the page also shows every step's heatmap. diagnosis may be NULL.
 * "-" is standard output. 0, or -1: HM_ERR_IO, HM_ERR_MEMORY. */
HM_API int hm_report_html(const struct hm_trace *trace, const struct hm_analysis *analysis, const struct hm_diagnosis *diagnosis,
                          const char *path, struct hm_error *err);

/* Draws the workers' slowdowns (x: DP rank, y: stage, colour: S from 1.0 to 1.5 as in the paper's monitor) into a file whose name ends
 * in .svg or .png. Wide jobs are folded into several bands. 0, or -1: HM_ERR_ARGUMENT for another ending, HM_ERR_IO, HM_ERR_MEMORY. */
HM_API int hm_heatmap_write(const struct hm_analysis *analysis, const char *path, struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
