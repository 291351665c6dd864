/* report.c - a run's step times as text, as JSON (hindmost.analysis/1) and as the least table. */
#include "series.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_LISTED = 12 };
static const double STRAGGLES = 1.05;

struct loss {
    double total_s, warm_up_s, episodes_s, slow_steps_s;
};

static struct loss loss_of(const struct hm_series *s) {
    struct loss l = {0, s->paces.warm_up_lost_s, 0, s->paces.slow_steps_lost_s};
    for (size_t i = 0; i < s->n; i++) l.total_s += s->weight[i] * s->seconds[i];
    for (size_t e = 0; e < s->paces.n_episodes; e++) l.episodes_s += s->paces.episode[e].lost_s;
    return l;
}

static double mean_step(const struct hm_series *s) {
    double sum = 0, weight = 0;
    for (size_t i = s->paces.warm_up; i < s->n; i++) {
        sum += s->weight[i] * s->seconds[i];
        weight += s->weight[i];
    }
    return weight > 0 ? sum / weight : NAN;
}

/* What was lost after the warm-up, over the time the same steps take at the usual pace. */
double hm_series_slowdown(const struct hm_series *s) {
    if (!isnan(s->slowdown) && !s->waiting_inside && s->n_ranks > 1) return s->slowdown;
    return s->n > s->paces.warm_up && s->paces.usual_s > 0 && s->n >= 8 ? fmax(1, mean_step(s) / s->paces.usual_s)
                                                                        : NAN;
}

static size_t slow_ranks(const struct hm_series *s) {
    size_t n = 0;
    for (size_t r = 0; r < s->n_ranks; r++) n += s->rank[r].slow;
    return n;
}

static void add_summary(struct hm_str *t, const struct hm_series *s) {
    struct loss l = loss_of(s);
    size_t slow = slow_ranks(s);
    for (size_t r = 0; slow == 1 && r < s->n_ranks; r++)
        if (s->rank[r].slow)
            hm_str_add(t, "rank %d is slow: %.2f times its peers in steps %" PRId64 " to %" PRId64, s->rank[r].rank,
                       s->rank[r].pace, s->rank[r].from_step, s->rank[r].to_step);
    if (slow > 1) hm_str_add(t, "%zu ranks are slower than their peers", slow);
    if (slow > 0) hm_str_add(t, "; ");
    if (s->paces.n_episodes == 0 && s->paces.slow_steps == 0)
        hm_str_add(t, "the pace was steady at %.4g s a step", s->paces.usual_s);
    else
        hm_str_add(t, "%.3g %% of the time was lost to %zu slow episode%s and %zu single slow step%s",
                   100 * (l.episodes_s + l.slow_steps_s) / l.total_s, s->paces.n_episodes,
                   s->paces.n_episodes == 1 ? "" : "s", s->paces.slow_steps, s->paces.slow_steps == 1 ? "" : "s");
}

/* ---- text ---- */

static void add_episodes(struct hm_str *t, const struct hm_series *s) {
    const struct hm_step_paces *p = &s->paces;
    if (p->n_episodes > 0) hm_str_add(t, "\nSlow episodes                      slowdown      lost\n");
    for (size_t e = 0; e < p->n_episodes; e++)
        hm_str_add(t, "  steps %9" PRId64 " to %9" PRId64 "  %8.3f  %8.4g s%s\n", p->episode[e].from_step,
                   p->episode[e].to_step, p->episode[e].slowdown, p->episode[e].lost_s,
                   p->episode[e].open ? "  to the end of the log" : "");
}

static void add_slow_steps(struct hm_str *t, const struct hm_series *s) {
    static const char *const where[] = {"", "  not on all ranks", "  on all ranks"};
    if (s->n_slow_steps > 0) hm_str_add(t, "\nSingle slow steps, most lost first  slowdown      lost\n");
    for (size_t k = 0; k < s->n_slow_steps && k < MOST_LISTED; k++)
        hm_str_add(t, "  step %9" PRId64 "                     %8.3f  %8.4g s%s\n", s->slow_step[k].step,
                   s->slow_step[k].slowdown, s->slow_step[k].lost_s, where[s->slow_step[k].on_all_ranks + 1]);
    if (s->paces.slow_steps > MOST_LISTED) hm_str_add(t, "  and %zu more\n", s->paces.slow_steps - MOST_LISTED);
}

