"""Sizes and costs of the search. They decide how fast it is, never what it finds (but for `UNIT`, a fact)."""

UNIT = 2.0**-24  # unit roundoff of float32
SAMPLE_ROWS = 1024
EXTREME_ROWS = 256
PIECE_VALUES = 2**18  # values worked on at a time: they stay in the second-level cache
CACHE_VALUES = 40_000_000  # candidate rows are kept as float32 up to this many values (160 MB), re-read beyond
TILE = 1024  # rows on each side of one product
LEAF = 128
MAX_LEAVES = 2048
TREE_AXES = 8
STREAMED_ROWS = 8192  # rows held on one side while all others are read past them
WALKS, WALK_STEPS = 3, 5
ROUND_TASKS = 32  # products between two updates of L; fixed, so that results do not depend on the workers
CROWDED, DENSE = 8, 64  # a product that more than 1/8 of its pairs pass, or 1/64 on all axes, is repeated in float64
# Nanoseconds for one pair on one 2.4 GHz AVX2 core; only their ratios matter, and only for speed.
PAIR_COST, AXIS_COST, EXACT_COST, EXACT_AXIS_COST = 0.5, 0.025, 90.0, 1.1
PASS_COST = 0.5  # for any pair of a product that some pass, as they nearly always do unless all axes are used
COPY_COST, TREE_COST = 400.0, 2000.0  # for one row
READ_COST, KEEP_COST = 1.0, 10.0  # for one value: to read it once, and to keep its row to the end
