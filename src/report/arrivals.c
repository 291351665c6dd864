/* arrivals.c - who came late, for people, as JSON and as CSV. */
#include "hindmost/arrivals.h"

#include "base/base.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHOWN = 16 };

static void line_of_rank(struct hm_str *s, const struct hm_arrivals *a, const struct hm_arrival_rank *r) {
    hm_str_add(s, "%6" PRId64 "  %10.3f  %10.3f  %5zu  %5zu  ", r->rank, 1e3 * r->late_s, 1e3 * r->wait_s, r->last,
               r->late_steps);
    if (isnan(r->clock_offset_s))
        hm_str_add(s, "%12s", "unknown");
    else
        hm_str_add(s, "%12.3f", 1e3 * r->clock_offset_s);
    if (r->clock_drift != 0) hm_str_add(s, " %+.1f ppm", 1e6 * r->clock_drift);
    hm_str_add(s, "%s%s%s\n", r->host ? "  " : "", r->host ? r->host : "", r->rank == a->late_rank ? "  <- late" : "");
}

static bool any_phase(const struct hm_arrivals *a) {
    for (size_t r = 0; r < a->n_ranks; r++)
        for (int p = 0; p < HM_PHASES; p++)
            if (!isnan(a->rank[r].phase[p].mean_s)) return true;
    return false;
}

static void table_of_phases(struct hm_str *s, const struct hm_arrivals *a) {
    hm_str_add(s, "\nThe host's time in phases, ms a step: mean (most), waiting inside included\n  rank");
    for (int p = 0; p < HM_PHASES; p++) hm_str_add(s, "  %16s", hm_arrival_phase_name(p));
    hm_str_add(s, "\n");
    for (size_t r = 0; r < a->n_ranks; r++) {
        const struct hm_arrival_rank *k = &a->rank[r];
        if (r >= SHOWN && k->rank != a->late_rank) continue;
        hm_str_add(s, "%6" PRId64, k->rank);
        for (int p = 0; p < HM_PHASES; p++)
            if (isnan(k->phase[p].mean_s))
                hm_str_add(s, "  %16s", "-");
            else
                hm_str_add(s, "  %7.2f (%6.2f)", 1e3 * k->phase[p].mean_s, 1e3 * k->phase[p].most_s);
        hm_str_add(s, "\n");
    }
}

char *hm_arrivals_text(const struct hm_arrivals *a) {
    struct hm_str s = {0};
    hm_str_add(&s, "%s: profiler traces of %zu rank%s", a->name, a->n_ranks, a->n_ranks == 1 ? "" : "s");
    if (a->world > 0) hm_str_add(&s, " of %" PRId64, a->world);
    hm_str_add(&s, ", %zu step%s, %zu collectives", a->n_steps, a->n_steps == 1 ? "" : "s", a->n_collectives);
    if (!isnan(a->step_s)) hm_str_add(&s, ", %.4g ms a step", 1e3 * a->step_s);
    hm_str_add(&s, "\n\nVerdict    %s\n", a->summary);
    if (a->n_collectives) {
        hm_str_add(
            &s, "\n  rank  late, ms/step  waits   last  worst  clock, ms ahead (+- %.3g; by the ends of collectives)\n",
            1e3 * a->clock_uncertainty_s);
        for (size_t r = 0; r < a->n_ranks; r++)
            if (r < SHOWN || a->rank[r].rank == a->late_rank) line_of_rank(&s, a, &a->rank[r]);
        if (a->n_ranks > SHOWN) hm_str_add(&s, "       %zu ranks in all: see --json\n", a->n_ranks);
    }
    if (any_phase(a)) table_of_phases(&s, a);
    for (size_t i = 0; i < a->n_dropped; i++)
        hm_str_add(&s, "\nLeft out   %zu %s: %s", a->dropped[i].count, a->dropped[i].what, a->dropped[i].why);
    for (size_t i = 0; i < a->n_cannot_tell; i++) hm_str_add(&s, "\nCannot tell  %s", a->cannot_tell[i]);
    hm_str_add(&s, "\n");
    if (!s.failed) return s.text;
    hm_str_free(&s);
    return NULL;
}

