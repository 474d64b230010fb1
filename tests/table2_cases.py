"""Table 2 with plausible numbers, built without training anything."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from cases import MADE_BY
from identifiable.results import (
    Alert,
    Cell,
    Choice,
    Estimate,
    Evaluation,
    Input,
    Lift,
    ModelRun,
    Provenance,
    Table2,
    Traversal,
)
from identifiable.results.table2 import ALL_DATA

ROWS = {  # model, mode of ICA, InfoM, InfoE, InfoC
    "AE": ("ae", "none", 0.39, 0.76, 0.25),
    "AE + ICA": ("ae", "centred", 0.65, 0.76, 0.40),
    "AE + ICA (literal)": ("ae", "literal", 0.55, 0.76, 0.35),
    "AE + ICA (whitened)": ("ae", "whitened", 0.60, 0.76, 0.45),
    "beta-VAE": ("beta-vae", "none", 0.59, 0.81, 0.55),
    "beta-TCVAE": ("beta-tcvae", "none", 0.58, 0.72, 0.59),
    "BioAE": ("bioae", "none", 0.54, 0.75, 0.36),
    "QLAE": ("qlae", "none", 0.83, 0.84, 0.50),
    "VQ-VAE": ("vq-vae", "none", 0.63, 0.70, 0.44),
}
DISCRETE = ("qlae", "vq-vae")
KNOBS = {"beta-vae": "beta", "beta-tcvae": "lambda_tc", "bioae": "lambda_activity"}
PUBLISHED = {
    "columns": ["all", "shapes3d", "mpi3d"],
    "rows": {
        "AE": [[0.39, 0.76, 0.25], [0.34, 0.99, 0.16], [0.42, 0.40, 0.31]],
        "beta-VAE": [[0.59, 0.81, 0.55], [0.59, 0.99, 0.49], [0.45, 0.71, 0.51]],
        "AE + ICA": [[0.65, 0.83, 0.40], [0.79, 0.99, 0.52], [0.44, 0.66, 0.31]],
    },
    "by_others": ["beta-VAE"],
}
CHOICES = (
    Choice("batch", 128, "paper", 128),
    Choice("steps", 4000, "ours", 200_000),
    Choice("psnr_within", 2.0, "ours"),
)
NONE = Estimate(math.nan, (math.nan, math.nan), 0)
STEPS = (0, 1000, 2000, 4000)
DECAY = 0.01


def make_table2(
    *,
    data: Sequence[str] = ("sprites", "scene"),
    rows: Sequence[str] = tuple(ROWS),
    seeds: int = 3,
    half: float = 0.05,
    lift: float = 0.26,
    infoe_moves: float = 0.001,
    missing: Sequence[tuple[str, str]] = (),
    traversals: bool = True,
    scale: str = "small",
    alerts: Sequence[Alert] = (),
    choices: Sequence[Choice] = CHOICES,
    published: Mapping[str, Any] | None = None,
    provenance: Provenance = MADE_BY,
) -> Table2:
    """Scores as in ROWS, a little more on each further data set, with intervals of `half` each way, none of one seed.

    `missing` are rows and data sets that no setting passed the filter for.
    """
    bounds = half if seeds > 1 else math.nan

    def estimate(mean: float) -> Estimate:
        return Estimate(mean, (mean - bounds, mean + bounds), seeds)

    def cell(row: str, name: str) -> Cell:
        model, ica, *scores = ROWS[row]
        more = 0.02 * (data.index(name) if name in data else 0)
        gone = (row, name) in missing
        infom, infoe, infoc, psnr = (NONE if gone else estimate(s + more) for s in (*scores, 24.0))
        latents: Any = "discrete" if model in DISCRETE else "continuous"
        lost = gone or name == ALL_DATA
        value = 3.0 if model in KNOBS and not lost else math.nan
        step = 0 if lost else STEPS[-2]
        decay = math.nan if lost else DECAY
        passed = 0 if gone else 5
        return Cell(name, row, model, ica, latents, infom, infoe, infoc, psnr, value, decay, step, passed, 12)

    def lifted(name: str, ica: str) -> Lift:
        if ("AE + ICA", name) in missing:
            return Lift(name, ica, NONE, NONE, NONE, NONE, NONE)
        moved = 0.0 if ica == "centred" else -0.05
        return Lift(
            name,
            ica,
            estimate(0.39),
            estimate(0.39 + lift + moved),
            estimate(lift + moved),
            estimate(infoe_moves),
            estimate(lift + moved),
        )

    models = list(dict.fromkeys(ROWS[row][0] for row in rows))
    modes = [ROWS[row][1] for row in rows if ROWS[row][1] != "none"]
    return Table2(
        inputs=tuple(Input(name, 12_000, 3072, "uint8", f"{i:064x}") for i, name in enumerate(data)),
        settings={"scale": scale, "profile": "hsu-standalone"},
        alerts=tuple(alerts),
        provenance=provenance,
        scale=scale,
        choices=tuple(choices),
        published=PUBLISHED if published is None else published,
        data=tuple(data),
        thresholds={name: 22.0 + i for i, name in enumerate(data)},
        cells=tuple(cell(row, name) for row in rows for name in (ALL_DATA, *data)),
        lifts=tuple(lifted(name, mode) for mode in modes for name in (ALL_DATA, *data)),
        runs=tuple(
            make_run(name, model, decay, seed)
            for name in data
            for model in models
            for decay in (0.0, DECAY)
            for seed in range(seeds)
        ),
        traversals=tuple(make_traversal(name, row) for name in data for row in ("AE", "AE + ICA"))
        if traversals
        else (),
    )


def make_run(data: str, model: str, decay: float, seed: int) -> ModelRun:
    """InfoM and PSNR rise with the steps, a hundredth more for each seed; ICA adds a tenth."""

    def scores(step: int) -> dict[str, dict[str, float]]:
        infom = 0.2 + 0.0001 * step + 0.01 * seed
        modes = ("none", "centred", "literal", "whitened") if model == "ae" else ("none",)
        return {mode: {"infom": infom + 0.1 * i**0.5, "infoe": 0.7, "infoc": 0.3} for i, mode in enumerate(modes)}

    return ModelRun(
        data,
        model,
        KNOBS.get(model),
        3.0 if model in KNOBS else math.nan,
        decay,
        seed,
        STEPS[-1],
        "steps",
        tuple(Evaluation(step, 1 / (1 + step), 10 + step / 250 + seed, scores(step)) for step in STEPS),
    )


def make_traversal(data: str, row: str, lines: int = 10, columns: int = 7, side: int = 32) -> Traversal:
    """Squares of one colour each, which changes along the line."""
    labels = tuple(f"{('position_x', 'orientation', 'scale')[i % 3]} {0.9 - 0.05 * i:.2f}" for i in range(lines))
    width, height = columns * side, lines * side
    return Traversal(data, row, columns, labels, width, height, make_png(lines, columns, side))


def make_png(lines: int, columns: int, side: int) -> str:
    """A PNG of squares as base64, with the standard library alone."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = []
    for line in range(lines):
        squares = b"".join(
            bytes((40 + 28 * column, 40 + 180 * line // lines, 160 - 10 * column)) * side for column in range(columns)
        )
        rows += [b"\0" + squares] * side
    header = struct.pack(">IIBBBBB", columns * side, lines * side, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"".join(rows))), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode("ascii")
