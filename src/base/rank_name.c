/* rank_name.c - the rank in the name of a file that a rank wrote. */
#include "base.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int number_at(const char *text) {
    long value = strtol(text, NULL, 10);
    return value >= 0 && value < HM_MOST_RANK ? (int)value : -1;
}

/* The number right behind the last `word`, with at most one of "_-." between; -1: none. */
static int number_behind(const char *name, const char *word) {
    int found = -1;
    for (const char *at = name; (at = strcasestr(at, word)) != NULL;) {
        at += strlen(word);
        if (*at == '_' || *at == '-' || *at == '.') at++;
        if (isdigit((unsigned char)*at)) found = number_at(at);
    }
    return found;
}

int hm_rank_of_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int rank = number_behind(name, "rank");
    if (rank < 0) rank = number_behind(name, "dump");
    if (rank >= 0) return rank;
    size_t end = strlen(name); /* else the last number of the name, which ends it or has an extension behind it */
    static const char *const extensions[] = {".gz", ".json", ".pickle", ".pkl", ".bin", ".trace", ".txt", ".sqlite"};
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        size_t n = strlen(extensions[i]);
        if (end > n && strncmp(name + end - n, extensions[i], n) == 0) {
            end -= n;
            i = (size_t)-1;
        }
    }
    while (end > 0 && !isdigit((unsigned char)name[end - 1])) end--;
    while (end > 0 && isdigit((unsigned char)name[end - 1])) end--;
    return isdigit((unsigned char)name[end]) ? number_at(name + end) : -1;
}
