"""Figure 3 of Roeder et al. (2021): contrastive predictive coding of image patches, from several seeds.

f encodes a patch of the upper half of a picture, g one of its lower half; each pair must be found among those of its batch. Does more
training, do more pictures and wider networks bring two runs closer? At scale paper on CIFAR-10, at small on MNIST, at smoke on
pictures drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.experiments.changing import changed
from identifiable.experiments.images import read_images
from identifiable.experiments.roeder.measuring import (
    Measures,
    Retrained,
    check_settings,
    disjoint,
    figure,
    from_heads,
    retrained,
    seeds_of,
    similarities,
    training,
)
from identifiable.intake import content_hash
from identifiable.io.stored_rows import FileBytes
from identifiable.options import ReproduceOptions
from identifiable.results import Input, RoederFigure, SeedModel, SeedPair

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

NAME = "roeder-fig3"
CIFAR = (3, 32, 32)  # of a record of data_batch_*.bin, after the byte of its label
CIFAR_FILES = "data_batch_*.bin"
LABELS = 500  # held-out patches whose g are taken for a head

Pictures = NDArray[np.uint8]


@dataclass(frozen=True)
class Settings:
    """The settings at the paper's scale; where they are not known, ours."""

    pairs: int = 5
    patch: int = 16
    draws: int = 2  # pairs of patches taken from each picture
    layers: int = 3
    width: int = 256
    outputs: int = 64
    widths: tuple[int, ...] = (64, 256, 1024, 8192)
    images: tuple[int, ...] = (500, 5000, 50_000)
    learning_rate: float = 1e-3
    batch: int = 256
    steps: int = 20_000
    checkpoints: int = 10
    rows: int = 5000  # pictures held out

    def __post_init__(self) -> None:
        check_settings(self, pairs=1, patch=1, draws=1, layers=1, batch=2, outputs=2, width=1, rows=20 * self.outputs)
        for name, bound in (("widths", 1), ("images", self.batch)):
            given = getattr(self, name)
            if len(set(given)) < len(given) or min(given) < bound:
                raise UsageError(f"{name} {given}: expected different whole numbers of at least {bound}.")


# What differs from the paper's scale. On one core `small` takes five minutes, `smoke` seconds.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "patch": 14,
        "width": 128,
        "outputs": 16,
        "widths": (16, 48, 128),
        "images": (500, 5000, 50_000),
        "steps": 600,
        "checkpoints": 4,
        "rows": 2000,
    },
    "smoke": {
        "pairs": 3,
        "patch": 5,
        "draws": 1,
        "layers": 2,
        "width": 32,
        "outputs": 4,
        "widths": (4, 32),
        "images": (100, 1000),
        "learning_rate": 3e-3,
        "batch": 64,
        "steps": 120,
        "checkpoints": 2,
        "rows": 400,
    },
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


# -- pictures


def read_cifar(folder: str) -> Pictures:
    """The training pictures of CIFAR-10's binary version, (n, 3, 32, 32). The version for Python is a pickle and is not read."""
    path = Path(folder)
    files = sorted(path.glob(CIFAR_FILES)) if path.is_dir() else [path]
    if not files:
        pickled = any(path.glob("data_batch_[0-9]"))
        hint = "; the files there are of the version for Python, which are pickles and are not read" if pickled else ""
        raise DataError(
            f"{folder}: expected {CIFAR_FILES} of the binary version of CIFAR-10 "
            f"(https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz){hint}."
        )
    parts = []
    for file in files:
        stored = FileBytes.open(file, str(file))
        size = 1 + int(np.prod(CIFAR))
        if not stored.size or stored.size % size:
            raise DataError(f"{file}: expected records of {size} bytes, got {stored.size:,} bytes; download it again.")
        records = np.frombuffer(stored.read(0, stored.size), np.uint8).reshape(-1, size)
        if records[:, 0].max() > 9:
            raise DataError(f"{file}: expected a label from 0 to 9 first in every record; it is no file of CIFAR-10.")
        parts.append(records[:, 1:].reshape(-1, *CIFAR))
    return np.concatenate(parts)


def drawn_pictures(n: int, rng: np.random.Generator) -> Pictures:
    """Bright bars of a random angle, place and width on a dark ground, (n, 1, 12, 12): both halves show the same bar."""
    y, x = (np.mgrid[:12, :12] - 5.5)[:, None]
    angle, shift, width = rng.uniform(0, np.pi, (n, 1, 1)), rng.normal(0, 2, (n, 1, 1)), rng.uniform(0.7, 2, (n, 1, 1))
    bars = np.exp(-(((x * np.sin(angle) + y * np.cos(angle) - shift) / width) ** 2))
    noisy = (bars + 0.1 * rng.standard_normal(bars.shape)).clip(0, 1)
    drawn: Pictures = np.round(255 * noisy).astype(np.uint8)[:, None]
    return drawn


