/* analyze_series.h - what `hindmost analyze` asks of a log. */
#ifndef HM_CLI_ANALYZE_SERIES_H
#define HM_CLI_ANALYZE_SERIES_H

#include "cli.h"

struct series_request {
    const char *const *paths;
    size_t n;
    const char *pattern, *json, *heatmap;
    const char *other; /* an option that a log cannot answer; NULL: none was given */
    bool check;
};
/* The exit status. */
int analyze_series(const struct series_request *q);

#endif
