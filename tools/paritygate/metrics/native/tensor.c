/* One chunk of two tensors: sums, maxima and counts in double precision, and the largest errors.
 *
 * tensor_chunk.py computes the same row with NumPy. Blocks of a chunk stay in the first-level cache, so that two short
 * loops over them, one for values and one for bits, cost less than one loop with more accumulators than registers.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx2,fma")))
#endif

/* The bits of floats, in the same memory. */
typedef int32_t __attribute__((may_alias)) Bits;

enum { BLOCK = 1024 };
enum { BFLOAT16 = 0, FLOAT32 = 2 }; /* everything else is float16 */

/* The row, in the order of tensor_chunk.Column. */
typedef struct {
    double rr, ee, re, r, e, abs_e, ulps, max_error, max_reference, max_ulps, ulps_over_one, mismatches;
} Row;

/* Where errors above the threshold go; room for every element of the chunk. */
typedef struct {
    double threshold;
    double *kept;
    int64_t count;
} Tail;

static void value_totals(const float *r, const float *c, int64_t n, Row *row, Tail *tail)
{
    for (int64_t i = 0; i < n; i++) {
        double x = r[i], y = c[i], e = y - x, a = fabs(e);
        row->rr += x * x;
        row->ee += e * e;
        row->re += x * e;
        row->r += x;
        row->e += e;
        row->abs_e += a;
        row->max_error = a > row->max_error ? a : row->max_error;
        row->max_reference = fabs(x) > row->max_reference ? fabs(x) : row->max_reference;
        row->mismatches += x != y;
        if (a > tail->threshold)
            tail->kept[tail->count++] = a;
    }
}

/* Bits are sign and magnitude; a unit in the last place is `one` of them. -0 and +0 are 0 apart. */
static void bit_totals(const Bits *r, const Bits *c, int64_t n, uint32_t one, Row *row)
{
    uint64_t sum = 0;
    uint32_t largest = 0, over = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)r[i] & 0x7fffffffu, y = (uint32_t)c[i] & 0x7fffffffu;
        uint32_t d = (r[i] ^ c[i]) < 0 ? x + y : x > y ? x - y : y - x;
        sum += d;
        largest = d > largest ? d : largest;
        over += d > one;
    }
    row->ulps += (double)sum / one;
    row->ulps_over_one += over;
    row->max_ulps = fmax(row->max_ulps, (double)largest / one);
}

#ifdef WIDE

WIDE static double sum_of(__m256d lanes)
{
    double four[4];
    _mm256_storeu_pd(four, lanes);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

WIDE static double max_of(__m256d lanes)
{
    double four[4];
    _mm256_storeu_pd(four, lanes);
    return fmax(fmax(four[0], four[1]), fmax(four[2], four[3]));
}

/* The double precision part: seven accumulators, and no register left for more. */
WIDE static void wide_sums(const float *r, const float *c, int64_t n, Row *row, Tail *tail)
{
    const __m256d sign = _mm256_set1_pd(-0.0), ones = _mm256_set1_pd(1.0), limit = _mm256_set1_pd(tail->threshold);
    __m256d rr = _mm256_setzero_pd(), ee = rr, re = rr, sr = rr, se = rr, sa = rr, top = rr;
    for (int64_t i = 0; i < n; i += 8) {
        __m256d a[2];
        for (int half = 0; half < 2; half++) {
            __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(r + i + 4 * half));
            __m256d y = _mm256_cvtps_pd(_mm_loadu_ps(c + i + 4 * half));
            __m256d e = _mm256_sub_pd(y, x);
            a[half] = _mm256_andnot_pd(sign, e);
            rr = _mm256_fmadd_pd(x, x, rr);
            ee = _mm256_fmadd_pd(e, e, ee);
            re = _mm256_fmadd_pd(x, e, re);
            sr = _mm256_fmadd_pd(x, ones, sr);
            se = _mm256_add_pd(se, e);
            sa = _mm256_add_pd(sa, a[half]);
        }
        __m256d higher = _mm256_max_pd(a[0], a[1]);
        top = _mm256_max_pd(top, higher);
        if (_mm256_movemask_pd(_mm256_cmp_pd(higher, limit, _CMP_GT_OQ))) {
            double eight[8];
            _mm256_storeu_pd(eight, a[0]);
            _mm256_storeu_pd(eight + 4, a[1]);
            unsigned low = (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a[0], limit, _CMP_GT_OQ));
            unsigned high = (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a[1], limit, _CMP_GT_OQ));
            for (unsigned which = low | high << 4; which; which &= which - 1)
                tail->kept[tail->count++] = eight[__builtin_ctz(which)];
        }
    }
    row->rr += sum_of(rr);
    row->ee += sum_of(ee);
    row->re += sum_of(re);
    row->r += sum_of(sr);
    row->e += sum_of(se);
    row->abs_e += sum_of(sa);
    row->max_error = fmax(row->max_error, max_of(top));
}

