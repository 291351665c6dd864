/* ledger_write.c - the ledger for people's tools: JSON and Prometheus text. */
#include "node/node.h"

#include <string.h>

static void list_row(void *context, const struct hm_node_row *r) {
    struct hm_json *w = context;
    hm_json_object(w, NULL);
    hm_json_string(w, "node", r->node);
    hm_json_string(w, "class", r->class_name);
    hm_json_string(w, "state", hm_node_state_name(r->state));
    hm_json_number(w, "since", r->since_s);
    hm_json_string(w, "why", r->why);
    hm_json_string(w, "hold", r->hold);
    hm_json_end_object(w);
}

int hm_ledger_write_list(struct hm_ledger *l, const char *node, struct hm_out *out, struct hm_error *err) {
    struct hm_json w;
    hm_json_begin(&w, out, 2);
    hm_json_object(&w, NULL);
    hm_json_string(&w, "schema", "hindmost.nodes/1");
    hm_json_array(&w, "nodes");
    if (hm_ledger_list(l, node, list_row, &w, err) != 0) return -1;
    hm_json_end_array(&w);
    hm_json_end_object(&w);
    hm_json_finish(&w);
    return 0;
}

int hm_ledger_write_history(struct hm_ledger *l, const char *node, struct hm_out *out, struct hm_error *err) {
    struct hm_json w;
    hm_json_begin(&w, out, 2);
    hm_json_object(&w, NULL);
    hm_json_string(&w, "schema", "hindmost.history/1");
    if (hm_ledger_query_json(l, "steps",
                             "SELECT node, time, from_state AS 'from', to_state AS 'to', who, why, evidence FROM step "
                             "WHERE ?1 IS NULL OR node = ?1 ORDER BY id",
                             node, &w, err) != 0 ||
        hm_ledger_query_json(l, "evidence",
                             "SELECT id, node, time, source, kind, detail FROM evidence WHERE ?1 IS NULL OR node = ?1 "
                             "ORDER BY id",
                             node, &w, err) != 0)
        return -1;
    hm_json_end_object(&w);
    hm_json_finish(&w);
    return 0;
}

/* A label's value: backslash, quote and newline are escaped (Prometheus text format). */
static void label(struct hm_out *out, const char *name, const char *value) {
    hm_out_printf(out, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            hm_out_printf(out, "\\n");
        else if (*c == '\\' || *c == '"')
            hm_out_printf(out, "\\%c", *c);
        else
            hm_out_write(out, c, 1);
    }
    hm_out_printf(out, "\"");
}

struct metrics {
    struct hm_out *out;
    long states[HM_NODE_RETIRED + 1];
};

static void metrics_row(void *context, const struct hm_node_row *r) {
    struct metrics *m = context;
    for (int s = 0; s <= HM_NODE_RETIRED; s++) {
        hm_out_printf(m->out, "hindmost_node_state{");
        label(m->out, "node", r->node);
        hm_out_printf(m->out, ",");
        label(m->out, "class", r->class_name);
        hm_out_printf(m->out, ",state=\"%s\"} %d\n", hm_node_state_name((enum hm_node_state)s), s == (int)r->state);
    }
    m->states[r->state]++;
}

/* One series a node and state, 0 or 1: a fault that is over reads 0, it does not linger as a last value. */
int hm_ledger_write_metrics(struct hm_ledger *l, struct hm_out *out, struct hm_error *err) {
    struct metrics m = {.out = out};
    hm_out_printf(out, "# HELP hindmost_node_state 1 for the state that the node is in, else 0.\n"
                       "# TYPE hindmost_node_state gauge\n");
    if (hm_ledger_list(l, NULL, metrics_row, &m, err) != 0) return -1;
    hm_out_printf(out, "# HELP hindmost_nodes Nodes by state.\n# TYPE hindmost_nodes gauge\n");
    for (int s = 0; s <= HM_NODE_RETIRED; s++)
        hm_out_printf(out, "hindmost_nodes{state=\"%s\"} %ld\n", hm_node_state_name((enum hm_node_state)s),
                      m.states[s]);
    return 0;
}
