/* clocks.c - one clock for all ranks, by the ends of their collectives.
 *
 * All members leave a collective together, whenever they came: the differences of its recorded ends are those of the clocks, and noise.
 * A rank's offset is the median of its differences to the common end; ends that were recorded late do not move it. Drift is fitted only
 * where the recording is long enough to tell it from that noise: the medians of its first and last third must differ by more than four
 * standard errors. The uncertainty is what is left: the 90 % quantile of the differences after all corrections. */
#include "arrivals.h"

#include <math.h>
#include <string.h>

enum { FOR_DRIFT = 48 }; /* collectives of a rank */

/* Differences of one rank, with the time of each. */
struct series {
    double *at, *difference;
    size_t n;
};

struct work {
    double *value, *scratch; /* room for as many as a rank, or a collective, has members */
    struct series s;
};

static double corrected(const struct hm_meeting *m, uint32_t rank, double at_s) {
    return at_s - m->offset_s[rank] - m->drift[rank] * (at_s - m->offset_s[rank] - m->middle_s);
}

/* The common end: the median of the members' ends whose clocks are known; NaN without any. Reorders w->value. */
static double common_end(const struct hm_meeting *m, const struct hm_matched *c, double *value) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct hm_member *x = &m->member[c->first + i];
        if (!isnan(m->offset_s[x->rank])) value[n++] = corrected(m, x->rank, x->end_s);
    }
    return hm_median(value, n);
}

/* The members of one rank, found once: [first[rank] .. first[rank + 1]) of index, as (collective, member). */
struct index {
    size_t *first;
    struct {
        size_t matched, member;
    } * at;
};

static int make_index(const struct hm_meeting *m, struct index *x, struct hm_error *err) {
    x->first = hm_alloc(m->n_ranks + 2, sizeof *x->first);
    x->at = hm_alloc(m->n_members + 1, sizeof *x->at);
    if (!x->first || !x->at) return hm_fail_memory(err);
    for (size_t i = 0; i < m->n_members; i++) x->first[m->member[i].rank + 2]++;
    for (size_t r = 2; r < m->n_ranks + 2; r++) x->first[r] += x->first[r - 1];
    for (size_t c = 0; c < m->n_matched; c++)
        for (size_t i = 0; i < m->matched[c].n; i++) {
            size_t member = m->matched[c].first + i, *next = &x->first[m->member[member].rank + 1];
            x->at[*next].matched = c;
            x->at[(*next)++].member = member;
        }
    return 0;
}

/* How a rank's recorded ends differ from the common ones. */
static void differences(const struct hm_meeting *m, const struct index *x, uint32_t rank, const double *common,
                        struct series *s) {
    s->n = 0;
    for (size_t k = x->first[rank]; k < x->first[rank + 1]; k++) {
        double end = common[x->at[k].matched];
        if (isnan(end)) continue;
        s->at[s->n] = end;
        s->difference[s->n++] = m->member[x->at[k].member].end_s - end;
    }
}

static double median_of(const double *from, size_t n, double *scratch) {
    memcpy(scratch, from, n * sizeof *scratch);
    return hm_median(scratch, n);
}

/* Seconds a second by which the differences grow; 0 if that cannot be told from noise. */
static double drift_of(const struct series *s, double *scratch) {
    size_t third = s->n / 3;
    if (s->n < FOR_DRIFT) return 0;
    double low = median_of(s->difference, third, scratch),
           high = median_of(s->difference + s->n - third, third, scratch);
    double span = median_of(s->at + s->n - third, third, scratch) - median_of(s->at, third, scratch);
    memcpy(scratch, s->difference, third * sizeof *scratch);
    double noise = hm_mad(scratch, third, low);
    memcpy(scratch, s->difference + s->n - third, third * sizeof *scratch);
    double other = hm_mad(scratch, third, high);
    if (other > noise) noise = other;
    /* of a median of n normal values: 1.2533 sigma / sqrt(n), sigma = 1.4826 MAD; of a difference of two: sqrt(2) as much */
    double error = 1.2533 * 1.4826 * noise * sqrt(2.0 / (double)third);
    return span > 0 && fabs(high - low) > 4 * error ? (high - low) / span : 0;
}

