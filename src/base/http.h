/* http.h - a small HTTP or HTTPS server for what is read often and changed never: metrics, pages, results. */
#ifndef HM_BASE_HTTP_H
#define HM_BASE_HTTP_H

#include "base.h"

struct hm_http;

struct hm_http_answer {
    unsigned status;  /* 200 unless changed */
    const char *type; /* of the content; NULL: plain text */
    char *text;       /* freed with free() once sent; hm_out_memory makes such */
    size_t size;
};
/* Answers a GET of `url` (HEAD: likewise; other methods are refused before). Called from the server's own thread, one request at a
 * time. */
typedef void (*hm_http_fn)(void *context, const char *url, struct hm_http_answer *answer);
/* Makes the answer one line of text. */
void hm_http_say(struct hm_http_answer *answer, unsigned status, const char *text);

struct hm_http_options {
    const char *listen;            /* ADDRESS:PORT, [IPv6]:PORT or :PORT; port 0: any free one */
    const char *certificate, *key; /* PEM files, both or none: HTTPS */
    hm_http_fn handle;
    void *context;
};
/* Listens and answers until stopped. NULL on failure. */
struct hm_http *hm_http_start(const struct hm_http_options *options, struct hm_error *err);
/* The port it listens on. */
int hm_http_port(const struct hm_http *s);
/* Closes all connections and frees it. NULL is allowed. */
void hm_http_stop(struct hm_http *s);

#endif
