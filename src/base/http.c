/* http.c - a small HTTP or HTTPS server, by libmicrohttpd: GET and HEAD, one thread that answers from memory. */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 64, CONNECTION_TIMEOUT_S = 10, BACKLOG = 32, KEY_LIMIT = 1 << 20 };

struct hm_http {
    struct MHD_Daemon *daemon;
    char *certificate, *key; /* PEM text */
    hm_http_fn handle;
    void *context;
    int port;
};

/* ---- answers ---- */

static enum MHD_Result send_answer(struct MHD_Connection *c, const struct hm_http_answer *a) {
    struct MHD_Response *r = MHD_create_response_from_buffer(a->size, a->text, MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type ? a->type : "text/plain; charset=utf-8");
    if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result sent = MHD_queue_response(c, a->status, r);
    MHD_destroy_response(r);
    return sent;
}

void hm_http_say(struct hm_http_answer *a, unsigned status, const char *text) {
    struct hm_str line = {0};
    free(a->text);
    hm_str_add(&line, "%s\n", text);
    *a = (struct hm_http_answer){.status = line.failed ? MHD_HTTP_INTERNAL_SERVER_ERROR : status,
                                 .text = line.text,
                                 .size = line.failed ? 0 : line.length};
}

static enum MHD_Result handle(void *context, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state) {
    static int seen; /* its address marks a request whose header has been seen */
    const struct hm_http *s = context;
    struct hm_http_answer answer = {.status = MHD_HTTP_OK};
    (void)version, (void)upload;
    if (*state != &seen) {
        *state = &seen;
        return MHD_YES;
    }
    if (*upload_size) { /* nothing is taken in */
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        hm_http_say(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    else
        s->handle(s->context, url, &answer);
    enum MHD_Result sent = send_answer(c, &answer);
    free(answer.text);
    return sent;
}

/* ---- the socket ---- */

/* "ADDRESS:PORT", "[IPv6]:PORT" or ":PORT" in two. */
static int split(const char *listen, char *address, size_t size, const char **port, struct hm_error *err) {
    const char *colon = strrchr(listen, ':');
    size_t n = colon ? (size_t)(colon - listen) : 0;
    bool bracketed = n >= 2 && listen[0] == '[' && listen[n - 1] == ']';
    long number = colon ? strtol(colon + 1, NULL, 10) : -1;
    if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) || number > 65535 || n >= size)
        return hm_fail(err, HM_ERR_ARGUMENT, "--listen %s: give ADDRESS:PORT, such as 127.0.0.1:9633 or [::]:9633",
                       listen);
    snprintf(address, size, "%.*s", (int)(bracketed ? n - 2 : n), listen + bracketed);
    *port = colon + 1;
    return 0;
}

/* A listening socket; -1 with a message. */
static int open_socket(const char *listen_at, int *port, struct hm_error *err) {
    char address[256];
    const char *service;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    if (split(listen_at, address, sizeof address, &service, err) != 0) return -1;
    int rc = getaddrinfo(*address ? address : NULL, service, &hints, &found), fd = -1, why = 0;
    if (rc != 0) return hm_fail(err, HM_ERR_ARGUMENT, "--listen %s: %s", listen_at, gai_strerror(rc));
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) break;
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0)
        return hm_fail(err, HM_ERR_IO, "--listen %s: %s; choose another address or port", listen_at, strerror(why));
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char number[16] = "0";
    if (getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&bound, size, NULL, 0, number, sizeof number, NI_NUMERICSERV);
    *port = (int)strtol(number, NULL, 10);
    return fd;
}

/* A small file as text. */
static char *read_text(const char *path, struct hm_error *err) {
    FILE *f = fopen(path, "rb");
    char *text = f ? hm_alloc(KEY_LIMIT + 1, 1) : NULL;
    size_t n = text ? fread(text, 1, KEY_LIMIT, f) : 0;
    if (!f || (text && (n == 0 || n == KEY_LIMIT)))
        hm_fail(err, HM_ERR_IO, "%s: %s; give a PEM file", path, f ? "is empty or too large" : strerror(errno));
    else if (!text)
        hm_fail_memory(err);
    if (f) fclose(f);
    if (n > 0 && n < KEY_LIMIT) return text;
    hm_free(text);
    return NULL;
}

/* ---- its life ---- */

static int start(struct hm_http *s, const struct hm_http_options *o, struct hm_error *err) {
    bool tls = o->certificate || o->key;
    if (tls && !(o->certificate && o->key))
        return hm_fail(err, HM_ERR_ARGUMENT, "HTTPS needs both --tls-certificate and --tls-key");
    if (tls && (!(s->certificate = read_text(o->certificate, err)) || !(s->key = read_text(o->key, err)))) return -1;
    int fd = open_socket(o->listen, &s->port, err);
    if (fd < 0) return -1;
    struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->certificate},
                                      {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
                                      {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | (tls ? MHD_USE_TLS : 0u);
    s->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_TIMEOUT_S,
                         MHD_OPTION_ARRAY, tls ? secure : secure + 2, MHD_OPTION_END);
    if (s->daemon) return 0;
    close(fd);
    return hm_fail(err, HM_ERR_IO, "the HTTP server did not start%s",
                   tls ? "; do certificate and key belong together?" : "");
}

struct hm_http *hm_http_start(const struct hm_http_options *options, struct hm_error *err) {
    struct hm_http *s = hm_alloc(1, sizeof *s);
    if (!s) {
        hm_fail_memory(err);
        return NULL;
    }
    s->handle = options->handle;
    s->context = options->context;
    if (start(s, options, err) == 0) return s;
    hm_http_stop(s);
    return NULL;
}

int hm_http_port(const struct hm_http *s) {
    return s->port;
}

void hm_http_stop(struct hm_http *s) {
    if (!s) return;
    if (s->daemon) MHD_stop_daemon(s->daemon);
    hm_free(s->certificate);
    hm_free(s->key);
    hm_free(s);
}
