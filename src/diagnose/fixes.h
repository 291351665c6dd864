/* fixes.h - what would help, priced by replay of the recorded durations with the fix applied. One file a fix. */
#ifndef HM_FIXES_H
#define HM_FIXES_H

#include "diagnose.h"

/* Fills box->d.fixes, best first, and box->d.edge_slack_s. 0, or -1 without memory. */
int hm_price_fixes(struct hm_diagnoser *d);

/* Each appends what it has to offer with hm_offer. 0, or -1 without memory. */
int hm_fix_workers(struct hm_diagnoser *d);
int hm_fix_layers(struct hm_diagnoser *d);
int hm_fix_sequences(struct hm_diagnoser *d);
int hm_fix_collection(struct hm_diagnoser *d);
int hm_fix_links(struct hm_diagnoser *d);
int hm_fix_split(struct hm_diagnoser *d);
int hm_fix_late_data(struct hm_diagnoser *d);
int hm_fix_left_out(struct hm_diagnoser *d);
int hm_measure_slack(struct hm_diagnoser *d);

/* A fix with its mean step time; left out if it gains less than 0.5 %. `how` belongs to the box. */
void hm_offer(struct hm_diagnoser *d, const char *fix, double step_s, const char *how);
/* The same against another step time than T. */
void hm_offer_from(struct hm_diagnoser *d, const char *fix, double from_s, double step_s, const char *how);
/* "wins back 81 % of the loss": the share of T - T_ideal that a step time wins back, in per cent. */
double hm_won_back(const struct hm_diagnoser *d, double step_s);

#endif
