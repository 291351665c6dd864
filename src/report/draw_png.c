/* draw_png.c - a drawing as a PNG (ISO/IEC 15948): 8-bit RGB, one IDAT chunk, zlib. Text is drawn with a pen along strokes. */
#include "draw.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

enum { SCALE = 2, MAX_PIXELS = 1 << 28 };

struct png {
    struct hm_drawing d;
    size_t w, h;
    unsigned char *rgb; /* [h][w][3] */
};

static void blend(struct png *p, size_t x, size_t y, hm_rgb color, double alpha) {
    unsigned char *pixel = p->rgb + (y * p->w + x) * 3;
    for (int c = 0; c < 3; c++) {
        double ink = color >> (16 - 8 * c) & 255;
        pixel[c] = (unsigned char)lround(pixel[c] + alpha * (ink - pixel[c]));
    }
}

static size_t pixel(double x, size_t limit) {
    long at = lround(x * SCALE);
    return at < 0 ? 0 : (size_t)at > limit ? limit : (size_t)at;
}

static void rect(struct hm_drawing *d, double x, double y, double width, double height, hm_rgb color) {
    struct png *p = (struct png *)d;
    for (size_t j = pixel(y, p->h); j < pixel(y + height, p->h); j++)
        for (size_t i = pixel(x, p->w); i < pixel(x + width, p->w); i++) blend(p, i, j, color, 1);
}

struct point {
    double x, y;
};

static double distance(struct point p, struct point a, struct point b) {
    double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    double f = length > 0 ? fmin(1, fmax(0, ((p.x - a.x) * dx + (p.y - a.y) * dy) / length)) : 0;
    return hypot(p.x - a.x - f * dx, p.y - a.y - f * dy);
}

/* A line with round ends; coverage falls off over the pixel at its edge. */
static void stroke(struct png *p, struct point a, struct point b, double radius, hm_rgb color) {
    double reach = radius + 1;
    size_t x0 = pixel((fmin(a.x, b.x) - reach) / SCALE, p->w), x1 = pixel((fmax(a.x, b.x) + reach) / SCALE, p->w);
    size_t y0 = pixel((fmin(a.y, b.y) - reach) / SCALE, p->h), y1 = pixel((fmax(a.y, b.y) + reach) / SCALE, p->h);
    for (size_t y = y0; y < y1; y++)
        for (size_t x = x0; x < x1; x++) {
            double cover = radius + 0.5 - distance((struct point){(double)x + 0.5, (double)y + 0.5}, a, b);
            if (cover > 0) blend(p, x, y, color, fmin(1, cover));
        }
}

static double text_width(const char *words) {
    double width = 0, advance;
    for (const char *c = words; *c; c++) {
        (void)hm_stroke_glyph(*c, &advance);
        width += advance;
    }
    return width;
}

static void text(struct hm_drawing *d, double x, double y, double size, enum hm_anchor anchor, hm_rgb color,
                 const char *words) {
    struct png *p = (struct png *)d;
    const double unit = size * SCALE / 8.4,
                 radius = size * SCALE * 0.052; /* capitals are 6 units high, 0.71 of the size */
    double left = x * SCALE - (anchor == HM_CENTER  ? 0.5
                               : anchor == HM_RIGHT ? 1
                                                    : 0) *
                                  text_width(words) * unit,
           advance;
    for (const char *c = words; *c; c++, left += advance * unit) {
        struct point last = {0, 0};
        bool down = false;
        for (const char *g = hm_stroke_glyph(*c, &advance); *g; g += *g == ' ' ? 1 : 2) {
            if (*g == ' ') {
                down = false;
                continue;
            }
            struct point at = {left + (g[0] - '0') * unit, y * SCALE + (g[1] - '0' - 6) * unit};
            if (down) stroke(p, last, at, radius, color);
            last = at;
            down = true;
        }
    }
}

static void big_endian(unsigned char bytes[4], size_t value) {
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void chunk(struct hm_out *out, const char *type, const unsigned char *bytes, size_t n) {
    unsigned char word[4];
    big_endian(word, n);
    hm_out_write(out, word, 4);
    hm_out_write(out, type, 4);
    hm_out_write(out, bytes, n);
    uLong crc = crc32(crc32(0, (const unsigned char *)type, 4), bytes, (uInt)n);
    big_endian(word, crc);
    hm_out_write(out, word, 4);
}

static int finish(struct hm_drawing *d, struct hm_out *out, struct hm_error *err) {
    struct png *p = (struct png *)d;
    size_t row = p->w * 3 + 1, size = row * p->h; /* each row begins with its filter: 0, none */
    uLongf packed_size = compressBound(size);
    unsigned char *raw = hm_alloc(size, 1), *packed = hm_alloc(packed_size, 1), header[13] = {0};
    int status = 0;
    if (raw && packed) {
        for (size_t y = 0; y < p->h; y++) memcpy(raw + y * row + 1, p->rgb + y * p->w * 3, p->w * 3);
        if (compress2(packed, &packed_size, raw, size, 9) != Z_OK) status = hm_fail_memory(err);
    } else {
        status = hm_fail_memory(err);
    }
    if (status == 0) {
        big_endian(header, p->w);
        big_endian(header + 4, p->h);
        header[8] = 8; /* bits a sample */
        header[9] = 2; /* RGB */
        hm_out_write(out, "\x89PNG\r\n\x1a\n", 8);
        chunk(out, "IHDR", header, sizeof header);
        chunk(out, "IDAT", packed, packed_size);
        chunk(out, "IEND", header, 0);
    }
    hm_free(raw);
    hm_free(packed);
    return status;
}

static void release(struct hm_drawing *d) {
    hm_free(((struct png *)d)->rgb);
    hm_free(d);
}

struct hm_drawing *hm_draw_png(double width, double height) {
    static const struct hm_drawing_type type = {rect, text, finish, release};
    struct png *p = width * height * SCALE * SCALE < MAX_PIXELS ? hm_alloc(1, sizeof *p) : NULL;
    if (!p) return NULL;
    p->d = (struct hm_drawing){&type, width, height};
    p->w = (size_t)(width * SCALE), p->h = (size_t)(height * SCALE);
    p->rgb = hm_alloc(p->w * p->h, 3);
    if (!p->rgb) {
        hm_free(p);
        return NULL;
    }
    memset(p->rgb, 255, p->w * p->h * 3);
    return &p->d;
}
