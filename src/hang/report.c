/* report.c - the verdict as text and as JSON. */
#include "hang.h"

#include <inttypes.h>

enum { MOST_SUSPECTS = 16, MOST_STUCK = 24, MOST_LISTED = 16 };

/* ---- text ---- */

static void add_list(struct hm_str *t, const int *number, size_t n) {
    for (size_t i = 0; i < n && i < MOST_LISTED; i++) hm_str_add(t, i ? ", %d" : "%d", number[i]);
    if (n > MOST_LISTED) hm_str_add(t, " and %zu more", n - MOST_LISTED);
    if (n == 0) hm_str_add(t, "nobody");
}

static void add_suspects(struct hm_str *t, const struct hm_hang *h) {
    if (h->n_suspects > 0) hm_str_add(t, "\nSuspects, worst first\n");
    for (size_t i = 0; i < h->n_suspects && i < MOST_SUSPECTS; i++) {
        hm_str_add(t, "  rank %-6d %.2f", h->suspect[i].rank, h->suspect[i].score);
        for (size_t k = 0; k < h->suspect[i].n_reasons; k++)
            hm_str_add(t, k ? "\n                   %s" : "  %s", h->suspect[i].reason[k]);
        hm_str_add(t, "\n");
    }
    if (h->n_suspects > MOST_SUSPECTS) hm_str_add(t, "  and %zu more\n", h->n_suspects - MOST_SUSPECTS);
}

static void add_mismatches(struct hm_str *t, const struct hm_hang *h) {
    if (h->n_mismatches > 0) hm_str_add(t, "\nMembers that do not ask for the same\n");
    for (size_t i = 0; i < h->n_mismatches; i++) {
        const struct hm_op_mismatch *m = &h->mismatch[i];
        hm_str_add(t, "  group %s, collective %" PRId64 ", %s:", m->group, m->seq, m->what);
        for (size_t a = 0; a < m->n_asks; a++) {
            hm_str_add(t, "%s %s by ", a ? ";" : "", m->ask[a].value);
            add_list(t, m->ask[a].rank, m->ask[a].n_ranks);
        }
        hm_str_add(t, "\n");
    }
}

static void add_stuck(struct hm_str *t, const struct hm_hang *h) {
    if (h->n_stuck > 0) hm_str_add(t, "\nIn line and not done, the first of each group\n");
    for (size_t i = 0; i < h->n_stuck && i < MOST_STUCK; i++) {
        const struct hm_stuck_op *op = &h->stuck[i];
        hm_str_add(t, "  group %s %s: %s %" PRId64 ": waiting ", op->group, op->description, op->op, op->seq);
        add_list(t, op->waiting, op->n_waiting);
        hm_str_add(t, "; absent ");
        add_list(t, op->absent, op->n_absent);
        hm_str_add(t, "\n");
    }
    if (h->n_stuck > MOST_STUCK) hm_str_add(t, "  and %zu more\n", h->n_stuck - MOST_STUCK);
}

static void add_lines(struct hm_str *t, const char *head, char *const *lines, size_t n) {
    if (n > 0) hm_str_add(t, "\n%s\n", head);
    for (size_t i = 0; i < n; i++) hm_str_add(t, "  %s\n", lines[i]);
}

char *hm_hang_text(const struct hm_hang *h) {
    struct hm_str t = {0};
    hm_str_add(&t, "%s\n%zu ranks, %zu dumps", h->summary, h->n_ranks, h->n_dumps);
    if (*h->version) hm_str_add(&t, " (flight recorder %s)", h->version);
    if (h->n_missing > 0) {
        hm_str_add(&t, "; no dump of ");
        add_list(&t, h->missing, h->n_missing);
    }
    hm_str_add(&t, "\n");
    add_suspects(&t, h);
    add_mismatches(&t, h);
    add_stuck(&t, h);
    if (h->n_late > 0) hm_str_add(&t, "\nUsually late, as far as the dumps go back\n");
    for (size_t i = 0; i < h->n_late; i++) hm_str_add(&t, "  rank %d by %.3g s\n", h->late[i].rank, h->late[i].late_s);
    add_lines(&t, "Cannot tell", h->cannot_tell, h->n_cannot_tell);
    add_lines(&t, "Notes", h->note, h->n_notes);
    if (t.failed) hm_str_free(&t);
    return t.text;
}

/* ---- JSON ---- */

static void json_ranks(struct hm_json *j, const char *key, const int *number, size_t n) {
    hm_json_array(j, key);
    for (size_t i = 0; i < n; i++) hm_json_integer(j, NULL, number[i]);
    hm_json_end_array(j);
}

static void json_lines(struct hm_json *j, const char *key, char *const *lines, size_t n) {
    hm_json_array(j, key);
    for (size_t i = 0; i < n; i++) hm_json_string(j, NULL, lines[i]);
    hm_json_end_array(j);
}

static void json_suspects(struct hm_json *j, const struct hm_hang *h) {
    hm_json_array(j, "suspects");
    for (size_t i = 0; i < h->n_suspects; i++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "rank", h->suspect[i].rank);
        hm_json_number(j, "score", h->suspect[i].score);
        json_lines(j, "reasons", h->suspect[i].reason, h->suspect[i].n_reasons);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void json_groups(struct hm_json *j, const struct hm_hang *h) {
    hm_json_array(j, "groups");
    for (size_t i = 0; i < h->n_stuck; i++) {
        const struct hm_stuck_op *op = &h->stuck[i];
        hm_json_object(j, NULL);
        hm_json_string(j, "name", op->group);
        hm_json_string(j, "description", op->description);
        json_ranks(j, "ranks", op->rank, op->n_ranks);
        hm_json_string(j, "op", op->op);
        hm_json_integer(j, "seq", op->seq);
        json_ranks(j, "waiting", op->waiting, op->n_waiting);
        json_ranks(j, "absent", op->absent, op->n_absent);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void json_mismatches(struct hm_json *j, const struct hm_hang *h) {
    hm_json_array(j, "mismatches");
    for (size_t i = 0; i < h->n_mismatches; i++) {
        const struct hm_op_mismatch *m = &h->mismatch[i];
        hm_json_object(j, NULL);
        hm_json_string(j, "group", m->group);
        hm_json_integer(j, "seq", m->seq);
        hm_json_string(j, "what", m->what);
        hm_json_array(j, "asks");
        for (size_t a = 0; a < m->n_asks; a++) {
            hm_json_object(j, NULL);
            hm_json_string(j, "value", m->ask[a].value);
            json_ranks(j, "ranks", m->ask[a].rank, m->ask[a].n_ranks);
            hm_json_end_object(j);
        }
        hm_json_end_array(j);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

void hm_hang_write_json(const struct hm_hang *h, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 2);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.hang/1");
    hm_json_integer(&j, "ranks", (int64_t)h->n_ranks);
    hm_json_integer(&j, "dumps", (int64_t)h->n_dumps);
    json_ranks(&j, "missing_ranks", h->missing, h->n_missing);
    hm_json_bool(&j, "hung", h->hung);
    hm_json_string(&j, "summary", h->summary);
    json_suspects(&j, h);
    json_groups(&j, h);
    json_mismatches(&j, h);
    hm_json_array(&j, "late");
    for (size_t i = 0; i < h->n_late; i++) {
        hm_json_object(&j, NULL);
        hm_json_integer(&j, "rank", h->late[i].rank);
        hm_json_number(&j, "late_s", h->late[i].late_s);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    json_lines(&j, "cannot_tell", h->cannot_tell, h->n_cannot_tell);
    json_lines(&j, "notes", h->note, h->n_notes);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}
