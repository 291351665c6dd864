/* convert.c - op tables copied into one, through one query that checks the rows as they pass. */
#include "hindmost/convert.h"

#include "readers.h"
#include "trace.h"

struct conversion {
    struct hm_table **tables;
    struct hm_inputs *inputs; /* of each table */
    size_t n;
    bool float32;
};

static int copy(void *context, const struct hm_table_target *to, struct hm_error *err) {
    const struct conversion *c = context;
    return hm_tables_copy(c->tables, c->n, c->float32, to, err);
}

/* Opens the next input: what it names, as one table. */
static int open_next(struct conversion *c, const char *name, int threads, struct hm_error *err) {
    struct hm_inputs *in = &c->inputs[c->n];
    if (hm_inputs_find(in, &name, 1, err) != 0) return -1;
    const struct hm_reader *reader = hm_reader_choose(in, NULL, err);
    if (!reader || hm_reader_is_table(reader, in, err) != 0) return -1;
    if (!(c->tables[c->n] = hm_table_open(in, threads, err))) return -1;
    c->n++;
    return 0;
}

int hm_convert(const char *const *inputs, size_t n, const char *path, bool float32, int threads, struct hm_error *err) {
    struct conversion c = {.tables = hm_alloc(n, sizeof(struct hm_table *)),
                           .inputs = hm_alloc(n, sizeof(struct hm_inputs)),
                           .float32 = float32};
    int status = 0;
    if (!c.tables || !c.inputs)
        status = hm_fail_memory(err);
    else if (n == 0)
        status = hm_fail(err, HM_ERR_ARGUMENT, "%s: there is nothing to convert; name a trace", path);
    for (size_t i = 0; status == 0 && i < n; i++) status = open_next(&c, inputs[i], threads, err);
    if (status == 0) status = hm_table_replace(path, copy, &c, err);
    for (size_t i = 0; i < c.n; i++) hm_table_close(c.tables[i]);
    for (size_t i = 0; c.inputs && i < n; i++) hm_inputs_free(&c.inputs[i]);
    hm_free(c.inputs);
    hm_free(c.tables);
    return status;
}
