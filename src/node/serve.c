/* serve.c - the ledger over HTTP or HTTPS: GET /metrics, Prometheus text. The ledger is opened afresh for each request, so a server
 * outlives a ledger that is moved, restored or made anew. */
#include "base/http.h"
#include "node/node.h"

#include <string.h>

struct hm_server {
    struct hm_http *http;
    char *ledger;
};

static int write_metrics(const char *path, char **text, size_t *size, struct hm_error *err) {
    struct hm_ledger *l = hm_ledger_open_to_read(path, NULL, 5, err);
    struct hm_out *out = l ? hm_out_memory(text, size, err) : NULL;
    int status = out ? hm_ledger_write_metrics(l, out, err) : -1;
    if (status == 0)
        status = hm_out_commit(out, err);
    else
        hm_out_abort(out);
    hm_ledger_close(l);
    return status;
}

static void handle(void *context, const char *url, struct hm_http_answer *answer) {
    const struct hm_server *s = context;
    struct hm_error err = {0};
    if (strcmp(url, "/") == 0)
        hm_http_say(answer, 200, "hindmost: see /metrics");
    else if (strcmp(url, "/metrics") != 0)
        hm_http_say(answer, 404, "only /metrics is here");
    else if (write_metrics(s->ledger, &answer->text, &answer->size, &err) != 0)
        hm_http_say(answer, 500, err.message);
    else
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
}

struct hm_server *hm_serve(const struct hm_serve_options *options, struct hm_error *err) {
    struct hm_server *s = hm_alloc(1, sizeof *s);
    if (!s || !(s->ledger = hm_strdup(options->ledger))) {
        hm_fail_memory(err);
    } else {
        struct hm_http_options http = {.listen = options->listen ? options->listen : HM_SERVE_AT,
                                       .certificate = options->certificate,
                                       .key = options->key,
                                       .handle = handle,
                                       .context = s};
        if ((s->http = hm_http_start(&http, err)) != NULL) return s;
    }
    hm_serve_stop(s);
    return NULL;
}

int hm_serve_port(const struct hm_server *server) {
    return hm_http_port(server->http);
}

void hm_serve_stop(struct hm_server *s) {
    if (!s) return;
    hm_http_stop(s->http);
    hm_free(s->ledger);
    hm_free(s);
}
