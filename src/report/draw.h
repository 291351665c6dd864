/* draw.h - rectangles and text on an SVG or PNG canvas, for pictures that are made of nothing else. */
#ifndef HM_DRAW_H
#define HM_DRAW_H

#include "base/base.h"

struct hm_drawing;

/* 0xRRGGBB */
typedef uint32_t hm_rgb;
enum hm_anchor { HM_LEFT, HM_CENTER, HM_RIGHT };

/* A white canvas of that size in CSS pixels (PNG has two pixels for each). NULL without memory, or if it would exceed 2^28 pixels. */
struct hm_drawing *hm_draw_svg(double width, double height, const char *title);
struct hm_drawing *hm_draw_png(double width, double height);
void hm_draw_free(struct hm_drawing *d);

void hm_draw_rect(struct hm_drawing *d, double x, double y, double width, double height, hm_rgb color);
/* `y` is the baseline; size the height of a line in pixels. */
void hm_draw_text(struct hm_drawing *d, double x, double y, double size, enum hm_anchor anchor, hm_rgb color,
                  const char *text);

/* Writes the picture. 0, or -1: HM_ERR_IO, HM_ERR_MEMORY. */
int hm_draw_write(struct hm_drawing *d, const char *path, struct hm_error *err);

/* The heat scale: slowdown 1.0 to 1.5 (and beyond), light to dark in even steps. NaN is grey. */
hm_rgb hm_heat_color(double slowdown);
/* Ink that can be read on that colour. */
hm_rgb hm_heat_ink(double slowdown);

/* ---- for draw*.c ------------------------------------------------------------------------------------------------------------- */

struct hm_drawing_type {
    void (*rect)(struct hm_drawing *d, double x, double y, double width, double height, hm_rgb color);
    void (*text)(struct hm_drawing *d, double x, double y, double size, enum hm_anchor anchor, hm_rgb color,
                 const char *text);
    int (*finish)(struct hm_drawing *d, struct hm_out *out, struct hm_error *err);
    void (*release)(struct hm_drawing *d);
};
struct hm_drawing {
    const struct hm_drawing_type *type;
    double width, height;
};

/* A stroke font: the pen's path of a character, pairs of digits "xy" on a grid 4 wide with the baseline at y = 6; a space lifts the pen.
 * *advance is how far the next character stands, in the same units. */
const char *hm_stroke_glyph(char character, double *advance);

#endif
