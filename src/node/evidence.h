/* evidence.h - what the readers of evidence share: the list they fill, and what is known about the file. */
#ifndef HM_NODE_EVIDENCE_H
#define HM_NODE_EVIDENCE_H

#include "base/stamp.h"
#include "node/node.h"

struct hm_evidence_list {
    struct hm_node_evidence *item;
    size_t count, room;
    char *note; /* what was not understood though evidence was found; NULL: nothing */
};

/* One file being read. Readers say how much they understood: only what was read in full can be free of evidence. */
struct hm_evidence_reading {
    struct hm_evidence_list *list;
    const char *path, *node; /* node: given by --node; NULL: the file must say it */
    double now_s, boot_s;    /* boot_s: NaN if it is not known when the machine started */
    const struct hm_zone *zone;
    long gpus;                           /* how many GPUs the node must have; 0: not said */
    size_t line;                         /* at hand */
    size_t documents, log_lines;         /* understood */
    size_t strange, first_strange, lead; /* lines that were not; lead: those before the first document */
};

int hm_evidence_add(struct hm_evidence_list *list, const struct hm_node_evidence *evidence, struct hm_error *err);
/* The node of a line or document that names `host` (NULL: it names none): the host decides, and contradicts --node. NULL with an error. */
const char *hm_evidence_node(const struct hm_evidence_reading *r, const char *host, struct hm_error *err);
/* Any JSON document. */
int hm_evidence_document(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err);

/* ---- evidence_dcgm.c ---- */
/* Whether it is `dcgmi diag -j`, and the evidence in it. */
bool hm_is_dcgm(const json_t *root);
int hm_evidence_dcgm(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err);
/* A line of dcgmi's table for people; false if it is none. A table without severities can only warn. */
struct hm_dcgm_table {
    char test[64];
    bool open, metadata; /* the table has begun and not ended; its part about versions */
    size_t rows, strange;
};
bool hm_dcgm_table_line(struct hm_dcgm_table *t, const char *line);
int hm_dcgm_table_row(struct hm_evidence_reading *r, struct hm_dcgm_table *t, const char *line, struct hm_error *err);
int hm_dcgm_table_end(struct hm_evidence_reading *r, const struct hm_dcgm_table *t, struct hm_error *err);

/* ---- evidence_kernel.c ---- */
struct hm_kernel_log; /* events so far, and the entry of `journalctl -o export` at hand */
struct hm_kernel_log *hm_kernel_log_new(void);
void hm_kernel_log_free(struct hm_kernel_log *k);
/* A line of a kernel log, dmesg, syslog or journalctl, or of `nvidia-smi -L`: 1 understood, 0 not, -1 failed. The line is changed. */
int hm_kernel_line(struct hm_evidence_reading *r, struct hm_kernel_log *k, char *line, struct hm_error *err);
int hm_kernel_end(struct hm_evidence_reading *r, struct hm_kernel_log *k, struct hm_error *err);
/* An object of `journalctl -o json`. */
bool hm_is_journal(const json_t *o);
int hm_evidence_journal(struct hm_evidence_reading *r, struct hm_kernel_log *k, const json_t *o, struct hm_error *err);
/* What a kernel's message says of a GPU: "xid-79" or "gpu-lost" into kind, its bus address into gpu; false: nothing. *broken: it begins as
 * such a message and cannot be read. */
bool hm_kernel_fault(const char *message, char kind[32], char gpu[64], bool *broken);

/* ---- evidence_monitors.c ---- */
/* Conditions of Kubernetes nodes (node-problem-detector, NVSentinel), NVSentinel's health events, gpud's states; false: none of these. */
bool hm_is_monitor(const json_t *root);
int hm_evidence_monitor(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err);

#endif
