/* evidence_kernel.c - what the kernel says of GPUs: NVIDIA's Xid lines and GPUs that are gone, in the many dresses of kernel logs (dmesg with
 * colours, -T, -x, -d; syslog; journalctl's short forms, export and JSON). An event is a node, a GPU, a code and a time. */
#include "base/megatron_log.h"
#include "node/evidence.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double XID_MERGE_S = 5; /* Delta, SC 2025 */
static const double TIME_MAX_S = 1e11;

struct event {
    char node[256], gpu[64], kind[32];
    double first_s, last_s;
};

struct hm_kernel_log {
    struct event *event;
    size_t count, room;
    bool after_line; /* the line before was of a log: an indented one continues it */
    bool entry;      /* of export or verbose: "KEY=value" lines */
    double entry_s;  /* its time; NaN */
    char host[256], *message;
    long listed; /* GPUs of nvidia-smi -L; -1: no such list */
};

struct hm_kernel_log *hm_kernel_log_new(void) {
    struct hm_kernel_log *k = hm_alloc(1, sizeof *k);
    if (k) k->listed = -1, k->entry_s = NAN;
    return k;
}

void hm_kernel_log_free(struct hm_kernel_log *k) {
    if (!k) return;
    hm_free(k->event);
    hm_free(k->message);
    hm_free(k);
}

/* ---- the message ---- */

/* The first bus address in a text, "0000:9b:00" without function, in small letters; "" if there is none. */
static void find_gpu(const char *text, char gpu[64]) {
    *gpu = 0;
    for (const char *c = text; *c; c++) {
        size_t domain = strspn(c, "0123456789abcdefABCDEF");
        if (domain == 4 || domain == 8) {
            const char *d = c + domain;
            if (d[0] == ':' && isxdigit((unsigned char)d[1]) && isxdigit((unsigned char)d[2]) && d[3] == ':' &&
                isxdigit((unsigned char)d[4]) && isxdigit((unsigned char)d[5])) {
                snprintf(gpu, 64, "%.*s", 4 + 6, d - 4);
                for (char *g = gpu; *g; g++) *g = (char)tolower((unsigned char)*g);
                return;
            }
        }
        if (domain) c += domain - 1;
    }
}

bool hm_kernel_fault(const char *message, char kind[32], char gpu[64], bool *broken) {
    static const char *const lost[] = {"fallen off the bus", "GPU is lost", "GPU lost",
                                       "Unable to determine the device handle for GPU",
                                       "NVIDIA probe routine failed for"};
    const char *at = strstr(message, "NVRM: Xid");
    char where[64];
    long code;
    *broken = false;
    if (at) {
        *broken = sscanf(at, "NVRM: Xid (%63[^)]): %ld", where, &code) != 2 || code < 0 || code > 100000;
        if (*broken) return false;
        snprintf(kind, 32, "xid-%ld", code);
        find_gpu(where, gpu);
        if (!*gpu) snprintf(gpu, 64, "%.63s", strncmp(where, "PCI:", 4) == 0 ? where + 4 : where);
        return true;
    }
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (strstr(message, lost[i])) {
            snprintf(kind, 32, "gpu-lost");
            find_gpu(message, gpu);
            return true;
        }
    return false;
}

/* One of the events that are known already? Lines may be out of order: any so near is the same. A loss right after Xid 79 is that Xid's. */
static bool known(struct hm_kernel_log *k, const char *node, const char *kind, const char *gpu, double t) {
    bool lost = strcmp(kind, "gpu-lost") == 0;
    for (size_t i = k->count; i-- > 0;) {
        struct event *e = &k->event[i];
        bool same = strcmp(e->kind, kind) == 0 || (lost && strcmp(e->kind, "xid-79") == 0);
        if (!same || strcmp(e->gpu, gpu) != 0 || strcmp(e->node, node) != 0) continue;
        if (t < e->first_s - XID_MERGE_S || t > e->last_s + XID_MERGE_S) continue;
        e->first_s = fmin(e->first_s, t);
        e->last_s = fmax(e->last_s, t);
        return true;
    }
    return false;
}

