/* Images: the SSIM loss added up in cells of 8x8 pixels, and counts of how far stored levels lie apart.
 *
 * SSIM as in ssim.py: the sum s and the difference d of the two images, shifted to the level of their tile. A blur adds
 * to the pixel in the middle the weighted differences of its neighbours from it, so that flat areas stay exactly as
 * they are, and have variances of exactly zero, in float32. */
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
#define PADDED_COLUMNS (TILE_COLUMNS + 16) /* at least twice the radius; rows of whole cache lines */
#define INLINE static inline __attribute__((always_inline))

enum { BYTES, WORDS, FLOATS, DOUBLES };

typedef struct {
    const void *reference, *candidate;
    int type;
    int64_t width, channels, channel; /* of the whole images; a channel of -1 is luma */
} pair_t;

typedef struct {
    float s[PADDED_ROWS][PADDED_COLUMNS], d[PADDED_ROWS][PADDED_COLUMNS];
    float ss[PADDED_ROWS][PADDED_COLUMNS], dd[PADDED_ROWS][PADDED_COLUMNS];
    float down[4][PADDED_COLUMNS];
    float losses[TILE_COLUMNS];
} tile_t;

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

#define FILL(name, type, number)                                                                                       \
    INLINE void name(const type *restrict x, const type *restrict y, int64_t step, int64_t columns, number level,      \
                     number shift, float *restrict s, float *restrict d)                                               \
    {                                                                                                                  \
        for (int64_t i = 0; i < columns; i++) {                                                                        \
            const number a = x[i * step], b = y[i * step];                                                             \
            s[i] = (float)(a + b - level);                                                                             \
            d[i] = (float)(a - b - shift);                                                                             \
        }                                                                                                              \
    }
FILL(fill_bytes, uint8_t, float)
FILL(fill_words, uint16_t, float)
FILL(fill_floats, float, double)
FILL(fill_doubles, double, double)

INLINE void fill_row(const pair_t *pair, int64_t first, int64_t columns, double level, double shift, float *s, float *d)
{
    const int64_t step = pair->channels, start = first * step + pair->channel;
    if (pair->channel < 0) {
        for (int64_t i = 0; i < columns; i++) {
            const double x = plane_at(pair, pair->reference, first + i), y = plane_at(pair, pair->candidate, first + i);
            s[i] = (float)(x + y - level);
            d[i] = (float)(x - y - shift);
        }
        return;
    }
#define WITH(fill, type, number)                                                                                       \
    fill((const type *)pair->reference + start, (const type *)pair->candidate + start, step, columns, (number)level,   \
         (number)shift, s, d)
    if (pair->type == BYTES && step == 3) {
        fill_bytes((const uint8_t *)pair->reference + start, (const uint8_t *)pair->candidate + start, 3, columns,
                   (float)level, (float)shift, s, d);
    } else if (pair->type == BYTES) {
        WITH(fill_bytes, uint8_t, float);
    } else if (pair->type == WORDS) {
        WITH(fill_words, uint16_t, float);
    } else if (pair->type == FLOATS) {
        WITH(fill_floats, float, double);
    } else {
        WITH(fill_doubles, double, double);
    }
#undef WITH
}

/* Half of a Gaussian of 11 taps with sigma 1.5, unit sum; the middle follows from the sum. */
#define W1 0.21300553771125369f
#define W2 0.1093606895097f
#define W3 0.03600077212843082f
#define W4 0.007598758135239184f
#define W5 0.001028380084479109f

/* Blur along the direction in which neighbours are `stride` floats apart; `in` is at the first window's middle. */
INLINE void blur(const float *restrict in, ptrdiff_t stride, int64_t count, float *restrict out)
{
    for (int64_t i = 0; i < count; i++) {
        const float *at = in + i;
        const float middle = at[0], twice = middle + middle;
        float sum = W5 * (at[-5 * stride] + at[5 * stride] - twice);
        sum += W4 * (at[-4 * stride] + at[4 * stride] - twice);
        sum += W3 * (at[-3 * stride] + at[3 * stride] - twice);
        sum += W2 * (at[-2 * stride] + at[2 * stride] - twice);
        sum += W1 * (at[-stride] + at[stride] - twice);
        out[i] = middle + sum;
    }
}

