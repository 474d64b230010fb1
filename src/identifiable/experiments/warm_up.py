"""A.7.1 of Nelson et al. (2026): pairs of autoencoders that differ in their seeds, over leaks; on all digits or on each.

Does a decoder nearer to an isometry make latents of retrained models more alike, as Theorem 1 says?
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.api.decoding import summarised
from identifiable.blocks import Blocks
from identifiable.diameter import diameter
from identifiable.experiments.changing import changed
from identifiable.experiments.images import read_images
from identifiable.experiments.recording import choices, with_torch
from identifiable.groups import Rigid
from identifiable.identifiability.trend import spearman_interval, trend
from identifiable.intake import content_hash, default_provenance
from identifiable.jacobians import random_directions, spectra
from identifiable.moments import Array, Moments
from identifiable.options import ReproduceOptions
from identifiable.results import (
    Alert,
    Constants,
    Distances,
    Fit,
    Input,
    Interval,
    Leak,
    PairRun,
    Reproduction,
    Summary,
)
from identifiable.results.reproduction import Estimator, Form, Unit
from identifiable.run import Stage

if TYPE_CHECKING:
    from identifiable.experiments import Experiment
    from identifiable.nn import Trained, Training

KEPT_SAMPLES = 25  # of each pair, for the picture of single samples
CURVE_POINTS = 60
DIGITS = tuple(range(10))
ROUNDING = 1e-4  # what a Jacobian in single precision may be off by: 1 + L nearer to 1 than this is 1
SMALLEST_LEAK = 1e-3


@dataclass(frozen=True)
class WarmUp:
    """The settings of the experiment. Where the paper's are lost, these are ours."""

    leaks: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
    pairs: int = 10
    hidden: tuple[int, ...] = (256, 64)
    latents: int = 8
    rows: int = 1_000_000  # at most, for training
    validation: int = 5000
    samples: int = 1000
    directions: int = 10
    percentile: float = 95.0
    reference_leak: float = 1.0
    learning_rate: float = 1e-3
    batch: int = 256
    max_epochs: int = 2000
    patience: int = 50
    min_delta: float = 1e-6
    clip: float = 1.0
    together: int = 32

    def __post_init__(self) -> None:
        for name in ("pairs", "latents", "rows", "validation", "samples", "directions", "together"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)}: expected a whole number of at least 1.")
        if self.samples <= self.latents:
            raise UsageError(f"samples {self.samples}: expected more than the {self.latents} latents.")
        fits = bool(self.leaks) and all(SMALLEST_LEAK <= leak <= 1 for leak in self.leaks)
        if not fits or len(set(self.leaks)) < len(self.leaks):
            raise UsageError(
                f"leaks {self.leaks}: expected different numbers of at least {SMALLEST_LEAK} and at most 1."
            )
        if self.reference_leak not in self.leaks:
            raise UsageError(f"reference_leak {self.reference_leak}: expected one of the leaks, {self.leaks}.")
        if not 0 < self.percentile <= 100:
            raise UsageError(f"percentile {self.percentile}: expected a number above 0 and at most 100.")

    @property
    def training(self) -> Training:
        from identifiable.nn import Training

        return Training(**{f.name: getattr(self, f.name) for f in fields(Training) if hasattr(self, f.name)})


# What differs from the paper's scale. `small` takes about half an hour on two cores, `smoke` less than a minute.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "fig2": {
        "paper": {},
        # 6 latents, where MNIST's principal spectrum has a gap: with 8 it has none, and which plane even a linear model
        # finds is not settled after as many steps (benchmarks/results/fig2_small_8.json).
        "small": {
            "hidden": (128, 32),
            "latents": 6,
            "rows": 8192,
            "validation": 2000,
            "max_epochs": 60,
            "patience": 20,
        },
        "smoke": {
            "pairs": 4,
            "hidden": (32, 16),
            "latents": 4,
            "rows": 1000,
            "validation": 300,
            "samples": 300,
            "batch": 100,
            "learning_rate": 3e-3,
            "max_epochs": 150,
            "patience": 15,
            "min_delta": 1e-5,
        },
    },
    "figA6": {
        "paper": {"pairs": 3, "validation": 500},
        "small": {"pairs": 3, "hidden": (128, 32), "rows": 2000, "validation": 500, "max_epochs": 60, "patience": 20},
        "smoke": {
            "leaks": (0.1, 0.4, 1.0),
            "pairs": 2,
            "hidden": (32, 16),
            "latents": 4,
            "rows": 110,
            "validation": 20,
            "samples": 40,
            "batch": 50,
            "learning_rate": 3e-3,
            "max_epochs": 40,
        },
    },
}