static void write_rank(struct hm_json *j, const struct hm_arrival_rank *r) {
    hm_json_object(j, NULL);
    hm_json_integer(j, "rank", r->rank);
    hm_json_string(j, "host", r->host);
    hm_json_null(j, "slowdown");
    hm_json_null(j, "own_s");
    hm_json_number(j, "late_s", r->late_s);
    hm_json_number(j, "gain_s", r->gain_s);
    hm_json_number(j, "wait_s", r->wait_s);
    hm_json_integer(j, "last", (int64_t)r->last);
    hm_json_integer(j, "late_steps", (int64_t)r->late_steps);
    hm_json_number(j, "clock_offset_s", r->clock_offset_s);
    hm_json_number(j, "clock_drift", r->clock_drift);
    hm_json_array(j, "phases");
    for (int p = 0; p < HM_PHASES; p++) {
        if (isnan(r->phase[p].mean_s)) continue;
        hm_json_object(j, NULL);
        hm_json_string(j, "name", hm_arrival_phase_name(p));
        hm_json_number(j, "mean_s", r->phase[p].mean_s);
        hm_json_number(j, "most_s", r->phase[p].most_s);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_end_object(j);
}

/* Cause and fix of the rank that is late, under the names that replayed jobs have them by. */
static void write_cure(struct hm_json *j, const struct hm_arrivals *a) {
    bool data = a->cause && strcmp(a->cause, "data-loading") == 0;
    hm_json_array(j, "causes");
    if (a->cause) {
        hm_json_object(j, NULL);
        hm_json_string(j, "cause", a->cause);
        hm_json_object(j, "where");
        hm_json_array(j, "ranks");
        hm_json_integer(j, NULL, a->late_rank);
        hm_json_end_array(j);
        hm_json_end_object(j);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_array(j, "fixes");
    if (a->cause && !isnan(a->speedup)) {
        hm_json_object(j, NULL);
        hm_json_string(j, "fix", data ? "load-data-earlier" : "replace-workers");
        hm_json_number(j, "step_s", a->step_s / a->speedup);
        hm_json_number(j, "speedup", a->speedup);
        hm_json_string(
            j, "how",
            data ? "load the data of this rank before the step that needs it: more loader workers, faster storage"
                 : "take this rank's node or device out, and test it");
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

void hm_arrivals_write_json(const struct hm_arrivals *a, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 2);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.analysis/1");
    hm_json_object(&j, "job");
    hm_json_string(&j, "name", a->name);
    if (a->world > 0)
        hm_json_integer(&j, "world", a->world);
    else
        hm_json_null(&j, "world");
    hm_json_integer(&j, "ranks", (int64_t)a->n_ranks);
    hm_json_integer(&j, "steps", (int64_t)a->n_steps);
    hm_json_integer(&j, "collectives", (int64_t)a->n_collectives);
    hm_json_array(&j, "dropped");
    for (size_t i = 0; i < a->n_dropped; i++) {
        hm_json_object(&j, NULL);
        hm_json_string(&j, "what", a->dropped[i].what);
        hm_json_integer(&j, "count", (int64_t)a->dropped[i].count);
        hm_json_string(&j, "why", a->dropped[i].why);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_end_object(&j);
    hm_json_object(&j, "mean_step_s");
    hm_json_number(&j, "actual", a->step_s);
    hm_json_end_object(&j);
    hm_json_null(&j, "slowdown");
    hm_json_number(&j, "clock_uncertainty_s", a->clock_uncertainty_s);
    hm_json_array(&j, "by_rank");
    for (size_t r = 0; r < a->n_ranks; r++) write_rank(&j, &a->rank[r]);
    hm_json_end_array(&j);
    write_cure(&j, a);
    hm_json_object(&j, "verdict");
    hm_json_bool(&j, "straggling", a->late_rank >= 0);
    hm_json_string(&j, "summary", a->summary);
    hm_json_array(&j, "ranks");
    if (a->late_rank >= 0) hm_json_integer(&j, NULL, a->late_rank);
    hm_json_end_array(&j);
    hm_json_end_object(&j);
    hm_json_array(&j, "cannot_tell");
    for (size_t i = 0; i < a->n_cannot_tell; i++) hm_json_string(&j, NULL, a->cannot_tell[i]);
    hm_json_end_array(&j);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}

/* A field of CSV: quoted, quotes doubled. */
static void write_field(struct hm_out *out, const char *text) {
    hm_out_write(out, "\"", 1);
    for (const char *c = text; *c; c++) hm_out_write(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    hm_out_write(out, "\",", 2);
}

void hm_arrivals_write_csv(const struct hm_arrivals *a, struct hm_out *out) {
    hm_out_printf(out, "step,group,name,seq,last_rank,spread_s,transfer_s\n");
    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct hm_arrival *c = &a->collective[i];
        hm_out_printf(out, "%" PRId64 ",", c->step);
        write_field(out, c->group);
        write_field(out, c->name);
        hm_out_printf(out, "%" PRId64 ",%" PRId64 ",%.9f,%.9f\n", c->seq, c->last_rank, c->spread_s, c->transfer_s);
    }
}
