/* text.c - the report for people: what it costs, where, who; one screen for a job of 64 workers.
 *
 * With colour the bars and the heatmap use block characters and the 256-colour palette; without, plain ASCII, so that
 * the report survives mail and log files. */
#include "base/base.h"
#include "hindmost/hindmost.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page {
    struct hm_str s;
    const struct hm_analysis *a;
    bool color;
    size_t width;
};

/* ---- pieces ---- */

static const char *on(const struct page *p, const char *code) {
    return p->color ? code : "";
}
#define BOLD hm_styles[HM_STYLE_BOLD]
#define DIM hm_styles[HM_STYLE_DIM]
#define RED hm_styles[HM_STYLE_RED]
#define YELLOW hm_styles[HM_STYLE_YELLOW]
#define OFF hm_styles[HM_STYLE_OFF]

/* Slowdowns from 1.0 to 1.5 fill the scale, as in SMon's heatmaps. */
static double scale(double slowdown) {
    double x = (slowdown - 1) / 0.5;
    return x < 0 || isnan(x) ? 0 : x > 1 ? 1 : x;
}

/* A cell's colour: from grey over yellow to red, in the 6x6x6 cube. */
static int heat(double slowdown) {
    static const int ramp[] = {237, 58, 100, 142, 178, 214, 208, 202, 196};
    return ramp[(int)(scale(slowdown) * 8 + 0.5)];
}

static char shade(double slowdown) {
    static const char ramp[] = ".:-=+*#%@";
    return ramp[(int)(scale(slowdown) * 8 + 0.5)];
}

static void pad(struct page *p, size_t n) {
    for (size_t i = 0; i < n; i++) hm_str_bytes(&p->s, " ", 1);
}

/* "123,456" */
static const char *grouped(size_t n, char text[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%zu", n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[k++] = ',';
        text[k++] = digits[i];
    }
    text[k] = 0;
    return text;
}

/* Seconds with a sensible number of digits. */
static const char *seconds(double s, char text[32]) {
    if (s >= 100)
        (void)snprintf(text, 32, "%.1f s", s);
    else if (s >= 1)
        (void)snprintf(text, 32, "%.3f s", s);
    else if (s >= 1e-3)
        (void)snprintf(text, 32, "%.2f ms", s * 1e3);
    else
        (void)snprintf(text, 32, "%.2f us", s * 1e6);
    return text;
}