def settings(name: str, scale: str, changes: Mapping[str, Any]) -> WarmUp:
    """The settings of an experiment at a scale, some of them changed."""
    return changed(WarmUp(**PRESETS[name][scale]), changes)


@dataclass(frozen=True, eq=False)
class _Rows:
    """One data set of the experiment, cut into rows to train on, to stop on and to look at."""

    digit: int | None
    training: Array
    validation: Array
    samples: Array


@dataclass(eq=False)
class _Measured:
    """A pair with what is drawn of it, and of every sample its distance and its constants."""

    run: PairRun
    distances: Array
    exact: Array  # of either decoder, (2, samples)
    estimated: Array


def run(
    name: str,
    experiment: Experiment,
    chosen: WarmUp,
    options: ReproduceOptions,
) -> Reproduction:
    """Train, measure, remove what did not learn, and relate distance to distortion."""
    scale, data, seed = options.scale, options.data, options.seed
    checkpoint, progress = options.checkpoint, options.progress
    from identifiable.nn import OrthogonalAutoencoder, train

    values, labels, given = _pictures(data, scale, needs_labels=name == "figA6")
    measured: list[_Measured] = []
    used = 0
    for rows in _parts(values, labels, chosen, by_digit=name == "figA6", seed=seed):
        used = max(used, len(rows.training))
        widths = (values.shape[1], *chosen.hidden, chosen.latents)
        places = [(leak, pair, member) for leak in chosen.leaks for pair in range(chosen.pairs) for member in (0, 1)]
        seeds = [_seed(seed, rows.digit, pair, member) for _, pair, member in places]
        models = [OrthogonalAutoencoder(widths, leak, seed=s) for (leak, _, _), s in zip(places, seeds, strict=True)]
        of_digit = "" if rows.digit is None else f"digit {rows.digit}"
        trained = train(
            models,
            rows.training,
            rows.validation,
            chosen.training,
            seeds=seeds,
            together=chosen.together,
            checkpoint=_folder(checkpoint, rows.digit),
            progress=progress,
            of=of_digit,
        )
        for k in range(0, len(places), 2):
            leak, pair, _ = places[k]
            measured.append(_measure(trained[k], trained[k + 1], leak, pair, rows, chosen.directions, seed))
            if progress is not None:
                progress(Stage("decoder Jacobians", of_digit), k // 2 + 1, len(places) // 2)
    chosen = replace(chosen, rows=used)  # as many as there were
    threshold = _filter(measured, chosen)
    kept = [m for m in measured if m.run.removed is None]
    by_leak, by_leak_ci95 = spearman_interval(
        np.array([m.run.leak for m in kept]),
        np.array([m.run.distance.mean for m in kept]),
        units=np.array(_units(kept), dtype=np.intp),
        rng=np.random.default_rng([seed, 5]),
    )
    return Reproduction(
        inputs=(given,),
        settings={"experiment": name, "scale": scale, "seed": seed, **asdict(chosen)},
        alerts=_alerts(measured, kept, chosen),
        provenance=with_torch(
            default_provenance(seed, options.command or f"identifiable.experiments.reproduce({name!r})")
        ),
        experiment=name,  # type: ignore[arg-type]
        scale=scale,
        choices=choices(chosen, experiment.settings),
        published=experiment.published,
        runs=tuple(m.run for m in measured),
        leaks=tuple(_leak(leak, measured, chosen, seed) for leak in chosen.leaks),
        fits=tuple(_fits(kept, seed)),
        filter_threshold=threshold,
        leak_spearman=by_leak,
        leak_spearman_ci95=by_leak_ci95,
    )


def _pictures(data: str | None, scale: str, *, needs_labels: bool) -> tuple[Array, NDArray[Any] | None, Input]:
    """Rows of pixels in [0, 1], their digits, and what they are."""
    if data is None:
        if scale != "smoke":
            raise UsageError(f"--scale {scale} needs MNIST: pass --data mnist.npz, or train-images-idx3-ubyte.gz.")
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels, labels, name = digits.data.astype(np.float32), digits.target, "scikit-learn's digits"
        digest = content_hash(Blocks(pixels, name=name))
    else:
        images = read_images(data)
        pixels = images.values.reshape(len(images.values), -1).astype(np.float32)
        labels, name, digest = images.labels, images.name, images.sha256
    if needs_labels and labels is None:
        raise DataError(f"{name}: figA6 trains on each digit apart and needs labels; put them beside the pictures.")
    low, top = float(pixels.min(initial=0.0)), float(pixels.max(initial=0.0))
    if low < 0 or not 0 < top < np.inf:
        raise DataError(f"{name}: expected pixels from 0 on, some of them bright, got {low:g} to {top:g}.")
    return pixels / np.float32(top), labels, Input(name, len(pixels), pixels.shape[1], str(pixels.dtype), digest)


def _parts(values: Array, labels: NDArray[Any] | None, chosen: WarmUp, *, by_digit: bool, seed: int) -> Iterator[_Rows]:
    """The rows in an order drawn once: samples to look at first, then validation, then training."""
    order = np.random.default_rng([seed, 1]).permutation(len(values))
    for digit in DIGITS if by_digit else (None,):
        own = order if digit is None or labels is None else order[labels[order] == digit]
        first, second = chosen.samples, chosen.samples + chosen.validation
        if len(own) < second + chosen.batch:
            of = "" if digit is None else f" of digit {digit}"
            raise DataError(
                f"expected at least {second + chosen.batch} pictures{of} ({chosen.samples} samples, {chosen.validation} for "
                f"validation and a batch of {chosen.batch}), got {len(own)}; set smaller ones."
            )
        if not np.ptp(values[own[:first]], axis=0).any():
            raise DataError(f"all {first} sample pictures are the same: there is nothing to represent.")
        training = own[second : second + chosen.rows]
        yield _Rows(digit, values[training], values[own[first:second]], values[own[:first]])


def _seed(seed: int, digit: int | None, pair: int, member: int) -> int:
    """The same for all leaks, so that leaks are compared with the same starts and orders of rows."""
    key = [seed, 0 if digit is None else digit + 1, pair, member]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def _folder(checkpoint: str | None, digit: int | None) -> Path | None:
    if checkpoint is None:
        return None
    return Path(checkpoint) if digit is None else Path(checkpoint) / f"digit-{digit}"


def _measure(
    one: Trained, other: Trained, leak: float, pair: int, rows: _Rows, directions: int, seed: int
) -> _Measured:
    """How far the latents of two models are apart, and how far their decoders are from isometries."""
    from identifiable.nn import outputs, products

    latents = [outputs(t.model.encoder, rows.samples).astype(np.float64) for t in (one, other)]
    widths = (latents[1].shape[1], latents[0].shape[1])
    rigid = Rigid().fit(Moments.of(np.hstack([latents[1], latents[0]]), widths))
    distances = np.linalg.norm(rigid(latents[1]) - latents[0], axis=1)
    jacobians = [products(t.model.decoder) for t in (one, other)]
    rng = np.random.default_rng([seed, 2, pair])
    # In the precision of the model: its Jacobian knows no more.
    points = [z.astype(np.float32) for z in latents]
    both = list(zip(jacobians, points, strict=True))
    exact = _unrounded(np.stack([spectra(j, z).constant for j, z in both]))
    estimated = _unrounded(np.stack([random_directions(j, z, directions=directions, rng=rng) for j, z in both]))
    shown = np.linspace(0, len(distances) - 1, min(KEPT_SAMPLES, len(distances))).astype(int)
    worst = exact.max(axis=0)
    return _Measured(
        PairRun(
            leak=leak,
            pair=pair,
            digit=rows.digit,
            reconstruction=(one.best_loss, other.best_loss),
            epochs=(one.epochs, other.epochs),
            stopped=(one.stopped, other.stopped),
            removed=None,
            distance=Distances(float(distances.mean()), float(distances.max())),
            diameter=diameter(latents[0]).value,
            exact=_constants(exact),
            random_directions=_constants(estimated),
            samples=tuple((float(worst[k]), float(distances[k])) for k in shown),
        ),
        distances,
        exact,
        estimated,
    )


def _unrounded(constants: Array) -> Array:
    """1 where only rounding keeps a constant from it: ranks of rounding would be taken for figures."""
    return np.where(constants < 1 + ROUNDING, 1.0, constants)


def _constants(of_both: Array) -> Constants:
    worst = of_both.max(axis=0)
    return Constants(float(worst.mean()), float(worst.max()))


def _filter(measured: list[_Measured], chosen: WarmUp) -> float:
    """Mark pairs of which a model reconstructs worse than the percentile of the pairs at the reference leak."""
    sound = [m.run for m in measured if "diverged" not in m.run.stopped]
    losses = [max(run.reconstruction) for run in sound if run.leak == chosen.reference_leak]
    if not losses:
        raise DataError("training diverged in every pair of the reference leak; set a smaller learning_rate.")
    threshold = float(np.percentile(losses, chosen.percentile))
    for m in measured:
        loss = max(m.run.reconstruction)
        if "diverged" in m.run.stopped:
            m.run = replace(m.run, removed="training diverged")
        elif not loss <= threshold:
            m.run = replace(m.run, removed=f"reconstruction error {loss:.6g} above {threshold:.6g}")
    return threshold


def _leak(leak: float, measured: Sequence[_Measured], chosen: WarmUp, seed: int) -> Leak:
    own = [m for m in measured if m.run.leak == leak]
    kept = [m.run for m in own if m.run.removed is None]
    exact = np.concatenate([m.exact.ravel() for m in own])
    estimated = np.concatenate([m.estimated.ravel() for m in own])
    shares = np.linspace(0, 1, CURVE_POINTS)
    rng = np.random.default_rng([seed, 3])
    distance = _mean([r.distance.mean for r in kept], rng)
    relative = _mean([r.distance.mean / r.diameter for r in kept if r.diameter > 0], rng)
    return Leak(
        leak=leak,
        bound=leak ** -len(chosen.hidden),
        pairs=len(own),
        kept=len(kept),
        constant=Summary(**summarised(exact)),
        random_directions=Summary(**summarised(estimated)),
        curve=tuple(zip(shares.tolist(), np.quantile(exact, shares).tolist(), strict=True)),
        reconstruction=_finite_mean([loss for m in own for loss in m.run.reconstruction]),
        distance=distance[0],
        distance_ci95=distance[1],
        relative=relative[0],
        relative_ci95=relative[1],
    )


def _finite_mean(values: Sequence[float]) -> float:
    finite = [v for v in values if math.isfinite(v)]
    return float(np.mean(finite)) if finite else math.nan


def _mean(values: Sequence[float], rng: np.random.Generator) -> tuple[float, Interval]:
    """The mean over pairs with a bootstrap interval; NaN where no pair is left, and no interval of one."""
    if len(values) < 2:
        return float(np.mean(values)) if values else math.nan, (math.nan, math.nan)
    sample = np.asarray(values)
    means = sample[rng.integers(len(sample), size=(1000, len(sample)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return float(sample.mean()), (low, high)


def _fits(kept: Sequence[_Measured], seed: int) -> Iterator[Fit]:
    """Every form, with either estimator, as it is and over the diameter."""
    for form in ("mean", "maximum", "sample"):
        for estimator in ("exact", "random_directions"):
            for unit in ("latent", "diameter"):
                yield _fit(kept, form, estimator, unit, seed)


def _fit(kept: Sequence[_Measured], form: Form, estimator: Estimator, unit: Unit, seed: int) -> Fit:
    constants, distances, units, strata = [], [], [], []
    leaks = sorted({(m.run.leak, m.run.digit or 0) for m in kept})
    for m, seeds in zip(kept, _units(kept), strict=True):
        here, apart = (m.exact if estimator == "exact" else m.estimated).max(axis=0), m.distances
        if form != "sample":
            here, apart = (np.atleast_1d(v.mean() if form == "mean" else v.max()) for v in (here, apart))
        constants.append(here)
        distances.append(apart / (m.run.diameter if unit == "diameter" else 1.0))
        units.append(np.full(len(here), seeds))
        strata.append(np.full(len(here), leaks.index((m.run.leak, m.run.digit or 0))))
    if not kept:
        return Fit(form, estimator, unit, math.nan, None, None, None, None, 0)
    found = trend(
        np.concatenate(constants),
        np.concatenate(distances),
        units=np.concatenate(units),
        strata=np.concatenate(strata),
        rng=np.random.default_rng([seed, 4]),
    )
    return Fit(
        form, estimator, unit, found.slope, found.r2, found.spearman, found.spearman_ci95, found.within, len(kept)
    )


def _units(kept: Sequence[_Measured]) -> list[int]:
    """What an interval resamples: pairs of the same seeds at all leaks, as these are not independent."""
    names = sorted({(m.run.digit or 0, m.run.pair) for m in kept})
    return [names.index((m.run.digit or 0, m.run.pair)) for m in kept]


def _alerts(measured: Sequence[_Measured], kept: Sequence[_Measured], chosen: WarmUp) -> tuple[Alert, ...]:
    alerts = []
    unfinished = sum("max_epochs" in m.run.stopped for m in measured)
    if unfinished:
        alerts.append(
            Alert("not_converged", {"unfinished": unfinished, "pairs": len(measured), "epochs": chosen.max_epochs})
        )
    diverged = sum("diverged" in m.run.stopped for m in measured)
    if diverged:
        alerts.append(Alert("diverged", {"diverged": diverged, "pairs": len(measured)}))
    empty = [leak for leak in chosen.leaks if not any(m.run.leak == leak for m in kept)]
    if empty:
        alerts.append(Alert("leaks_empty", {"leaks": empty}))
    infinite = sum(not np.isfinite(m.exact).all() for m in kept)
    if infinite:
        alerts.append(Alert("rank_deficient", {"pairs": infinite}))
    return tuple(alerts)
