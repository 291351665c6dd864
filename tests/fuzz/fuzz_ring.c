/* fuzz_ring.c - any bytes as a ring: records that are sound and counts that add up, or one line that says why not. */
#include "fuzz.h"
#include "hindmost/ring.h"
#include "trace/ring_rows.h"

#include <string.h>
#include <unistd.h>

static void check_event(const struct hm_ring_event *e) {
    FUZZ_CHECK(e->kind && e->begin_ns >= 0 && e->end_ns >= e->begin_ns && e->step >= -1 && e->peer >= -1);
    FUZZ_CHECK(e->bytes >= -1 && e->tokens >= -1 && e->seq >= -1 && e->stream >= 0);
    FUZZ_CHECK(!e->name || strlen(e->name) < 1 << 16);
    for (const unsigned char *c = (const unsigned char *)(e->group ? e->group : ""); *c; c++)
        FUZZ_CHECK(*c >= ' ' && *c != 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd, more;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_ring *ring = hm_ring_open(path, 0, &err);
    if (!ring) {
        fuzz_check_error(&err);
        close(fd);
        return 0;
    }
    struct hm_ring_event e;
    struct hm_ring_info info = hm_ring_info(ring);
    while ((more = hm_ring_next(ring, &e, &err)) == 1) check_event(&e);
    FUZZ_CHECK(more == 0);
    struct hm_ring_counts c = hm_ring_counts(ring);
    FUZZ_CHECK(c.read <= info.capacity && c.read + c.dropped + c.unfinished + c.refused == info.claimed);
    (void)hm_ring_alive(ring);
    hm_ring_close(ring);

    struct hm_ring_rows rows;
    struct hm_ring_summary summary;
    if (hm_ring_rows_read(&rows, &path, 1, &summary, &err) == 0) {
        for (size_t i = 0; i < rows.count; i++)
            FUZZ_CHECK(rows.row[i].start_ns <= rows.row[i].end_ns && rows.row[i].stream >= 0);
        hm_ring_rows_free(&rows);
    } else {
        fuzz_check_error(&err);
    }
    close(fd);
    return 0;
}
