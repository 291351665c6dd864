/* replay.c - runs a fuzz target on files and on the files of folders, without libFuzzer: a regression test of its corpus. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    static uint8_t data[1 << 20];
    size_t n = fread(data, 1, sizeof data, f);
    (void)fclose(f);
    /* exactly as many bytes as there are, so that a sanitizer sees reads beyond them */
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) return 1;
    memcpy(exact, data, n);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv) {
    int files = 0, status = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && !S_ISDIR(st.st_mode)) {
            status |= run_file(argv[i]);
            files++;
            continue;
        }
        DIR *d = opendir(argv[i]);
        if (!d) {
            perror(argv[i]);
            return 1;
        }
        for (const struct dirent *e; (e = readdir(d)) != NULL;) {
            if (e->d_name[0] == '.') continue;
            char path[1024];
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            status |= run_file(path);
            files++;
        }
        (void)closedir(d);
    }
    printf("%d inputs\n", files);
    return files ? status : 1;
}
