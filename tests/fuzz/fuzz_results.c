/* fuzz_results.c - any bytes as test results of nodes: verdicts by what the fleet teaches, the same twice, or one line that says why not. */
#include "fuzz.h"
#include "hindmost/node.h"

#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    struct hm_error err = {0};
    struct hm_judge_options o = {.results = fuzz_file(data, size, &fd)};
    struct hm_judgement *j = hm_judge(&o, &err), *again = hm_judge(&o, NULL);
    FUZZ_CHECK((j == NULL) == (again == NULL));
    if (!j) fuzz_check_error(&err);
    for (size_t i = 0; j && i < hm_judgement_count(j); i++) {
        const struct hm_judged_node *a = hm_judgement_node(j, i), *b = hm_judgement_node(again, i);
        FUZZ_CHECK(*a->node && a->verdict == b->verdict && a->reason_count == b->reason_count);
        FUZZ_CHECK(a->verdict == HM_PASS || a->reason_count > 0);
    }
    hm_judgement_free(j);
    hm_judgement_free(again);
    close(fd);
    return 0;
}
