/* ring_bytes.h - a second reader of rings, written from docs/ring.md by offsets alone: it shares no header and no code with the first. */
#ifndef HM_TEST_RING_BYTES_H
#define HM_TEST_RING_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct ring_bytes {
    unsigned char *bytes;
    size_t size;
};
/* Loads the file whole. 0, or -1 if it is not a finished ring whose sizes fit. */
int ring_bytes_load(struct ring_bytes *ring, const char *path);
void ring_bytes_free(struct ring_bytes *ring);

uint64_t ring_bytes_u64(const struct ring_bytes *ring, size_t at);
uint32_t ring_bytes_u32(const struct ring_bytes *ring, size_t at);
uint16_t ring_bytes_u16(const struct ring_bytes *ring, size_t at);
/* Where record `number` stands if it is whole and still there; 0 if not. */
size_t ring_bytes_record(const struct ring_bytes *ring, uint64_t number);
/* The text of name `id`; NULL if there is none. */
const char *ring_bytes_name(const struct ring_bytes *ring, unsigned id);

#endif
