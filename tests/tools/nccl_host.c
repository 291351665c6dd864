/* nccl_host.c - drives the profiler plugin as NCCL does: nccl_host PLUGIN VERSION. Descriptors are laid out by offset, full of garbage where the
 * version says nothing; two communicators, four threads; children after their parent's stop, no context, no handle; late calls after
 * finalize and dlclose; and it exits without finalizing the second communicator. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, EACH = 200, BYTES = 160 };

typedef void (*logger_fn)(int level, unsigned long flags, const char *file, int line, const char *format, ...);
struct table {
    const char *name;
    void *init;
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};

static const struct table *plugin;
static int version, mask;

static void put(unsigned char *d, size_t at, const void *value, size_t n) {
    memcpy(d + at, value, n);
}
#define PUT(d, at, type, value)                                                                                        \
    do {                                                                                                               \
        const type put_value = (value);                                                                                \
        put(d, at, &put_value, sizeof put_value);                                                                      \
    } while (0)

static void head(unsigned char *d, uint64_t type, void *parent) {
    memset(d, 0xa5, BYTES);
    if (version == 4)
        PUT(d, 0, uint8_t, (uint8_t)type);
    else
        PUT(d, 0, uint64_t, type);
    PUT(d, 8, void *, parent);
    PUT(d, 16, int, 0);
}

static void *call(void *context, unsigned char *d) {
    void *handle = (void *)d;
    if (plugin->start(context, &handle, d) != 0) abort();
    return handle;
}

/* A collective, then late children of it: a kernel event and a proxy event after the parent's stop. */
static void collective(void *context, uint64_t seq) {
    unsigned char d[BYTES];
    head(d, 1 << 1, NULL);
    PUT(d, 24, uint64_t, seq);
    PUT(d, 32, const char *, "AllReduce");
    PUT(d, 56, size_t, 1000);
    PUT(d, 64, int, 0);
    PUT(d, 72, const char *, "ncclBfloat16");
    void *parent = call(context, d);
    if (plugin->stop(parent) != 0) abort();
    for (uint64_t type = 1 << 3; type <= 1 << 6; type <<= 1) {
        head(d, type, parent);
        void *child = call(context, d);
        uint64_t timer = 1;
        if (child != NULL || plugin->record(child, 22, &timer) != 0 || plugin->stop(child) != 0) abort();
    }
}

static void pair(void *context, const char *func, int peer) {
    unsigned char d[BYTES];
    head(d, 1 << 2, NULL);
    PUT(d, 24, const char *, func);
    PUT(d, 40, const char *, "Unknown");
    PUT(d, 48, size_t, 77);
    PUT(d, 56, int, peer);
    void *handle = call(context, d);
    if (plugin->stop(handle) != 0) abort();
}

static void *work(void *context) {
    for (uint64_t i = 0; i < EACH; i++) {
        collective(context, i);
        pair(context, i % 2 ? "Send" : "Recv", 1);
    }
    return NULL;
}

static void log_nothing(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)format;
}

static void *init(const char *name, uint64_t id) {
    void *context = (void *)&context;
    int status;
    if (version == 4) {
        int (*f)(void **, int *, const char *, uint64_t, int, int, int, logger_fn);
        memcpy(&f, &plugin->init, sizeof f);
        status = f(&context, &mask, name, id, 1, 2, 0, log_nothing);
    } else {
        int (*f)(void **, uint64_t, int *, const char *, int, int, int, logger_fn);
        memcpy(&f, &plugin->init, sizeof f);
        status = f(&context, id, &mask, name, 1, 2, 0, log_nothing);
    }
    if (status != 0) abort();
    return context;
}

int main(int argc, char **argv) {
    char symbol[32];
    if (argc != 3) return 3;
    version = atoi(argv[2]);
    (void)snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    plugin = library ? dlsym(library, symbol) : NULL;
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *contexts[2] = {init("world", 0x1234), init(NULL, 0xabcd)};
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, contexts[i % 2]) != 0) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    unsigned char d[BYTES];
    head(d, 1 << 1, NULL);
    if (contexts[0] && call(NULL, d) != NULL) return 1; /* no context, and a descriptor of nothing but garbage */
    if (plugin->stop(NULL) != 0 || plugin->record(NULL, 5, NULL) != 0) return 1;
    if (plugin->finalize(contexts[0]) != 0) return 1;
    if (dlclose(library) != 0) return 1;
    pair(contexts[1], "Send", 5); /* late: the library must still be there */
    printf("%s mask %d\n", plugin->name, mask);
    return 0;
}
