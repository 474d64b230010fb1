"""Pictures of what latents mean: one moves, the others stay; before and after ICA."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.disentanglement import Codes
from identifiable.groups import AffineMap
from identifiable.metrics import ica_step, infomec
from identifiable.results import Traversal

Array = NDArray[np.float64]

COLUMNS = 7
LOW, HIGH = 0.05, 0.95  # quantiles between which a latent moves
GAP = 2  # white pixels between pictures
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB = 2  # how PNG calls three channels


def traversals(
    data: str, model: Any, pictures: NDArray[np.uint8], scored: Callable[..., Codes], *, seed: int
) -> list[Traversal]:
    """The latents of a continuous model, and its components after centred ICA."""
    from identifiable.nn import encodings

    latents = np.asarray(encodings(model, pictures), dtype=np.float64)
    step = ica_step(latents, mode="centred", seed=seed)
    back = AffineMap(np.linalg.pinv(step.matrix).astype(np.float64), step.offset)
    as_they_are = AffineMap.identity(latents.shape[1])
    return [
        _traversal(data, "AE", model, latents, latents, as_they_are, scored, seed),
        _traversal(data, "AE + ICA", model, latents, step.latents, back, scored, seed),
    ]


def _traversal(
    data: str,
    row: str,
    model: Any,
    latents: Array,
    moved: Array,
    back: AffineMap,
    scored: Callable[..., Codes],
    seed: int,
) -> Traversal:
    """`moved` are coordinates of the latents, ``latents = back(moved)``; one of them moves at a time.

    The picture that changes is the one whose latents are nearest to their mean.
    """
    from identifiable.nn import reconstructions

    order = np.argsort(-moved.std(axis=0), kind="stable")
    middle = int(np.argmin(((latents - latents.mean(axis=0)) ** 2).sum(axis=1)))
    low, high = np.quantile(moved, [LOW, HIGH], axis=0)
    places = np.repeat(moved[middle][None], len(order) * COLUMNS, axis=0)
    for line, j in enumerate(order):
        places[line * COLUMNS : (line + 1) * COLUMNS, j] = np.linspace(low[j], high[j], COLUMNS)
    drawn = reconstructions(model, back(places))
    pixels = _mosaic((drawn.clip(0, 1) * 255).round().astype(np.uint8), len(order))
    height, width, _ = pixels.shape
    return Traversal(
        data, row, COLUMNS, _labels(scored(moved, discrete=False), order, seed), width, height,
        base64.b64encode(png(pixels)).decode("ascii"),
    )  # fmt: skip


def _labels(codes: Codes, order: NDArray[np.intp], seed: int) -> tuple[str, ...]:
    """Of each latent the factor it tells most about, and how much."""
    matrix = infomec(codes, seed=seed, parts=("infom",)).matrix
    assert matrix is not None
    information = np.array(matrix.values)
    return tuple(f"{codes.names[information[:, j].argmax()]} {information[:, j].max():.2f}" for j in order)


def _mosaic(pictures: NDArray[np.uint8], lines: int) -> NDArray[np.uint8]:
    """(lines * columns, channels, side, side) as one picture, (height, width, 3)."""
    _, channels, side, _ = pictures.shape
    cell = side + GAP
    whole = np.full((lines * cell - GAP, COLUMNS * cell - GAP, 3), 255, dtype=np.uint8)
    for k, picture in enumerate(pictures):
        top, left = (k // COLUMNS) * cell, (k % COLUMNS) * cell
        whole[top : top + side, left : left + side] = np.moveaxis(
            np.broadcast_to(picture, (3, side, side)) if channels == 1 else picture, 0, -1
        )
    return whole


def png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, 3) as PNG. Written by hand: a dozen lines, where a page would otherwise need an imaging library."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # each begins with how it is filtered: not
    header = struct.pack(">IIBBBBB", width, height, 8, RGB, 0, 0, 0)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return PNG_SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