static int take(struct hm_evidence_reading *r, struct hm_kernel_log *k, const char *host, double time_s,
                const char *message, const char *kind, const char *gpu, struct hm_error *err) {
    const char *node = hm_evidence_node(r, host, err);
    if (!node) return -1;
    if (known(k, node, kind, gpu, time_s)) return 0;
    struct event *grown = hm_grow(k->event, k->count, &k->room, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    k->event = grown;
    struct event *fresh = &grown[k->count++];
    *fresh = (struct event){.first_s = time_s, .last_s = time_s};
    snprintf(fresh->node, sizeof fresh->node, "%s", node);
    snprintf(fresh->gpu, sizeof fresh->gpu, "%s", gpu);
    snprintf(fresh->kind, sizeof fresh->kind, "%s", kind);
    char detail[400];
    snprintf(detail, sizeof detail, "%s", message);
    struct hm_node_evidence e = {.node = node,
                                 .source = "kernel",
                                 .kind = kind,
                                 .detail = detail,
                                 .subject = *gpu ? gpu : NULL,
                                 .time_s = time_s,
                                 .dated = true};
    return hm_evidence_add(r->list, &e, err);
}

/* ---- the line ---- */

/* When this machine started, if the log is its own, read as it comes. */
static double own_boot(const struct hm_evidence_reading *r) {
    char here[256] = "";
    struct timespec up;
    gethostname(here, sizeof here - 1);
    here[strcspn(here, ".")] = 0;
    if (strcmp(r->path, "-") != 0 || !r->node || strlen(here) != strcspn(r->node, ".") ||
        strncmp(here, r->node, strlen(here)) != 0 || clock_gettime(CLOCK_MONOTONIC, &up) != 0)
        return NAN;
    return r->now_s - (double)up.tv_sec;
}

/* The time of a stamp; an error where a log cannot say it. */
static int time_of(struct hm_evidence_reading *r, const struct hm_stamp *s, double *time_s, struct hm_error *err) {
    double utc[2];
    int answers;
    if (s->kind == HM_STAMP_UPTIME) {
        double boot = isnan(r->boot_s) ? own_boot(r) : r->boot_s;
        if (isnan(boot))
            return hm_fail(
                err, HM_ERR_INPUT,
                "%s: line %zu counts seconds since boot, and it is not known when that was; give --boot TIME, or "
                "a log with dates (dmesg -T, journalctl -k)",
                r->path, r->line);
        *time_s = boot + s->time_s;
    } else if (s->kind == HM_STAMP_NO_YEAR) {
        *time_s = hm_stamp_with_year(s, r->zone, r->now_s);
    } else if (hm_zone_stamp(r->zone, s, utc, &answers)) {
        *time_s = utc[0];
    } else {
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: the time zone '%s' is not known here; give --zone NAME",
                       r->path, r->line, s->zone);
    }
    if (*time_s >= 0 && *time_s <= TIME_MAX_S) return 0;
    return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: its time is none; correct it", r->path, r->line);
}

