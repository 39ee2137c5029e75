"""Every number that was chosen by measurement, in one place. Results do not depend on them, beyond rounding.

The measurement stands beside the number, from two AVX2 cores, on the tasks of `benchmarks/`: published (R^4), averaged
(R^4 over a group), wide (R^66). Where two forms are compared, `python benchmarks/constants.py` measures them again: one
core, processor time, on a busy machine, so that the ratios are good to a tenth or two.
"""

# ---- fused forms of units (fused.py)

FEW_INPUTS = 4
"""Up to so many inputs a dense layer is written out as sums, with the particles last: there a matrix product costs more
than the sums it makes. Product over sums, 5000 particles, 20 samples, two outputs: 4.5 with 2 inputs, 3.6 with 4, 2.7
with 8, 1.9 with 16; so 4 is on the safe side, and the program, which grows with the inputs, stays short."""

UNROLLED_SAMPLES = 64
"""Up to so many samples the gradient of a dense layer is summed sample by sample; the program grows with them.
At once over sample by sample, 20 000 particles in R^4: 1.3 with 16 samples, 1.4 with 64, 1.4 with 128."""

CACHED_PARTICLES = 4096
"""Particles, about, whose evaluations stay near the processor; beyond, what was kept is read in one pass. At once over
in one pass, 20 samples: 1.0 with 500 particles, 1.3 with 2000, 1.2 with 4000, 1.2 with 8000, 1.3 with 32 000."""

TILE = 4
"""Columns: a product with a multiple of so many takes up to a fifth less (66 columns against 68)."""

# ---- blocks of particles (blocks.py)

SUMMED = 2**23
"""Bytes of a unit's evaluations held together where only their sum is wanted: few, so that the cache holds them.
200 000 particles in R^66, 100 samples, over the time of 2^23: 0.8 with 2^19 and 2^21 (the cache was shared), 1.7 with
2^25, 2.2 with 2^28, all at once."""

AT_ONCE = 2**28
"""Bytes held together where evaluations serve twice, and in blocks would be made twice: with so many a million
particles take 390 ms a step, in smaller blocks 580."""

SHORT_BLOCK = 16
"""Coordinates: so few would be gathered from all over the cloud, again for each sample; they are put down first.
Read over put down, 192 000 particles in blocks of 8 MB: 1.8 with 2 coordinates, 2.5 with 4, 0.95 with 14 and 32."""

ROWS = 960
"""The number of rows of a cloud in blocks divides this one, which has many divisors: so the rows are usually a multiple
of the number of devices, and every device has its share of every block."""

UNKNOWN_BATCH = 1024
"""Samples that a batch is thought to have where its size is a symbol, as in `jax.export`."""

# ---- layout (layout.py, materialise.py)

SHORT_ROW = 64
"""With fewer coordinates the particles lie last in the loop of a flow, (p, n), for the compiler makes vectors along the
last axis: published task, N = 5000, 196 µs a step against 460 by rows."""

WIDTH = 8
"""Columns of the product with the identity that makes XLA compute a small array once."""

# ---- the loop (dynamics/flow.py)

SECONDS_BETWEEN_LOOKS = 2.0
"""Seconds, about, between two looks at the numbers of a flow: to check them, to save, to tell the progress. Every look
costs a large cloud fresh memory: 65 ms for 10⁵ particles in R^66."""
