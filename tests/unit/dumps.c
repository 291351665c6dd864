/* dumps.c - writes flight-recorder dumps: the same calls make a pickle of any protocol or JSON. */
#include "dumps.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    char *bytes;
    size_t size, room;
    int protocol;
    bool comma;
};

static void raw(struct writer *w, const void *bytes, size_t n) {
    if (w->size + n + 1 > w->room) {
        w->room = 2 * (w->size + n + 1);
        w->bytes = realloc(w->bytes, w->room);
        if (!w->bytes) abort();
    }
    memcpy(w->bytes + w->size, bytes, n);
    w->size += n;
    w->bytes[w->size] = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    raw(w, text, (size_t)n);
}

static void little(struct writer *w, uint64_t value, int n) {
    unsigned char b[8];
    for (int i = 0; i < n; i++) b[i] = (unsigned char)(value >> 8 * i);
    raw(w, b, (size_t)n);
}

static bool json(const struct writer *w) {
    return w->protocol < 0;
}

static void separate(struct writer *w) {
    if (json(w) && w->comma) put(w, ", ");
    w->comma = true;
}

static void text(struct writer *w, const char *value) {
    if (json(w)) {
        put(w, "\"%s\"", value);
    } else if (w->protocol == 0) {
        put(w, "V%s\n", value);
    } else if (w->protocol >= 4) {
        put(w, "\x8c");
        little(w, strlen(value), 1);
        put(w, "%s\x94", value);
    } else {
        put(w, "X");
        little(w, strlen(value), 4);
        put(w, "%s", value);
    }
}

