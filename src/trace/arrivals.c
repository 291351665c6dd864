/* arrivals.c - who came last to each collective, and who waited how long for it. */
#include "arrivals.h"

#include "readers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The result and what it refers to. */
struct arrivals {
    struct hm_arrivals a; /* first: what the caller sees */
    struct hm_meeting m;
    struct hm_arrival *collective;
    struct hm_arrival_rank *rank;
    struct hm_arrival_dropped *dropped;
    char **cannot_tell, *name, *summary;
    size_t dropped_capacity, cannot_capacity;
};

static int cannot_tell(struct arrivals *x, char *why) {
    char **grown = why ? hm_grow(x->cannot_tell, x->a.n_cannot_tell, &x->cannot_capacity, sizeof *grown) : NULL;
    if (!grown) {
        hm_free(why);
        return -1;
    }
    x->cannot_tell = grown;
    x->cannot_tell[x->a.n_cannot_tell++] = why;
    return 0;
}

static int drop(struct arrivals *x, const char *what, size_t count, const char *why) {
    if (count == 0) return 0;
    struct hm_arrival_dropped *grown = hm_grow(x->dropped, x->a.n_dropped, &x->dropped_capacity, sizeof *grown);
    if (!grown) return -1;
    x->dropped = grown;
    x->dropped[x->a.n_dropped++] = (struct hm_arrival_dropped){what, why, count};
    return 0;
}

/* ---- reading ---- */

struct file {
    struct hm_kineto_rank *ranks;
    size_t n;
    int status;
    struct hm_error err;
};

struct reading {
    const struct hm_inputs *in;
    struct file *file;
};

static void read_file(void *context, size_t index, int thread) {
    struct reading *r = context;
    struct file *f = &r->file[index];
    (void)thread;
    f->status = hm_kineto_read(&r->in->file[index], &f->ranks, &f->n, &f->err);
}

static int by_rank(const void *a, const void *b) {
    const struct hm_kineto_rank *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : strverscmp(x->path, y->path);
}

/* All files' ranks in one list; of the first file that cannot be read, the reason. */
static int gather(struct arrivals *x, struct file *file, size_t files, struct hm_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < files; i++) {
        if (file[i].status != 0) {
            if (err) *err = file[i].err;
            return -1;
        }
        n += file[i].n;
    }
    if (!(x->m.rank = hm_alloc(n, sizeof *x->m.rank))) return hm_fail_memory(err);
    for (size_t i = 0; i < files; i++) {
        if (file[i].n) memcpy(x->m.rank + x->m.n_ranks, file[i].ranks, file[i].n * sizeof *x->m.rank);
        x->m.n_ranks += file[i].n;
        hm_free(file[i].ranks); /* what the elements hold has moved */
        file[i] = (struct file){0};
    }
    return 0;
}

static int read_files(struct arrivals *x, const struct hm_inputs *in, int threads, struct hm_error *err) {
    struct reading r = {in, hm_alloc(in->n, sizeof(struct file))};
    if (!r.file) return hm_fail_memory(err);
    hm_parallel(in->n, threads, read_file, &r);
    int status = gather(x, r.file, in->n, err);
    for (size_t i = 0; i < in->n; i++) hm_kineto_free(r.file[i].ranks, r.file[i].n);
    hm_free(r.file);
    return status;
}

