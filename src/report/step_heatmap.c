/* step_heatmap.c - ranks by steps as a picture: each rank's own time over its peers' in that step. A slow rank is a dark row, a moment that is
 * slow for all a column. Without ranks one row: each step over the usual. */
#include "draw.h"
#include "hindmost/series.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LEFT = 64, TOP = 64, RIGHT = 24, ROOM = 960, MOST_HEIGHT = 900, LEGEND = 58 };
static const hm_rgb ink = 0x16202b, muted = 0x566372;

struct field {
    size_t rows, columns; /* of the picture */
    size_t ranks_a_row, steps_a_column;
    double width, height; /* of a cell */
};

static struct field lay_out(const struct hm_series *s) {
    size_t ranks = s->n_ranks ? s->n_ranks : 1, most = MOST_HEIGHT / 3;
    struct field f = {.ranks_a_row = (ranks + most - 1) / most, .steps_a_column = (s->n + ROOM - 1) / ROOM};
    f.rows = (ranks + f.ranks_a_row - 1) / f.ranks_a_row;
    f.columns = (s->n + f.steps_a_column - 1) / f.steps_a_column;
    f.width = fmin(40, floor(ROOM / (double)f.columns));
    f.height = fmax(3, fmin(24, floor(MOST_HEIGHT / (double)f.rows)));
    return f;
}

/* A rank's step over the median of its peers. */
static double ratio_of(const struct hm_series *s, size_t r, size_t i, double *scratch) {
    if (s->n_ranks == 0) return s->seconds[i] / s->paces.usual_s;
    size_t n = 0;
    for (size_t q = 0; q < s->n_ranks; q++)
        if (s->rank[q].stage == s->rank[r].stage && !isnan(s->own_s[q * s->n + i]))
            scratch[n++] = s->own_s[q * s->n + i];
    return n ? s->own_s[r * s->n + i] / hm_median(scratch, n) : NAN;
}

/* The darkest of what a cell stands for. */
static double cell_of(const struct hm_series *s, const struct field *f, size_t row, size_t column, double *scratch) {
    double most = NAN;
    size_t ranks = s->n_ranks ? s->n_ranks : 1;
    for (size_t r = row * f->ranks_a_row; r < (row + 1) * f->ranks_a_row && r < ranks; r++)
        for (size_t i = column * f->steps_a_column; i < (column + 1) * f->steps_a_column && i < s->n; i++)
            most = fmax(most, ratio_of(s, r, i, scratch));
    return most;
}

static void axes(struct hm_drawing *d, const struct hm_series *s, const struct field *f) {
    char text[32];
    size_t every = 1;
    while ((double)every * f->width < 70) every *= 2;
    for (size_t c = 0; c < f->columns; c += every) {
        (void)snprintf(text, sizeof text, "%" PRId64, s->step[c * f->steps_a_column]);
        hm_draw_text(d, LEFT + (double)c * f->width, TOP - 6, 11, HM_LEFT, muted, text);
    }
    for (every = 1; (double)every * f->height < 12;) every *= 2;
    for (size_t r = 0; s->n_ranks && r < f->rows; r += every) {
        (void)snprintf(text, sizeof text, "%d", s->rank[r * f->ranks_a_row].rank);
        hm_draw_text(d, LEFT - 8, TOP + (double)r * f->height + f->height / 2 + 4, 11, HM_RIGHT, muted, text);
    }
}

static void legend(struct hm_drawing *d, const struct hm_series *s, double y) {
    char text[100];
    for (int i = 0; i < 200; i++) hm_draw_rect(d, LEFT + i, y, 1, 12, hm_heat_color(1 + 0.5 * i / 199));
    for (int k = 0; k <= 5; k++) {
        (void)snprintf(text, sizeof text, k == 5 ? "1.5+" : "1.%d", k);
        hm_draw_text(d, LEFT + 40 * k, y + 25, 11, HM_CENTER, muted, text);
    }
    hm_draw_text(d, LEFT + 224, y + 11, 11, HM_LEFT, muted,
                 s->n_ranks ? "own time over the median of the step's peers" : "step time over the usual");
}

int hm_series_heatmap(const struct hm_series *s, const char *path, struct hm_error *err) {
    bool png = hm_ends_with(path, ".png");
    if (!png && !hm_ends_with(path, ".svg"))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: not a picture's name; let it end in .svg or .png", path);
    struct field f = lay_out(s);
    double width = fmax(LEFT + (double)f.columns * f.width + RIGHT, 640),
           height = TOP + (double)f.rows * f.height + LEGEND;
    char title[300];
    (void)snprintf(title, sizeof title, "%.200s: usual step %.4g s", s->name, s->paces.usual_s);
    double *scratch = hm_alloc(s->n_ranks, sizeof *scratch);
    struct hm_drawing *d = !scratch ? NULL : png ? hm_draw_png(width, height) : hm_draw_svg(width, height, title);
    int status = -1;
    if (d) {
        hm_draw_text(d, LEFT, 24, 16, HM_LEFT, ink, title);
        hm_draw_text(d, LEFT, 43, 11, HM_LEFT, muted, s->n_ranks ? "columns: steps, rows: ranks" : "columns: steps");
        axes(d, s, &f);
        for (size_t r = 0; r < f.rows; r++)
            for (size_t c = 0; c < f.columns; c++)
                hm_draw_rect(d, LEFT + (double)c * f.width, TOP + (double)r * f.height, f.width, f.height,
                             hm_heat_color(cell_of(s, &f, r, c, scratch)));
        legend(d, s, TOP + (double)f.rows * f.height + 18);
        status = hm_draw_write(d, path, err);
    } else {
        (void)hm_fail_memory(err);
    }
    hm_draw_free(d);
    hm_free(scratch);
    return status;
}
