"""experiments.traversing: pictures in which one latent moves, of decoders whose pictures are known."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("PIL.Image", reason="the extra `pictures` is not installed")

import torch
from PIL import Image

from identifiable.disentanglement import Codes, as_codes
from identifiable.experiments.traversing import COLUMNS, GAP, png, traversals
from identifiable.metrics import ica_step
from identifiable.nn import Architecture
from identifiable.results import Traversal

SEED = 20260301
SIDE = 4
NAMES = ("hue", "size", "turn")
N = 400


class Levels(torch.nn.Module):
    """Latents are the first pixel's channels, turned and moved, and every pixel of a picture is one channel's latent.

    `encode(x) = (x - 0.5) @ turn + shift`, and `reconstruct` undoes it.
    """

    discrete = False

    def __init__(self, turn: NDArray[np.float64], shift: float = 0.0):
        super().__init__()
        self.architecture = Architecture(resolution=8, widths=(4,))
        self.n_latents = len(turn)
        self.turn = torch.nn.Parameter(torch.as_tensor(turn, dtype=torch.float32))
        self.shift = shift

    def encode(self, rows: Any) -> Any:
        return (rows[:, :, 0, 0] - 0.5) @ self.turn + self.shift

    def reconstruct(self, latents: Any) -> Any:
        levels = (latents - self.shift) @ self.turn.T + 0.5
        return levels[:, :, None, None].expand(-1, -1, SIDE, SIDE)


def rotation() -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng(SEED).standard_normal((3, 3)))[0]


def factors() -> NDArray[np.int64]:
    """Of unequal spread, so that the order of latents is known: the last factor varies most."""
    return np.random.default_rng([SEED, 1]).integers(0, 5, (N, 3))


def pictures() -> NDArray[np.uint8]:
    levels = 128 + (factors() - 2) * np.array([10, 20, 40])
    return np.repeat(np.repeat(levels.astype(np.uint8)[:, :, None, None], SIDE, axis=2), SIDE, axis=3)


def scored(latents: NDArray[Any], *, discrete: bool) -> Codes:
    return as_codes(latents, factors(), discrete=discrete, kinds="discrete", factor_names=NAMES)


def decoded(traversal: Traversal) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(base64.b64decode(traversal.png, validate=True))) as picture:
        assert (picture.mode, picture.format) == ("RGB", "PNG")
        return np.asarray(picture)


def cells(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The first pixel of every picture: (lines, columns, 3)."""
    return pixels[:: SIDE + GAP, :: SIDE + GAP]


def both(turn: NDArray[np.float64], shift: float = 0.0) -> tuple[Traversal, Traversal]:
    before, after = traversals("sprites", Levels(turn, shift), pictures(), scored, seed=0)
    return before, after


def test_a_png_is_read_back_pixel_by_pixel() -> None:
    pixels = np.random.default_rng(SEED).integers(0, 256, (5, 9, 3)).astype(np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as picture:
        picture.load()
        assert picture.size == (9, 5)
        np.testing.assert_array_equal(np.asarray(picture), pixels)
    broken = bytearray(png(pixels))
    broken[-20] ^= 1  # in the compressed pixels
    with pytest.raises((OSError, SyntaxError)):
        Image.open(io.BytesIO(bytes(broken))).load()


def test_the_picture_has_a_line_for_each_latent_and_white_between() -> None:
    for traversal, row in zip(both(rotation()), ("AE", "AE + ICA"), strict=True):
        assert (traversal.data, traversal.row, traversal.columns) == ("sprites", row, COLUMNS)
        assert len(traversal.labels) == 3
        pixels = decoded(traversal)
        assert pixels.shape == (traversal.height, traversal.width, 3)
        assert (traversal.height, traversal.width) == (3 * SIDE + 2 * GAP, COLUMNS * SIDE + (COLUMNS - 1) * GAP)
        gaps = np.ones(pixels.shape[:2], dtype=bool)
        for top in range(3):
            for left in range(COLUMNS):
                a, b = top * (SIDE + GAP), left * (SIDE + GAP)
                gaps[a : a + SIDE, b : b + SIDE] = False
        assert (pixels[gaps] == 255).all()
        assert (pixels[~gaps] < 255).all()


def test_one_latent_moves_in_each_line_between_its_quantiles_and_the_others_stay() -> None:
    before, _ = both(np.eye(3))
    found = cells(decoded(before)).astype(int)
    values = pictures()[:, :, 0, 0].astype(float)
    order = (2, 1, 0)  # the most varying first
    middle = values[((values - values.mean(axis=0)) ** 2).sum(axis=1).argmin()]
    for line, j in enumerate(order):
        expected = np.tile(middle, (COLUMNS, 1))
        expected[:, j] = np.linspace(*np.quantile(values[:, j], [0.05, 0.95]), COLUMNS)
        assert abs(found[line] - expected).max() <= 1  # rounding to bytes, twice
        assert np.ptp(found[line, :, j]) > 20
    np.testing.assert_array_equal(np.ptp(found, axis=1).argmax(axis=1), order)


def test_the_lines_after_ica_are_what_the_decoder_makes_of_moved_components() -> None:
    turn, shift = rotation(), 3.0
    _, after = both(turn, shift)
    latents = np.asarray((pictures()[:, :, 0, 0] / np.float32(255) - np.float32(0.5)) @ turn + shift, dtype=np.float64)
    step = ica_step(latents, mode="centred", seed=0)
    middle = ((latents - latents.mean(axis=0)) ** 2).sum(axis=1).argmin()

    def expected(back: NDArray[np.float64]) -> NDArray[np.float64]:
        lines = []
        for j in np.argsort(-step.latents.std(axis=0)):
            places = np.tile(step.latents[middle], (COLUMNS, 1))
            places[:, j] = np.linspace(*np.quantile(step.latents[:, j], [0.05, 0.95]), COLUMNS)
            lines.append((places @ back + step.offset - shift) @ turn.T + 0.5)
        return 255 * np.stack(lines)

    found = cells(decoded(after)).astype(float)
    assert abs(found - expected(step.matrix.T)).max() <= 1  # a rotation, whose inverse is its transpose
    assert abs(found - expected(step.matrix)).max() > 10


def test_labels_name_the_factor_of_each_line() -> None:
    before, _ = both(np.eye(3))
    assert [label.split()[0] for label in before.labels] == ["turn", "size", "hue"]
    assert all(float(label.split()[1]) > 0.9 for label in before.labels)
    turned, _ = both(np.eye(3)[[1, 2, 0]])  # the same lines, of other latents
    assert [label.split()[0] for label in turned.labels] == ["turn", "size", "hue"]
    mixed, _ = both(rotation())
    assert min(float(label.split()[1]) for label in mixed.labels) < 0.9


def test_a_picture_of_one_channel_is_grey() -> None:
    from identifiable.experiments.traversing import _mosaic

    grey = np.arange(COLUMNS, dtype=np.uint8).reshape(COLUMNS, 1, 1, 1) * np.ones((1, 1, SIDE, SIDE), dtype=np.uint8)
    found = _mosaic(grey, 1)
    assert found.shape == (SIDE, COLUMNS * (SIDE + GAP) - GAP, 3)
    np.testing.assert_array_equal(cells(found)[0], np.repeat(np.arange(COLUMNS)[:, None], 3, axis=1))