/* "kern  :err   : " of dmesg -x, "<3>" of dmesg -r and syslog, "<3>1 " of RFC 5424. */
static const char *skip_priority(const char *at) {
    const char *c = at;
    if (*c == '<') {
        c++;
        size_t n = strspn(c, "0123456789");
        if (n == 0 || n > 3 || c[n] != '>') return at;
        c += n + 1;
        return c[0] == '1' && c[1] == ' ' ? c + 2 : c;
    }
    for (int i = 0; i < 2; i++) {
        size_t n = strspn(c, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (n == 0 || n > 8) return at;
        c += n;
        c += strspn(c, " ");
        if (*c++ != ':') return at;
    }
    return c + strspn(c, " ");
}

/* "host kernel: " or "host program[12]: " behind a stamp, or "host kernel - - - " of RFC 5424: the host into name; where the message begins. */
static const char *host_of(const char *at, char name[256]) {
    *name = 0;
    at += strspn(at, " ");
    size_t n = strcspn(at, " ");
    const char *program = at + n + strspn(at + n, " ");
    size_t m = strcspn(program, " ");
    bool tagged = m > 1 && (program[m - 1] == ':' || strncmp(program, "kernel", m) == 0);
    if (n == 0 || n > 255 || at[n - 1] == ':' || at[n - 1] == ']' || !tagged) return at;
    memcpy(name, at, n);
    name[n] = 0;
    return program + m;
}

/* "rtc_cmos 00:01: setting system clock to 2026-12-01T10:00:00 UTC (1796119200)": when seconds since boot began. */
static void learn_boot(struct hm_evidence_reading *r, const struct hm_stamp *s, const char *message) {
    const char *at = strstr(message, "setting system clock to "), *number = at ? strchr(at, '(') : NULL;
    double time_s;
    if (number && s->kind == HM_STAMP_UPTIME && sscanf(number, "(%lf)", &time_s) == 1 && time_s > 1e9 && time_s < 1e10)
        r->boot_s = time_s - s->time_s;
}

/* `journalctl -o export` and verbose: an entry is KEY=value lines. */
static int end_entry(struct hm_evidence_reading *r, struct hm_kernel_log *k, struct hm_error *err) {
    char kind[32], gpu[64];
    bool broken;
    int status = 0;
    if (k->message && hm_kernel_fault(k->message, kind, gpu, &broken))
        status = isnan(k->entry_s) ? hm_fail(err, HM_ERR_INPUT, "%s: line %zu: an entry without a time; give all of it",
                                             r->path, r->line)
                                   : take(r, k, k->host, k->entry_s, k->message, kind, gpu, err);
    else if (k->message && broken)
        status =
            hm_fail(err, HM_ERR_INPUT, "%s: line %zu: an Xid message that is cut; give all of it", r->path, r->line);
    hm_free(k->message);
    k->message = NULL;
    *k->host = 0;
    k->entry_s = NAN;
    return status;
}

/* 1 if the line is a field of an entry. */
static int entry_field(struct hm_kernel_log *k, const char *line) {
    const char *c = line + strspn(line, " "), *value = strchr(c, '=');
    if (!value || value == c || strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != (size_t)(value - c)) return 0;
    value++;
    if (strncmp(c, "__REALTIME_TIMESTAMP=", 21) == 0) k->entry_s = strtod(value, NULL) / 1e6;
    if (strncmp(c, "_HOSTNAME=", 10) == 0) snprintf(k->host, sizeof k->host, "%.255s", value);
    if (strncmp(c, "MESSAGE=", 8) == 0) {
        hm_free(k->message);
        k->message = hm_strdup(value);
        if (!k->message) return -1;
    }
    return 1;
}

static int listing(struct hm_kernel_log *k, const char *line) {
    const char *c = line + strspn(line, " ");
    if (strncmp(c, "GPU ", 4) == 0 && isdigit((unsigned char)c[4]) && strstr(c, "(UUID: ")) {
        k->listed = (k->listed < 0 ? 0 : k->listed) + 1;
        return 1;
    }
    return (strncmp(c, "MIG ", 4) == 0 && strstr(c, "(UUID: ")) || strcmp(c, "No devices found.") == 0 ||
           strcmp(c, "No devices were found") == 0;
}

/* A line without a stamp: an entry's field, a list of GPUs, journalctl's own remarks, what goes on from the line before. */
static int bare_line(struct hm_evidence_reading *r, struct hm_kernel_log *k, const char *line, struct hm_error *err) {
    char kind[32], gpu[64];
    bool broken;
    int field = entry_field(k, line);
    if (field) return field < 0 ? hm_fail_memory(err) : 1;
    if (strncmp(line, "No devices", 10) == 0 && k->listed < 0) k->listed = 0;
    if (listing(k, line) || strncmp(line, "-- ", 3) == 0) return 1;
    bool fault = hm_kernel_fault(line, kind, gpu, &broken);
    if (fault && strncmp(line, "Unable to determine the device handle", 37) == 0) /* nvidia-smi, as it runs */
        return take(r, k, NULL, r->now_s, line, kind, gpu, err) == 0 ? 1 : -1;
    if (fault || broken)
        return hm_fail(
            err, HM_ERR_INPUT,
            "%s: line %zu: a GPU's fault without a time that is understood; give a log with times (journalctl -k, "
            "dmesg -T)",
            r->path, r->line);
    return k->after_line && (*line == ' ' || *line == '\t');
}

/* Whether a stamped line is of a log that the kernel's messages go to: with host and program, or as dmesg writes it. Other programs' logs bear
 * times, too, and say nothing of GPUs: to read one is no all-clear. */
static bool is_kernel_log(const char *at, size_t n, const struct hm_stamp *stamp, const char *host) {
    if (*host || stamp->kind == HM_STAMP_UPTIME) return true;
    if (*at == '[')
        return !isdigit((unsigned char)at[1 + strspn(at + 1, " ")]); /* dmesg -T: "[Tue Dec  1 10:00:00 2026]" */
    return n > 19 && at[10] == 'T' && at[19] == ',';                 /* dmesg --time-format iso */
}

int hm_kernel_line(struct hm_evidence_reading *r, struct hm_kernel_log *k, char *line, struct hm_error *err) {
    struct hm_stamp stamp, inner;
    char host[256], kind[32], gpu[64];
    bool broken;
    double time_s;
    hm_log_plain(line);
    if (!line[strspn(line, " \t")]) return end_entry(r, k, err) == 0 ? 1 : -1;
    const char *at = skip_priority(line + (line[0] == ' ' && line[1] == '['));
    size_t n = hm_stamp_read(at, &stamp);
    if (n == 0) return bare_line(r, k, line, err);
    const char *message = at + n;
    if (strncmp(message, " [s=", 4) == 0) { /* journalctl -o verbose heads an entry so */
        if (end_entry(r, k, err) != 0 || time_of(r, &stamp, &k->entry_s, err) != 0) return -1;
        return 1;
    }
    *host = 0; /* dmesg's forms name none */
    if (*at != '[' && !(n > 19 && at[10] == 'T' && at[19] == ',')) message = host_of(message, host);
    k->after_line = is_kernel_log(at, n, &stamp, host);
    if (*host && !hm_evidence_node(r, host, err)) return -1; /* another's log is no all-clear either */
    message += strspn(message, " ");
    size_t m = hm_stamp_read(message, &inner); /* syslog keeps the kernel's own stamp */
    if (m && inner.kind == HM_STAMP_UPTIME) message += m + strspn(message + m, " ");
    learn_boot(r, &stamp, message);
    if (!hm_kernel_fault(message, kind, gpu, &broken)) {
        if (broken)
            return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: an Xid message that is cut; give all of it", r->path,
                           r->line);
        return k->after_line;
    }
    if (time_of(r, &stamp, &time_s, err) != 0) return -1;
    return take(r, k, host, time_s, message, kind, gpu, err) == 0 ? 1 : -1;
}

