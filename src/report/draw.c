/* draw.c - what drawings of both kinds share, and the heat scale. */
#include "draw.h"

#include <math.h>

void hm_draw_rect(struct hm_drawing *d, double x, double y, double width, double height, hm_rgb color) {
    d->type->rect(d, x, y, width, height, color);
}

void hm_draw_text(struct hm_drawing *d, double x, double y, double size, enum hm_anchor anchor, hm_rgb color,
                  const char *text) {
    d->type->text(d, x, y, size, anchor, color, text);
}

void hm_draw_free(struct hm_drawing *d) {
    if (d) d->type->release(d);
}

int hm_draw_write(struct hm_drawing *d, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    if (d->type->finish(d, out, err) == 0) return hm_out_commit(out, err);
    hm_out_abort(out);
    return -1;
}

/* ---- the heat scale -----------------------------------------------------------------------------------------------------------
 * Anchors with even steps of lightness, mixed in OKLab (B. Ottosson, "A perceptual color space for image processing", 2020): equal
 * differences look equal, and the order is kept without colour vision and in grey print. web/colors.js has the same anchors. */

static const hm_rgb anchors[] = {0xf3f5ee, 0xfbdc8d, 0xf59f52, 0xdd5a3c, 0xa3254e, 0x4f0f45};
enum { ANCHORS = sizeof anchors / sizeof anchors[0] };
static const double hottest = 1.5; /* the paper's monitor shows 1.0 to 1.5 */

struct lab {
    double l, a, b;
};

static double linear(hm_rgb color, int shift) {
    double c = (color >> shift & 255) / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static struct lab to_lab(hm_rgb color) {
    double r = linear(color, 16), g = linear(color, 8), b = linear(color, 0);
    double l = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    double m = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    double s = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return (struct lab){0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
                        1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
                        0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s};
}

static hm_rgb channel(double c) {
    double v = c <= 0.0031308 ? 12.92 * c : 1.055 * pow(c, 1 / 2.4) - 0.055;
    return (hm_rgb)lround(255 * fmin(1, fmax(0, v)));
}

static hm_rgb from_lab(struct lab c) {
    double l = pow(c.l + 0.3963377774 * c.a + 0.2158037573 * c.b, 3),
           m = pow(c.l - 0.1055613458 * c.a - 0.0638541728 * c.b, 3),
           s = pow(c.l - 0.0894841775 * c.a - 1.291485548 * c.b, 3);
    return channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s) << 16 |
           channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s) << 8 |
           channel(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s);
}

static struct lab heat(double slowdown) {
    double at = fmin(1, fmax(0, (slowdown - 1) / (hottest - 1))) * (ANCHORS - 1);
    int k = (int)at < ANCHORS - 2 ? (int)at : ANCHORS - 2;
    double f = at - k;
    struct lab low = to_lab(anchors[k]), high = to_lab(anchors[k + 1]);
    return (struct lab){low.l + f * (high.l - low.l), low.a + f * (high.a - low.a), low.b + f * (high.b - low.b)};
}

hm_rgb hm_heat_color(double slowdown) {
    return isnan(slowdown) ? 0xc8ced4 : from_lab(heat(slowdown));
}

hm_rgb hm_heat_ink(double slowdown) {
    hm_rgb c = hm_heat_color(slowdown);
    double luminance = 0.2126 * linear(c, 16) + 0.7152 * linear(c, 8) + 0.0722 * linear(c, 0);
    return luminance > 0.2 ? 0x16202b : 0xffffff; /* where the contrast of both is the same, by WCAG's measure */
}
