/* fuzz_metadata.c - any bytes as a metadata file: a layout within its limits, or one line that says why not. */
#include "fuzz.h"
#include "trace/trace.h"
#include "hindmost/hindmost.h"

#include <string.h>
#include <unistd.h>

static void within(int64_t value, int64_t most) {
    FUZZ_CHECK(value >= 0 && value <= most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_layout layout = {0};
    struct hm_error err = {0};
    if (hm_metadata_read(path, &layout, &err) != 0) {
        fuzz_check_error(&err);
    } else {
        within(layout.dp, 1 << 15);
        within(layout.pp, 1 << 15);
        within(layout.world, 1000000000);
        FUZZ_CHECK(memchr(layout.name, 0, sizeof layout.name) != NULL);
        /* against what some traces show */
        static const struct hm_layout seen[] = {
            {.dp = 4, .pp = 4, .vpp = 1, .tp = 4, .world = 61},
            {.dp = 1, .pp = 1, .vpp = 1, .world = 1},
            {.dp = 3, .pp = 2, .vpp = 2, .world = 8},
            {.dp = HM_MAX_DP, .pp = HM_MAX_STAGES, .vpp = 7, .tp = 5, .world = INT64_MAX}};
        for (size_t k = 0; k < sizeof seen / sizeof seen[0]; k++) {
            struct hm_layout both = layout;
            if (hm_layout_settle(&both, &seen[k], "trace", path, &err) != 0) {
                fuzz_check_error(&err);
                continue;
            }
            FUZZ_CHECK(both.pp == seen[k].pp && both.vpp == seen[k].vpp && both.dp >= seen[k].dp);
            FUZZ_CHECK(both.world == both.dp * both.pp * both.tp * both.dsp);
        }
    }
    close(fd);
    return 0;
}