static void add_rank_table(struct hm_str *t, const struct hm_series *s) {
    if (s->n_ranks == 0) return;
    hm_str_add(t, "\nRanks, own time a step (%s)\n  rank  stage      own s   of peers  slowest in  S alone\n",
               s->timers);
    size_t listed = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t r = 0; r < s->n_ranks && listed < MOST_LISTED; r++) {
            const struct hm_series_rank *k = &s->rank[r];
            if (k->slow != (pass == 0)) continue;
            listed++;
            hm_str_add(t, "  %4d  ", k->rank);
            hm_str_add(t, k->stage >= 0 ? "%5d" : "    -", k->stage);
            hm_str_add(t, "  %9.4g", k->own_s);
            if (!isnan(k->pace))
                hm_str_add(t, "  %9.3f  %8.0f %%  %7.3f%s", k->pace, 100 * k->slowest, k->slowdown,
                           k->slow ? "  slow" : "");
            hm_str_add(t, "\n");
        }
    if (s->n_ranks > listed) hm_str_add(t, "  and %zu more\n", s->n_ranks - listed);
    if (s->n_ranks > 1 && !s->waiting_inside) hm_str_add(t, "  S of all: %.3f\n", s->slowdown);
}

static void add_spreads(struct hm_str *t, const struct hm_series *s) {
    if (s->n_spreads > 0) hm_str_add(t, "\nTimers, fastest and slowest rank (medians)\n");
    for (size_t k = 0; k < s->n_spreads; k++)
        hm_str_add(t, "  %-40s %9.4g %9.4g s  %+.1f %%\n", s->spread[k].name, s->spread[k].low_s, s->spread[k].high_s,
                   100 * (s->spread[k].high_s / s->spread[k].low_s - 1));
}

static void add_reports(struct hm_str *t, const struct hm_series *s) {
    if (s->n_reports == 0) return;
    hm_str_add(t, "\nStraggler reports in the log: %zu\n", s->reports);
    for (size_t k = 0; k < s->n_reports && k < MOST_LISTED; k++)
        hm_str_add(t, "  rank %-6d lowest in %zu, %.1f %% below the highest\n", s->report[k].rank, s->report[k].lowest,
                   100 * (1 - s->report[k].ratio));
}

static void add_lines(struct hm_str *t, const char *head, char *const *lines, size_t n) {
    if (n > 0) hm_str_add(t, "\n%s\n", head);
    for (size_t i = 0; i < n; i++) hm_str_add(t, "  %s\n", lines[i]);
}

char *hm_series_text(const struct hm_series *s) {
    struct hm_str t = {0};
    struct loss l = loss_of(s);
    hm_str_add(&t, "%s: ", s->name);
    add_summary(&t, s);
    hm_str_add(&t, "\n\n%zu step times", s->n);
    if (s->attempts > 1) hm_str_add(&t, " in %zu attempts", s->attempts);
    if (s->n_ranks > 0) hm_str_add(&t, ", %zu ranks", s->n_ranks);
    hm_str_add(&t, "\n  usual step         %10.4g s", s->paces.usual_s);
    if (!isnan(s->paces.noise)) hm_str_add(&t, "  (scatter %.1f %%)", 100 * s->paces.noise);
    hm_str_add(&t, "\n  mean step          %10.4g s\n", mean_step(s));
    if (s->paces.warm_up > 0)
        hm_str_add(&t, "  warm-up            %10.4g s lost in %zu\n", l.warm_up_s, s->paces.warm_up);
    hm_str_add(&t, "  slow episodes      %10.4g s lost in %zu\n", l.episodes_s, s->paces.n_episodes);
    hm_str_add(&t, "  single slow steps  %10.4g s lost in %zu\n", l.slow_steps_s, s->paces.slow_steps);
    hm_str_add(&t, "  all                %10.4g s, %.3g %% of it lost\n", l.total_s,
               100 * (l.warm_up_s + l.episodes_s + l.slow_steps_s) / l.total_s);
    add_episodes(&t, s);
    add_slow_steps(&t, s);
    add_rank_table(&t, s);
    add_spreads(&t, s);
    add_reports(&t, s);
    add_lines(&t, "Cannot tell", s->cannot_tell, s->n_cannot_tell);
    add_lines(&t, "Notes", s->note, s->n_notes);
    if (t.failed) hm_str_free(&t);
    return t.text;
}

