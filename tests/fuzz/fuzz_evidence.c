/* fuzz_evidence.c - any bytes as evidence (our JSON, JSON lines, dcgmi diag, a sweep, a kernel log): pieces that a ledger in memory takes,
 * or one line that says why not. */
#include "fuzz.h"
#include "hindmost/node.h"

#include <math.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_evidence_list *list = hm_evidence_read(path, size % 2 ? "node" : NULL, 1e9, &err);
    if (!list) fuzz_check_error(&err);
    for (size_t i = 0; list && i < hm_evidence_count(list); i++) {
        const struct hm_node_evidence *e = &hm_evidence_items(list)[i];
        FUZZ_CHECK(e->node && *e->node && e->kind && *e->kind && e->source && isfinite(e->time_s));
    }
    if (list && hm_evidence_count(list) < 64) {
        struct hm_ledger *l = hm_ledger_open(":memory:", NULL, &err);
        FUZZ_CHECK(l != NULL);
        if (hm_ledger_evidence(l, hm_evidence_items(list), hm_evidence_count(list), NULL, &err) != 0)
            fuzz_check_error(&err);
        hm_ledger_close(l);
    }
    hm_evidence_free(list);
    close(fd);
    return 0;
}