/* Ranks by number; where none says which it is, the files' order stands for it. */
static int number_ranks(struct arrivals *x, struct hm_error *err) {
    struct hm_meeting *m = &x->m;
    size_t unknown = 0, cut = 0, infer = 0;
    for (size_t r = 0; r < m->n_ranks; r++) unknown += m->rank[r].rank < 0;
    if (unknown && unknown < m->n_ranks)
        for (size_t r = 0; r < m->n_ranks; r++)
            if (m->rank[r].rank < 0)
                return hm_fail(err, HM_ERR_INPUT,
                               "%s: does not say which rank it is, and others do; put rank and number into its name",
                               m->rank[r].path);
    qsort(m->rank, m->n_ranks, sizeof *m->rank, by_rank);
    for (size_t r = 0; r < m->n_ranks; r++) {
        struct hm_kineto_rank *k = &m->rank[r];
        if (unknown) k->rank = (int64_t)r;
        if (r && k->rank == m->rank[r - 1].rank)
            return hm_fail(err, HM_ERR_INPUT, "%s: is of rank %" PRId64 ", and so is %s; give one recording a rank",
                           k->path, k->rank, m->rank[r - 1].path);
        if (k->world > x->a.world) x->a.world = k->world;
        cut += k->cut;
        infer += k->steps_inferred;
    }
    int status = 0;
    if (unknown && m->n_ranks > 1)
        status |=
            cannot_tell(x, hm_strdup("the files do not say which rank they are: they are numbered in their order"));
    if (infer)
        status |=
            cannot_tell(x, hm_strdup("steps are not marked (prof.step()): they are taken to end with the optimizer's"));
    if (x->a.world > (int64_t)m->n_ranks)
        status |= cannot_tell(x, hm_sprintf("%" PRId64 " of %" PRId64
                                            " ranks are not recorded: who is last is so among those recorded",
                                            x->a.world - (int64_t)m->n_ranks, x->a.world));
    status |= drop(x, "ends of files", cut, "written only in part: used as far as they go");
    return status == 0 ? 0 : hm_fail_memory(err);
}

/* ---- measuring ---- */

struct measure {
    struct arrivals *x;
    double *value;     /* room for the members of a collective */
    double *step_late; /* [rank] in the step under way */
    double *ahead;     /* [rank] at its collective before: how much later than all others it came; else 0 */
};

static int by_step_group(const void *a, const void *b) {
    const struct hm_matched *x = a, *y = b;
    if (x->step != y->step) return (x->step > y->step) - (x->step < y->step);
    if (x->group != y->group) return (x->group > y->group) - (x->group < y->group);
    return (x->first > y->first) - (x->first < y->first);
}

/* Lateness against the middle of the members, which one late rank does not move; less what the rank was late already at the collective
 * before, if nobody waited in between (asynchronous buckets): one delay is counted once. */
static double own_lateness(const struct hm_member *member, double middle, bool carries, const double *before) {
    double behind = member->launch_s - middle, carried = carries && before[member->rank] > 0 ? before[member->rank] : 0;
    return behind > carried ? behind - carried : 0;
}

static void measure_one(struct measure *w, const struct hm_matched *c, struct hm_arrival *a, double *before) {
    struct hm_meeting *m = &w->x->m;
    struct hm_member *member = m->member + c->first, *last = member;
    double first = INFINITY, second = -INFINITY;
    size_t flying = 0; /* members that came while their collective before was under way: they had not waited for it */
    for (size_t i = 0; i < c->n; i++) {
        flying += member[i].flying;
        w->value[i] = member[i].launch_s;
        if (member[i].launch_s > last->launch_s) last = &member[i];
        if (member[i].launch_s < first) first = member[i].launch_s;
    }
    for (size_t i = 0; i < c->n; i++)
        if (&member[i] != last && member[i].launch_s > second) second = member[i].launch_s;
    double middle = hm_median(w->value, c->n), ahead = last->launch_s - second;
    bool carries = 2 * flying >= c->n;
    double new = ahead - (carries ? w->ahead[last->rank] : 0); /* like lateness, but against the latest of the others */
    if (new > 0) w->x->rank[last->rank].gain_s += new;
    for (size_t i = 0; i < c->n; i++) {
        w->ahead[member[i].rank] = &member[i] == last ? ahead : 0;
        struct hm_arrival_rank *r = &w->x->rank[member[i].rank];
        r->wait_s += last->launch_s - member[i].launch_s;
        w->value[i] = member[i].end_s - last->launch_s;
        double late = own_lateness(&member[i], middle, carries, before);
        before[member[i].rank] = member[i].launch_s - middle;
        if (&member[i] != last) continue;
        r->last++;
        r->late_s += late;
        w->step_late[member[i].rank] += late;
    }
    *a = (struct hm_arrival){c->step,
                             c->seq,
                             m->name[c->group],
                             m->name[c->name],
                             c->n,
                             m->rank[last->rank].rank,
                             last->launch_s - first,
                             hm_median(w->value, c->n),
                             last->launch_s - second > m->uncertainty_s};
}

/* Whose lateness was the largest in the step just measured. */
static void close_step(struct measure *w) {
    size_t n = w->x->m.n_ranks, worst = 0;
    for (size_t r = 1; r < n; r++)
        if (w->step_late[r] > w->step_late[worst]) worst = r;
    if (w->step_late[worst] > w->x->m.uncertainty_s) w->x->rank[worst].late_steps++;
    memset(w->step_late, 0, n * sizeof *w->step_late);
    w->x->a.n_steps++;
}

