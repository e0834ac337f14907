/* Images: the SSIM loss added up in cells of 8x8 pixels, and counts of how far stored levels lie apart.
 *
 * SSIM as in ssim.py, in tiles: image_tile.h, in float for bytes and in double for all others. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CELL 8
#define RADIUS 5
#define TILE_ROWS 64
#define TILE_COLUMNS 128
#define PADDED_ROWS (TILE_ROWS + 2 * RADIUS)
/* Loops run over whole vectors: what lies beyond the image is finite, and left out at the end. */
#define WHOLE(columns) (((columns) + 15) / 16 * 16)
#define MARGIN WHOLE(2 * RADIUS)
#define PADDED_COLUMNS (TILE_COLUMNS + MARGIN)
#define INLINE static inline __attribute__((always_inline))

enum { BYTES, WORDS, FLOATS, DOUBLES };

typedef struct {
    const void *reference, *candidate;
    int type;
    int64_t width, channels, channel; /* of the whole images; a channel of -1 is luma */
} pair_t;

static double value_at(const void *image, int type, int64_t index)
{
    switch (type) {
    case BYTES: return ((const uint8_t *)image)[index];
    case WORDS: return ((const uint16_t *)image)[index];
    case FLOATS: return ((const float *)image)[index];
    default: return ((const double *)image)[index];
    }
}

static double plane_at(const pair_t *pair, const void *image, int64_t pixel)
{
    const int64_t index = pixel * pair->channels;
    if (pair->channel >= 0) return value_at(image, pair->type, index + pair->channel);
    if (pair->channels < 3) return value_at(image, pair->type, index);
    return 0.299 * value_at(image, pair->type, index) + 0.587 * value_at(image, pair->type, index + 1)
           + 0.114 * value_at(image, pair->type, index + 2);
}

/* The level of s and of d in a tile: means of some of its pixels, in whole steps so that stored levels stay whole. */
static void find_levels(const pair_t *pair, int64_t top, int64_t left, int64_t rows, int64_t columns, double step,
                        double *level, double *shift)
{
    double s = 0, d = 0, count = 0;
    for (int64_t row = top; row < top + rows; row += 8)
        for (int64_t column = left; column < left + columns; column += 8) {
            const double x = plane_at(pair, pair->reference, row * pair->width + column);
            const double y = plane_at(pair, pair->candidate, row * pair->width + column);
            s += x + y;
            d += x - y;
            count += 1;
        }
    *level = rint(s / count / step) * step;
    *shift = rint(d / count / step) * step;
}

typedef void tile_function(const pair_t *, void *, int64_t, int64_t, int64_t, int64_t, double, double *, int64_t);

/* Half of a Gaussian of 11 taps with sigma 1.5, unit sum; the middle follows from the sum. */
#define W1 0.21300553771125366
#define W2 0.1093606895097
#define W3 0.03600077212843082
#define W4 0.007598758135239184
#define W5 0.001028380084479109

#define REAL float
#define NAMED(name) name##_float
#include "image_tile.h"
#undef REAL
#undef NAMED
#define REAL double
#define NAMED(name) name##_double
#include "image_tile.h"

static int64_t inside(int64_t start, int64_t end, int64_t pixels, int64_t *size)
{
    const int64_t from = start < RADIUS ? RADIUS : start, to = end > pixels - RADIUS ? pixels - RADIUS : end;
    *size = to - from;
    return from;
}

/* Adds to `sums` (cells down, cells across). Both sides are at least 11 pixels. Returns -1 without memory. */
int pg_image_loss(const void *reference, const void *candidate, int type, int64_t height, int64_t width,
                  int64_t channels, int64_t channel, double range, double *sums)
{
    const pair_t pair = {reference, candidate, type, width, channels, channel};
    const int bytes = type == BYTES && channel >= 0;
    tile_function *run = bytes ? best_tile_float() : best_tile_double();
    void *tile = calloc(1, bytes ? sizeof(tile_float) : sizeof(tile_double));
    if (!tile) return -1;
    for (int64_t top = 0; top < height - RADIUS; top += TILE_ROWS)
        for (int64_t left = 0; left < width - RADIUS; left += TILE_COLUMNS) {
            int64_t rows, columns;
            const int64_t row = inside(top, top + TILE_ROWS, height, &rows);
            const int64_t column = inside(left, left + TILE_COLUMNS, width, &columns);
            run(&pair, tile, row, column, rows, columns, range, sums, (width + CELL - 1) / CELL);
        }
    free(tile);
    return 0;
}

/* `tables` tables for each count, so that equal neighbours need not wait for each other. */
typedef struct {
    int64_t bins, tables;
    uint32_t *of_values, *of_pixels, *column_sums;
    int32_t *column_signs;
    uint16_t *apart;
} work_t;

#define SUBTRACT(name, type)                                                                                           \
    INLINE void name(const type *restrict x, const type *restrict y, int64_t size, uint16_t *restrict apart,           \
                     int32_t *restrict signs, uint32_t *restrict sums)                                                 \
    {                                                                                                                  \
        for (int64_t i = 0; i < size; i++) {                                                                           \
            const int32_t difference = (int32_t)y[i] - (int32_t)x[i];                                                  \
            const int32_t absolute = difference < 0 ? -difference : difference;                                        \
            apart[i] = (uint16_t)absolute;                                                                             \
            signs[i] += difference;                                                                                    \
            sums[i] += (uint32_t)absolute;                                                                             \
        }                                                                                                              \
    }
