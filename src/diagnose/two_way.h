/* two_way.h - a table of levels, stages by replicas, into a stage's part, a replica's part, and single cells that stand out. */
#ifndef HM_TWO_WAY_H
#define HM_TWO_WAY_H

#include <stddef.h>
#include <stdint.h>

/* level[stage * 2 + direction][lane] = row[stage * 2 + direction] + lane_part[lane] + excess[same shape as level]. Cells
 * (stage, lane) that stand out are left out of the fit, the clearest first, and their whole excess shows; what is left of
 * the others is their excess. The least lane part is not zero: parts are only known up to a common constant, which lies
 * in row. level may hold NaN (no such op). 0, or -1 without memory. */
int hm_two_way(const double *level, size_t stages, size_t lanes, double *row, double *lane_part, double *excess);

#endif