static int measure(struct arrivals *x, struct hm_error *err) {
    struct hm_meeting *m = &x->m;
    struct measure w = {x, hm_alloc(m->n_ranks + 1, sizeof(double)), hm_alloc(m->n_ranks, sizeof(double)),
                        hm_alloc(m->n_ranks, sizeof(double))};
    double *before = hm_alloc(m->n_ranks, sizeof *before);
    x->collective = hm_alloc(m->n_matched + 1, sizeof *x->collective);
    x->rank = hm_alloc(m->n_ranks, sizeof *x->rank);
    bool good = w.value && w.step_late && w.ahead && before && x->collective && x->rank;
    for (size_t r = 0; good && r < m->n_ranks; r++)
        x->rank[r] = (struct hm_arrival_rank){.rank = m->rank[r].rank,
                                              .file = m->rank[r].path,
                                              .host = m->rank[r].host,
                                              .clock_offset_s = m->offset_s[r],
                                              .clock_drift = m->drift[r]};
    for (size_t r = 0; good && r < m->n_ranks; r++) memcpy(x->rank[r].phase, m->rank[r].phase, sizeof x->rank[r].phase);
    if (good && m->n_matched) qsort(m->matched, m->n_matched, sizeof *m->matched, by_step_group);
    for (size_t c = 0; good && c < m->n_matched; c++) {
        if (c && m->matched[c].step != m->matched[c - 1].step) close_step(&w);
        measure_one(&w, &m->matched[c], &x->collective[x->a.n_collectives++], before);
    }
    if (good && m->n_matched) close_step(&w);
    for (size_t r = 0; good && x->a.n_steps && r < m->n_ranks; r++) {
        x->rank[r].late_s /= (double)x->a.n_steps;
        x->rank[r].wait_s /= (double)x->a.n_steps;
        x->rank[r].gain_s /= (double)x->a.n_steps;
    }
    hm_free(w.value);
    hm_free(w.step_late);
    hm_free(w.ahead);
    hm_free(before);
    return good ? 0 : hm_fail_memory(err);
}

/* Mean length of a step, from the first rank that has several; of one, its length. Where steps are inferred, nobody knows when the first
 * began. */
static double step_length(const struct hm_meeting *m) {
    for (size_t r = 0; r < m->n_ranks; r++) {
        const struct hm_kineto_rank *k = &m->rank[r];
        if (k->n_steps > 1 && k->steps_inferred)
            return 1e-9 * (double)(k->step[k->n_steps - 1].end_ns - k->step[0].end_ns) / (double)(k->n_steps - 1);
        if (k->n_steps > 0)
            return 1e-9 * (double)(k->step[k->n_steps - 1].end_ns - k->step[0].start_ns) / (double)k->n_steps;
    }
    return NAN;
}

/* ---- the verdict ---- */

/* P(at least k of n) when each is so with probability p. */
static double tail(size_t k, size_t n, double p) {
    double sum = 0;
    for (size_t i = k; i <= n; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) + (double)i * log(p) +
                   (double)(n - i) * log1p(-p));
    return sum;
}

/* Named for persistence before size: worst in so many steps that chance among equals would do it once in a thousand jobs. */
enum { STEPS_TO_TELL = 5 };
static const double chance = 1e-3, least_share = 0.01;
/* Ends that are further apart than this share of a step are not those of one collective. */
static const double ends_apart = 0.05;

/* Seconds a step that a rank is longer in a phase than half of the others; 0 where that is not recorded. */
static double longer(const struct arrivals *x, const struct hm_arrival_rank *of, int phase, double *scratch) {
    size_t n = 0;
    for (size_t r = 0; r < x->m.n_ranks; r++)
        if (&x->rank[r] != of && !isnan(x->rank[r].phase[phase].mean_s)) scratch[n++] = x->rank[r].phase[phase].mean_s;
    double more = n ? of->phase[phase].mean_s - hm_median(scratch, n) : 0;
    return more > 0 ? more : 0;
}

/* What its recording shows of why a rank is late: a phase, or several, that are longer than its peers' by half of the lateness at least.
 * It is the last, so nothing of that is waiting. And what it would bring if it were not. */
