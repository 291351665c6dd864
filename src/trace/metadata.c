/* metadata.c - the job's layout: read from a YAML file, inferred from the trace, and held against each other. */
#include "base/yaml_file.h"
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct field {
    const char *key;
    size_t offset;
};

static const struct field fields[] = {
    {"dp_size", offsetof(struct hm_layout, dp)},   {"pp_size", offsetof(struct hm_layout, pp)},
    {"tp_size", offsetof(struct hm_layout, tp)},   {"dsp_size", offsetof(struct hm_layout, dsp)},
    {"vpp_size", offsetof(struct hm_layout, vpp)}, {"world_size", offsetof(struct hm_layout, world)},
};

static int64_t *field_of(struct hm_layout *layout, const char *key) {
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++)
        if (strcmp(fields[k].key, key) == 0) return (int64_t *)((char *)layout + fields[k].offset);
    return NULL;
}

static int take_pair(struct hm_layout *layout, const char *path, const char *key, const char *value, size_t line,
                     struct hm_error *err) {
    if (strcmp(key, "trial_name") == 0 || strcmp(key, "name") == 0) {
        (void)snprintf(layout->name, sizeof layout->name, "%s", value);
        return 0;
    }
    int64_t *field = field_of(layout, key);
    if (!field) return 0; /* other keys are other tools' business */
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    long long most = field == &layout->world ? 1000000000 : 32768; /* so that the product of all sizes fits 64 bits */
    if (errno || end == value || *end || n <= 0 || n > most)
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s is '%.40s'; it must be a whole number from 1 to %lld", path,
                       line, key, value, most);
    *field = n;
    return 0;
}

/* Metadata is one flat mapping; anything deeper is passed over. */
static int parse(yaml_parser_t *parser, struct hm_layout *layout, const char *path, struct hm_error *err) {
    int depth = 0, status = 0;
    bool done = false, mapping = false;
    char key[64] = "";
    while (!done && status == 0) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: not YAML: %s; repair the file", path,
                           parser->problem_mark.line + 1, parser->problem ? parser->problem : "cannot be parsed");
        switch (event.type) {
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT:
            if (depth == 0) mapping = event.type == YAML_MAPPING_START_EVENT;
            if (depth == 1 && field_of(layout, key))
                status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s is a list; it must be one whole number", path,
                                 event.start_mark.line + 1, key);
            depth++;
            break;
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT:
            depth--;
            key[0] = 0;
            break;
        case YAML_SCALAR_EVENT: {
            const char *text = (const char *)event.data.scalar.value;
            if (depth != 1) break;
            if (!key[0]) {
                (void)snprintf(key, sizeof key, "%s", text[0] ? text : " ");
            } else {
                status = take_pair(layout, path, key, text, event.start_mark.line + 1, err);
                key[0] = 0;
            }
            break;
        }
        case YAML_STREAM_END_EVENT:
            done = true;
            break;
        default:
            break;
        }
        yaml_event_delete(&event);
    }
    if (status == 0 && !mapping)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: holds no 'key: value' lines; a metadata file names dp_size, pp_size, tp_size, ...", path);
    return status;
}

int hm_metadata_read(const char *path, struct hm_layout *layout, struct hm_error *err) {
    size_t size;
    char *text = hm_yaml_read(path, &size, err);
    if (!text) return -1;
    int status;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        status = hm_fail_memory(err);
    } else {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
        status = parse(&parser, layout, path, err);
        yaml_parser_delete(&parser);
    }
    hm_free(text);
    if (status == 0 && layout->world && layout->dp && layout->pp && layout->tp) {
        int64_t product = layout->dp * layout->pp * layout->tp * (layout->dsp ? layout->dsp : 1);
        if (product != layout->world)
            status = hm_fail(err, HM_ERR_INPUT,
                             "%s: world_size %" PRId64 " is not dp_size x pp_size x tp_size x dsp_size = %" PRId64
                             "; correct one of them",
                             path, layout->world, product);
    }
    return status;
}

static int contradiction(const char *path, const char *meta_path, const char *key, int64_t says, int64_t seen,
                         struct hm_error *err) {
    return hm_fail(err, HM_ERR_INPUT,
                   "%s: %s says %s %" PRId64 ", but the trace shows %" PRId64
                   "; give the metadata of this trace, or none",
                   path, meta_path, key, says, seen);
}

/* Metadata names more DP ranks than have rows. If the rank numbers fit that size, the last replicas are missing from
 * the trace (a hole); if not, the metadata belongs to another job. seen->world is the highest rank number + 1. */
static bool missing_last_replicas(const struct hm_layout *layout, const struct hm_layout *seen) {
    if (layout->dp <= seen->dp || seen->pp < 2 || seen->world < 2) return false;
    int64_t steps = (seen->pp - 1) * layout->dp + seen->dp - 1,
            stride = (layout->tp ? layout->tp : 1) * (layout->dsp ? layout->dsp : 1);
    return seen->world - 1 == steps * stride;
}

int hm_layout_settle(struct hm_layout *layout, const struct hm_layout *seen, const char *path, const char *meta_path,
                     struct hm_error *err) {
    struct {
        const char *key;
        int64_t *says, seen;
    } known[] = {
        {"dp_size", &layout->dp, seen->dp}, {"pp_size", &layout->pp, seen->pp}, {"vpp_size", &layout->vpp, seen->vpp}};
    if (missing_last_replicas(layout, seen)) known[0].seen = layout->dp;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (*known[k].says && *known[k].says != known[k].seen)
            return contradiction(path, meta_path, known[k].key, *known[k].says, known[k].seen, err);
        *known[k].says = known[k].seen;
    }
    /* The trace stores one rank of each TP (and sequence-parallel) group: rank numbers advance by tp * dsp from worker to worker. */
    int64_t says_stride = (layout->tp ? layout->tp : 1) * (layout->dsp ? layout->dsp : 1);
    bool whole = layout->tp && layout->dsp, says_all = whole || layout->world,
         stride_seen = seen->tp && layout->dp == seen->dp;
    if (stride_seen && (whole ? says_stride != seen->tp : seen->tp % says_stride != 0))
        return contradiction(path, meta_path,
                             whole        ? "tp_size x dsp_size"
                             : layout->tp ? "tp_size"
                                          : "dsp_size",
                             says_stride, seen->tp, err);
    int64_t stride = whole || !stride_seen ? says_stride : seen->tp;
    if (!layout->tp) layout->tp = layout->dsp ? stride / layout->dsp : stride;
    if (!layout->dsp) layout->dsp = stride / layout->tp;
    int64_t world;
    if (__builtin_mul_overflow(layout->dp * layout->pp, stride, &world))
        return hm_fail(err, HM_ERR_INPUT, "%s: rank %" PRId64 ": rank is outside any layout; repair the file", path,
                       seen->world - 1);
    if (layout->world && layout->world != world)
        return contradiction(path, meta_path, "world_size", layout->world, world, err);
    if (says_all && seen->world > world)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: rank %" PRId64 " is outside the layout of %s (world_size %" PRId64
                       "); give the metadata of this trace, or none",
                       path, seen->world - 1, meta_path, world);
    layout->world = world;
    return 0;
}
