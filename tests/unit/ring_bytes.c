/* ring_bytes.c - a second reader of rings, from docs/ring.md by offsets alone. */
#include "ring_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0) value = value << 8 | at[bytes];
    return value;
}

uint64_t ring_bytes_u64(const struct ring_bytes *r, size_t at) {
    return number(r->bytes + at, 8);
}
uint32_t ring_bytes_u32(const struct ring_bytes *r, size_t at) {
    return (uint32_t)number(r->bytes + at, 4);
}
uint16_t ring_bytes_u16(const struct ring_bytes *r, size_t at) {
    return (uint16_t)number(r->bytes + at, 2);
}

int ring_bytes_load(struct ring_bytes *r, const char *path) {
    static const unsigned char magic[8] = {0x89, 'H', 'M', 'R', 'I', 'N', 'G', '\n'};
    FILE *f = fopen(path, "rb");
    *r = (struct ring_bytes){0};
    if (!f) return -1;
    if (fseek(f, 0, SEEK_END) == 0) r->size = (size_t)ftell(f);
    rewind(f);
    r->bytes = malloc(r->size + 1);
    size_t got = r->bytes ? fread(r->bytes, 1, r->size, f) : 0;
    (void)fclose(f);
    if (got == r->size && got >= 4096 && memcmp(r->bytes, magic, 8) == 0 && ring_bytes_u32(r, 8) == 1 &&
        ring_bytes_u32(r, 12) + (uint64_t)ring_bytes_u32(r, 16) * ring_bytes_u32(r, 20) <= got)
        return 0;
    ring_bytes_free(r);
    return -1;
}

void ring_bytes_free(struct ring_bytes *r) {
    free(r->bytes);
    *r = (struct ring_bytes){0};
}

size_t ring_bytes_record(const struct ring_bytes *r, uint64_t n) {
    size_t at = ring_bytes_u32(r, 12) + (size_t)(n % ring_bytes_u32(r, 20)) * ring_bytes_u32(r, 16);
    return ring_bytes_u64(r, at) == 2 * n + 2 ? at : 0;
}

const char *ring_bytes_name(const struct ring_bytes *r, unsigned id) {
    size_t at = 4096, end = 4096 + ring_bytes_u32(r, 108);
    for (unsigned i = 1; at < end; i++, at += ring_bytes_u16(r, at))
        if (i == id) return (const char *)r->bytes + at + 8;
    return NULL;
}