static int explain(struct arrivals *x, const struct hm_arrival_rank *late, struct hm_error *err) {
    double *scratch = hm_alloc(x->m.n_ranks, sizeof *scratch), work = 0, step_s = x->a.step_s;
    struct hm_str s = {0};
    if (!scratch) return hm_fail_memory(err);
    double data = longer(x, late, HM_PHASE_DATA, scratch);
    for (int p = 0; p < HM_PHASES; p++)
        if (p != HM_PHASE_DATA) work += longer(x, late, p, scratch);
    hm_free(scratch);
    hm_str_add(&s, "%s", x->summary);
    if (data >= late->late_s / 2) {
        x->a.cause = "data-loading";
        hm_str_add(&s, " It loads data %.3g ms a step longer than its peers.", 1e3 * data);
    } else if (work >= late->late_s / 2) {
        x->a.cause = "slow-worker";
        hm_str_add(&s, " It works %.3g ms a step longer than its peers.", 1e3 * work);
    }
    if (late->gain_s < step_s) { /* not if step_s is NaN */
        x->a.speedup = step_s / (step_s - late->gain_s);
        hm_str_add(&s, " Were it like them, a step would take %.4g ms: %.2f x faster.", 1e3 * (step_s - late->gain_s),
                   x->a.speedup);
    }
    if (s.failed) {
        hm_str_free(&s);
        return hm_fail_memory(err);
    }
    hm_free(x->summary);
    x->summary = s.text;
    return 0;
}

static int judge(struct arrivals *x, struct hm_error *err) {
    struct hm_arrivals *a = &x->a;
    const struct hm_arrival_rank *worst = x->rank; /* there is one: a file without a trace is an error */
    a->late_rank = -1;
    a->speedup = NAN;
    for (size_t r = 1; r < x->m.n_ranks; r++)
        if (x->rank[r].late_s > worst->late_s) worst = &x->rank[r];
    int status = 0;
    if (a->n_collectives == 0) {
        x->summary = hm_strdup(x->m.n_ranks < 2 ? "Only one rank is recorded: nobody can be compared with it."
                                                : "No collective was found that two of the ranks took part in.");
        return x->summary ? 0 : hm_fail_memory(err);
    }
    double share = worst->late_s / a->step_s;
    bool apart = a->clock_uncertainty_s > ends_apart * a->step_s;
    if (apart) {
        x->summary = hm_strdup(
            "Who is late cannot be told: what seem to be the same collectives end at different times on their ranks.");
        status = cannot_tell(
            x, hm_sprintf("ends of collectives are %.3g ms apart: their groups are not recorded, and guessed wrongly",
                          1e3 * a->clock_uncertainty_s));
    } else if (a->n_steps < STEPS_TO_TELL) {
        status = cannot_tell(x, hm_sprintf("%zu step%s: too few to tell who is late usually; record %d or more",
                                           a->n_steps, a->n_steps == 1 ? "" : "s", STEPS_TO_TELL));
        x->summary = hm_sprintf("In %s recorded, rank %" PRId64
                                " came last most: to %zu of %zu collectives, %.3g ms late in all.",
                                a->n_steps == 1 ? "the one step" : "the few steps", worst->rank, worst->last,
                                a->n_collectives, 1e3 * worst->late_s * (double)a->n_steps);
    } else if (tail(worst->late_steps, a->n_steps, 1.0 / (double)x->m.n_ranks) < chance && !(share < least_share)) {
        a->late_rank = worst->rank;
        x->summary = hm_sprintf(
            "Rank %" PRId64 " is late: last in %zu of %zu collectives, worst in %zu of %zu steps; %.3g ms a step%s.",
            worst->rank, worst->last, a->n_collectives, worst->late_steps, a->n_steps, 1e3 * worst->late_s,
            isnan(share) ? "" : ", so long the others wait for it");
        if (x->summary && explain(x, worst, err) != 0) return -1;
    } else {
        x->summary = hm_sprintf("Nobody is late usually: the latest, rank %" PRId64
                                ", in %zu of %zu steps, by %.3g ms a step on average.",
                                worst->rank, worst->late_steps, a->n_steps, 1e3 * worst->late_s);
    }
    status |= cannot_tell(x, hm_strdup("the slowdown S: profiler traces are not replayed yet"));
    return x->summary && status == 0 ? 0 : hm_fail_memory(err);
}