/* ---- JSON ---- */

static void json_job(struct hm_json *j, const struct hm_series *s) {
    hm_json_object(j, "job");
    hm_json_string(j, "name", s->name);
    hm_json_string(j, "format", s->format);
    hm_json_null(j, "dp");
    hm_json_null(j, "pp");
    if (s->n_ranks > 0)
        hm_json_integer(j, "workers", (int64_t)s->n_ranks);
    else
        hm_json_null(j, "workers");
    hm_json_integer(j, "steps", (int64_t)s->n);
    hm_json_integer(j, "attempts", (int64_t)s->attempts);
    hm_json_array(j, "dropped");
    hm_json_end_array(j);
    hm_json_end_object(j);
}

static void json_steps(struct hm_json *j, const struct hm_series *s) {
    hm_json_array(j, "steps");
    for (size_t i = 0; i < s->n; i++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "step", s->step[i]);
        hm_json_number(j, "actual_s", s->seconds[i]);
        hm_json_null(j, "replayed_s");
        hm_json_null(j, "ideal_s");
        hm_json_null(j, "slowdown");
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_object(j, "mean_step_s");
    hm_json_number(j, "actual", mean_step(s));
    hm_json_null(j, "replayed");
    hm_json_null(j, "ideal");
    hm_json_end_object(j);
}