static void integer(struct writer *w, int64_t value) {
    if (json(w)) {
        put(w, "%lld", (long long)value);
    } else if (w->protocol == 0) {
        put(w, "I%lld\n", (long long)value);
    } else if (value >= 0 && value < 256) {
        put(w, "K");
        little(w, (uint64_t)value, 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        put(w, "J");
        little(w, (uint64_t)value, 4);
    } else if (w->protocol == 1) {
        put(w, "L%lldL\n", (long long)value);
    } else {
        put(w, "\x8a\x08");
        little(w, (uint64_t)value, 8);
    }
}

static void boolean(struct writer *w, bool value) {
    if (json(w))
        put(w, value ? "true" : "false");
    else if (w->protocol < 2)
        put(w, value ? "I01\n" : "I00\n");
    else
        put(w, value ? "\x88" : "\x89");
}

static void begin(struct writer *w, char kind) { /* '[' or '{' */
    if (json(w)) {
        raw(w, &kind, 1);
        w->comma = false;
    } else if (w->protocol == 0) {
        put(w, kind == '[' ? "(l(" : "(d(");
    } else {
        put(w, kind == '[' ? "](" : "}(");
    }
}

static void end(struct writer *w, char kind) {
    if (json(w)) {
        put(w, kind == '[' ? "]" : "}");
        w->comma = true;
    } else {
        put(w, kind == '[' ? "e" : "u");
    }
}

static void key(struct writer *w, const char *name) {
    separate(w);
    text(w, name);
    if (json(w)) put(w, ": ");
}

static void moment(struct writer *w, const char *name, double us) {
    key(w, name);
    if (us > 0)
        integer(w, 1758610505000000000 + (int64_t)(us * 1000));
    else if (json(w))
        put(w, "0");
    else
        put(w, "N");
}

static void pair(struct writer *w, const char *a, const char *b) {
    if (json(w)) {
        put(w, "[\"%s\", \"%s\"]", a, b);
        return;
    }
    if (w->protocol < 2) put(w, "(");
    text(w, a);
    text(w, b);
    put(w, w->protocol < 2 ? "t" : "\x86");
}

static void sizes(struct writer *w, const char *name, int size) {
    key(w, name);
    begin(w, '[');
    begin(w, '[');
    integer(w, size ? size : 1024);
    end(w, '[');
    end(w, '[');
}

static void types(struct writer *w, const char *name, const char *type) {
    key(w, name);
    begin(w, '[');
    text(w, type ? type : "Float");
    end(w, '[');
}

static void entry(struct writer *w, const struct made_dump *d, size_t i) {
    static const char *const states[] = {"scheduled", "started", "completed"};
    const struct made_entry *e = &d->entry[i];
    const char *description = "";
    for (size_t g = 0; g < d->n_groups; g++)
        if (strcmp(d->group[g].name, e->group) == 0) description = d->group[g].description;
    separate(w);
    begin(w, '{');
    key(w, "record_id"), integer(w, (int64_t)i);
    key(w, "pg_id"), integer(w, atoi(e->group));
    key(w, "process_group"), pair(w, e->group, description);
    key(w, "collective_seq_id"), integer(w, e->p2p ? 0 : e->seq);
    key(w, "p2p_seq_id"), integer(w, e->p2p ? e->seq : 0);
    key(w, "op_id"), integer(w, e->seq);
    key(w, "profiling_name"), text(w, e->op);
    moment(w, "time_created_ns", e->created_us);
    sizes(w, "input_sizes", e->size);
    types(w, "input_dtypes", e->type);
    sizes(w, "output_sizes", e->size);
    types(w, "output_dtypes", e->type);
    key(w, "state"), text(w, states[e->state]);
    moment(w, "time_discovered_started_ns", e->state > 0 ? e->created_us + 1 : 0);
    moment(w, "time_discovered_completed_ns", e->state == 2 ? e->completed_us : 0);
    key(w, "retired"), boolean(w, e->retired || e->state == 2);
    key(w, "timeout_ms"), integer(w, 1000 * (e->timeout_s ? e->timeout_s : 600));
    key(w, "is_p2p"), boolean(w, e->p2p);
    key(w, "frames"), begin(w, '['), end(w, '[');
    end(w, '{');
}

static void groups(struct writer *w, const struct made_dump *d) {
    key(w, "pg_config");
    begin(w, '{');
    for (size_t g = 0; g < d->n_groups; g++) {
        key(w, d->group[g].name);
        begin(w, '{');
        key(w, "name"), text(w, d->group[g].name);
        key(w, "desc"), text(w, d->group[g].description);
        key(w, "ranks"), text(w, d->group[g].ranks);
        end(w, '{');
    }
    end(w, '{');
}

static void statuses(struct writer *w, const struct made_dump *d) {
    key(w, "pg_status");
    begin(w, '{');
    if (d->status_enqueued || d->status_completed) {
        key(w, "0");
        begin(w, '{');
        key(w, "last_enqueued_collective"), integer(w, d->status_enqueued);
        key(w, "last_started_collective"), integer(w, -1);
        key(w, "last_completed_collective"), integer(w, d->status_completed);
        end(w, '{');
    }
    end(w, '{');
}

char *dump_bytes(const struct made_dump *d, int protocol, size_t *size) {
    struct writer w = {.protocol = protocol};
    if (protocol >= 2) {
        put(&w, "\x80");
        little(&w, (uint64_t)protocol, 1);
    }
    if (protocol >= 4) {
        put(&w, "\x95");
        little(&w, 0, 8); /* the frame's length, which nothing depends on */
    }
    begin(&w, '{');
    key(&w, "version"), text(&w, d->version ? d->version : "2.9");
    groups(&w, d);
    statuses(&w, d);
    key(&w, "entries");
    begin(&w, '[');
    for (size_t i = 0; i < d->n_entries; i++) entry(&w, d, i);
    end(&w, '[');
    end(&w, '{');
    if (protocol >= 0) put(&w, ".");
    *size = w.size;
    return w.bytes;
}

void dump_write(const char *path, const struct made_dump *d, int protocol) {
    size_t size;
    char *bytes = dump_bytes(d, protocol, &size);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();
    free(bytes);
}