def _pictures(chosen: Settings, options: ReproduceOptions) -> tuple[Pictures, str]:
    """Pictures (n, channels, height, width), and what they are called."""
    if options.data is None:
        if options.scale != "smoke":
            wanted = "--data mnist.npz" if options.scale == "small" else f"--data FOLDER with {CIFAR_FILES} of CIFAR-10"
            raise UsageError(f"--scale {options.scale} needs pictures: pass {wanted}.")
        count = chosen.rows + max(chosen.images)
        return drawn_pictures(count, np.random.default_rng([options.seed, 1])), "bars drawn here"
    path = Path(options.data)
    if path.is_dir() or path.suffix == ".bin":
        return read_cifar(options.data), f"CIFAR-10 ({path.name})"
    found = read_images(options.data)
    if found.values.dtype != np.uint8:
        raise DataError(f"{found.name}: expected pictures of bytes (uint8), got {found.values.dtype}.")
    return found.values[:, None].astype(np.uint8, copy=False), found.name


def patches(pictures: Pictures, size: int, rng: np.random.Generator) -> Pictures:
    """One patch at random from the upper half of every picture and one from the lower half, (n, 2, pixels)."""
    n, channels, height, width = pictures.shape
    half = height // 2
    if size > min(half, width):
        raise UsageError(f"patch {size}: expected at most {min(half, width)}, half of the height of these pictures.")
    found = np.empty((n, 2, channels, size, size), np.uint8)
    for which, top in enumerate((0, height - half)):
        down, across = rng.integers(0, half - size + 1, n), rng.integers(0, width - size + 1, n)
        windows = np.lib.stride_tricks.sliding_window_view(pictures, (size, size), axis=(2, 3))
        found[:, which] = windows[np.arange(n), :, top + down, across]
    return found.reshape(n, 2, -1)


# -- the experiment


def run(experiment: Experiment, chosen: Settings, options: ReproduceOptions) -> RoederFigure:
    """Train pairs at the first width on all pictures, then on fewer pictures and at other widths; compare f and g."""
    pictures, name = _pictures(chosen, options)
    flat = pictures.reshape(len(pictures), -1)
    given = Input(name, *flat.shape, str(flat.dtype), content_hash(Blocks(flat, name=name)))
    order = np.random.default_rng([options.seed, 2]).permutation(len(pictures))
    if len(order) < chosen.rows + chosen.batch:
        raise DataError(
            f"{name}: expected at least {chosen.rows + chosen.batch} pictures ({chosen.rows} held out and a batch of "
            f"{chosen.batch}), got {len(order)}; set rows lower."
        )
    rng = np.random.default_rng([options.seed, 3])
    held_out = patches(pictures[order[: chosen.rows]], chosen.patch, rng)
    rest = pictures[order[chosen.rows :]]
    several = [patches(rest, chosen.patch, rng) for _ in range(chosen.draws)]
    sizes = sorted({min(size, len(rest)) for size in chosen.images})
    conditions = dict.fromkeys(
        [(sizes[-1], chosen.width), *((n, chosen.width) for n in sizes), *((sizes[-1], w) for w in chosen.widths)]
    )
    full = sizes[-1]
    found = {
        (n, width): _trained(
            np.concatenate([part[:n] for part in several]),
            held_out,
            (n, width),
            chosen,
            options,
            checkpoints=chosen.checkpoints if (n, width) == (full, chosen.width) else 1,
        )
        for n, width in conditions
    }
    pairs: list[SeedPair] = found[full, chosen.width].over_training()
    for n in sizes:
        pairs += found[n, chosen.width].at_end("images", n)
    for width in sorted({chosen.width, *chosen.widths}):
        pairs += found[full, width].at_end("width", width)
    models = [model for key, runs in found.items() for model in _models(runs, *key)]
    return figure(NAME, experiment, chosen, options, inputs=[given], pairs=pairs, models=models)


def _trained(
    rows: Pictures,
    held_out: Pictures,
    condition: tuple[int, int],
    chosen: Settings,
    options: ReproduceOptions,
    *,
    checkpoints: int,
) -> Retrained:
    from identifiable.nn import Contrastive, outputs

    widths = (held_out.shape[2], *(condition[1],) * (chosen.layers - 1), chosen.outputs)

    def measure(one: Any, other: Any) -> Measures:
        f = [outputs(model.f, held_out[:, 0]).astype(np.float64) for model in (one, other)]
        g = [outputs(model.g, held_out[:, 1]).astype(np.float64) for model in (one, other)]
        found: Measures = {("f", name): values for name, values in similarities(*f, seed=options.seed).items()}
        found |= {("g", name): values for name, values in similarities(*g, seed=options.seed).items()}
        r2 = from_heads([side[:LABELS] for side in g], f, seed=options.seed)["r2_heads"]
        return found | {("f", "r2_heads"): r2}

    seeds = seeds_of(options.seed, 2 * chosen.pairs)  # the same under all conditions
    models = [Contrastive(widths, chosen.batch, seed=seed) for seed in seeds]
    return retrained(
        models,
        rows,
        held_out,
        training(chosen, checkpoints),
        disjoint(len(models)),
        measure,
        options,
        of=_part(*condition),
    )


def _part(images: int, width: int) -> str:
    return f"{images} images, width {width}"


def _models(runs: Retrained, images: int, width: int) -> list[SeedModel]:
    return [
        SeedModel(
            _part(images, width),
            k,
            run.steps,
            run.validation[-1] if run.validation else math.nan,
            None,
            "diverged" if k in runs.diverged else None,
        )
        for k, run in enumerate(runs.trained)
    ]
