/* fuzz_dump.c - any bytes as flight-recorder dumps: a verdict that holds together, or one line that says why not. A byte 1 followed by
 * a byte 2 splits the input into the dumps of several ranks. */
#include "fuzz.h"
#include "hang/hang.h"
#include "hindmost/hindmost.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DUMPS = 4 };

static void check(const struct hm_hang *h) {
    FUZZ_CHECK(h->summary && !strchr(h->summary, '\n'));
    for (size_t i = 0; i < h->n_suspects; i++) {
        FUZZ_CHECK(h->suspect[i].score >= 0 && h->suspect[i].score <= 1);
        FUZZ_CHECK(i == 0 || h->suspect[i].score <= h->suspect[i - 1].score);
        FUZZ_CHECK(h->suspect[i].n_reasons > 0);
        for (size_t k = 0; k < h->suspect[i].n_reasons; k++) FUZZ_CHECK(!strchr(h->suspect[i].reason[k], '\n'));
    }
    FUZZ_CHECK(h->hung || h->n_suspects == 0);
    char *json;
    size_t size;
    struct hm_out *out = hm_out_memory(&json, &size, NULL);
    FUZZ_CHECK(out);
    hm_hang_write_json(h, out);
    FUZZ_CHECK(hm_out_commit(out, NULL) == 0);
    struct hm_document doc = {0};
    FUZZ_CHECK(hm_json_read(&doc, json, size, "own", NULL));
    hm_document_free(&doc);
    free(json);
    hm_text_free(hm_hang_text(h));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t mark[] = {1, 2};
    char name[MOST_DUMPS][64];
    const char *paths[MOST_DUMPS];
    int fd[MOST_DUMPS];
    size_t n = 0;
    while (n < MOST_DUMPS) {
        const uint8_t *cut = n + 1 < MOST_DUMPS ? memmem(data, size, mark, sizeof mark) : NULL;
        size_t length = cut ? (size_t)(cut - data) : size;
        strcpy(name[n], fuzz_file(data, length, &fd[n]));
        paths[n] = name[n]; /* the number of the descriptor is the rank */
        n++;
        if (!cut) break;
        data = cut + sizeof mark;
        size -= length + sizeof mark;
    }
    struct hm_error err = {0};
    struct hm_hang *h = hm_hang_read(paths, n, &err);
    if (h)
        check(h);
    else
        fuzz_check_error(&err);
    hm_hang_free(h);
    for (size_t k = 0; k < n; k++) close(fd[k]);
    return 0;
}
