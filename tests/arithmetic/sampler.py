# SPDX-License-Identifier: MIT
"""Version 1 of the arithmetic, written from doc/arithmetic.md alone: greedy, temperature, top-k,
top-p, min-p, and the draw. It shares no code with the library. The names of rules are the page's.

Integers are Python's or NumPy's uint64, and floats are NumPy's float32, whose operations round
once. Only the parameters (S1 to S3) use binary64."""

import math

import numpy as np

F = np.float32
U = np.uint64
INF = F(np.inf)
UNIT_SCALE = F(float.fromhex("0x1.715476p+0"))
GREEDY_BELOW = F(float.fromhex("0x1.4f8b58p-17"))
TILE = 1024

NAN_STATUS, INF_STATUS, EMPTY_STATUS = 1, 2, 4

STAGES = {
    0: ("temperature", "top-k", "top-p", "min-p"),
    1: ("temperature", "min-p", "top-k", "top-p"),
    2: ("top-k", "top-p", "min-p", "temperature"),
}


def bits_of(x):
    return int(np.asarray(x, F).view(np.uint32))


def float_of(bits):
    return np.asarray(bits, np.uint32).view(F)[()]


# ------------------------------------------------------------------------------ logits


def clean(bits):
    """L3, for an array of bits. Returns the floats and which were NaN and +inf."""
    size = bits & np.uint32(0x7FFFFFFF)
    is_nan = size > 0x7F800000
    is_inf = bits == 0x7F800000
    z = np.where(is_nan, np.uint32(0xFF800000), bits)
    z = np.where(is_inf, np.uint32(0x7F7FFFFF), z)
    z = np.where(size < 0x00800000, np.uint32(0), z)
    return z.astype(np.uint32).view(F), is_nan, is_inf


def key_of(z):
    """K1, for an array of floats."""
    b = np.ascontiguousarray(z).view(np.int32).astype(np.int64)
    return np.where(b >= 0, b, b ^ 0x7FFFFFFF)


# -------------------------------------------------------------------------- parameters


def scale_of(temperature):
    """S1."""
    return F(max(float.fromhex("0x1.71547652b82fep+0") / float(temperature), 2.0**-126))


def top_p_of(p):
    """S2."""
    return 0 if p <= 0 else min(math.floor(float(p) * 2.0**32 + 0.5), 2**32 - 1)


def min_p_of(p):
    """S3."""
    return F(max(-math.log2(float(p)), 2.0**-100))


# ----------------------------------------------------------------------------- weights


def split(m, s):
    """W2. Returns E, and c in units of 2^-24."""
    m_bits, s_bits = bits_of(m), bits_of(s)
    if m == 0:
        return 0, 0
    product = ((m_bits & 0x7FFFFF) | 0x800000) * ((s_bits & 0x7FFFFF) | 0x800000)
    exponent = ((m_bits >> 23) & 255) + ((s_bits >> 23) & 255) - 276
    y = product << exponent if exponent >= 0 else product >> -exponent
    y = min(y, 2**54)
    whole, rest = y >> 24, y & 0xFFFFFF
    if m < 0:
        return -whole, -rest
    return (whole + 1, rest - 2**24) if rest > 0 else (whole, 0)


POLYNOMIAL = [
    F(float.fromhex(x))
    for x in ("0x1.657ba4p+20", "0x1.3d5aa0p+23", "0x1.c6a2c2p+25", "0x1.ebf80ap+27")
    + ("0x1.62e438p+29", "0x1.000002p+30")
]


def weight(z, m, s, c):
    """W3, for arrays of logits, of their tiles' m and of their tiles' c."""
    with np.errstate(all="ignore"):
        q = (z - m) * s + c
    q = np.where(q > F(-40), q, F(-40))
    n = (q + F(12582912)) - F(12582912)
    f = q - n
    p = f * POLYNOMIAL[0] + POLYNOMIAL[1]
    for constant in POLYNOMIAL[2:]:
        p = p * f + constant
    x = np.trunc(np.ldexp(p, n.astype(np.int32))).astype(U)
    return np.where(z == -INF, U(0), x)


def depth(z, m, s):
    """W5, for an array or a scalar z."""
    with np.errstate(all="ignore"):
        return np.multiply(np.subtract(m, z, dtype=F), s, dtype=F)


def row_units(x, d):
    """W7, for arrays."""
    return (x << U(13)) >> d


class Weights:
    """The weights of a row at a scale: rules W and M."""

    def __init__(self, z, s):
        self.z, self.s = z, s
        tiles = (len(z) + TILE - 1) // TILE
        self.tile_of = np.arange(len(z)) // TILE
        self.max = np.array([z[t * TILE : (t + 1) * TILE].max() for t in range(tiles)], F)
        self.m = self.max.max()
        self.E, self.c = np.zeros(tiles, np.int64), np.zeros(tiles, np.int64)
        self.d = np.full(tiles, 63, U)
        top_E, self.top_c = split(self.m, s)
        for t in np.flatnonzero(self.max > -INF):
            self.E[t], self.c[t] = split(self.max[t], s)
            if depth(self.max[t], self.m, s) < F(80):
                self.d[t] = min(top_E - int(self.E[t]), 63)
        c = self.c.astype(F) * F(2.0**-24)
        self.x = weight(z, self.max[self.tile_of], s, c[self.tile_of])
        self.v = row_units(self.x, self.d[self.tile_of])
        self.tile_sum = np.add.reduceat(self.x, np.arange(tiles) * TILE)  # W4
        self.tile_mass = row_units(self.tile_sum, self.d)

    def mass(self, kept, truncated):
        """M3."""
        return int((self.v[kept] if truncated else self.tile_mass).sum(dtype=U))