/* A bar of up to `width` characters for a share 0..1. */
static void bar(struct page *p, double share, size_t width) {
    size_t eighths = (size_t)(share * (double)width * 8 + 0.5), n = 0;
    static const char *const part[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
    if (!p->color) {
        size_t full = (size_t)(share * (double)width + 0.5);
        for (; n < full; n++) hm_str_bytes(&p->s, "#", 1);
    } else {
        for (; n < eighths / 8; n++) hm_str_add(&p->s, "\u2588");
        if (eighths % 8 && n < width) hm_str_add(&p->s, "%s", part[eighths % 8]), n++;
    }
    pad(p, width - n);
}

/* ---- the head ---- */

/* What replays leave out, where it counts: S of the replay says nothing of it. */
static void waits(struct page *p) {
    const struct hm_analysis *a = p->a;
    const double least = 0.01 * a->actual_s;
    char text[32];
    if (a->lost.launch_waits_s >= least)
        hm_str_add(&p->s,
                   "Waits      %s of a step (%.1f %%) go to launches that come late: data, Python, other CPU work\n",
                   seconds(a->lost.launch_waits_s, text), 100 * a->lost.launch_waits_s / a->actual_s);
    if (a->lost.left_out_waits_s >= least)
        hm_str_add(&p->s, "Waits      %s of a step (%.1f %%) go to waiting for replicas that were left out\n",
                   seconds(a->lost.left_out_waits_s, text), 100 * a->lost.left_out_waits_s / a->actual_s);
    if (a->lost.launch_waits_s + a->lost.left_out_waits_s >= least)
        hm_str_add(&p->s, "           with them the job takes %s%.3f%s times as long as without stragglers\n",
                   on(p, BOLD), a->slowdown_real, on(p, OFF));
}

static void headline(struct page *p) {
    const struct hm_analysis *a = p->a;
    char n[32], one[32], two[32], three[32];
    hm_str_add(&p->s, "%s%s%s: ", on(p, BOLD), a->name, on(p, OFF));
    hm_str_add(&p->s, "dp %zu x pp %zu", a->dp, a->pp);
    if (a->vpp > 1) hm_str_add(&p->s, " (vpp %zu)", a->vpp);
    if (a->tp > 1) hm_str_add(&p->s, " x tp %zu", a->tp);
    if (a->cp > 1) hm_str_add(&p->s, " x cp %zu", a->cp);
    hm_str_add(&p->s, " = %zu GPU%s, %zu worker%s, %zu step%s, %s ops\n\n", a->world, a->world == 1 ? "" : "s",
               a->dp * a->pp, a->dp * a->pp == 1 ? "" : "s", a->n_steps, a->n_steps == 1 ? "" : "s",
               grouped(a->ops, n));
    const double real = a->slowdown_real, wasted = real > 1 ? 1 - 1 / real : 0;
    const char *alarm = real >= 1.2 ? RED : real >= 1.1 ? YELLOW : "";
    hm_str_add(&p->s,
               "%s%sS = %.3f%s  without stragglers the job would be %.2f times as fast; %.1f %% of its time is lost",
               on(p, BOLD), on(p, alarm), a->slowdown, on(p, OFF), real, 100 * wasted);
    double hours = (double)a->world * a->actual_s * (double)a->n_steps / 3600;
    hm_str_add(&p->s, "\n           %.4g of %.4g GPU-hours recorded\n", hours * wasted, hours);
    waits(p);
    hm_str_add(&p->s, "Step time  actual %s, replayed %s, ideal %s; discrepancy %.1f %%\n", seconds(a->actual_s, one),
               seconds(a->replayed_s, two), seconds(a->ideal_s, three), 100 * a->discrepancy);
    if (fabs(a->discrepancy - a->lost.left_out_waits_s / a->replayed_s) > 0.05)
        hm_str_add(&p->s,
                   "%sCaution    the replay misses the recorded step time by more than 5 %%: time outside the recorded "
                   "ops; trust S less%s\n",
                   on(p, YELLOW), on(p, OFF));
}

/* ---- causes and fixes ---- */

static void list_places(struct page *p, const struct hm_cause *c) {
    enum { NAMED = 4 };
    const char *between = ": ";
    for (size_t i = 0; i < c->n_workers && i < NAMED; i++, between = ", ")
        hm_str_add(&p->s, "%sstage %u dp %u", between, c->workers[i].stage, c->workers[i].dp_rank);
    if (c->n_workers > NAMED) hm_str_add(&p->s, " and %zu more", c->n_workers - NAMED);
    for (size_t i = 0; !c->n_workers && i < c->n_stages && i < NAMED; i++, between = ", ")
        hm_str_add(&p->s, "%sstage %u", between, c->stages[i]);
    for (size_t i = 0; !c->n_workers && i < c->n_dp_ranks && i < NAMED; i++, between = ", ")
        hm_str_add(&p->s, "%sdp rank %u", between, c->dp_ranks[i]);
    if (!c->n_workers && c->n_dp_ranks > NAMED) hm_str_add(&p->s, " and %zu more", c->n_dp_ranks - NAMED);
}

/* "in steps 9-23": from when to when, if not always; "backward-compute only": in what, if it is one type. */
static void list_times(struct page *p, const struct hm_cause *c) {
    enum { NAMED = 3 };
    if (c->n_op_types == 1 && c->n_workers) hm_str_add(&p->s, ", %s only", c->op_types[0]);
    for (size_t i = 0; i < c->n_step_ranges && i < NAMED; i++) {
        const struct hm_step_range *r = &c->step_ranges[i];
        hm_str_add(&p->s, "%s%" PRId64, i ? ", " : ", in steps ", r->first);
        if (r->last != r->first) hm_str_add(&p->s, "-%" PRId64, r->last);
    }
    if (c->n_step_ranges > NAMED) hm_str_add(&p->s, ", ... (%zu steps)", c->n_steps);
}

static void diagnosis(struct page *p, const struct hm_diagnosis *d) {
    enum { CAUSES = 3, FIXES = 3 };
    hm_str_add(&p->s, "\n%sVerdict%s    ", on(p, BOLD), on(p, OFF));
    hm_str_add(&p->s, "%s\n", d->summary);
    for (size_t i = 0; i < d->n_causes && i < CAUSES; i++) {
        const struct hm_cause *c = &d->causes[i];
        hm_str_add(&p->s, "%s", i ? "           " : "Causes     ");
        if (c->recovers < 0.02)
            hm_str_add(&p->s, "%-20s hidden behind the others", c->cause);
        else
            hm_str_add(&p->s, "%-20s wins back %3.0f %%", c->cause, 100 * c->recovers);
        if (strcmp(c->cause, "unexplained") != 0) hm_str_add(&p->s, ", confidence %.2f", c->confidence);
        list_places(p, c);
        if (strcmp(c->cause, "slow-worker") == 0 || strcmp(c->cause, "replica-imbalance") == 0) list_times(p, c);
        hm_str_add(&p->s, "\n");
    }
    for (size_t i = 0; i < d->n_fixes && i < FIXES; i++) {
        const struct hm_fix *f = &d->fixes[i];
        hm_str_add(&p->s, "%s%-20s %.2f times as fast: ", i ? "           " : "Fixes      ", f->fix, f->speedup);
        hm_str_add(&p->s, "%s\n", f->how);
    }
}

/* ---- where ---- */

struct entry {
    char name[32];
    double slowdown;
};

static int worst_first(const void *a, const void *b) {
    double x = ((const struct entry *)a)->slowdown, y = ((const struct entry *)b)->slowdown;
    return (x < y) - (x > y);
}

struct column {
    const char *title;
    struct entry *entry;
    size_t n, name_width;
    const char *style;
};

enum { MOST_BARS = 8 };

static void side_by_side(struct page *p, const struct column *columns, int n, size_t bars, double most) {
    if (bars > 24) bars = 24;
    hm_str_add(&p->s, "\n");
    for (int c = 0; c < n; c++) {
        hm_str_add(&p->s, "%s%-*s  S%s", on(p, BOLD), (int)columns[c].name_width, columns[c].title, on(p, OFF));
        if (c + 1 < n) pad(p, 5 + bars + 2);
    }
    for (size_t row = 0; row < MOST_BARS; row++) {
        bool any = false;
        for (int c = 0; c < n; c++) any |= row < columns[c].n;
        if (!any) break;
        hm_str_add(&p->s, "\n");
        for (int c = 0; c < n; c++) {
            if (row >= columns[c].n) {
                if (c + 1 < n) pad(p, columns[c].name_width + 8 + bars + 2);
                continue;
            }
            const struct entry *e = &columns[c].entry[row];
            hm_str_add(&p->s, "%-*s %6.3f ", (int)columns[c].name_width, e->name, e->slowdown);
            hm_str_add(&p->s, "%s", on(p, columns[c].style));
            bar(p, e->slowdown > 1 ? (e->slowdown - 1) / most : 0, bars);
            hm_str_add(&p->s, "%s%s", on(p, OFF), c + 1 < n ? "  " : "");
        }
    }
    hm_str_add(&p->s, "\n");
}

/* Op types, stages and DP ranks, side by side where there is room, the worst first; bars of excess time on one scale. */
static void attributions(struct page *p) {
    const struct hm_analysis *a = p->a;
    struct column columns[3] = {{"Op type", NULL, 0, 26, hm_styles[HM_STYLE_CYAN]},
                                {"Stage", NULL, 0, 6, hm_styles[HM_STYLE_MAGENTA]},
                                {"DP rank", NULL, 0, 7, hm_styles[HM_STYLE_BLUE]}};
    size_t counts[3] = {a->n_families, a->pp, a->dp};
    double most = 1e-9;
    bool good = true;
    for (int c = 0; c < 3; c++) {
        columns[c].entry = hm_alloc(counts[c] + 1, sizeof(struct entry));
        good = good && columns[c].entry;
        for (size_t i = 0; good && i < counts[c]; i++) {
            struct entry *e = &columns[c].entry[columns[c].n];
            e->slowdown = c == 0 ? a->by_op_type[i].slowdown : c == 1 ? a->by_stage[i] : a->by_dp_rank[i];
            if (isnan(e->slowdown)) continue;
            if (c == 0)
                (void)snprintf(e->name, sizeof e->name, "%.26s", a->by_op_type[i].name);
            else
                (void)snprintf(e->name, sizeof e->name, "%zu", i);
            if (e->slowdown - 1 > most) most = e->slowdown - 1;
            columns[c].n++;
        }
        if (good) qsort(columns[c].entry, columns[c].n, sizeof(struct entry), worst_first);
    }
    enum {
        GAP = 2,
        FIGURE = 8,
        ALL = 26 + 6 + 7 + 3 * FIGURE + 2 * GAP
    }; /* columns that three tables take without bars */
    if (good && p->width >= ALL) {
        side_by_side(p, columns, 3, (p->width - ALL) / 3, most);
    } else if (good) {
        side_by_side(p, columns, 1, p->width - 26 - FIGURE, most);
        side_by_side(p, columns + 1, 2, (p->width - 6 - 7 - 2 * FIGURE - GAP) / 2, most);
    }
    for (int c = 0; c < 3; c++) hm_free(columns[c].entry);
    p->s.failed |= !good;
}

/* The largest slowdown among stages s0..s1-1 and DP ranks d0..d1-1. */
static double worst_in(const struct hm_analysis *a, size_t s0, size_t s1, size_t d0, size_t d1) {
    double worst = NAN;
    for (size_t s = s0; s < s1; s++)
        for (size_t d = d0; d < d1; d++) {
            double x = a->by_worker[s * a->dp + d];
            if (isnan(worst) || x > worst) worst = x;
        }
    return worst;
}

/* Rows stages, columns DP ranks. Few ranks show numbers; many show shades, and when they do not fit, a cell stands for
 * several. */
static void heatmap(struct page *p) {
    const struct hm_analysis *a = p->a;
    enum { MOST_ROWS = 16 };
    size_t room = p->width - 8;
    bool numbers = a->dp * 5 <= room;
    size_t cell = numbers ? 5 : 1, columns = room / cell, per_column = (a->dp + columns - 1) / columns,
           per_row = (a->pp + MOST_ROWS - 1) / MOST_ROWS;
    hm_str_add(&p->s, "\n%sWorkers%s  S of each alone: rows stages, columns DP ranks", on(p, BOLD), on(p, OFF));
    if (!numbers && !p->color) hm_str_add(&p->s, "; .:-=+*#%%@ from 1.0 to 1.5");
    if (per_column > 1 || per_row > 1)
        hm_str_add(&p->s, "; a cell is the worst of %zu x %zu workers", per_row, per_column);
    hm_str_add(&p->s, "\n");
    if (numbers) {
        pad(p, 7);
        for (size_t d = 0; d < a->dp; d++) hm_str_add(&p->s, "%5zu", d);
        hm_str_add(&p->s, "\n");
    }
    for (size_t s = 0; s < a->pp; s += per_row) {
        hm_str_add(&p->s, "%6zu ", s);
        for (size_t d = 0; d < a->dp; d += per_column) {
            double x = worst_in(a, s, s + per_row < a->pp ? s + per_row : a->pp, d,
                                d + per_column < a->dp ? d + per_column : a->dp);
            if (p->color)
                hm_str_add(&p->s, "\033[48;5;%dm\033[38;5;%dm", isnan(x) ? 232 : heat(x), scale(x) > 0.3 ? 16 : 252);
            if (numbers && isnan(x))
                hm_str_add(&p->s, "    -");
            else if (numbers)
                hm_str_add(&p->s, " %.2f", x);
            else
                hm_str_add(&p->s, "%c", p->color ? ' ' : isnan(x) ? ' ' : shade(x));
        }
        hm_str_add(&p->s, "%s\n", on(p, OFF));
    }
}

struct ranked {
    double slowdown;
    size_t stage, dp;
};

/* Of a smaller loss the artefact gives no shares either: they would be shares of noise. */
static const double least_shared = 1.03;

static void worst_workers(struct page *p) {
    const struct hm_analysis *a = p->a;
    enum { SHOWN = 5 };
    struct ranked worst[SHOWN];
    size_t n = 0;
    for (size_t s = 0; s < a->pp; s++)
        for (size_t d = 0; d < a->dp; d++) {
            struct ranked r = {a->by_worker[s * a->dp + d], s, d};
            if (isnan(r.slowdown)) continue;
            size_t k = n < SHOWN ? n++ : SHOWN;
            for (; k > 0 && worst[k - 1].slowdown < r.slowdown; k--)
                if (k < SHOWN) worst[k] = worst[k - 1];
            if (k < SHOWN) worst[k] = r;
        }
    hm_str_add(&p->s, "\n%sWorst%s      ", on(p, BOLD), on(p, OFF));
    for (size_t i = 0; i < n; i++)
        hm_str_add(&p->s, "%sstage %zu dp %zu: %.3f", i ? ", " : "", worst[i].stage, worst[i].dp, worst[i].slowdown);
    hm_str_add(&p->s, "\n");
    if (!(a->slowdown >= least_shared)) return;
    double last = fabs(a->last_stage_share.value) < 0.005 ? 0 : a->last_stage_share.value; /* no -0 */
    hm_str_add(&p->s, "M_W %5.2f  the slowest 3 %% of workers (%zu) explain %.0f %% of the loss%s\n",
               a->worker_share.value, a->n_share_workers, 100 * a->worker_share.value,
               a->worker_share.value > 0.5 ? ": single workers" : "");
    if (a->pp > 1)
        hm_str_add(&p->s, "M_S %5.2f  the last stage explains %.0f %% of the loss%s\n", last, 100 * last,
                   a->last_stage_share.value >= 0.5 ? ": it is too heavy, or varies" : "");
}

/* Step slowdowns as a line of small bars; several steps share one when there are many (the worst shows). */
static void sparkline(struct page *p) {
    const struct hm_analysis *a = p->a;
    static const char *const block[] = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char plain[] = "_.-:=+*#";
    double low = INFINITY, high = -INFINITY;
    size_t worst = 0, room = p->width - 12, each = (a->n_steps + room - 1) / room;
    for (size_t i = 0; i < a->n_steps; i++) {
        double x = a->steps[i].slowdown;
        low = fmin(low, x);
        high = fmax(high, x);
        if (x > a->steps[worst].slowdown) worst = i;
    }
    hm_str_add(&p->s, "\n%sSteps%s      ", on(p, BOLD), on(p, OFF));
    for (size_t i = 0; i < a->n_steps; i += each) {
        double x = -INFINITY;
        for (size_t k = i; k < i + each && k < a->n_steps; k++) x = fmax(x, a->steps[k].slowdown);
        int level = high > low ? (int)((x - low) / (high - low) * 7 + 0.5) : 0;
        if (p->color)
            hm_str_add(&p->s, "%s", block[level]);
        else
            hm_str_bytes(&p->s, plain + level, 1);
    }
    hm_str_add(&p->s, "\n           slowdown %.3f to %.3f; worst: step %" PRId64 " with %.3f\n", low, high,
               a->steps[worst].step, a->steps[worst].slowdown);
}

static void dropped(struct page *p) {
    const struct hm_analysis *a = p->a;
    if (!a->n_dropped) return;
    hm_str_add(&p->s, "\n%sLeft out%s\n", on(p, BOLD), on(p, OFF));
    enum { SHOWN = 10 };
    for (size_t i = 0; i < a->n_dropped && i < SHOWN; i++)
        hm_str_add(&p->s, "  %zu %s: %s\n", a->dropped[i].count, a->dropped[i].what, a->dropped[i].why);
    if (a->n_dropped > SHOWN)
        hm_str_add(&p->s, "  and %zu more entries (see job.dropped in the JSON)\n", a->n_dropped - SHOWN);
}

char *hm_analysis_text(const struct hm_analysis *a, const struct hm_diagnosis *d,
                       const struct hm_text_options *options) {
    struct page p = {.a = a,
                     .color = options && options->color,
                     .width = options && options->width > 0 ? (size_t)options->width : 80};
    p.s.people = true; /* names in a recording are other people's bytes */
    if (p.width < 40) p.width = 40;
    if (p.width > 200) p.width = 200;
    headline(&p);
    if (d) diagnosis(&p, d);
    attributions(&p);
    heatmap(&p);
    worst_workers(&p);
    sparkline(&p);
    dropped(&p);
    hm_str_fold(&p.s, p.width, 11);
    if (!p.s.failed && p.s.text) return p.s.text;
    hm_str_free(&p.s);
    return NULL;
}

void hm_text_free(char *text) {
    hm_free(text);
}
