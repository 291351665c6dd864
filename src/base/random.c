/* random.c - xoshiro256** (Blackman and Vigna, 2018), seeded with splitmix64. */
#include "base.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void hm_rng_seed(struct hm_rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        rng->s[i] = hm_mix64(seed);
    }
}

uint64_t hm_rng_next(struct hm_rng *rng) {
    uint64_t *s = rng->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double hm_rng_uniform(struct hm_rng *rng) {
    return (double)(hm_rng_next(rng) >> 11) * 0x1.0p-53;
}

/* Marsaglia's polar method; the second value is thrown away to keep the state a plain counter of draws. */
double hm_rng_normal(struct hm_rng *rng) {
    for (;;) {
        double u = 2 * hm_rng_uniform(rng) - 1, v = 2 * hm_rng_uniform(rng) - 1, s = u * u + v * v;
        if (s > 0 && s < 1) return u * sqrt(-2 * log(s) / s);
    }
}

uint64_t hm_rng_below(struct hm_rng *rng, uint64_t n) {
    if (n == 0) return 0;
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;
    do x = hm_rng_next(rng);
    while (x >= limit);
    return x % n;
}
