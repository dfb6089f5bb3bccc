/* SPDX-License-Identifier: MIT */
/* Computes the stages of a chain in double precision: which tokens of a set each stage keeps, and
 * for which a rounding may decide otherwise. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "oracle.h"

#define MASS_ERROR 1e-6  /* the relative error of a mass */
#define BITS_ERROR 1e-5  /* the error of a mass's logarithm, in bits */
#define DEPTH_ERROR 4e-7 /* the relative error of a depth */

static double most_of(double a, double b) { return a > b ? a : b; }

/* The library limits depths to 64 bits below the maximum. */
static double at_most(double depth) { return depth < 64.0 ? depth : INFINITY; }

/* Returns the largest error of a depth or of a surprise. */
static double depth_error(const oracle *o, double depth)
{
    return depth * (DEPTH_ERROR + o->scale_error);
}

static double value_at(const oracle *o, const oracle_set *s, uint32_t i)
{
    return o->value[s->index[i]];
}

static int32_t id_at(const oracle *o, const oracle_set *s, uint32_t i)
{
    return (int32_t)o->order[s->index[i]];
}

static uint32_t floor_of(const one_row *row, const oracle_set *s)
{
    const uint32_t keep = row->params->min_keep > 1 ? row->params->min_keep : 1;
    return keep < s->n ? keep : s->n;
}

/* Keeps the first tokens: certainly the first `least`, and certainly none from `most` on. */
static void keep_first(oracle_set *s, uint32_t least, uint32_t kept, uint32_t most)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->verdict[i] = i < kept ? ORACLE_IN : ORACLE_OUT;
        if (i >= least && i < most)
            s->verdict[i] |= ORACLE_EITHER;
    }
}

static void keep_first_or_floor(oracle_set *s, uint32_t fewest, uint32_t least, uint32_t kept,
                                uint32_t most)
{
    keep_first(s, least > fewest ? least : fewest, kept > fewest ? kept : fewest,
               most > fewest ? most : fewest);
}

/* Keeps the tokens up to a depth. From `under` below it to `over` above it the verdict is
 * uncertain. */
static void keep_to_depth(const oracle *o, oracle_set *s, uint32_t fewest, double most,
                          double under, double over)
{
    uint32_t count[3] = {0, 0, 0};
    for (uint32_t i = 0; i < s->n; i++) {
        const double error = depth_error(o, s->depth[i]);
        count[0] += s->depth[i] + error + under <= most || s->depth[i] == 0.0;
        count[1] += s->depth[i] <= most;
        count[2] += s->depth[i] - error - over <= most;
    }
    keep_first_or_floor(s, fewest, count[0], count[1], count[2]);
}

/* Returns the length of the shortest prefix of the list whose mass reaches (or exceeds) a share. */
static uint32_t reaching(const oracle_set *s, const uint32_t *list, double share, int exceed)
{
    const long double target = (long double)s->total * (long double)share;
    long double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        sum += (long double)s->weight[list ? list[i] : i];
        if (sum > target || (!exceed && sum == target))
            return i + 1;
    }
    return s->n;
}

static void top_p(oracle_set *s, const oracle *o, uint32_t fewest)
{
    const double p = o->top_p;
    if (p <= 0.0)
        keep_first_or_floor(s, fewest, 1, 1, 1);
    else
        keep_first_or_floor(s, fewest, reaching(s, NULL, p - s->slack, 0), reaching(s, NULL, p, 0),
                            reaching(s, NULL, p + s->slack, 0));
}

/* The library measures depths and the limit on a scale of 2^19 units or more. */
static void top_n_sigma(oracle_set *s, const oracle *o, uint32_t fewest)
{
    const double top = value_at(o, s, 0), range = top - value_at(o, s, s->n - 1),
                 sigmas = (double)o->params->top_n_sigma;
    long double mean = 0, variance = 0;
    uint32_t count[3] = {0, 0, 0};
    if (range == 0.0) {
        keep_first(s, s->n, s->n, s->n);
        return;
    }
    if (range > (double)FLT_MAX || range < 1e-30) { /* float32 cannot represent the difference */
        keep_first(s, fewest, s->n, s->n);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++)
        mean += (long double)(top - value_at(o, s, i)) / s->n;
    for (uint32_t i = 0; i < s->n; i++)
        variance += powl((long double)(top - value_at(o, s, i)) - mean, 2) / s->n;
    const double deviation = (double)sqrtl(variance), limit = sigmas * deviation,
                 unit = range * 0x1p-19;
    const double error = limit * 3e-6 + sigmas * unit * (unit / deviation + 0x1p-12);
    for (uint32_t i = 0; i < s->n; i++)
        for (int side = 0; side < 3; side++)
            count[side] += top - value_at(o, s, i) <= limit + (side - 1) * error || i == 0;
    keep_first_or_floor(s, fewest, count[0], count[1], count[2]);
}

