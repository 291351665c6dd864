/* page.h - self-contained pages: an embedded template with places for data. */
#ifndef HM_PAGE_H
#define HM_PAGE_H

#include "base/base.h"

/* Writes the data called `name` into the page as JSON. 0, or -1 with the error filled. */
typedef int (*hm_page_fill_fn)(void *context, const char *name, struct hm_out *out, struct hm_error *err);

/* Writes a page to `path`; where the template says "@data NAME@", fill is called. The file appears whole or not at all. */
int hm_page_write(const unsigned char *page, size_t size, hm_page_fill_fn fill, void *context, const char *path,
                  struct hm_error *err);

#endif
