/* table_cut.c - a CSV file whose last line has fewer fields than its first was cut while it was written. The line is passed over and
 * named, and whatever it leaves incomplete is left out like any other hole. */
#include "inputs.h"
#include "table.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Fields of a line: commas, semicolons or tabs, whichever the header has most of. */
static size_t fields(const char *line, size_t n, char separator) {
    size_t count = 1;
    for (size_t i = 0; i < n; i++) count += line[i] == separator;
    return count;
}

static char separator_of(const char *line, size_t n) {
    static const char known[] = {',', ';', '\t', '|'};
    char best = ',';
    for (size_t i = 0; i < sizeof known; i++)
        if (fields(line, n, known[i]) > fields(line, n, best)) best = known[i];
    return best;
}

bool hm_table_is_cut(const struct hm_input *file) {
    enum { LOOK = 4096 };
    char head[LOOK], tail[LOOK];
    int fd = open(file->open_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false; /* the reader will say why */
    ssize_t n = pread(fd, head, sizeof head, 0);
    off_t at = file->bytes > LOOK ? (off_t)(file->bytes - LOOK) : 0;
    ssize_t m = pread(fd, tail, sizeof tail, at);
    close(fd);
    const char *end = n > 0 ? memchr(head, '\n', (size_t)n) : NULL;
    if (!end || m <= 0 || tail[m - 1] == '\n') return false;
    ssize_t first = m;
    while (first > 0 && tail[first - 1] != '\n') first--;
    if (first == 0) return false; /* one very long line: not for us to judge */
    char separator = separator_of(head, (size_t)(end - head));
    return fields(tail + first, (size_t)(m - first), separator) < fields(head, (size_t)(end - head), separator);
}
