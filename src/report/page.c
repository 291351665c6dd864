/* page.c - fills a page's template (made by cmake/Pages.cmake) with data. */
#include "page.h"

#include <string.h>

int hm_page_write(const unsigned char *page, size_t size, hm_page_fill_fn fill, void *context, const char *path,
                  struct hm_error *err) {
    static const char mark[] = "@data ";
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    const char *at = (const char *)page, *end = at + size;
    for (const char *found; (found = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL;) {
        const char *name = found + sizeof mark - 1, *stop = memchr(name, '@', (size_t)(end - name));
        char text[32] = "";
        if (!stop || (size_t)(stop - name) >= sizeof text) break;
        memcpy(text, name, (size_t)(stop - name));
        hm_out_write(out, at, (size_t)(found - at));
        if (fill(context, text, out, err) != 0) {
            hm_out_abort(out);
            return -1;
        }
        at = stop + 1;
    }
    hm_out_write(out, at, (size_t)(end - at));
    return hm_out_commit(out, err);
}
