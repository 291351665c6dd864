/* judge.c - is it hung, and who is suspect: what graph.c found, weighed and put into words.
 *
 * One snapshot cannot tell a rank that is late from one that never comes. Dumps are written when a time limit has passed, so
 * an absent rank counts as hung, unless completed collectives show that it usually is late by as much as has been seen now
 * (three times; C4 and MegaScale wait for 3 to 5 times the usual). */
#include "graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The watchdog looks ten times a second: an entry or two may be done and not yet seen so. */
enum { FEW_OPEN = 3, MOST_REASONS = 4, MOST_LISTED = 8 };
static const double USUAL_TIMES = 3, ALONE_SCORE = 0.1, MISMATCH_SCORE = 0.95;

struct court {
    const struct scene *s;
    struct graph graph;
    struct roots roots;
    double *late_s;
    bool *absent, *excused, *odd; /* of each rank: from what holds up others; only late; asks for something else */
    size_t *direct;               /* of each rank: how many it holds up by not coming to a collective */
    bool timed_out, all_came;
    struct hm_hang *hang;
};

int hang_add_line(char ***lines, size_t *n, char *line, struct hm_error *err) {
    char **grown = line ? hm_realloc(*lines, *n + 1, sizeof *grown) : NULL;
    if (!grown) {
        hm_free(line);
        return hm_fail_memory(err);
    }
    *lines = grown;
    grown[(*n)++] = line;
    return 0;
}

static int add_text(char ***lines, size_t *n, struct hm_str *text, struct hm_error *err) {
    if (text->failed) hm_str_free(text);
    return hang_add_line(lines, n, text->text, err);
}

static int cannot_tell(struct court *c, const char *text, struct hm_error *err) {
    return hang_add_line(&c->hang->cannot_tell, &c->hang->n_cannot_tell, hm_strdup(text), err);
}

/* ---- words ---- */

static int number_of(const struct court *c, int rank) {
    return c->s->rank[rank].number;
}

static const struct group *group_of(const struct court *c, const struct knot *k) {
    return &c->s->group[c->s->item[k->first].group];
}

/* "all_reduce 17 of group 3 (DATA_PARALLEL_GROUP)". */
static void add_knot(const struct court *c, struct hm_str *text, const struct knot *k) {
    const struct item *i = &c->s->item[k->first];
    const struct group *g = group_of(c, k);
    hm_str_add(text, "%s %" PRId64 " of group %s", i->entry->op, i->seq, g->name);
    if (*g->description && strcmp(g->description, g->name) != 0) hm_str_add(text, " (%s)", g->description);
}

/* "rank 3", "ranks 1, 2, 3 and 12 more". */
static void add_ranks(struct hm_str *text, const int *number, size_t n) {
    hm_str_add(text, n == 1 ? "rank" : "ranks");
    for (size_t i = 0; i < n && i < MOST_LISTED; i++) hm_str_add(text, i ? ", %d" : " %d", number[i]);
    if (n > MOST_LISTED) hm_str_add(text, " and %zu more", n - MOST_LISTED);
}

/* Numbers of the ranks that have a knot in line. */
static int waiting_ranks(const struct court *c, const struct knot *k, int **number, size_t *n, struct hm_error *err) {
    *n = 0;
    *number = hm_alloc(k->end - k->first, sizeof **number);
    if (!*number) return hm_fail_memory(err);
    for (size_t i = k->first; i < k->end; i++)
        if (c->s->item[i].open && c->s->item[i].part == 0) (*number)[(*n)++] = number_of(c, c->s->item[i].rank);
    return 0;
}

/* ---- findings ---- */

static void mark_absent(struct court *c) {
    for (size_t k = 0; k < c->graph.n_knots; k++) {
        const struct knot *knot = &c->graph.knot[k];
        for (size_t i = 0; knot->n_waiting > 0 && i < knot->n_absent; i++) {
            c->absent[knot->absent[i]] = true;
            if (!c->s->item[knot->first].p2p) c->direct[knot->absent[i]] += knot->n_waiting;
        }
    }
}