WIDE static void wide_counts(const float *r, const float *c, int64_t n, Row *row)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 largest = _mm256_setzero_ps();
    __m256i unequal = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 8) {
        __m256 x = _mm256_loadu_ps(r + i), y = _mm256_loadu_ps(c + i);
        largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, x));
        unequal = _mm256_sub_epi32(unequal, _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_NEQ_UQ)));
    }
    float values[8];
    int32_t counts[8];
    _mm256_storeu_ps(values, largest);
    _mm256_storeu_si256((__m256i *)counts, unequal);
    for (int lane = 0; lane < 8; lane++) {
        row->max_reference = fmax(row->max_reference, (double)values[lane]);
        row->mismatches += counts[lane];
    }
}

WIDE static void wide_bit_totals(const Bits *r, const Bits *c, int64_t n, uint32_t one, Row *row)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), low = _mm256_set1_epi64x(0xffffffffll);
    const __m256i ones = _mm256_set1_epi32((int32_t)one);
    __m256i sum = _mm256_setzero_si256(), largest = sum, over = sum;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(r + i)), y = _mm256_loadu_si256((const __m256i *)(c + i));
        __m256i same = _mm256_abs_epi32(_mm256_sub_epi32(x, y));
        __m256i crossing = _mm256_add_epi32(_mm256_and_si256(x, magnitude), _mm256_and_si256(y, magnitude));
        __m256i d = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(same), _mm256_castsi256_ps(crossing),
                                                         _mm256_castsi256_ps(_mm256_xor_si256(x, y))));
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_and_si256(d, low), _mm256_srli_epi64(d, 32)));
        largest = _mm256_max_epu32(largest, d);
        over = _mm256_sub_epi32(over, _mm256_cmpeq_epi32(_mm256_max_epu32(d, ones), ones));
    }
    uint64_t sums[4];
    uint32_t highest[8], within[8];
    _mm256_storeu_si256((__m256i *)sums, sum);
    _mm256_storeu_si256((__m256i *)highest, largest);
    _mm256_storeu_si256((__m256i *)within, over);
    row->ulps += (double)(sums[0] + sums[1] + sums[2] + sums[3]) / one;
    row->ulps_over_one += (double)i;
    for (int lane = 0; lane < 8; lane++) {
        row->max_ulps = fmax(row->max_ulps, (double)highest[lane] / one);
        row->ulps_over_one -= within[lane];
    }
    bit_totals(r + i, c + i, n - i, one, row);
}

#endif

static void block_totals(const float *r, const float *c, const Bits *r_bits, const Bits *c_bits, int64_t n,
                         uint32_t one, Row *row, Tail *tail)
{
#ifdef WIDE
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        int64_t whole = n & ~(int64_t)7;
        wide_sums(r, c, whole, row, tail);
        wide_counts(r, c, whole, row);
        value_totals(r + whole, c + whole, n - whole, row, tail);
        if (one)
            wide_bit_totals(r_bits, c_bits, n, one, row);
        return;
    }
#endif
    value_totals(r, c, n, row, tail);
    if (one)
        bit_totals(r_bits, c_bits, n, one, row);
}

/* Values, and bits of the format at the top of 32. Both exact. */
static void widen(const uint16_t *from, int64_t n, int format, float *values, Bits *bits)
{
    for (int64_t i = 0; i < n; i++)
        bits[i] = (int32_t)((uint32_t)from[i] << 16);
    if (format == BFLOAT16) {
        memcpy(values, bits, (size_t)n * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t half = from[i], moved = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
        float value;
        memcpy(&value, &moved, sizeof value);
        value *= 0x1p112f; /* the difference of the exponents' biases; takes subnormals along */
        memcpy(&moved, &value, sizeof value);
        moved |= sign | ((half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
        memcpy(values + i, &moved, sizeof moved);
    }
}

/* Write the row of n elements of a format, and the absolute errors above the threshold into `kept`, which has room for
 * n. Bit distances only with `ulps`. Returns how many were kept. */
int64_t pg_tensor_row(int format, const void *reference, const void *candidate, int64_t n, int ulps, double threshold,
                      double *kept, double *out)
{
    Row row = {0};
    Tail tail = {threshold, kept, 0};
    uint32_t one = !ulps ? 0 : format == FLOAT32 ? 1 : 1u << 16;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t size = n - start < BLOCK ? n - start : BLOCK;
        if (format == FLOAT32) {
            const char *r = (const char *)reference + 4 * start, *c = (const char *)candidate + 4 * start;
            block_totals((const float *)r, (const float *)c, (const Bits *)r, (const Bits *)c, size, one, &row,
                         &tail);
        } else {
            float values[2][BLOCK];
            Bits bits[2][BLOCK];
            widen((const uint16_t *)reference + start, size, format, values[0], bits[0]);
            widen((const uint16_t *)candidate + start, size, format, values[1], bits[1]);
            block_totals(values[0], values[1], bits[0], bits[1], size, one, &row, &tail);
        }
    }
    memcpy(out, &row, sizeof row);
    return tail.count;
}
