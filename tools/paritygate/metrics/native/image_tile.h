/* SSIM of one tile in REAL, included by image.c once for each; NAMED gives every name its ending.
 *
 * The sum s and the difference d of the two images are shifted to the level of their tile. A blur adds to the pixel in
 * the middle the weighted differences of its neighbours from it, so that flat areas stay exactly as they are and have
 * variances of exactly zero. */

typedef struct {
    REAL s[PADDED_ROWS][PADDED_COLUMNS], d[PADDED_ROWS][PADDED_COLUMNS];
    REAL ss[PADDED_ROWS][PADDED_COLUMNS], dd[PADDED_ROWS][PADDED_COLUMNS];
    REAL down[4][PADDED_COLUMNS];
    REAL losses[TILE_COLUMNS];
} NAMED(tile);

#define FILL(name, type)                                                                                               \
    INLINE void NAMED(name)(const type *restrict x, const type *restrict y, int64_t step, int64_t columns, REAL level, \
                            REAL shift, REAL *restrict s, REAL *restrict d)                                            \
    {                                                                                                                  \
        for (int64_t i = 0; i < columns; i++) {                                                                        \
            const REAL a = (REAL)x[i * step], b = (REAL)y[i * step];                                                   \
            s[i] = a + b - level;                                                                                      \
            d[i] = a - b - shift;                                                                                      \
        }                                                                                                              \
    }
FILL(fill_bytes, uint8_t)
FILL(fill_words, uint16_t)
FILL(fill_floats, float)
FILL(fill_doubles, double)
#undef FILL

INLINE void NAMED(fill_row)(const pair_t *pair, int64_t first, int64_t columns, REAL level, REAL shift, REAL *s,
                            REAL *d)
{
    const int64_t step = pair->channels, start = first * step + pair->channel;
    if (pair->channel < 0) {
        for (int64_t i = 0; i < columns; i++) {
            const double x = plane_at(pair, pair->reference, first + i), y = plane_at(pair, pair->candidate, first + i);
            s[i] = (REAL)(x + y) - level;
            d[i] = (REAL)(x - y) - shift;
        }
        return;
    }
#define WITH(fill, type, apart)                                                                                        \
    NAMED(fill)((const type *)pair->reference + start, (const type *)pair->candidate + start, apart, columns, level,   \
                shift, s, d)
    if (pair->type == BYTES && step == 3)
        WITH(fill_bytes, uint8_t, 3); /* a constant step is twice as fast */
    else if (pair->type == BYTES)
        WITH(fill_bytes, uint8_t, step);
    else if (pair->type == WORDS)
        WITH(fill_words, uint16_t, step);
    else if (pair->type == FLOATS)
        WITH(fill_floats, float, step);
    else
        WITH(fill_doubles, double, step);
#undef WITH
}

/* Blur along the direction in which neighbours are `stride` REALs apart; `in` is at the first window's middle. */
INLINE void NAMED(blur)(const REAL *restrict in, ptrdiff_t stride, int64_t count, REAL *restrict out)
{
    for (int64_t i = 0; i < count; i++) {
        const REAL *at = in + i;
        const REAL middle = at[0], twice = middle + middle;
        REAL sum = (REAL)W5 * (at[-5 * stride] + at[5 * stride] - twice);
        sum += (REAL)W4 * (at[-4 * stride] + at[4 * stride] - twice);
        sum += (REAL)W3 * (at[-3 * stride] + at[3 * stride] - twice);
        sum += (REAL)W2 * (at[-2 * stride] + at[2 * stride] - twice);
        sum += (REAL)W1 * (at[-stride] + at[stride] - twice);
        out[i] = middle + sum;
    }
}

INLINE void NAMED(loss_row)(NAMED(tile) *restrict tile, int64_t row, int64_t columns, REAL level, REAL shift, REAL c1,
                            REAL c2)
{
    REAL across[4][TILE_COLUMNS];
    const REAL *planes[4] = {tile->s[row + RADIUS], tile->d[row + RADIUS], tile->ss[row + RADIUS],
                             tile->dd[row + RADIUS]};
    const int64_t whole = WHOLE(columns);
    for (int plane = 0; plane < 4; plane++) {
        NAMED(blur)(planes[plane], PADDED_COLUMNS, whole + MARGIN, tile->down[plane]);
        NAMED(blur)(tile->down[plane] + RADIUS, 1, whole, across[plane]);
    }
    for (int64_t i = 0; i < columns; i++) {
        const REAL ms = across[0][i], md = across[1][i];
        const REAL vs = across[2][i] - ms * ms + c2, vd = across[3][i] - md * md;
        const REAL mean = ms + level, apart = md + shift;
        const REAL squares = mean * mean + c1, squared = apart * apart;
        tile->losses[i] += 2 * (squared * vs + vd * squares) / ((squares + squared) * (vs + vd));
    }
}

/* The loss of the windows centred in rows x columns pixels from (top, left), added to their cells. */
INLINE void NAMED(loss_tile)(const pair_t *pair, void *memory, int64_t top, int64_t left, int64_t rows,
                             int64_t columns, double range, double *sums, int64_t cells_across)
{
    NAMED(tile) *const tile = memory;
    const REAL c1 = (REAL)(2 * 0.01 * 0.01 * range * range), c2 = (REAL)(2 * 0.03 * 0.03 * range * range);
    double level, shift;
    find_levels(pair, top - RADIUS, left - RADIUS, rows + 2 * RADIUS, columns + 2 * RADIUS, range / 255, &level,
                &shift);
    for (int64_t row = 0; row < rows + 2 * RADIUS; row++) {
        REAL *s = tile->s[row], *d = tile->d[row], *ss = tile->ss[row], *dd = tile->dd[row];
        NAMED(fill_row)(pair, (top - RADIUS + row) * pair->width + left - RADIUS, columns + 2 * RADIUS, (REAL)level,
                        (REAL)shift, s, d);
        for (int64_t i = 0; i < WHOLE(columns) + MARGIN; i++) {
            ss[i] = s[i] * s[i];
            dd[i] = d[i] * d[i];
        }
    }
    memset(tile->losses, 0, sizeof tile->losses);
    for (int64_t row = 0; row < rows; row++) {
        NAMED(loss_row)(tile, row, columns, (REAL)level, (REAL)shift, c1, c2);
        if ((top + row + 1) % CELL && row + 1 < rows) continue;
        double *cells = sums + (top + row) / CELL * cells_across;
        for (int64_t i = 0; i < columns; i++) {
            cells[(left + i) / CELL] += (double)tile->losses[i];
            tile->losses[i] = 0;
        }
    }
}

static void NAMED(loss_tile_any)(const pair_t *pair, void *memory, int64_t top, int64_t left, int64_t rows,
                                 int64_t columns, double range, double *sums, int64_t cells_across)
{
    NAMED(loss_tile)(pair, memory, top, left, rows, columns, range, sums, cells_across);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void NAMED(loss_tile_avx2)(const pair_t *pair, void *memory, int64_t top,
                                                                      int64_t left, int64_t rows, int64_t columns,
                                                                      double range, double *sums, int64_t cells_across)
{
    NAMED(loss_tile)(pair, memory, top, left, rows, columns, range, sums, cells_across);
}

static tile_function *NAMED(best_tile)(void)
{
    const int wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return wide ? NAMED(loss_tile_avx2) : NAMED(loss_tile_any);
}
#else
static tile_function *NAMED(best_tile)(void) { return NAMED(loss_tile_any); }
#endif

