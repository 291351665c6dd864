/* pack.c - integers as short text: byte planes, zlib, base64. web/unpack.js reads it.
 *
 * Neighbours in the arrays of a page are alike, so the planes of their upper bytes are almost constant and vanish in zlib. */
#include "page_data.h"

#include <zlib.h>

static char *base64(const unsigned char *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = hm_alloc((n + 2) / 3 * 4 + 1, 1), *c = text;
    for (size_t i = 0; text && i < n; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        if (i + 1 < n) word |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n) word |= bytes[i + 2];
        *c++ = digits[word >> 18];
        *c++ = digits[word >> 12 & 63];
        *c++ = i + 1 < n ? digits[word >> 6 & 63] : '=';
        *c++ = i + 2 < n ? digits[word & 63] : '=';
    }
    return text;
}

char *hm_pack(const int32_t *values, size_t n) {
    size_t bytes;
    if (!hm_mul(n, 4, &bytes)) return NULL;
    uLongf packed_size = compressBound(bytes);
    unsigned char *planes = hm_alloc(bytes + 1, 1), *packed = hm_alloc(packed_size, 1);
    char *text = NULL;
    if (planes && packed) {
        for (size_t i = 0; i < n; i++)
            for (size_t plane = 0; plane < 4; plane++)
                planes[plane * n + i] = (unsigned char)((uint32_t)values[i] >> (8 * plane));
        if (compress2(packed, &packed_size, planes, bytes, 9) == Z_OK) text = base64(packed, packed_size);
    }
    hm_free(planes);
    hm_free(packed);
    return text;
}
