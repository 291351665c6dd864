/* draw_svg.c - a drawing as SVG text. */
#include "draw.h"

struct svg {
    struct hm_drawing d;
    struct hm_str body;
};

static void add_escaped(struct hm_str *s, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '<')
            hm_str_add(s, "&lt;");
        else if (*c == '&')
            hm_str_add(s, "&amp;");
        else if ((unsigned char)*c >= 0x20) /* other control characters are not allowed in XML */
            hm_str_bytes(s, c, 1);
    }
}

static void rect(struct hm_drawing *d, double x, double y, double width, double height, hm_rgb color) {
    hm_str_add(&((struct svg *)d)->body,
               "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"#%06x\"/>\n", x, y, width, height,
               color);
}

static void text(struct hm_drawing *d, double x, double y, double size, enum hm_anchor anchor, hm_rgb color,
                 const char *words) {
    static const char *const anchors[] = {"start", "middle", "end"};
    struct hm_str *s = &((struct svg *)d)->body;
    hm_str_add(s, "<text x=\"%.6g\" y=\"%.6g\" font-size=\"%.6g\" text-anchor=\"%s\" fill=\"#%06x\">", x, y, size,
               anchors[anchor], color);
    add_escaped(s, words);
    hm_str_add(s, "</text>\n");
}

static int finish(struct hm_drawing *d, struct hm_out *out, struct hm_error *err) {
    const struct hm_str *s = &((struct svg *)d)->body;
    if (s->failed) return hm_fail_memory(err);
    hm_out_write(out, s->text, s->length);
    hm_out_printf(out, "</g>\n</svg>\n");
    return 0;
}

static void release(struct hm_drawing *d) {
    hm_str_free(&((struct svg *)d)->body);
    hm_free(d);
}

struct hm_drawing *hm_draw_svg(double width, double height, const char *title) {
    static const struct hm_drawing_type type = {rect, text, finish, release};
    struct svg *s = hm_alloc(1, sizeof *s);
    if (!s) return NULL;
    s->d = (struct hm_drawing){&type, width, height};
    hm_str_add(&s->body,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.6g\" height=\"%.6g\" viewBox=\"0 0 %.6g %.6g\" "
               "role=\"img\">\n<title>",
               width, height, width, height);
    add_escaped(&s->body, title);
    hm_str_add(&s->body, "</title>\n<g font-family=\"Inter, system-ui, Helvetica, Arial, sans-serif\">\n");
    rect(&s->d, 0, 0, width, height, 0xffffff);
    return &s->d;
}
