/* read.c - the files named, or those of a folder, read and judged. */
#include "hang.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The dumps' texts stand in the result, so it keeps them. */
struct kept {
    struct hm_hang hang;
    struct scene scene;
    char **name; /* of the files found in folders */
    size_t n_names;
};

static int add_dump(struct scene *s, struct hm_flight_dump *dump, struct hm_error *err) {
    if (!dump) return -1;
    struct hm_flight_dump **grown = hm_grow(s->dump, s->n_dumps, &s->dump_capacity, sizeof(struct hm_flight_dump *));
    if (!grown) {
        hm_flight_free(dump);
        return hm_fail_memory(err);
    }
    s->dump = grown;
    s->dump[s->n_dumps++] = dump;
    return 0;
}

static int in_order(const struct dirent **a, const struct dirent **b) {
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* A file of a folder: what is no dump, or is broken, is left out and named. */
static int add_found(struct kept *k, const char *path, struct hm_error *err) {
    struct hm_error why = {0};
    struct hm_flight_dump *dump = hm_flight_read(path, &why);
    if (dump) return add_dump(&k->scene, dump, err);
    if (why.code == HM_ERR_MEMORY) return hm_fail_memory(err);
    return hang_add_line(&k->hang.note, &k->hang.n_notes, hm_sprintf("left out: %s", why.message), err);
}

static int add_folder(struct kept *k, const char *folder, struct hm_error *err) {
    struct dirent **entry = NULL;
    int n = hm_fault_hit() ? -1 : scandir(folder, &entry, not_hidden, in_order), status = 0;
    if (n < 0) return hm_fail(err, HM_ERR_IO, "%s: cannot be listed; check the permissions", folder);
    for (int i = 0; i < n; i++) {
        char *path = status == 0 ? hm_sprintf("%s/%s", folder, entry[i]->d_name) : NULL;
        struct stat st;
        if (status == 0 && (!path || hang_add_line(&k->name, &k->n_names, path, err) != 0))
            status = hm_fail_memory(err);
        if (status == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)) status = add_found(k, path, err);
        free(entry[i]);
    }
    free(entry);
    return status;
}

static int read_all(struct kept *k, const char *const *paths, size_t n, struct hm_error *err) {
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        bool folder = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode);
        if (folder ? add_folder(k, paths[i], err) != 0 : add_dump(&k->scene, hm_flight_read(paths[i], err), err) != 0)
            return -1;
    }
    if (k->scene.n_dumps == 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: no flight-recorder dump in it; give the files that PyTorch wrote to "
                       "TORCH_FR_DUMP_TEMP_FILE",
                       n ? paths[0] : "nothing");
    k->hang.version = k->scene.dump[0]->version;
    k->hang.n_dumps = k->scene.n_dumps;
    if (scene_gather(&k->scene, err) != 0) return -1;
    k->hang.n_ranks = k->scene.n_ranks;
    return hang_judge(&k->scene, &k->hang, err);
}

struct hm_hang *hm_hang_read(const char *const *paths, size_t n, struct hm_error *err) {
    struct kept *k = hm_alloc(1, sizeof *k);
    if (!k) {
        (void)hm_fail_memory(err);
        return NULL;
    }
    if (read_all(k, paths, n, err) == 0) return &k->hang;
    hm_hang_free(&k->hang);
    return NULL;
}

static void free_lines(char **lines, size_t n) {
    for (size_t i = 0; i < n; i++) hm_free(lines[i]);
    hm_free(lines);
}

void hm_hang_free(struct hm_hang *hang) {
    if (!hang) return;
    struct kept *k = (struct kept *)hang; /* its first member */
    for (size_t i = 0; i < hang->n_suspects; i++) free_lines(hang->suspect[i].reason, hang->suspect[i].n_reasons);
    for (size_t i = 0; i < hang->n_stuck; i++) {
        hm_free(hang->stuck[i].rank);
        hm_free(hang->stuck[i].waiting);
        hm_free(hang->stuck[i].absent);
    }
    for (size_t i = 0; i < hang->n_mismatches; i++) {
        for (size_t a = 0; a < hang->mismatch[i].n_asks; a++) {
            hm_free(hang->mismatch[i].ask[a].value);
            hm_free(hang->mismatch[i].ask[a].rank);
        }
        hm_free(hang->mismatch[i].ask);
    }
    hm_free(hang->summary);
    hm_free(hang->missing);
    hm_free(hang->suspect);
    hm_free(hang->stuck);
    hm_free(hang->mismatch);
    hm_free(hang->late);
    free_lines(hang->cannot_tell, hang->n_cannot_tell);
    free_lines(hang->note, hang->n_notes);
    free_lines(k->name, k->n_names);
    scene_free(&k->scene);
    hm_free(k);
}