/* In a pipeline whose last stage sends to the first, all stages wait in a circle for one that stopped: by sends and receives
 * alone each looks like the others. The one that also keeps its peers waiting in a collective is it. */
static bool innocent_in_circle(const struct court *c, size_t r) {
    if (c->roots.circle_size[c->roots.circle[r]] < 2 || c->direct[r] > 0) return false;
    for (size_t q = 0; q < c->s->n_ranks; q++)
        if (c->roots.circle[q] == c->roots.circle[r] && c->direct[q] > 0) return true;
    return false;
}

/* Ranks that ask for what fewer ask for; all of them where no answer has most. */
static void mark_odd(struct court *c) {
    for (size_t m = 0; m < c->hang->n_mismatches; m++) {
        const struct hm_op_mismatch *mismatch = &c->hang->mismatch[m];
        bool even = mismatch->ask[0].n_ranks == mismatch->ask[1].n_ranks;
        for (size_t a = even ? 0 : 1; a < mismatch->n_asks; a++)
            for (size_t i = 0; i < mismatch->ask[a].n_ranks; i++)
                c->odd[scene_rank(c->s, mismatch->ask[a].rank[i])] = true;
    }
}

static void look_at_clock(struct court *c) {
    for (size_t i = 0; i < c->s->n_items; i++) {
        const struct item *item = &c->s->item[i];
        const struct hm_flight_entry *e = item->entry;
        if (item->open && e->created_ns >= 0 && e->timeout_ms > 0 &&
            1e-6 * (double)(c->s->last_ns - e->created_ns) >= (double)e->timeout_ms)
            c->timed_out = true;
    }
    for (size_t k = 0; k < c->graph.n_knots; k++) {
        const struct knot *knot = &c->graph.knot[k];
        c->all_came |= knot->n_waiting > 0 && knot->n_absent == 0 && knot->n_past == 0;
    }
}

/* The longest that anybody has waited for an absent rank, as far as the dumps go. */
static double wait_for(const struct court *c, size_t rank) {
    double longest = 0;
    for (size_t k = 0; k < c->graph.n_knots; k++) {
        const struct knot *knot = &c->graph.knot[k];
        bool is_absent = false;
        for (size_t i = 0; i < knot->n_absent; i++) is_absent |= knot->absent[i] == (int)rank;
        if (!is_absent || knot->n_waiting == 0) continue;
        for (size_t i = knot->first; i < knot->end; i++)
            if (c->s->item[i].open)
                longest = fmax(longest, 1e-9 * (double)(c->s->last_ns - c->s->item[i].entry->created_ns));
    }
    return longest;
}

static void excuse_late(struct court *c) {
    for (size_t r = 0; r < c->s->n_ranks; r++)
        c->excused[r] = !c->timed_out && c->absent[r] && c->s->rank[r].has_dump && c->late_s[r] > 0 &&
                        wait_for(c, r) <= USUAL_TIMES * c->late_s[r];
}

/* A device that does not go on while others finished what it has in line. */
static bool stuck_alone(const struct court *c, size_t r) {
    return c->graph.alone[r] && c->graph.past_open[r] >= FEW_OPEN;
}

/* Most ranks without a dump: who waits may wait for any of them. */
static bool most_are_missing(const struct court *c) {
    return 2 * c->hang->n_missing > c->s->n_ranks;
}

static bool is_suspect(const struct court *c, size_t r, bool hung) {
    if (c->odd[r]) return true;
    if (c->excused[r] || (!c->s->rank[r].has_dump && most_are_missing(c))) return false;
    if (innocent_in_circle(c, r)) return false;
    bool circle = c->roots.circle_size[c->roots.circle[r]] > 1;
    if (c->roots.n_victims[r] == 0) return hung && stuck_alone(c, r);
    return c->absent[r] || circle || stuck_alone(c, r) || c->timed_out;
}