static void json_paces(struct hm_json *j, const struct hm_series *s) {
    const struct hm_step_paces *p = &s->paces;
    struct loss l = loss_of(s);
    hm_json_object(j, "paces");
    hm_json_number(j, "usual_s", p->usual_s);
    hm_json_number(j, "noise", p->noise);
    hm_json_number(j, "total_s", l.total_s);
    hm_json_object(j, "warm_up");
    hm_json_integer(j, "steps", (int64_t)p->warm_up);
    hm_json_number(j, "lost_s", l.warm_up_s);
    hm_json_end_object(j);
    hm_json_object(j, "slow_steps");
    hm_json_integer(j, "steps", (int64_t)p->slow_steps);
    hm_json_number(j, "lost_s", l.slow_steps_s);
    hm_json_array(j, "worst");
    for (size_t k = 0; k < s->n_slow_steps; k++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "step", s->slow_step[k].step);
        hm_json_number(j, "slowdown", s->slow_step[k].slowdown);
        hm_json_number(j, "lost_s", s->slow_step[k].lost_s);
        if (s->slow_step[k].on_all_ranks < 0)
            hm_json_null(j, "on_all_ranks");
        else
            hm_json_bool(j, "on_all_ranks", s->slow_step[k].on_all_ranks == 1);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_end_object(j);
    hm_json_end_object(j);
    hm_json_array(j, "episodes");
    for (size_t e = 0; e < p->n_episodes; e++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "from_step", p->episode[e].from_step);
        hm_json_integer(j, "to_step", p->episode[e].to_step);
        hm_json_number(j, "slowdown", p->episode[e].slowdown);
        hm_json_number(j, "lost_s", p->episode[e].lost_s);
        hm_json_bool(j, "open", p->episode[e].open);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void json_ranks(struct hm_json *j, const struct hm_series *s) {
    hm_json_array(j, "by_rank");
    for (size_t r = 0; r < s->n_ranks; r++) {
        const struct hm_series_rank *k = &s->rank[r];
        hm_json_object(j, NULL);
        hm_json_integer(j, "rank", k->rank);
        hm_json_null(j, "host");
        if (k->stage >= 0)
            hm_json_integer(j, "stage", k->stage);
        else
            hm_json_null(j, "stage");
        if (s->waiting_inside || s->n_ranks < 2)
            hm_json_null(j, "slowdown");
        else
            hm_json_number(j, "slowdown", k->slowdown);
        hm_json_number(j, "own_s", k->own_s);
        hm_json_number(j, "data_s", k->data_s);
        hm_json_number(j, "pace", k->pace);
        hm_json_number(j, "slowest_share", k->slowest);
        hm_json_bool(j, "slow", k->slow);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

/* How much of the loss one rank's fix wins back: its S alone over the S of all. */
static double recovers(const struct hm_series *s, const struct hm_series_rank *k) {
    return s->slowdown > 1 ? fmin(1, fmax(0, (k->slowdown - 1) / (s->slowdown - 1))) : 0;
}

static void json_causes(struct hm_json *j, const struct hm_series *s) {
    hm_json_array(j, "causes");
    for (size_t r = 0; r < s->n_ranks; r++) {
        const struct hm_series_rank *k = &s->rank[r];
        if (!k->slow) continue;
        struct hm_str evidence = {0};
        hm_str_add(&evidence, "rank %d takes %.2f times its peers' time (%s) in steps %" PRId64 " to %" PRId64, k->rank,
                   k->pace, s->timers, k->from_step, k->to_step);
        hm_json_object(j, NULL);
        hm_json_string(j, "cause", "slow-worker");
        hm_json_number(j, "confidence", fmin(1, fmax(0.5, k->slowest)));
        hm_json_number(j, "recovers", recovers(s, k));
        hm_json_string(j, "evidence", evidence.text);
        hm_json_object(j, "where");
        hm_json_array(j, "ranks");
        hm_json_integer(j, NULL, k->rank);
        hm_json_end_array(j);
        hm_json_array(j, "step_ranges");
        hm_json_array(j, NULL);
        hm_json_integer(j, NULL, k->from_step);
        hm_json_integer(j, NULL, k->to_step);
        hm_json_end_array(j);
        hm_json_end_array(j);
        hm_json_end_object(j);
        hm_json_end_object(j);
        hm_str_free(&evidence);
    }
    hm_json_end_array(j);
    hm_json_array(j, "fixes");
    hm_json_end_array(j);
}

static void json_timers(struct hm_json *j, const struct hm_series *s) {
    hm_json_array(j, "timers");
    for (size_t k = 0; k < s->n_spreads; k++) {
        hm_json_object(j, NULL);
        hm_json_string(j, "name", s->spread[k].name);
        hm_json_number(j, "fastest_s", s->spread[k].low_s);
        hm_json_number(j, "slowest_s", s->spread[k].high_s);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_array(j, "straggler_reports");
    for (size_t k = 0; k < s->n_reports; k++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "rank", s->report[k].rank);
        hm_json_integer(j, "lowest", (int64_t)s->report[k].lowest);
        hm_json_integer(j, "of", (int64_t)s->reports);
        hm_json_number(j, "throughput_ratio", s->report[k].ratio);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void json_lines(struct hm_json *j, const char *key, char *const *lines, size_t n) {
    hm_json_array(j, key);
    for (size_t i = 0; i < n; i++) hm_json_string(j, NULL, lines[i]);
    hm_json_end_array(j);
}

void hm_series_write_json(const struct hm_series *s, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 2);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.analysis/1");
    json_job(&j, s);
    json_steps(&j, s);
    bool apart = s->n_ranks > 1 && !s->waiting_inside;
    hm_json_number(&j, "slowdown", apart ? s->slowdown : NAN);
    hm_json_number(&j, "waste", apart ? 1 - 1 / s->slowdown : NAN);
    hm_json_number(&j, "slowdown_real", hm_series_slowdown(s));
    json_paces(&j, s);
    json_ranks(&j, s);
    json_causes(&j, s);
    json_timers(&j, s);
    json_lines(&j, "cannot_tell", s->cannot_tell, s->n_cannot_tell);
    json_lines(&j, "notes", s->note, s->n_notes);
    struct hm_str summary = {0};
    add_summary(&summary, s);
    hm_json_object(&j, "verdict");
    hm_json_bool(&j, "straggling", slow_ranks(s) > 0 || hm_series_slowdown(s) >= STRAGGLES);
    hm_json_string(&j, "summary", summary.failed ? "" : summary.text);
    hm_json_end_object(&j);
    hm_str_free(&summary);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}

/* ---- the least table ---- */

int hm_series_write_table(const struct hm_series *s, const char *path, struct hm_error *err) {
    if (s->n_ranks == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: names no ranks, so there is no table of ranks and steps in it; %s",
                       s->name, s->n_cannot_tell ? s->cannot_tell[0] : "");
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    char buffer[32];
    hm_out_printf(out, "rank,step,seconds\n");
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = 0; r < s->n_ranks; r++)
            if (!isnan(s->own_s[r * s->n + i]))
                hm_out_printf(out, "%d,%" PRId64 ",%s\n", s->rank[r].rank, s->step[i],
                              hm_double_text(s->own_s[r * s->n + i], buffer));
    return hm_out_commit(out, err);
}
