/* tor_page.c - a plan or a measurement as one self-contained page. */
#include "hindmost/tor.h"
#include "page.h"
#include "page_tor.h"

#include <math.h>
#include <string.h>

struct page {
    const struct hm_tor_run *run;
    const struct hm_tor_result *result;
    const struct hm_tor_measurement *m;
};

enum { POINTS = 41 };

/* TOR of the plan with the interval, or the number of nodes, from a hundredth (a sixteenth) to a hundred (16) times as large. */
static void curve(struct hm_json *j, const char *name, const struct hm_tor_run *run, double middle, double factor,
                  bool interval) {
    double value[POINTS], tor[POINTS];
    size_t n = 0;
    for (int k = 0; k < POINTS; k++) {
        struct hm_tor_run changed = *run;
        struct hm_tor_result r;
        value[n] = middle * pow(factor, 2.0 * k / (POINTS - 1) - 1);
        if (interval)
            changed.interval_s = value[n];
        else
            changed.nodes = fmax(1, round(value[n])), changed.interval_s = 0;
        if (hm_tor_plan(&changed, &r, NULL) != 0) continue;
        tor[n++] = r.tor;
    }
    hm_json_object(j, name);
    hm_json_array(j, "value");
    for (size_t i = 0; i < n; i++) hm_json_number(j, NULL, value[i]);
    hm_json_end_array(j);
    hm_json_array(j, "tor");
    for (size_t i = 0; i < n; i++) hm_json_number(j, NULL, tor[i]);
    hm_json_end_array(j);
    hm_json_end_object(j);
}

static int fill(void *context, const char *name, struct hm_out *out, struct hm_error *err) {
    (void)err;
    const struct page *p = context;
    if (strcmp(name, "version") == 0) {
        hm_out_printf(out, "%s", hm_version());
    } else if (strcmp(name, "tor") == 0) {
        if (p->m)
            hm_tor_measurement_write_json(p->m, out);
        else
            hm_tor_plan_write_json(p->run, p->result, NULL, NULL, out);
    } else {
        struct hm_json j;
        hm_json_begin(&j, out, 0);
        hm_json_object(&j, NULL);
        if (p->run && isfinite(p->result->best_interval_s)) {
            curve(&j, "interval", p->run, p->result->best_interval_s, 30, true);
            curve(&j, "nodes", p->run, p->run->nodes, 16, false);
        }
        hm_json_end_object(&j);
    }
    return 0;
}

int hm_tor_plan_html(const struct hm_tor_run *run, const struct hm_tor_result *result, const char *path,
                     struct hm_error *err) {
    struct page p = {.run = run, .result = result};
    return hm_page_write(hm_page_tor, sizeof hm_page_tor, fill, &p, path, err);
}

int hm_tor_measurement_html(const struct hm_tor_measurement *m, const char *path, struct hm_error *err) {
    struct page p = {.m = m};
    return hm_page_write(hm_page_tor, sizeof hm_page_tor, fill, &p, path, err);
}