/* --------------------------------------------------------------------- typical p */

typedef struct nearness {
    double distance, value;
    uint32_t i;
    int tail;
} nearness;

static int by_nearness(const void *a, const void *b)
{
    const nearness *const x = a, *const y = b;
    if (x->distance != y->distance)
        return x->distance > y->distance ? 1 : -1;
    if (x->tail != y->tail)
        return x->tail - y->tail;
    return (x->i > y->i) -
           (x->i < y->i); /* tokens of equal distance on one side have equal values */
}

static double mean_depth(const oracle_set *s)
{
    long double sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->weight[i] > 0.0)
            sum += (long double)(s->weight[i] * s->depth[i]);
    return (double)(sum / (long double)s->total);
}

static void typical_p(oracle_set *s, const oracle *o, uint32_t fewest)
{
    const double mean = mean_depth(s), p = most_of(0.0, (double)o->params->typical_p);
    nearness *const near = malloc(s->n * sizeof *near);
    uint32_t *const list = malloc(s->n * sizeof *list), count[3];
    if (near == NULL || list == NULL)
        abort();
    for (uint32_t i = 0; i < s->n; i++)
        near[i] = (nearness){fabs(s->depth[i] - mean), value_at(o, s, i), i, s->depth[i] > mean};
    qsort(near, s->n, sizeof *near, by_nearness);
    for (uint32_t i = 0; i < s->n; i++)
        list[i] = near[i].i;
    for (int side = 0; side < 3; side++) {
        count[side] = reaching(s, list, most_of(0.0, p + (side - 1) * s->slack), 1);
        count[side] = count[side] < fewest ? fewest : count[side];
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->verdict[list[i]] = i < count[1] ? ORACLE_IN : ORACLE_OUT;
        if (i >= count[0] && i < count[2])
            s->verdict[list[i]] |= ORACLE_EITHER;
    }
    /* Tokens with nearly the distance of the last one may be in another order, except equal tokens.
     */
    const nearness *const first = &near[count[0] - 1], *const last = &near[count[2] - 1];
    const double error = BITS_ERROR + s->lost + 2.0 * depth_error(o, mean + last->distance);
    uint32_t from = 0, to = 0;
    while (near[from].distance < first->distance - error)
        from++;
    for (to = count[2]; to < s->n && near[to].distance <= last->distance + error;)
        to++;
    int equal = 1;
    for (uint32_t i = from; i < to; i++)
        equal &= near[i].value == near[from].value;
    for (uint32_t i = from; i < to && !equal; i++)
        s->verdict[list[i]] |= ORACLE_EITHER;
    free(near);
    free(list);
}

/* --------------------------------------------------------------------------- XTC */

/* Returns XTC's random number: the upper 31 of the first 64 bits of a block of Philox4x32-10. */
static uint32_t coin(const one_row *row)
{
    const cls_params *const p = row->params;
    uint32_t c[4] = {row->position, 1u | row->draw << 8, (uint32_t)p->stream,
                     (uint32_t)(p->stream >> 32)};
    uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        for (int n = 0; n < 4; n++)
            c[n] = next[n];
    }
    return c[1] >> 1;
}

static int is_exempt(const cls_ids *exempt, int32_t id)
{
    uint32_t i = 0;
    while (i < exempt->count && exempt->ids[i] != id)
        i++;
    return i < exempt->count;
}

