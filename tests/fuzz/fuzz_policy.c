/* fuzz_policy.c - any bytes as a policy, and as SuperBench's rules: both within their limits, or one line that says why not. */
#include "fuzz.h"
#include "node/node.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_policy policy;
    struct hm_rules rules;
    if (hm_policy_read(&policy, path, &err) != 0) {
        fuzz_check_error(&err);
    } else {
        FUZZ_CHECK(hm_policy_cap(&policy, 100) >= 0 && policy.strikes >= 1 && policy.strike_window_s >= 0);
        for (size_t i = 0; i < policy.count; i++) FUZZ_CHECK(policy.rule[i].count >= 1 && policy.rule[i].within_s >= 0);
        FUZZ_CHECK(hm_policy_rule(&policy, "gpu-lost") != NULL);
        hm_policy_free(&policy);
    }
    err = (struct hm_error){0};
    if (hm_rules_read(&rules, path, &err) != 0) {
        fuzz_check_error(&err);
    } else {
        for (size_t i = 0; i < rules.count; i++) FUZZ_CHECK(rules.rule[i].name && rules.rule[i].criteria);
        hm_rules_free(&rules);
    }
    close(fd);
    return 0;
}