/* ---- all together ---- */

static int examine(struct arrivals *x, const struct hm_inputs *in, int threads, struct hm_error *err) {
    struct hm_arrivals *a = &x->a;
    if (!(x->name = hm_strdup(in->name))) return hm_fail_memory(err);
    if (read_files(x, in, threads, err) != 0 || number_ranks(x, err) != 0) return -1;
    if (hm_meeting_match(&x->m, err) != 0 || hm_meeting_align(&x->m, err) != 0 || measure(x, err) != 0) return -1;
    size_t p2p = 0, apart = 0;
    for (size_t r = 0; r < x->m.n_ranks; r++) {
        p2p += x->m.rank[r].point_to_point;
        apart += isnan(x->m.offset_s[r]) ? 1u : 0u;
    }
    a->step_s = step_length(&x->m);
    if (a->n_collectives == 0) a->n_steps = x->m.rank[0].n_steps; /* those that phases are of */
    a->clock_uncertainty_s = x->m.uncertainty_s;
    if (drop(x, "files", in->passed, "of no known format, or empty: passed over") != 0 ||
        drop(x, "collectives", x->m.unmatched, "peers ran others in that step, or are not recorded") != 0 ||
        drop(x, "collectives", x->m.outside, "before the first recorded step") != 0 ||
        drop(x, "transfers", p2p, "sends and receives: no arrivals of several") != 0 ||
        drop(x, "ranks", x->m.n_ranks > 1 ? apart : 0, "share no collective with the others") != 0)
        return hm_fail_memory(err);
    if (judge(x, err) != 0) return -1;
    a->name = x->name;
    a->n_ranks = x->m.n_ranks;
    a->rank = x->rank;
    a->collective = x->collective;
    a->dropped = x->dropped;
    a->summary = x->summary;
    a->cannot_tell = (const char *const *)x->cannot_tell;
    return 0;
}

/* A stream can be read once only, by whom it is for. */
static bool any_stream(const char *const *paths, size_t n) {
    struct stat st;
    for (size_t i = 0; i < n; i++)
        if (strcmp(paths[i], "-") == 0 || (stat(paths[i], &st) == 0 && S_ISFIFO(st.st_mode))) return true;
    return false;
}

struct hm_arrivals *hm_arrivals_read(const char *const *paths, size_t n, const char *format, int threads, bool *other,
                                     struct hm_error *err) {
    struct hm_inputs in = {0};
    struct arrivals *x = NULL;
    if (other) *other = any_stream(paths, n);
    if (other && *other) return NULL;
    int status = hm_inputs_find(&in, paths, n, err);
    const struct hm_reader *reader = status == 0 ? hm_reader_choose(&in, format, err) : NULL;
    if (reader && !reader->profiler) {
        if (other)
            *other = true;
        else
            hm_fail(err, HM_ERR_INPUT, "%s: is %s, not profiler traces; see hm_trace_open_files", in.name,
                    reader->what);
    } else if (reader && !(x = hm_alloc(1, sizeof *x))) {
        hm_fail_memory(err);
    } else if (reader && examine(x, &in, threads, err) != 0) {
        hm_arrivals_free(&x->a);
        x = NULL;
    }
    hm_inputs_free(&in);
    return x ? &x->a : NULL;
}

const char *hm_arrival_phase_name(int phase) {
    static const char *const names[HM_PHASES] = {"data loading", "forward", "backward", "optimizer"};
    return phase >= 0 && phase < HM_PHASES ? names[phase] : "";
}

void hm_arrivals_free(struct hm_arrivals *a) {
    struct arrivals *x = (struct arrivals *)a;
    if (!x) return;
    for (size_t i = 0; i < a->n_cannot_tell; i++) hm_free(x->cannot_tell[i]);
    for (size_t i = 0; i < x->m.n_names; i++) hm_free(x->m.name[i]);
    hm_kineto_free(x->m.rank, x->m.n_ranks);
    hm_free(x->m.name);
    hm_free(x->m.matched);
    hm_free(x->m.member);
    hm_free(x->m.offset_s);
    hm_free(x->m.drift);
    hm_free(x->collective);
    hm_free(x->rank);
    hm_free(x->dropped);
    hm_free(x->cannot_tell);
    hm_free(x->name);
    hm_free(x->summary);
    hm_free(x);
}