# ------------------------------------------------------------------------------- chain


def top_p_target(mass, p):
    """C5: ceil(M P / 2^32)."""
    return -((-mass * p) >> 32)


class Row:
    """A row of logits after its chain: what is kept, and from what the token is drawn."""

    def __init__(self, bits, params, masked=()):
        z, is_nan, is_inf = clean(bits)
        z, allowed = z.copy(), np.ones(len(z), bool)
        allowed[list(masked)] = False
        z[~allowed] = -INF
        self.status = NAN_STATUS * bool((is_nan & allowed).any())
        self.status |= INF_STATUS * bool((is_inf & allowed).any())
        available = np.flatnonzero(z > -INF)
        self.kept = available[np.argsort(-key_of(z[available]), kind="stable")]  # K2
        self.greedy = params["temperature"] < GREEDY_BELOW
        self.truncated, self.target, self.total = False, 0, 0
        if len(available) == 0:
            self.status |= EMPTY_STATUS
        elif self.greedy:
            self.kept = self.kept[:1]
        else:
            self.weights = Weights(z, UNIT_SCALE)
            self.run(params)
            self.mass = self.weights.mass(self.kept, self.truncated)

    def keep(self, n, least):
        self.kept = self.kept[: max(n, least)]
        self.truncated = True

    def run(self, params):
        """C1."""
        least = max(params["min_keep"], 1)
        for stage in params["stages"]:
            w = self.weights
            if stage == "temperature" and params["temperature"] != 1:
                self.weights = Weights(w.z, scale_of(params["temperature"]))
            elif stage == "top-k" and 0 < params["top_k"] < len(w.z):
                self.keep(params["top_k"], 0)
            elif stage == "top-p" and params["top_p"] < 1:
                self.total = w.mass(self.kept, self.truncated)
                self.target = top_p_target(self.total, top_p_of(params["top_p"]))
                sums = np.cumsum(w.v[self.kept], dtype=U)
                self.keep(int(np.searchsorted(sums, U(self.target), side="left")) + 1, least)
            elif stage == "min-p" and params["min_p"] > 0:
                near = depth(w.z[self.kept], w.m, w.s) <= min_p_of(params["min_p"])
                self.keep(int(near.sum()), least)

    def draw(self, random):
        """D2 to D4, for an array of random bits. Returns the drawn integers and the tokens."""
        u, w = drawn_integer(random, self.mass), self.weights
        if self.truncated:
            ids = np.sort(self.kept)
            return u, ids[np.searchsorted(np.cumsum(w.v[ids], dtype=U), u, side="right")]
        ends = np.cumsum(w.tile_mass, dtype=U)
        tiles = np.searchsorted(ends, u, side="right")
        rest = u - (ends[tiles] - w.tile_mass[tiles])
        tokens = np.empty(len(u), np.int64)
        for t in np.unique(tiles):
            first = int(t) * TILE
            sums = row_units(np.cumsum(w.x[first : first + TILE], dtype=U), w.d[t])
            here = tiles == t
            tokens[here] = first + np.searchsorted(sums, rest[here], side="right")
        return u, tokens


# ------------------------------------------------------------------------------- draws


def philox(c, k):
    """P1, for lists of four and two words, which are uint64 arrays of values below 2^32."""
    low = U(0xFFFFFFFF)
    c0, c1, c2, c3 = c
    k0, k1 = k
    for _ in range(10):
        a, b = U(0xD2511F53) * c0, U(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> U(32)) ^ c1 ^ k0, b & low, (a >> U(32)) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + U(0x9E3779B9)) & low, (k1 + U(0xBB67AE85)) & low
    return c0, c1, c2, c3


def random_bits(purpose, seed, stream, position, number):
    """P2 and P3, for arrays of positions and numbers."""
    position, number = np.asarray(position, U), np.asarray(number, U)
    halves = [np.asarray([x & 0xFFFFFFFF, x >> 32], U) for x in (seed, stream)]
    key = [halves[0][:1], halves[0][1:]]
    c = [position, U(purpose) + (number << U(8)), halves[1][:1], halves[1][1:]]
    r = philox(c, key)
    return (r[1] << U(32)) + r[0]


def drawn_integer(random, mass):
    """D2: floor(R M / 2^64), for an array of R, by products of 32-bit halves."""
    low = U(0xFFFFFFFF)
    a, b = random >> U(32), random & low
    c, d = U(mass >> 32), U(mass & 0xFFFFFFFF)
    middle = ((b * d) >> U(32)) + (a * d & low) + (b * c & low)
    return a * c + (a * d >> U(32)) + (b * c >> U(32)) + (middle >> U(32))


def draw_from_list(ids, bits, vocab, random):
    """D5, for an array of random bits. Returns the tokens, -1 if there is none."""
    ids = np.asarray(ids, np.int64)
    z = clean(bits)[0].copy()
    z[(ids < 0) | (ids >= vocab)] = -INF
    if len(z) == 0 or z.max() == -INF:
        return np.full(len(random), -1)
    m = z.max()
    c = F(split(m, UNIT_SCALE)[1]) * F(2.0**-24)
    sums = np.cumsum(weight(z, m, UNIT_SCALE, c) << U(13), dtype=U)
    return ids[np.searchsorted(sums, drawn_integer(random, int(sums[-1])), side="right")]
