/* analyze_arrivals.h - `hindmost analyze` of profiler traces: who came late. */
#ifndef HM_CLI_ANALYZE_ARRIVALS_H
#define HM_CLI_ANALYZE_ARRIVALS_H

#include "cli.h"
#include "hindmost/hindmost.h"

/* False if the names are something else. Else *status is the exit status of what was done. `pictures`: outputs were asked for that need a
 * replay. */
bool analyze_arrivals(const char *const *paths, size_t n, const struct hm_trace_options *open, bool pictures,
                      const char *json, const char *csv, int *status);

#endif
