/* One pass over three float32 arrays: the errors of two of them against the first, their moments and histograms.
 *
 * Errors and sums are double. Blocks stay in the nearest cache, so that the mean of a block's errors can be taken off
 * before they are squared, and the histogram's increments, which go one by one, find their keys there.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 4
#define STEP (2 * LANES)
#define BLOCK 2048
#define KEYS 4096
/* As ROUNDING and SHIFT of threeway_bins.py. */
#define ROUNDING 0x80000u
#define SHIFT 20

/* A second copy of the vector loops for wider registers, chosen when the library is loaded: GNU systems only. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES)));
typedef int64_t longs __attribute__((vector_size(8 * LANES)));

/* What is known of some errors; squares are those of the deviations from the mean. */
typedef struct {
    double count, mean, squares, largest;
} moments;

/* Chan, Golub, LeVeque 1979. */
static void merge(moments *all, moments more)
{
    double count = all->count + more.count, step = more.mean - all->mean;
    all->squares += more.squares + step * step * (all->count * (more.count / count));
    all->mean += step * (more.count / count);
    all->count = count;
    if (more.largest > all->largest)
        all->largest = more.largest;
}

static double sum_of(const doubles *lanes)
{
    return ((*lanes)[0] + (*lanes)[1]) + ((*lanes)[2] + (*lanes)[3]);
}

static double largest_of(const doubles *lanes)
{
    double largest = (*lanes)[0];
    for (int lane = 1; lane < LANES; lane++)
        largest = (*lanes)[lane] > largest ? (*lanes)[lane] : largest;
    return largest;
}

#define LOAD(into, from)                                                                                               \
    do {                                                                                                               \
        floats loaded;                                                                                                 \
        memcpy(&loaded, from, sizeof loaded);                                                                          \
        into = __builtin_convertvector(loaded, doubles);                                                               \
    } while (0)
/* into where mask, else as it is; a mask is all ones or all zeros. */
#define REPLACE(into, mask, with) (into) = (doubles)(((longs)(with) & (mask)) | ((longs)(into) & ~(mask)))

/* The errors of one block and the keys of their bins; count is a multiple of STEP. The mean is not finite when a
 * value is not: float32 is too small to overflow a sum of doubles. */
WIDE static moments errors_of(const float *restrict reference, const float *restrict leg, int64_t count,
                              double *restrict errors, uint16_t *restrict keys)
{
    for (int64_t place = 0; place < count; place++)
        errors[place] = (double)leg[place] - (double)reference[place];
    double first = errors[0];
    doubles sums[2] = {{0}}, largest[2] = {{0}}, squares[2] = {{0}};
    for (int64_t place = 0; place < count; place += STEP) {
        for (int half = 0; half < 2; half++) {
            doubles error;
            memcpy(&error, errors + place + half * LANES, sizeof error);
            doubles magnitude = (doubles)((longs)error & INT64_MAX);
            longs larger = magnitude > largest[half];
            REPLACE(largest[half], larger, magnitude);
            sums[half] += error - first;
        }
    }
    sums[0] += sums[1];
    double mean = first + sum_of(&sums[0]) / (double)count;
    for (int64_t place = 0; place < count; place += STEP) {
        for (int half = 0; half < 2; half++) {
            doubles error;
            memcpy(&error, errors + place + half * LANES, sizeof error);
            error -= mean;
            squares[half] += error * error;
        }
    }
    squares[0] += squares[1];
    for (int64_t place = 0; place < count; place++) {
        /* The double error rounded to float is the float difference: both round the exact one once. */
        float error = leg[place] - reference[place];
        uint32_t bits;
        memcpy(&bits, &error, sizeof bits);
        keys[place] = (uint16_t)((bits + ROUNDING) >> SHIFT);
    }
    moments found = {(double)count, mean, sum_of(&squares[0]), 0};
    double halves[2] = {largest_of(&largest[0]), largest_of(&largest[1])};
    found.largest = halves[0] > halves[1] ? halves[0] : halves[1];
    return found;
}

/* Smallest and largest value and sum of squares of one block; count is a multiple of STEP. */
WIDE static void values_of(const float *values, int64_t count, double *ends)
{
    doubles lowest, highest, squares[2] = {{0}};
    LOAD(lowest, values);
    highest = lowest;
    for (int64_t place = 0; place < count; place += STEP) {
        for (int half = 0; half < 2; half++) {
            doubles value;
            LOAD(value, values + place + half * LANES);
            longs lower = value < lowest, higher = value > highest;
            REPLACE(lowest, lower, value);
            REPLACE(highest, higher, value);
            squares[half] += value * value;
        }
    }
    squares[0] += squares[1];
    lowest = -lowest;
    double low = -largest_of(&lowest), high = largest_of(&highest);
    ends[0] = low < ends[0] ? low : ends[0];
    ends[1] = high > ends[1] ? high : ends[1];
    ends[2] += sum_of(&squares[0]);
}

/* Two tables by turns: equal keys one after another would wait for each other. */
static void count_keys(const uint16_t *keys, int64_t count, uint32_t (*tables)[KEYS])
{
    for (int64_t place = 0; place < count; place += 2) {
        tables[0][keys[place]]++;
        tables[1][keys[place + 1]]++;
    }
}

/* out: smallest, largest and sum of squares of the reference; then for each leg mean, sum of squared deviations and
 * largest magnitude of its errors, the mean not finite when a value of reference or leg is not.
 * keys: 2 x KEYS counts, added to. count is at least 1 and less than 2^32. */
void pg_threeway(const float *reference, const float *low, const float *target, int64_t count, double *out,
                 int64_t *keys)
{
    const float *legs[2] = {low, target};
    double ends[3] = {INFINITY, -INFINITY, 0}, errors[BLOCK];
    moments all[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    uint32_t tables[2][2][KEYS];
    uint16_t found[BLOCK];
    memset(tables, 0, sizeof tables);
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t left = count - start < BLOCK ? count - start : BLOCK, whole = left - left % STEP;
        float rest[3][STEP];
        for (int leg = 0; leg < 2; leg++) {
            if (whole) {
                merge(&all[leg], errors_of(reference + start, legs[leg] + start, whole, errors, found));
                count_keys(found, whole, tables[leg]);
            }
        }
        if (whole)
            values_of(reference + start, whole, ends);
        /* The last few values, each eight times over: one of eight counts. */
        for (int64_t place = start + whole; place < start + left; place++) {
            for (int copy = 0; copy < STEP; copy++) {
                rest[0][copy] = reference[place];
                rest[1][copy] = low[place];
                rest[2][copy] = target[place];
            }
            for (int leg = 0; leg < 2; leg++) {
                moments one = errors_of(rest[0], rest[1 + leg], STEP, errors, found);
                one.count = 1;
                merge(&all[leg], one);
                tables[leg][0][found[0]]++;
            }
            double single[3] = {ends[0], ends[1], 0};
            values_of(rest[0], STEP, single);
            ends[0] = single[0];
            ends[1] = single[1];
            ends[2] += single[2] / STEP;
        }
    }
    memcpy(out, ends, sizeof ends);
    for (int leg = 0; leg < 2; leg++) {
        out[3 + 3 * leg] = all[leg].mean;
        out[4 + 3 * leg] = all[leg].squares;
        out[5 + 3 * leg] = all[leg].largest;
        for (int key = 0; key < KEYS; key++)
            keys[leg * KEYS + key] += (int64_t)tables[leg][0][key] + tables[leg][1][key];
    }
}