static void xtc(oracle_set *s, const oracle *o, const one_row *row, uint32_t fewest)
{
    const double depth = at_most(-log2((double)o->params->xtc_threshold) - log2(s->total));
    const uint32_t chance = (uint32_t)((double)o->params->xtc_probability * 2147483648.0 + 0.5);
    uint32_t count[3] = {0, 0, 0}, least = UINT32_MAX, most = 0, exempt = 0;
    keep_first(s, s->n, s->n, s->n);
    if (coin(row) >= chance)
        return;
    while (exempt < s->n && !is_exempt(&o->params->xtc_exempt_ids, id_at(o, s, exempt)))
        exempt++;
    for (uint32_t i = 0; i < s->n; i++)
        for (int side = 0; side < 3; side++)
            count[side] +=
                s->depth[i] <= depth + (side - 1) * (BITS_ERROR + depth_error(o, s->depth[i]));
    /* If removing some leaves too few, or if an exempt one is among them, none is removed. */
    for (uint32_t n = count[0]; n <= count[2]; n++) {
        const uint32_t drop = n >= 2 && s->n - (n - 1) >= fewest && n - 1 <= exempt ? n - 1 : 0;
        least = drop < least ? drop : least;
        most = drop > most ? drop : most;
        for (uint32_t i = 0; i < drop && n == count[1]; i++)
            s->verdict[i] = ORACLE_OUT;
    }
    for (uint32_t i = least; i < most; i++)
        s->verdict[i] |= ORACLE_EITHER;
}

/* ----------------------------------------------------------------- p-less, entropy */

static void p_less(oracle_set *s, const oracle *o, uint32_t fewest)
{
    long double squares = 0;
    for (uint32_t i = 0; i < s->n; i++)
        squares += (long double)(s->weight[i] * s->weight[i]);
    /* A token exactly as likely as the sum is kept; roundings may decide. */
    keep_to_depth(o, s, fewest, log2(s->total) - (double)log2l(squares) + 2e-6, 2e-6,
                  2.0 * BITS_ERROR);
}

static void top_a(oracle_set *s, const oracle *o, uint32_t fewest)
{
    const double exact = log2(s->total) - log2((double)o->params->top_a);
    keep_to_depth(o, s, fewest, at_most(exact + 0x1p-17), BITS_ERROR, BITS_ERROR);
}

static double dynamic(const cls_params *p, double entropy, uint32_t n, double exponent)
{
    const double low = most_of(0.0, (double)p->temperature - (double)p->dynatemp_range);
    const double high = (double)p->temperature + (double)p->dynatemp_range;
    const double ratio = fmin(1.0, most_of(0.0, entropy) / log2(n));
    return low + (high - low) * pow(ratio, exponent);
}

static void temperature(oracle_set *s, oracle *o)
{
    const cls_params *const p = o->params;
    keep_first(s, s->n, s->n, s->n);
    o->scale = 1.0 / (double)p->temperature;
    if (!(p->dynatemp_range > 0.0f) || s->n == 1)
        return;
    const double e = (double)p->dynatemp_exponent, mean = mean_depth(s),
                 entropy = log2(s->total) + mean;
    const double error = 4e-6 + s->lost + depth_error(o, mean), t = dynamic(p, entropy, s->n, e);
    const double rounded = e * 65536.0 == floor(e * 65536.0) ? 0.0 : 0x1p-17;
    const double offset = 1.2e-7 * ((double)p->temperature + (double)p->dynatemp_range);
    /* Only the likeliest token has weight; an entropy below the unit is 0. */
    const double least =
        dynamic(p, entropy < error ? 0.0 : (entropy - error) * (1 - 2e-6), s->n, e + rounded) -
        offset;
    const double most = dynamic(p, (entropy + error) * (1 + 2e-6), s->n, e - rounded) + offset;
    if (most < 1e-5) {
        keep_first(s, 1, 1, 1);
    } else if (least < 1e-5) {
        o->scale = t < 1e-5 ? o->scale : 1.0 / t;
        o->undecided = 1;
    } else {
        o->scale = 1.0 / t;
        o->scale_error = 2e-7 + (most - least) / t;
    }
}

/* ------------------------------------------------------------------------ infill */

static int marginal; /* whether a rounding may decide a comparison of the infill stage */

