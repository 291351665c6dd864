/* convert.c - op tables copied into one, through one query that checks the rows as they pass. */
#include "hindmost/convert.h"

#include "trace.h"

struct conversion {
    struct hm_table **tables;
    size_t n;
    bool float32;
};

static int copy(void *context, const char *to, const char *path, struct hm_error *err) {
    const struct conversion *c = context;
    return hm_tables_copy(c->tables, c->n, c->float32, to, path, err);
}

int hm_convert(const char *const *inputs, size_t n, const char *path, bool float32, int threads, struct hm_error *err) {
    struct conversion c = {.tables = hm_alloc(n, sizeof(struct hm_table *)), .float32 = float32};
    int status = 0;
    if (!c.tables) return hm_fail_memory(err);
    if (n == 0) status = hm_fail(err, HM_ERR_ARGUMENT, "%s: there is nothing to convert; name a trace", path);
    while (status == 0 && c.n < n) {
        c.tables[c.n] = hm_table_open(inputs[c.n], threads, err);
        if (c.tables[c.n])
            c.n++;
        else
            status = -1;
    }
    if (status == 0) status = hm_table_replace(path, copy, &c, err);
    for (size_t i = 0; i < c.n; i++) hm_table_close(c.tables[i]);
    hm_free(c.tables);
    return status;
}
