/* dispatch.c - which kernels this processor can run. */
#include "program.h"

const struct hm_kernels *hm_kernels_best(void) {
#ifdef HM_HAVE_X86_KERNELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return &hm_kernels_avx512;
    if (__builtin_cpu_supports("avx2")) return &hm_kernels_avx2;
#endif
    return &hm_kernels_base;
}
