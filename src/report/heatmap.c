/* heatmap.c - the workers' slowdowns as a picture, SVG or PNG: x DP rank, y pipeline stage, colour S from 1.0 to 1.5, as in the monitor of
 * OSDI 2025, section 7. An isolated hot cell is a worker, a hot last row the stage split, a warm scatter sequence lengths. */
#include "hindmost/report.h"
#include "draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 52, TOP = 64, RIGHT = 60, ROOM = 960, STRIP = 14, GAP = 5, BAND_GAP = 26, LEGEND = 58 };
static const hm_rgb ink = 0x16202b, muted = 0x566372;

struct layout {
    double cell, height;
    size_t across, bands;
    double band; /* height of one, with its axis and strip */
};

/* Cells as wide as fit, at least 4 pixels; the rest folds into further bands, of whole eights of ranks. */
static struct layout lay_out(size_t dp, size_t pp) {
    struct layout l = {.cell = fmax(4, fmin(56, floor(ROOM / (double)dp)))};
    l.across = (size_t)(ROOM / l.cell);
    if (l.across > dp) l.across = dp;
    if (l.across < dp) l.across -= l.across % 8;
    l.bands = (dp + l.across - 1) / l.across;
    l.height = fmax(4, fmin(30, floor(640 / (double)(pp * l.bands))));
    l.band = (double)pp * l.height + GAP + STRIP + BAND_GAP;
    return l;
}

static void cell(struct hm_drawing *d, double x, double y, double width, double height, double slowdown) {
    double line = width > 6 && height > 6 ? 1 : 0;
    hm_draw_rect(d, x, y, width - line, height - line, hm_heat_color(slowdown));
}

/* The smallest power of two of cells that leaves `room` for a label. */
static size_t label_every(double size, double room) {
    size_t every = 1;
    while ((double)every * size < room) every *= 2;
    return every;
}

static void band(struct hm_drawing *d, const struct hm_analysis *a, const struct layout *l, size_t b) {
    size_t first = b * l->across, last = first + l->across < a->dp ? first + l->across : a->dp;
    double y0 = TOP + (double)b * l->band;
    char text[32];
    for (size_t dp = first; dp < last; dp++) {
        double x = LEFT + (double)(dp - first) * l->cell;
        if (dp % label_every(l->cell, 34) == 0) {
            (void)snprintf(text, sizeof text, "%zu", dp);
            hm_draw_text(d, x + l->cell / 2, y0 - 6, 11, HM_CENTER, muted, text);
        }
        for (size_t s = 0; s < a->pp; s++) {
            double v = a->by_worker[s * a->dp + dp], y = y0 + (double)s * l->height;
            cell(d, x, y, l->cell, l->height, v);
            if (l->cell < 36 || l->height < 16 || isnan(v)) continue;
            (void)snprintf(text, sizeof text, "%.2f", v);
            hm_draw_text(d, x + l->cell / 2, y + l->height / 2 + 4, 11, HM_CENTER, hm_heat_ink(v), text);
        }
        cell(d, x, y0 + (double)a->pp * l->height + GAP, l->cell, STRIP, a->by_dp_rank[dp]);
    }
    for (size_t s = 0; s < a->pp; s++) {
        double y = y0 + (double)s * l->height;
        cell(d, LEFT + (double)(last - first) * l->cell + GAP, y, STRIP, l->height, a->by_stage[s]);
        if (s % label_every(l->height, 12) != 0) continue;
        (void)snprintf(text, sizeof text, "%zu", s);
        hm_draw_text(d, LEFT - 8, y + l->height / 2 + 4, 11, HM_RIGHT, muted, text);
    }
}

static void legend(struct hm_drawing *d, double y) {
    const int width = 200;
    char text[16];
    for (int i = 0; i < width; i++) hm_draw_rect(d, LEFT + i, y, 1, 12, hm_heat_color(1 + 0.5 * i / (width - 1)));
    for (int k = 0; k <= 5; k++) {
        (void)snprintf(text, sizeof text, k == 5 ? "1.5+" : "1.%d", k);
        hm_draw_text(d, LEFT + width * k / 5.0, y + 25, 11, HM_CENTER, muted, text);
    }
    hm_draw_text(d, LEFT + width + 24, y + 11, 11, HM_LEFT, muted,
                 "slowdown by this worker alone; strips: by its stage, its DP rank");
}

int hm_heatmap_write(const struct hm_analysis *a, const char *path, struct hm_error *err) {
    bool png = hm_ends_with(path, ".png");
    if (!png && !hm_ends_with(path, ".svg"))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: not a picture's name; let it end in .svg or .png", path);
    struct layout l = lay_out(a->dp, a->pp);
    double width = fmax(LEFT + (double)l.across * l.cell + RIGHT, 760),
           height = TOP + (double)l.bands * l.band + LEGEND;
    char title[300];
    (void)snprintf(title, sizeof title, "%s: slowdown %.3f", a->name, a->slowdown);
    struct hm_drawing *d = png ? hm_draw_png(width, height) : hm_draw_svg(width, height, title);
    if (!d) return hm_fail_memory(err);
    hm_draw_text(d, LEFT, 24, 16, HM_LEFT, ink, title);
    hm_draw_text(d, LEFT, 43, 11, HM_LEFT, muted, "columns: DP rank, rows: pipeline stage");
    for (size_t b = 0; b < l.bands; b++) band(d, a, &l, b);
    legend(d, TOP + (double)l.bands * l.band);
    int status = hm_draw_write(d, path, err);
    hm_draw_free(d);
    return status;
}