static int less(double a, double b)
{
    marginal |= fabs(a - b) <= 1e-5 * most_of(a, b) && a != b;
    return a < b;
}

static int is_end(const cls_infill *t, int32_t id)
{
    for (uint32_t i = 0; i < t->end_ids.count; i++)
        if (t->end_ids.ids[i] == id)
            return 1;
    return 0;
}

/* Merges each token with the tokens that it is a prefix of: the likelier gets the other's mass. */
static void merge(oracle_set *s, const oracle *o, const cls_infill *t, double *mass)
{
    uint32_t *const position =
        malloc(o->vocab * sizeof *position); /* of each id in the set, or n */
    uint8_t *const in = calloc(o->vocab, 1);
    if (position == NULL || in == NULL)
        abort();
    for (uint32_t id = 0; id < o->vocab; id++)
        position[id] = s->n;
    for (uint32_t i = 0; i < s->n; i++)
        position[id_at(o, s, i)] = i;
    for (uint32_t i = 0; i < s->n; i++)
        for (int32_t id = t->prefix_of[id_at(o, s, i)]; id >= 0; id = t->prefix_of[id])
            in[id] |= position[id] < s->n; /* the token can be merged with another */
    for (uint32_t i0 = 0; i0 < s->n; i0++)
        for (uint32_t i1 = 0; i1 < s->n && in[id_at(o, s, i0)] && s->verdict[i0]; i1++) {
            int32_t id = t->prefix_of[id_at(o, s, i1)];
            while (id >= 0 && id != id_at(o, s, i0))
                id = t->prefix_of[id];
            if (id < 0 || !s->verdict[i1])
                continue;
            /* Equal tokens in two tiles can have different weights. */
            marginal |= mass[i0] == mass[i1] && id_at(o, s, i0) / 1024 != id_at(o, s, i1) / 1024;
            /* Of two tokens that weigh nothing the library drops the second one. */
            marginal |= most_of(mass[i0], mass[i1]) < exp2(-ORACLE_MAY_WEIGH_NOTHING);
            const uint32_t out = less(mass[i0], mass[i1]) ? i0 : i1, into = i0 + i1 - out;
            mass[into] += mass[out];
            s->verdict[out] = ORACLE_OUT;
        }
    free(position);
    free(in);
}

static void infill(oracle_set *s, oracle *o, const one_row *row)
{
    const cls_infill *const t = row->infill;
    double *const mass = malloc(s->n * sizeof *mass), ends = 0.0, text = 0.0, left = 0.0;
    uint32_t texts = 0, found = 0;
    if (mass == NULL)
        abort();
    if (s->n > ORACLE_INFILL_MOST) {
        keep_first(s, s->n, s->n, s->n);
        o->empty_status = CLS_ROW_UNFIT;
        free(mass);
        return;
    }
    marginal = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        mass[i] = s->weight[i];
        s->verdict[i] = ORACLE_IN;
        *(is_end(t, id_at(o, s, i)) ? &ends : &text) += mass[i];
    }
    if (less(text, 3.0 * ends * s->n)) {
        for (uint32_t i = 0; i < s->n; i++)
            s->verdict[i] = is_end(t, id_at(o, s, i)) ? ORACLE_IN : ORACLE_OUT;
    } else {
        merge(s, o, t, mass);
        for (uint32_t i = 0; i < s->n; i++) {
            const int end = is_end(t, id_at(o, s, i));
            if (s->verdict[i] && !end && less(5.0 * mass[i], s->total))
                s->verdict[i] = ORACLE_OUT;
            texts += s->verdict[i] && !end;
            left += s->verdict[i] ? mass[i] : 0.0;
        }
        for (uint32_t i = 0; i < s->n; i++)
            if (s->verdict[i] && !is_end(t, id_at(o, s, i)) && less(mass[i] * (texts + 1.0), left))
                s->verdict[i] = ORACLE_OUT;
        while (found < o->finite && (int32_t)o->order[found] != t->end_ids.ids[0])
            found++;
        if (texts == 0)
            o->last_resort = t->end_ids.ids[0];
        if (texts == 0 && found == o->finite)
            o->empty_status = CLS_ROW_EMPTY;
    }
    o->undecided |= marginal;
    free(mass);
}

