/* hindmost/convert.h - from any readable trace to the op table. */
#ifndef HINDMOST_CONVERT_H
#define HINDMOST_CONVERT_H

#include "base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies the rows of n >= 1 traces (Parquet, CSV, gzipped CSV; what hm_trace_open reads), one after the other, to one
 * table with the columns dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mc, mb_id, gmc: all rows, holes
 * and duplicates included, in their order. `path` ends in .parquet or .csv; times are doubles, or floats if float32.
 * threads 0: all cores. Memory does not grow with the rows.
 *
 * 0, or -1 and no file: HM_ERR_INPUT if a row holds impossible values (as hm_trace_open says), HM_ERR_IO,
 * HM_ERR_ARGUMENT if the format of `path` is not known. */
HM_API int hm_convert(const char *const *inputs, size_t n, const char *path, bool float32, int threads,
                      struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