static void set_clock(struct hm_meeting *m, uint32_t rank, const struct series *s, double *scratch) {
    double drift = drift_of(s, scratch);
    for (size_t i = 0; i < s->n; i++) scratch[i] = s->difference[i] - drift * (s->at[i] - m->middle_s);
    m->offset_s[rank] = hm_median(scratch, s->n);
    m->drift[rank] = drift;
}

static void common_ends(const struct hm_meeting *m, double *common, double *value) {
    for (size_t c = 0; c < m->n_matched; c++) common[c] = common_end(m, &m->matched[c], value);
}

/* From one rank on, to all that share collectives with those known, and so on; then twice more with all together. */
static void spread(struct hm_meeting *m, const struct index *x, double *common, struct work *w) {
    size_t most = 0;
    for (uint32_t r = 1; r < m->n_ranks; r++)
        if (x->first[r + 1] - x->first[r] > x->first[most + 1] - x->first[most]) most = r;
    m->offset_s[most] = 0;
    for (bool more = true; more;) {
        more = false;
        common_ends(m, common, w->value);
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            if (!isnan(m->offset_s[r])) continue;
            differences(m, x, r, common, &w->s);
            if (w->s.n == 0) continue;
            m->offset_s[r] = median_of(w->s.difference, w->s.n, w->scratch);
            more = true;
        }
    }
    for (int round = 0; round < 2; round++) {
        common_ends(m, common, w->value);
        for (uint32_t r = 0; r < m->n_ranks; r++) {
            differences(m, x, r, common, &w->s);
            if (w->s.n) set_clock(m, r, &w->s, w->scratch);
        }
    }
}

/* All times onto the common clock, and what is left of the differences. */
static void correct(struct hm_meeting *m, double *common, struct work *w, double *left) {
    size_t n = 0;
    common_ends(m, common, w->value);
    for (size_t c = 0; c < m->n_matched; c++)
        for (size_t i = 0; i < m->matched[c].n; i++) {
            struct hm_member *x = &m->member[m->matched[c].first + i];
            if (isnan(m->offset_s[x->rank])) continue;
            x->launch_s = corrected(m, x->rank, x->launch_s);
            x->end_s = corrected(m, x->rank, x->end_s);
            left[n++] = fabs(x->end_s - common[c]);
        }
    m->uncertainty_s = n ? hm_quantile(left, n, 0.9) : NAN;
}

int hm_meeting_align(struct hm_meeting *m, struct hm_error *err) {
    struct index x = {0};
    struct work w = {0};
    size_t room = m->n_members + m->n_ranks + 1;
    double *common = hm_alloc(m->n_matched + 1, sizeof *common), *left = hm_alloc(room, sizeof *left);
    m->offset_s = hm_alloc(m->n_ranks, sizeof *m->offset_s);
    m->drift = hm_alloc(m->n_ranks, sizeof *m->drift);
    w.value = hm_alloc(room, sizeof(double));
    w.scratch = hm_alloc(room, sizeof(double));
    w.s.at = hm_alloc(room, sizeof(double));
    w.s.difference = hm_alloc(room, sizeof(double));
    bool good = common && left && m->offset_s && m->drift && w.value && w.scratch && w.s.at && w.s.difference;
    int status = good ? make_index(m, &x, err) : hm_fail_memory(err);
    for (size_t r = 0; good && r < m->n_ranks; r++) m->offset_s[r] = NAN;
    m->uncertainty_s = NAN;
    if (status == 0 && m->n_matched) {
        double last = 0;
        for (size_t i = 0; i < m->n_members; i++)
            if (m->member[i].rank == m->member[0].rank && m->member[i].end_s > last) last = m->member[i].end_s;
        m->middle_s = last / 2;
        spread(m, &x, common, &w);
        correct(m, common, &w, left);
    }
    hm_free(x.first);
    hm_free(x.at);
    hm_free(common);
    hm_free(left);
    hm_free(w.value);
    hm_free(w.scratch);
    hm_free(w.s.at);
    hm_free(w.s.difference);
    return status;
}