/* ---------------------------------------------------------------------- mirostat */

/* Returns the number of tokens that the slope of the first ranks leaves, as a real number. */
static double mirostat_1(double slope, double mu, uint32_t vocab, double error)
{
    const double e = slope - 1.0;
    const double rest = fabs(e) < 1e-9 ? log(vocab) : -expm1(-e * log(vocab)) / e;
    const double share = -expm1(-fabs(e) * log(vocab));
    const double power = mu - log2(rest) + error * (5e-6 + (fabs(e) < 2e-4 ? 2e-3 : 6e-7 / share));
    if (vocab < 2 || power <= 0.0)
        return 1.0;
    if (!(power < 20.0 * slope))
        return vocab;
    return exp2(power / slope) * (1.0 + error * 1e-6);
}

static void mirostat(oracle_set *s, const oracle *o, const one_row *row)
{
    const double mu = o->adaptive.mu * 0x1p-20, all = log2(s->total);
    double terms = 0.0, squares = 0.0, deepest = 0.0;
    uint32_t count[3];
    if (row->params->mirostat == 2) {
        /* From 64 bits on mu cuts no weight off, since log2 of the mass is at most 20 and weights
         * vanish 43 bits under the top: the library then keeps a row at a static temperature whole.
         */
        const int whole = mu >= 64.0 && !(row->params->dynatemp_range > 0.0f);
        keep_to_depth(o, s, 1, whole ? INFINITY : at_most(mu - all), BITS_ERROR, BITS_ERROR);
        return;
    }
    if (s->n == 1) {
        keep_first(s, 1, 1, 1);
        return;
    }
    for (uint32_t i = 0; i + 1 < s->n && i < 99; i++) {
        const double step = log2((i + 2.0) / (i + 1.0));
        terms += step * (fmin(s->depth[i + 1], 64.0) - fmin(s->depth[i], 64.0));
        squares += step * step;
        deepest = fmin(s->depth[i + 1], 64.0);
    }
    const double error = 3e-6 + depth_error(o, deepest);
    for (int side = 0; side < 3; side++) {
        double k[3];
        for (int slope = 0; slope < 3; slope++) /* the number is not monotone in the slope */
            k[slope] = mirostat_1(most_of(0.0, terms / squares + (slope - 1) * error), mu, o->vocab,
                                  side - 1);
        const double low = fmin(k[0], fmin(k[1], k[2])), high = most_of(k[0], most_of(k[1], k[2]));
        const double kept = side == 0 ? low : side == 1 ? k[1] : high;
        count[side] = kept < 1.0 ? 1 : kept < s->n ? (uint32_t)kept : s->n;
    }
    keep_first(s, count[0], count[1], count[2]);
}

void oracle_stage(oracle *o, oracle_set *s, const one_row *row, int stage)
{
    const uint32_t fewest = floor_of(row, s);
    const uint32_t k = o->params->top_k > 0 && (uint32_t)o->params->top_k < s->n
                           ? (uint32_t)o->params->top_k
                           : s->n;
    switch (stage) {
    case CLS_STAGE_TEMPERATURE:
        temperature(s, o);
        break;
    case CLS_STAGE_TOP_K:
        keep_first(s, k, k, k);
        break;
    case CLS_STAGE_TOP_P:
        top_p(s, o, fewest);
        break;
    case CLS_STAGE_MIN_P: /* what is less than 2^-100 bits under the maximum counts as the maximum
                           */
        keep_to_depth(o, s, fewest, most_of(-log2((double)o->params->min_p), 0x1p-100), 0.0, 0.0);
        break;
    case CLS_STAGE_TOP_N_SIGMA:
        top_n_sigma(s, o, fewest);
        break;
    case CLS_STAGE_TYPICAL_P:
        typical_p(s, o, fewest);
        break;
    case CLS_STAGE_XTC:
        xtc(s, o, row, fewest);
        break;
    case CLS_STAGE_P_LESS:
        p_less(s, o, fewest);
        break;
    case CLS_STAGE_TOP_A:
        top_a(s, o, fewest);
        break;
    case CLS_STAGE_INFILL:
        infill(s, o, row);
        break;
    default:
        mirostat(s, o, row);
    }
}
