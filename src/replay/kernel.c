/* kernel.c - the replay's inner loop, compiled once for each instruction set (HM_KERNELS names the table it makes). */
#include "program.h"

#include <math.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef HM_KERNELS
#define HM_KERNELS hm_kernels_base
#define HM_KERNELS_NAME "portable"
#endif

/* A vector of eight doubles, in as many registers as the instruction set needs. The compiler unrolls the loops. */
#if defined(__AVX512F__)
#define PART 8
typedef __m512d part;
#define part_load _mm512_loadu_pd
#define part_store _mm512_storeu_pd
#define part_max _mm512_max_pd
#define part_min _mm512_min_pd
#define part_add _mm512_add_pd
#define part_zero _mm512_setzero_pd
#elif defined(__AVX2__)
#define PART 4
typedef __m256d part;
#define part_load _mm256_loadu_pd
#define part_store _mm256_storeu_pd
#define part_max _mm256_max_pd
#define part_min _mm256_min_pd
#define part_add _mm256_add_pd
#define part_zero _mm256_setzero_pd
#elif defined(__SSE2__)
#define PART 2
typedef __m128d part;
#define part_load _mm_loadu_pd
#define part_store _mm_storeu_pd
#define part_max _mm_max_pd
#define part_min _mm_min_pd
#define part_add _mm_add_pd
#define part_zero _mm_setzero_pd
#else
#define PART 1
typedef double part;
static inline part part_load(const double *p) {
    return *p;
}
static inline void part_store(double *p, part x) {
    *p = x;
}
static inline part part_max(part a, part b) {
    return a > b ? a : b;
}
static inline part part_min(part a, part b) {
    return a < b ? a : b;
}
static inline part part_add(part a, part b) {
    return a + b;
}
static inline part part_zero(void) {
    return 0;
}
#endif

enum { PARTS = HM_WIDTH / PART };
typedef struct {
    part p[PARTS];
} vec;

static inline vec vec_load(const double *x) {
    vec v;
    for (int i = 0; i < PARTS; i++) v.p[i] = part_load(x + i * PART);
    return v;
}
static inline void vec_store(double *x, vec v) {
    for (int i = 0; i < PARTS; i++) part_store(x + i * PART, v.p[i]);
}
static inline vec vec_max(vec a, vec b) {
    for (int i = 0; i < PARTS; i++) a.p[i] = part_max(a.p[i], b.p[i]);
    return a;
}
static inline vec vec_min(vec a, vec b) {
    for (int i = 0; i < PARTS; i++) a.p[i] = part_min(a.p[i], b.p[i]);
    return a;
}
static inline vec vec_add(vec a, vec b) {
    for (int i = 0; i < PARTS; i++) a.p[i] = part_add(a.p[i], b.p[i]);
    return a;
}
static inline vec vec_zero(void) {
    vec v;
    for (int i = 0; i < PARTS; i++) v.p[i] = part_zero();
    return v;
}

#define KERNEL_NAME run1
#define U 1
#define MIXED 0
#define ANY 0
#include "kernel.inc"
#define KERNEL_NAME run1_any
#define U 1
#define MIXED 0
#define ANY 1
#include "kernel.inc"
#define KERNEL_NAME run1_mixed
#define U 1
#define MIXED 1
#define ANY 0
#include "kernel.inc"
#define KERNEL_NAME run1_mixed_any
#define U 1
#define MIXED 1
#define ANY 1
#include "kernel.inc"
#define KERNEL_NAME run2
#define U 2
#define MIXED 0
#define ANY 0
#include "kernel.inc"
#define KERNEL_NAME run2_any
#define U 2
#define MIXED 0
#define ANY 1
#include "kernel.inc"
#define KERNEL_NAME run2_mixed
#define U 2
#define MIXED 1
#define ANY 0
#include "kernel.inc"
#define KERNEL_NAME run2_mixed_any
#define U 2
#define MIXED 1
#define ANY 1
#include "kernel.inc"

const struct hm_kernels HM_KERNELS = {
    HM_KERNELS_NAME,
    {{{run1, run1_any}, {run1_mixed, run1_mixed_any}}, {{run2, run2_any}, {run2_mixed, run2_mixed_any}}}};