static double score_of(const struct court *c, size_t r) {
    double others = c->s->n_ranks > 1 ? (double)(c->s->n_ranks - 1) : 1;
    double score = (double)c->roots.n_victims[r] / others + (stuck_alone(c, r) ? ALONE_SCORE : 0);
    if (c->odd[r] && score < MISMATCH_SCORE) score = MISMATCH_SCORE;
    return fmin(score, 1);
}

/* ---- reasons ---- */

static int say_absent(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    for (size_t k = 0; k < c->graph.n_knots && suspect->n_reasons < MOST_REASONS; k++) {
        const struct knot *knot = &c->graph.knot[k];
        bool is_absent = false;
        for (size_t i = 0; i < knot->n_absent; i++) is_absent |= knot->absent[i] == (int)r;
        if (!is_absent || knot->n_waiting == 0) continue;
        int *number;
        size_t n;
        if (waiting_ranks(c, knot, &number, &n, err) != 0) return -1;
        struct hm_str text = {0};
        bool p2p = c->s->item[knot->first].p2p;
        hm_str_add(&text, p2p ? "has not come to the other end of " : "did not come to ");
        add_knot(c, &text, knot);
        hm_str_add(&text, ", where ");
        add_ranks(&text, number, n);
        hm_str_add(&text, n == 1 ? " waits" : " wait");
        hm_free(number);
        if (add_text(&suspect->reason, &suspect->n_reasons, &text, err) != 0) return -1;
    }
    return 0;
}

static int say_alone(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    if (!c->graph.alone[r] || c->graph.past_open[r] == 0) return 0;
    struct hm_str text = {0};
    hm_str_add(&text, "still has %zu collectives in line that others have finished, the first ", c->graph.past_open[r]);
    add_knot(c, &text, &c->graph.knot[c->graph.blocked_by[r]]);
    hm_str_add(&text, ": its own device or driver does not go on");
    return add_text(&suspect->reason, &suspect->n_reasons, &text, err);
}

static int say_silent(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    const struct rank_state *rank = &c->s->rank[r];
    const char *why = !rank->has_dump        ? "left no dump: its process may be dead, or it could not write"
                      : rank->n_entries == 0 ? "its dump holds no entry"
                      : rank->n_open == 0    ? "has nothing in line: it waits for nobody"
                                             : NULL;
    return why ? hang_add_line(&suspect->reason, &suspect->n_reasons, hm_strdup(why), err) : 0;
}

static int say_odd(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    for (size_t m = 0; c->odd[r] && m < c->hang->n_mismatches; m++) {
        const struct hm_op_mismatch *mismatch = &c->hang->mismatch[m];
        for (size_t a = 0; a < mismatch->n_asks; a++)
            for (size_t i = 0; i < mismatch->ask[a].n_ranks; i++) {
                if (mismatch->ask[a].rank[i] != number_of(c, (int)r)) continue;
                struct hm_str text = {0};
                hm_str_add(&text, "asks for %s %s in collective %" PRId64 " of group %s, others for %s", mismatch->what,
                           mismatch->ask[a].value, mismatch->seq, mismatch->group, mismatch->ask[a == 0].value);
                if (add_text(&suspect->reason, &suspect->n_reasons, &text, err) != 0) return -1;
            }
    }
    return 0;
}

static int say_circle(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    size_t size = c->roots.circle_size[c->roots.circle[r]];
    if (size < 2 || c->roots.n_victims[r] == 0) return 0;
    struct hm_str text = {0};
    hm_str_add(&text, "waits in a circle of %zu ranks: ", size);
    const struct knot *knot = &c->graph.knot[c->graph.blocked_by[r]];
    hm_str_add(&text, "it is held up by ");
    add_knot(c, &text, knot);
    hm_str_add(&text, ", and who is missing there waits for it elsewhere");
    return add_text(&suspect->reason, &suspect->n_reasons, &text, err);
}

static int say_victims(const struct court *c, size_t r, struct hm_suspect *suspect, struct hm_error *err) {
    if (c->roots.n_victims[r] == 0) return 0;
    struct hm_str text = {0};
    hm_str_add(&text, "%zu of %zu other ranks wait for it, directly or through others", c->roots.n_victims[r],
               c->s->n_ranks - 1);
    return add_text(&suspect->reason, &suspect->n_reasons, &text, err);
}