int hm_kernel_end(struct hm_evidence_reading *r, struct hm_kernel_log *k, struct hm_error *err) {
    char detail[100];
    if (end_entry(r, k, err) != 0) return -1;
    if (k->listed < 0) return 0;
    if (r->gpus == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: a list of %ld GPUs; give --gpus N, how many the node must have", r->path,
                       k->listed);
    if (k->listed >= r->gpus) return 0;
    snprintf(detail, sizeof detail, "%ld of %ld GPUs are listed", k->listed, r->gpus);
    return take(r, k, NULL, r->now_s, detail, "gpu-lost", "", err);
}

/* ---- journalctl -o json ---- */

bool hm_is_journal(const json_t *o) {
    return json_object_get(o, "__REALTIME_TIMESTAMP") && json_object_get(o, "MESSAGE");
}

int hm_evidence_journal(struct hm_evidence_reading *r, struct hm_kernel_log *k, const json_t *o, struct hm_error *err) {
    const json_t *message = json_object_get(o, "MESSAGE"), *byte;
    const char *time = json_string_value(json_object_get(o, "__REALTIME_TIMESTAMP"));
    const char *host = json_string_value(json_object_get(o, "_HOSTNAME"));
    struct hm_str text = {0};
    char kind[32], gpu[64];
    bool broken;
    int status = 0;
    size_t i;
    if (json_is_string(message)) hm_str_add(&text, "%s", json_string_value(message));
    json_array_foreach(message, i, byte) { /* what is no plain text is written as bytes */
        json_int_t c = json_integer_value(byte);
        if (c > 0 && c < 256) hm_str_bytes(&text, &(char){(char)c}, 1);
    }
    if (text.failed) status = hm_fail_memory(err);
    if (status == 0 && text.text) {
        hm_log_plain(text.text);
        if (hm_kernel_fault(text.text, kind, gpu, &broken)) {
            double time_s = time ? strtod(time, NULL) / 1e6 : NAN;
            status =
                time_s > 0 && time_s <= TIME_MAX_S
                    ? take(r, k, host, time_s, text.text, kind, gpu, err)
                    : hm_fail(err, HM_ERR_INPUT, "%s: line %zu: __REALTIME_TIMESTAMP is no time", r->path, r->line);
        } else if (broken) {
            status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: an Xid message that is cut; give all of it", r->path,
                             r->line);
        }
    }
    hm_str_free(&text);
    return status;
}