SUBTRACT(subtract_bytes, uint8_t)
SUBTRACT(subtract_words, uint16_t)

INLINE void subtract_row(const void *reference, const void *candidate, int type, int64_t first, int64_t size,
                         work_t *work)
{
    if (type == BYTES)
        subtract_bytes((const uint8_t *)reference + first, (const uint8_t *)candidate + first, size, work->apart,
                       work->column_signs, work->column_sums);
    else
        subtract_words((const uint16_t *)reference + first, (const uint16_t *)candidate + first, size, work->apart,
                       work->column_signs, work->column_sums);
}

static void subtract_any(const void *reference, const void *candidate, int type, int64_t first, int64_t size,
                         work_t *work)
{
    subtract_row(reference, candidate, type, first, size, work);
}

typedef void subtract_function(const void *, const void *, int, int64_t, int64_t, work_t *);

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void subtract_avx2(const void *reference, const void *candidate, int type,
                                                          int64_t first, int64_t size, work_t *work)
{
    subtract_row(reference, candidate, type, first, size, work);
}

static subtract_function *best_subtract(void)
{
    return __builtin_cpu_supports("avx2") ? subtract_avx2 : subtract_any;
}
#else
static subtract_function *best_subtract(void) { return subtract_any; }
#endif

static void count_values(const work_t *work, int64_t size)
{
    const uint16_t *apart = work->apart;
    uint32_t *const first = work->of_values;
    const int64_t bins = work->bins;
    int64_t i = 0;
    if (work->tables == 4)
        for (; i + 4 <= size; i += 4) {
            first[apart[i]]++;
            first[bins + apart[i + 1]]++;
            first[2 * bins + apart[i + 2]]++;
            first[3 * bins + apart[i + 3]]++;
        }
    for (; i < size; i++) first[apart[i]]++;
}

static void count_pixels(const work_t *work, int64_t width, int64_t channels, int64_t *last)
{
    const uint16_t *apart = work->apart;
    for (int64_t pixel = 0; pixel < width; pixel++, apart += channels) {
        uint16_t most = apart[0];
        for (int64_t k = 1; k < channels; k++) most = apart[k] > most ? apart[k] : most;
        work->of_pixels[pixel % work->tables * work->bins + most]++;
        if (last) last[apart[channels - 1]]++;
    }
}

static void empty_columns(work_t *work, int64_t width, int64_t channels, double *cells, int64_t *signs)
{
    for (int64_t pixel = 0, at = 0; pixel < width; pixel++)
        for (int64_t k = 0; k < channels; k++, at++) {
            cells[pixel / CELL] += work->column_sums[at];
            signs[k] += work->column_signs[at];
            work->column_sums[at] = 0;
            work->column_signs[at] = 0;
        }
}

static void empty_tables(work_t *work, int64_t *values, int64_t *pixels)
{
    for (int64_t at = 0; at < work->tables * work->bins; at++) {
        values[at % work->bins] += work->of_values[at];
        pixels[at % work->bins] += work->of_pixels[at];
        work->of_values[at] = work->of_pixels[at] = 0;
    }
}

/* Counts how far stored levels lie apart, adding to what the caller has set to zero: all values, the largest of each
 * pixel, the last channel alone (NULL: not wanted), candidate - reference for each channel, and absolutes for each
 * cell. `type` is BYTES or WORDS. Returns -1 without memory. */
int pg_image_counts(const void *reference, const void *candidate, int type, int64_t height, int64_t width,
                    int64_t channels, int64_t *values, int64_t *pixels, int64_t *last, int64_t *signs, double *cells)
{
    const int64_t size = width * channels, bins = type == BYTES ? 256 : 65536, tables = type == BYTES ? 4 : 1;
    const size_t tabled = (size_t)(2 * tables * bins) * sizeof(uint32_t);
    char *memory = calloc(1, tabled + (size_t)size * (2 * sizeof(uint32_t) + sizeof(uint16_t)));
    if (!memory) return -1;
    work_t work = {bins, tables, (uint32_t *)memory, (uint32_t *)memory + tables * bins, (uint32_t *)(memory + tabled),
                   (int32_t *)(memory + tabled) + size, (uint16_t *)(memory + tabled + 8 * (size_t)size)};
    subtract_function *subtract = best_subtract();
    for (int64_t row = 0, counted = 0; row < height; row++) {
        subtract(reference, candidate, type, row * size, size, &work);
        count_values(&work, size);
        count_pixels(&work, width, channels, last);
        counted += size;
        if ((row + 1) % CELL == 0 || row + 1 == height)
            empty_columns(&work, width, channels, cells + row / CELL * ((width + CELL - 1) / CELL), signs);
        if (counted > INT32_MAX || row + 1 == height) { /* before 32 bits are full */
            empty_tables(&work, values, pixels);
            counted = 0;
        }
    }
    free(memory);
    return 0;
}
