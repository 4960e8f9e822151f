#include "reduce.h"

#include <stdint.h>
#include <string.h>

/* One build for all processors of a kind: the loader takes the variant that fits the one it runs on. */
#if defined(__x86_64__) && !defined(AITNE_NO_CLONES)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* dst may be exactly one of the operands, which no loop over single elements minds. */
#if defined(__clang__)
#define ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define ELEMENTS _Pragma("GCC ivdep")
#endif

/* Stays in the first cache together with its operands. */
enum { BLOCK_BYTES = 8192, HALVES = 1024 };

static const size_t WIDTH[DTYPES] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};

size_t element_bytes(int dtype) { return dtype >= 0 && dtype < DTYPES ? WIDTH[dtype] : 0; }

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
/* Whatever meets a NaN becomes one, as in PyTorch. */
#define LESSER(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define GREATER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define EITHER(a, b) ((a) | (b))
#define BOTH(a, b) ((a) & (b))

typedef void two(void *dst, const void *a, const void *b, size_t count);

#define TWO(name, type, combine)                                                                     \
  CLONES static void name(void *dst, const void *a, const void *b, size_t count) {                   \
    type *to = dst;                                                                                  \
    const type *left = a, *right = b;                                                                \
    ELEMENTS for (size_t i = 0; i < count; i++) to[i] = (type)combine(left[i], right[i]);            \
  }

#define ALL_OF(prefix, type, summed)                                                                 \
  TWO(prefix##_sum, summed, ADD)                                                                     \
  TWO(prefix##_min, type, LESSER)                                                                    \
  TWO(prefix##_max, type, GREATER)                                                                   \
  TWO(prefix##_product, summed, MULTIPLY)

/* Sums and products of integers wrap around: unsigned arithmetic does, and has the same bits. */
ALL_OF(f32, float, float)
ALL_OF(f64, double, double)
ALL_OF(i8, int8_t, uint8_t)
ALL_OF(i16, int16_t, uint16_t)
ALL_OF(i32, int32_t, uint32_t)
ALL_OF(i64, int64_t, uint64_t)
ALL_OF(u8, uint8_t, uint8_t)
TWO(bool_or, uint8_t, EITHER)
TWO(bool_and, uint8_t, BOTH)

#define OPS_OF(prefix)                                                                               \
  { [SUM] = prefix##_sum, [MIN] = prefix##_min, [MAX] = prefix##_max, [PRODUCT] = prefix##_product }

static two *const TWOS[DTYPES][OPS] = {
    [F32] = OPS_OF(f32),
    [F64] = OPS_OF(f64),
    [I8] = OPS_OF(i8),
    [I16] = OPS_OF(i16),
    [I32] = OPS_OF(i32),
    [I64] = OPS_OF(i64),
    [U8] = OPS_OF(u8),
    [BOOL] = {[SUM] = bool_or, [MIN] = bool_and, [MAX] = bool_or, [PRODUCT] = bool_and},
};

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float widen_bf16(uint16_t half) { return float_of((uint32_t)half << 16); }

static inline uint16_t narrow_bf16(float value) {
  uint32_t bits = bits_of(value);
  uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)(value != value ? 0x7fc0u : nearest);
}

/* Exponents differ by 112; a multiplication also gives numbers below the normal ones their right place. */
static inline float widen_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t rest = (uint32_t)(half & 0x7fffu);
  uint32_t finite = bits_of(float_of(rest << 13) * 0x1p112f);
  uint32_t special = (rest << 13) | 0x7f800000u;
  return float_of(sign | (rest >= 0x7c00u ? special : finite));
}

static inline uint16_t narrow_f16(float value) {
  uint32_t bits = bits_of(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t rest = bits & 0x7fffffffu;
  uint32_t normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  /* Below 2^-14 the sum's own rounding leaves steps of 2^-24 in the lowest bits. */
  uint32_t small = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
  uint32_t large = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t finite = rest < (113u << 23) ? small : normal;
  return (uint16_t)(sign | (rest >= 0x477ff000u ? large : finite));
}

#define HALF(prefix)                                                                                 \
  CLONES static void prefix##_widen(float *restrict to, const uint16_t *restrict from, size_t n) {   \
    for (size_t i = 0; i < n; i++) to[i] = widen_##prefix(from[i]);                                  \
  }                                                                                                  \
  CLONES static void prefix##_narrow(uint16_t *restrict to, const float *restrict from, size_t n) {  \
    for (size_t i = 0; i < n; i++) to[i] = narrow_##prefix(from[i]);                                 \
  }

HALF(f16)
HALF(bf16)

static void reduce_halves(uint16_t *dst, const void *const *rows, int n, size_t from, size_t count,
                          int dtype, two *combine) {
  float sum[HALVES], next[HALVES];
  for (int row = 0; row < n; row++) {
    const uint16_t *values = (const uint16_t *)rows[row] + from;
    float *wide = row ? next : sum;
    dtype == F16 ? f16_widen(wide, values, count) : bf16_widen(wide, values, count);
    if (row) combine(sum, sum, next, count);
  }
  dtype == F16 ? f16_narrow(dst + from, sum, count) : bf16_narrow(dst + from, sum, count);
}

static void reduce_block(char *dst, const void *const *rows, int n, size_t at, size_t count, two *combine) {
  char between[BLOCK_BYTES] __attribute__((aligned(64)));
  const char *sum = (const char *)rows[0] + at;
  /* dst may be a row that is still to come: only the last step may write there. */
  for (int row = 1; row < n; row++) {
    char *to = row == n - 1 ? dst + at : between;
    combine(to, sum, (const char *)rows[row] + at, count);
    sum = to;
  }
}

void reduce_rows(void *dst, void *copy, const void *const *rows, int n, size_t count, int dtype, int op) {
  int half = dtype == F16 || dtype == BF16;
  two *combine = TWOS[half ? F32 : dtype][op];
  size_t width = WIDTH[dtype];
  size_t block = half ? HALVES : BLOCK_BYTES / width;
  for (size_t from = 0; from < count; from += block) {
    size_t some = count - from < block ? count - from : block;
    if (half)
      reduce_halves(dst, rows, n, from, some, dtype, combine);
    else
      reduce_block(dst, rows, n, from * width, some, combine);
    if (copy) memcpy((char *)copy + from * width, (char *)dst + from * width, some * width);
  }
}
