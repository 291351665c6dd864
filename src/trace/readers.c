/* readers.c - which reader a recording needs. */
#include "readers.h"

#include "hindmost/hindmost.h"
#include "kineto.h"
#include "trace.h"

#include <string.h>

/* ---- what the beginning of a file shows ---- */

static bool is_parquet(const struct hm_head *h) {
    return h->n >= 4 && memcmp(h->bytes, "PAR1", 4) == 0;
}

static bool is_text(const struct hm_head *h) {
    for (size_t i = 0; i < h->n && i < 512; i++) {
        unsigned char c = h->bytes[i];
        if (c == 0 || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) return false;
    }
    return h->n > 0;
}

/* A name that says so, or a first line of columns with "step" among them: not any text with a comma. */
static bool is_csv(const struct hm_head *h) {
    static const char *const names[] = {".csv", ".csv.gz", ".tsv", ".tsv.gz"};
    const char *text = (const char *)h->bytes, *step = strstr(text, "step");
    size_t line = strcspn(text, "\r\n");
    if (!is_text(h) || text[0] == '{' || text[0] == '[') return false;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (hm_ends_with(h->path, names[k])) return true;
    return step && step < text + line && strcspn(text, ",;\t") < line;
}

/* A result of ours, which begins with its schema. */
static bool is_result(const struct hm_head *h) {
    const char *text = (const char *)h->bytes, *schema = strstr(text, "\"schema\": \"hindmost.");
    return h->bytes[0] == '{' && schema && schema - text < 32;
}

/* ---- the table: the first that fits ---- */

const struct hm_reader hm_readers[] = {
    {"parquet", "an op table in Parquet", is_parquet, hm_table_recording, NULL, false},
    {"result", "a result of hindmost", is_result, NULL, "compare results with 'hindmost fleet'", false},
    {"kineto", "a trace of the PyTorch profiler, one a rank", hm_kineto_detect, NULL, NULL, true},
    {"csv", "an op table in CSV", is_csv, hm_table_recording, NULL, false}, /* any text with columns: last */
};
const size_t hm_readers_count = sizeof hm_readers / sizeof hm_readers[0];

const char *hm_format_name(size_t i, const char **what) {
    for (size_t k = 0; k < hm_readers_count; k++) {
        if (hm_readers[k].instead || i-- > 0) continue;
        if (what) *what = hm_readers[k].what;
        return hm_readers[k].name;
    }
    return NULL;
}

/* "parquet (an op table in Parquet), csv (...)" */
static void list_known(struct hm_str *s) {
    for (size_t k = 0, listed = 0; k < hm_readers_count; k++)
        if (!hm_readers[k].instead)
            hm_str_add(s, "%s%s (%s)", listed++ ? ", " : "", hm_readers[k].name, hm_readers[k].what);
}

static int unknown(const char *path, const char *why, struct hm_error *err) {
    struct hm_str known = {0};
    list_known(&known);
    int status = known.failed ? hm_fail_memory(err)
                              : hm_fail(err, HM_ERR_INPUT, "%s: %s; give one of: %s", path, why, known.text);
    hm_str_free(&known);
    return status;
}

/* What is known about a file by its name may explain why its content is not. */
static int not_recognised(const char *path, struct hm_error *err) {
    bool parquet = hm_ends_with(path, ".parquet") || hm_ends_with(path, ".pq");
    return unknown(
        path,
        parquet ? "is not a Parquet file (it does not begin with PAR1): was it truncated, or is it another format?"
                : "is of no known format",
        err);
}

static size_t recognise(const struct hm_head *head) {
    for (size_t k = 0; k < hm_readers_count; k++)
        if (hm_readers[k].detect(head)) return k;
    return SIZE_MAX;
}

static int look_at(struct hm_inputs *in, struct hm_head *head, struct hm_error *err) {
    size_t first_unknown = SIZE_MAX;
    for (size_t i = 0; i < in->n; i++) {
        if (hm_input_head(&in->file[i], head, err) != 0) return -1;
        in->file[i].format = recognise(head);
        if (in->file[i].format != SIZE_MAX) continue;
        if (!in->found) return not_recognised(in->file[i].path, err);
        if (first_unknown == SIZE_MAX) first_unknown = i;
    }
    size_t known = 0;
    for (size_t i = 0; i < in->n; i++)
        known += in->file[i].format != SIZE_MAX && !hm_readers[in->file[i].format].instead;
    if (known == 0 && first_unknown != SIZE_MAX) return not_recognised(in->file[first_unknown].path, err);
    for (size_t i = in->n; known > 0 && in->found && i-- > 0;) {
        size_t format = in->file[i].format;
        if (format != SIZE_MAX && !hm_readers[format].instead) continue;
        hm_inputs_drop(in, i);
        in->passed++;
    }
    return 0;
}

/* All files by one reader; op tables may mix theirs. */
static const struct hm_reader *agree(const struct hm_inputs *in, struct hm_error *err) {
    const struct hm_reader *reader = &hm_readers[in->file[0].format];
    for (size_t i = 0; i < in->n; i++) {
        const struct hm_reader *other = &hm_readers[in->file[i].format];
        if (other->instead) {
            hm_fail(err, HM_ERR_INPUT, "%s: is %s, not a recording; %s", in->file[i].path, other->what, other->instead);
            return NULL;
        }
        if (other->open == reader->open) continue;
        hm_fail(err, HM_ERR_INPUT, "%s: %s is %s, but %s is %s; name the files of one, or say --format %s or %s",
                in->name, in->file[0].path, reader->what, in->file[i].path, other->what, reader->name, other->name);
        return NULL;
    }
    return reader;
}

const struct hm_reader *hm_reader_choose(struct hm_inputs *in, const char *format, struct hm_error *err) {
    struct hm_head *head = hm_alloc(1, sizeof *head);
    const struct hm_reader *reader = NULL;
    if (!head) {
        hm_fail_memory(err);
    } else if (!format) {
        if (look_at(in, head, err) == 0) reader = agree(in, err);
    } else {
        size_t k = 0;
        while (k < hm_readers_count && (hm_readers[k].instead || strcmp(hm_readers[k].name, format) != 0)) k++;
        int status = k < hm_readers_count ? 0 : unknown("--format", format, err);
        for (size_t i = in->n; status == 0 && i-- > 0;) {
            status = hm_input_head(&in->file[i], head, err);
            in->file[i].format = k;
            if (status != 0 || !in->found || hm_readers[k].detect(head)) continue;
            hm_inputs_drop(in, i);
            in->passed++;
        }
        if (status == 0 && in->n == 0)
            status = hm_fail(err, HM_ERR_INPUT, "%s: no file in it is %s", in->name, hm_readers[k].what);
        if (status == 0) reader = &hm_readers[k];
    }
    hm_free(head);
    return reader;
}

int hm_reader_is_table(const struct hm_reader *reader, const struct hm_inputs *in, struct hm_error *err) {
    if (reader->open) return 0;
    return hm_fail(
        err, HM_ERR_INPUT,
        "%s: is %s: 'hindmost analyze' says from files or folders of them who came late; nothing else reads it",
        in->name, reader->what);
}