static int add_suspect(struct court *c, size_t r, struct hm_error *err) {
    struct hm_suspect *suspect = &c->hang->suspect[c->hang->n_suspects++];
    *suspect = (struct hm_suspect){.rank = number_of(c, (int)r), .score = score_of(c, r)};
    static int (*const say[])(const struct court *, size_t, struct hm_suspect *, struct hm_error *) = {
        say_odd, say_silent, say_alone, say_absent, say_circle, say_victims};
    for (size_t i = 0; i < sizeof say / sizeof say[0]; i++)
        if (say[i](c, r, suspect, err) != 0) return -1;
    return 0;
}

static int worst_first(const void *a, const void *b) {
    const struct hm_suspect *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int name_suspects(struct court *c, struct hm_error *err) {
    struct hm_hang *hang = c->hang;
    hang->hung = c->timed_out || hang->n_mismatches > 0;
    for (size_t r = 0; r < c->s->n_ranks; r++) hang->hung |= is_suspect(c, r, false);
    hang->suspect = hm_alloc(c->s->n_ranks, sizeof *hang->suspect);
    if (!hang->suspect) return hm_fail_memory(err);
    for (size_t r = 0; r < c->s->n_ranks; r++)
        if (is_suspect(c, r, hang->hung) && add_suspect(c, r, err) != 0) return -1;
    qsort(hang->suspect, hang->n_suspects, sizeof *hang->suspect, worst_first);
    return 0;
}

/* ---- what does not go on ---- */

static int take_members(const struct court *c, const struct knot *k, struct hm_stuck_op *op, struct hm_error *err) {
    const struct group *g = group_of(c, k);
    op->rank = hm_alloc(g->n_members, sizeof *op->rank);
    op->absent = hm_alloc(k->n_absent, sizeof *op->absent);
    if (!op->rank || !op->absent) return hm_fail_memory(err);
    for (size_t m = 0; m < g->n_members; m++) op->rank[op->n_ranks++] = number_of(c, g->member[m]);
    for (size_t i = 0; i < k->n_absent; i++) op->absent[op->n_absent++] = number_of(c, k->absent[i]);
    return waiting_ranks(c, k, &op->waiting, &op->n_waiting, err);
}

static int list_stuck(struct court *c, struct hm_error *err) {
    struct hm_hang *hang = c->hang;
    hang->stuck = hm_alloc(c->graph.n_knots, sizeof *hang->stuck);
    if (!hang->stuck) return hm_fail_memory(err);
    int last_group = NO_INDEX;
    for (size_t k = 0; k < c->graph.n_knots; k++) {
        const struct knot *knot = &c->graph.knot[k];
        const struct item *i = &c->s->item[knot->first];
        bool worth = knot->n_waiting > 0 || knot->n_absent > 0;
        if (!worth || (!i->p2p && i->group == last_group)) continue;
        if (!i->p2p) last_group = i->group;
        struct hm_stuck_op *op = &hang->stuck[hang->n_stuck++];
        const struct group *g = group_of(c, knot);
        *op = (struct hm_stuck_op){.group = g->name, .description = g->description, .op = i->entry->op, .seq = i->seq};
        if (take_members(c, knot, op, err) != 0) return -1;
    }
    return 0;
}

/* ---- the verdict in a sentence ---- */

static void summarize_hung(const struct court *c, struct hm_str *text) {
    const struct hm_hang *hang = c->hang;
    hm_str_add(text, "hung: ");
    if (hang->n_mismatches > 0)
        hm_str_add(text, "the members of group %s do not ask for the same in collective %" PRId64,
                   hang->mismatch[0].group, hang->mismatch[0].seq);
    else if (hang->n_suspects == 0)
        hm_str_add(text,
                   "a time limit has passed, and all members came to what is in line: the transfer itself does not "
                   "end");
    else if (hang->n_suspects == 1)
        hm_str_add(text, "rank %d keeps the others waiting", hang->suspect[0].rank);
    else
        hm_str_add(text, "%zu ranks keep the others waiting, rank %d most", hang->n_suspects, hang->suspect[0].rank);
}

static int summarize(struct court *c, struct hm_error *err) {
    struct hm_str text = {0};
    bool late = false, open = false;
    for (size_t r = 0; r < c->s->n_ranks; r++) {
        late |= c->excused[r];
        open |= c->s->rank[r].n_open > 0;
    }
    if (c->hang->hung)
        summarize_hung(c, &text);
    else if (late)
        hm_str_add(&text,
                   "slow, not hung: who is waited for usually comes late, and the wait seen is no longer than that");
    else if (open && most_are_missing(c))
        hm_str_add(&text, "not enough evidence: most ranks have no dump");
    else if (open)
        hm_str_add(&text, "nothing shows a hang: all members came to what is in line");
    else
        hm_str_add(&text, "nothing hangs: every collective that was recorded is done");
    if (text.failed) hm_str_free(&text);
    c->hang->summary = text.text;
    return text.text ? 0 : hm_fail_memory(err);
}

static int say_limits(struct court *c, struct hm_error *err) {
    bool started = false;
    for (size_t i = 0; i < c->s->n_items; i++) started |= c->s->item[i].entry->started_ns >= 0;
    if (c->hang->n_missing > 0 &&
        cannot_tell(c, "what the ranks without a dump have in line: give their dumps too, or look at their hosts",
                    err) != 0)
        return -1;
    if (!c->hang->hung && c->graph.n_knots > 0 &&
        cannot_tell(
            c,
            "whether what is in line would end: dumps are one moment; if a second set, taken later, has the same "
            "numbers in line, it hangs",
            err) != 0)
        return -1;
    if (c->hang->hung && !started &&
        cannot_tell(c, "which devices had begun a collective: TORCH_NCCL_ENABLE_TIMING=1 records it", err) != 0)
        return -1;
    return c->hang->hung
               ? cannot_tell(c, "why a suspect stopped: look at its stack (py-spy dump) and its kernel log (Xid)", err)
               : 0;
}

static int list_missing(struct court *c, struct hm_error *err) {
    c->hang->missing = hm_alloc(c->s->n_ranks, sizeof *c->hang->missing);
    if (!c->hang->missing) return hm_fail_memory(err);
    for (size_t r = 0; r < c->s->n_ranks; r++)
        if (!c->s->rank[r].has_dump) c->hang->missing[c->hang->n_missing++] = number_of(c, (int)r);
    return 0;
}

static int find(struct court *c, struct hm_error *err) {
    size_t n = c->s->n_ranks;
    c->late_s = hm_alloc(n, sizeof *c->late_s);
    c->direct = hm_alloc(n, sizeof *c->direct);
    c->absent = hm_alloc(3 * n, sizeof *c->absent);
    if (!c->late_s || !c->direct || !c->absent) return hm_fail_memory(err);
    c->excused = c->absent + n;
    c->odd = c->excused + n;
    if (graph_build(&c->graph, err) != 0 || graph_find_roots(&c->graph, &c->roots, err) != 0) return -1;
    if (hang_find_late(c->s, c->hang, c->late_s, err) != 0 || hang_find_mismatches(c->s, c->hang, err) != 0) return -1;
    mark_absent(c);
    mark_odd(c);
    look_at_clock(c);
    excuse_late(c);
    return 0;
}

int hang_judge(const struct scene *s, struct hm_hang *hang, struct hm_error *err) {
    struct court c = {.s = s, .graph = {.s = s}, .hang = hang};
    int status = list_missing(&c, err);
    if (status == 0) status = find(&c, err);
    if (status == 0) status = name_suspects(&c, err);
    if (status == 0) status = list_stuck(&c, err);
    if (status == 0) status = summarize(&c, err);
    if (status == 0) status = say_limits(&c, err);
    graph_free(&c.graph);
    roots_free(&c.roots);
    hm_free(c.direct);
    hm_free(c.late_s);
    hm_free(c.absent);
    return status;
}