INLINE void loss_row(tile_t *restrict tile, int64_t row, int64_t columns, float level, float shift, float c1, float c2)
{
    float across[4][TILE_COLUMNS];
    const float *planes[4] = {tile->s[row + RADIUS], tile->d[row + RADIUS], tile->ss[row + RADIUS],
                              tile->dd[row + RADIUS]};
    for (int plane = 0; plane < 4; plane++) {
        blur(planes[plane], PADDED_COLUMNS, columns + 2 * RADIUS, tile->down[plane]);
        blur(tile->down[plane] + RADIUS, 1, columns, across[plane]);
    }
    for (int64_t i = 0; i < columns; i++) {
        const float ms = across[0][i], md = across[1][i];
        const float vs = across[2][i] - ms * ms + c2, vd = across[3][i] - md * md;
        const float mean = ms + level, apart = md + shift;
        const float squares = mean * mean + c1, squared = apart * apart;
        tile->losses[i] += 2.0f * (squared * vs + vd * squares) / ((squares + squared) * (vs + vd));
    }
}

/* The loss of the windows centred in rows x columns pixels from (top, left), added to their cells. */
INLINE void loss_tile(const pair_t *pair, tile_t *tile, int64_t top, int64_t left, int64_t rows, int64_t columns,
                      double range, double *sums, int64_t cells_across)
{
    const float c1 = (float)(2 * 0.01 * 0.01 * range * range), c2 = (float)(2 * 0.03 * 0.03 * range * range);
    double level, shift;
    find_levels(pair, top - RADIUS, left - RADIUS, rows + 2 * RADIUS, columns + 2 * RADIUS, range / 255, &level,
                &shift);
    for (int64_t row = 0; row < rows + 2 * RADIUS; row++) {
        float *s = tile->s[row], *d = tile->d[row], *ss = tile->ss[row], *dd = tile->dd[row];
        fill_row(pair, (top - RADIUS + row) * pair->width + left - RADIUS, columns + 2 * RADIUS, level, shift, s, d);
        for (int64_t i = 0; i < columns + 2 * RADIUS; i++) {
            ss[i] = s[i] * s[i];
            dd[i] = d[i] * d[i];
        }
    }
    memset(tile->losses, 0, sizeof tile->losses);
    for (int64_t row = 0; row < rows; row++) {
        loss_row(tile, row, columns, (float)level, (float)shift, c1, c2);
        if ((top + row + 1) % CELL && row + 1 < rows) continue;
        double *cells = sums + (top + row) / CELL * cells_across;
        for (int64_t i = 0; i < columns; i++) {
            cells[(left + i) / CELL] += (double)tile->losses[i];
            tile->losses[i] = 0;
        }
    }
}

typedef void tile_function(const pair_t *, tile_t *, int64_t, int64_t, int64_t, int64_t, double, double *, int64_t);

static void loss_tile_any(const pair_t *pair, tile_t *tile, int64_t top, int64_t left, int64_t rows, int64_t columns,
                          double range, double *sums, int64_t cells_across)
{
    loss_tile(pair, tile, top, left, rows, columns, range, sums, cells_across);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void loss_tile_avx2(const pair_t *pair, tile_t *tile, int64_t top,
                                                               int64_t left, int64_t rows, int64_t columns,
                                                               double range, double *sums, int64_t cells_across)
{
    loss_tile(pair, tile, top, left, rows, columns, range, sums, cells_across);
}

static tile_function *best_tile(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? loss_tile_avx2 : loss_tile_any;
}
#else
static tile_function *best_tile(void) { return loss_tile_any; }
#endif

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
    tile_function *run = best_tile();
    tile_t *tile = malloc(sizeof *tile);
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
