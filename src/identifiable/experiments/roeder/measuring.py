"""How pairs of retrained models are compared, and whether the directions that the paper states show in the intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import stdtrit

from identifiable._checks import DataError, UsageError
from identifiable.api.unembedding import heads
from identifiable.experiments.recording import choices, with_torch
from identifiable.groups import Linear
from identifiable.identifiability.judgement import DEGREES
from identifiable.identifiability.shared import Canonical
from identifiable.intake import default_provenance
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.options import ReproduceOptions
from identifiable.results import Alert, Claim, Input, Interval, RoederFigure, Scatter, SeedMean, SeedModel, SeedPair
from identifiable.results.roeder import Claimed, Found, Measure
from identifiable.similarity import cca, principal, svcca

if TYPE_CHECKING:
    from identifiable.experiments import Experiment
    from identifiable.nn import Trained, Training

Pair = tuple[int, int]
Measures = dict[tuple[str, Measure], tuple[float, float]]
"""Of each part and measure the value, and that for rows or labels paired at random."""

FOLDS = 5
ITERATIONS = "iterations"
SHUFFLES = 2  # draws of rows paired at random, of which the mean is taken
SHUFFLED_HEADS = 10  # draws of labels, of which the largest is taken
SCATTERED = 500  # points of a picture, at most
POSSIBLE: Mapping[str, Interval] = {
    "r2": (-math.inf, 1.0),
    "r2_heads": (-math.inf, 1.0),
    "map_distance": (0.0, math.inf),
}
"""What a measure estimates lies in here; the mean canonical correlations from 0 to 1."""


def similarities(X: Array, Y: Array, *, seed: int, components: int | None = None) -> dict[Measure, tuple[float, float]]:
    """Measures of two representations of the same rows, each with its value for rows paired at random.

    Implements the CCA of Roeder et al. 2021 (`components`: their SVCCA) as `…_in_sample`. Ours: `cca` and `svcca` are the mean
    correlation of canonical pairs on rows other than those they were fitted to, and `r2` is that of linear maps on such rows,
    the mean of both directions.

    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> found = similarities(X, X @ [[2.0, 1.0], [0.0, 1.0]], seed=0)
    >>> round(found["cca"][0], 6), round(found["r2"][0], 6), abs(found["cca"][1]) < 0.2
    (1.0, 1.0, True)
    """
    rng = np.random.default_rng([seed, len(X)])
    fold = rng.permutation(len(X)) % FOLDS
    found = _similarities(X, Y, fold, components)
    null = [_similarities(X, Y[rng.permutation(len(Y))], fold, components) for _ in range(SHUFFLES)]
    return {name: (value, fmean(draw[name] for draw in null)) for name, value in found.items()}


def _similarities(X: Array, Y: Array, fold: Any, components: int | None) -> dict[Measure, float]:
    widths = (X.shape[1], Y.shape[1])
    both = np.hstack([X, Y])
    folds = [Moments.of(both[fold == k], widths) for k in range(FOLDS)]
    training = leave_one_out(folds)
    total = training[0].merge(folds[0])
    pairs = [_canonical(part, components) for part in training]
    count = min(len(c.correlations) for c in pairs)
    cross, xx, yy = np.sum([c.sums(held)[:, :count] for c, held in zip(pairs, folds, strict=True)], axis=0)
    scale = np.sqrt(xx * yy)
    held_out = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 0)
    name: Measure = "cca" if components is None else "svcca"
    whole = cca(total) if components is None else svcca(total, min(_directions(total, components)))
    ways = ((training, folds), tuple([m.reversed() for m in each] for each in (training, folds)))
    return {
        name: float(held_out.mean()) if count else math.nan,
        "cca_in_sample" if components is None else "svcca_in_sample": whole,
        "r2": fmean(_r2(*way) for way in ways),
    }


def _directions(moments: Moments, components: int) -> tuple[int, int]:
    """Principal components that there are, at most so many: a norm before the output leaves one fewer than columns."""
    return principal(moments.xx, components).shape[1], principal(moments.yy, components).shape[1]


def _canonical(moments: Moments, components: int | None) -> Canonical:
    if components is None:
        return Canonical.of(moments)
    return Canonical.between(principal(moments.xx, components), principal(moments.yy, components), moments.xy)


def _r2(training: Sequence[Moments], folds: Sequence[Moments]) -> float:
    """R² of linear maps from x to y on the rows they were not fitted to."""
    missed = spread = 0.0
    for fitted, held in zip(training, folds, strict=True):
        A = Linear().fit(fitted).matrix
        x, y = held.mean_x - fitted.mean_x, held.mean_y - fitted.mean_y
        around = np.trace(held.yy) - 2 * np.sum(A * held.xy) + np.sum((held.xx @ A) * A)
        missed += float(around + held.n * np.sum((y - x @ A) ** 2))
        spread += float(np.trace(held.yy) + held.n * np.sum(y**2))
    return 1 - missed / spread if spread else math.nan


def from_heads(
    weights: Sequence[Array], features: Sequence[Array], *, seed: int, biases: Sequence[Array] | None = None
) -> dict[Measure, tuple[float, float]]:
    """How well the map read off two heads (with the ridge that is best on training rows) predicts features on other rows.

    The mean of both ways, and the largest of the same with labels shuffled.

    `map_distance` is |A_heads - A_fitted| / |A_fitted| under the covariance of the features; nothing is known of it by chance.
    """
    found = heads(*weights, features=list(features), bias=biases, null_draws=SHUFFLED_HEADS, seed=seed, workers=1)
    fits = [way.fit for way in found.maps if way.fit is not None]
    if not fits:
        return {"r2_heads": (math.nan, math.nan), "map_distance": (math.nan, math.nan)}
    return {
        "r2_heads": (fmean(fit.r2_ridge for fit in fits), fmean(fit.null_r2_ridge for fit in fits)),
        "map_distance": (fmean(fit.distance for fit in fits), math.nan),
    }


def scatter(part: str, seeds: Pair, X: Array, Y: Array, *, seed: int) -> Scatter:
    """Some rows of two plane representations, and of the second mapped to the first by a map fitted on other rows."""
    order = np.random.default_rng([seed, len(X), 1]).permutation(len(X))
    shown, others = np.sort(order[: min(SCATTERED, len(X) // 2)]), order[len(X) // 2 :]
    to_first = Linear().fit(Moments.of(np.hstack([Y, X])[others], (2, 2)))
    first, second, mapped = (
        tuple((float(f"{x:.5g}"), float(f"{y:.5g}")) for x, y in rows.tolist())
        for rows in (X[shown], Y[shown], to_first(Y[shown]))
    )
    return Scatter(part, seeds, first, second, mapped)


# -- pairs


def disjoint(models: int) -> list[Pair]:
    """(0, 1), (2, 3), …: pairs that share no model, so that they are independent."""
    return [(k, k + 1) for k in range(0, models - 1, 2)]


def every(models: int) -> list[Pair]:
    return list(combinations(range(models), 2))


@dataclass(frozen=True, eq=False)
class Retrained:
    """Models of one kind from several seeds, and the measures of their pairs before and over training."""

    trained: list[Trained]
    untrained: dict[Pair, Measures]
    checkpoints: list[tuple[int, dict[Pair, Measures]]]  # steps done, and the measures then

    @property
    def diverged(self) -> set[int]:
        return {k for k, run in enumerate(self.trained) if run.stopped == "diverged"}

    def over_training(self) -> list[SeedPair]:
        """Every checkpoint, the untrained models first."""
        points = [(0, self.untrained), *self.checkpoints]
        return [row for steps, found in points for row in self._rows(ITERATIONS, steps, found)]

    def at_end(self, axis: str, at: float) -> list[SeedPair]:
        """The last checkpoint, as one value of another axis."""
        return list(self._rows(axis, at, self.checkpoints[-1][1] if self.checkpoints else {}))

    def _rows(self, axis: str, at: float, found: Mapping[Pair, Measures]) -> Iterable[SeedPair]:
        for pair, measures in found.items():
            if not self.diverged & set(pair):
                for (part, measure), (value, shuffled) in measures.items():
                    untrained = self.untrained[pair][part, measure][0]
                    yield SeedPair(axis, float(at), part, measure, pair, value, shuffled, untrained)


def retrained(
    models: Sequence[Any],
    rows: Any,
    validation: Any,
    how: Training,
    pairs: Sequence[Pair],
    measure: Callable[[Any, Any], Measures],
    options: ReproduceOptions,
    *,
    of: str,
) -> Retrained:
    """Train all models at once, and measure their pairs before training and after every epoch.

    Models are known by their `seed`. `of` names this kind of model: for progress, and its folder among the checkpoints.
    """
    from identifiable.nn import train

    place = {model.seed: k for k, model in enumerate(models)}

    def measured(present: Sequence[Any]) -> dict[Pair, Measures]:
        by_place = {place[model.seed]: model for model in present}
        return {(a, b): measure(by_place[a], by_place[b]) for a, b in pairs if {a, b} <= by_place.keys()}

    def watch(steps: int, present: Sequence[Any]) -> list[Any]:
        """Of every model the pairs it is the first of, as lists that JSON can hold."""
        found = measured(present)
        return [
            [
                [b, *key, *values]
                for (a, b), own in found.items()
                if a == place[model.seed]
                for key, values in own.items()
            ]
            for model in present
        ]

    untrained = measured(models)
    trained = train(
        models,
        rows,
        validation,
        how,
        seeds=[model.seed for model in models],
        together=len(models),
        watch=watch,
        watch_name=f"{of}, pairs {list(pairs)}",
        checkpoint=None if options.checkpoint is None else Path(options.checkpoint) / of.replace(" ", "-"),
        progress=options.progress,
        of=of,
    )
    epochs = max((len(run.watched) for run in trained), default=0)
    checkpoints = []
    for epoch in range(epochs):
        found: dict[Pair, Measures] = {}
        for k, run in enumerate(trained):
            for b, part, name, value, shuffled in run.watched[epoch] if epoch < len(run.watched) else ():
                found.setdefault((k, b), {})[part, name] = (value, shuffled)
        checkpoints.append(((epoch + 1) * (how.epoch_steps or 1), found))
    if options.say is not None:
        options.say(f"{of}: {len(trained)} models trained")
    return Retrained(trained, untrained, checkpoints)


def seeds_of(seed: int, count: int, *kind: int) -> list[int]:
    """Seeds of so many models of a kind."""
    return [int(s) for s in np.random.SeedSequence([seed, *kind]).generate_state(count)]


def training(chosen: Any, checkpoints: int | None = None) -> Training:
    """How the models of an experiment are trained: so many steps, and a look at them at every checkpoint."""
    from identifiable.nn import Training

    looks = checkpoints or chosen.checkpoints
    return Training(
        learning_rate=chosen.learning_rate,
        batch=chosen.batch,
        epoch_steps=chosen.steps // looks,
        max_epochs=looks,
        patience=None,
        clip=None,
        keep="last",
        schedule=getattr(chosen, "schedule", "constant"),
    )


def check_settings(chosen: Any, **least: int) -> None:
    """Refuse settings below the least that they can be, and checkpoints that are not equally far apart."""
    for name, bound in {"steps": 1, "batch": 1, "checkpoints": 1, **least}.items():
        if getattr(chosen, name) < bound:
            raise UsageError(f"{name} {getattr(chosen, name)}: expected a whole number of at least {bound}.")
    if chosen.steps % chosen.checkpoints:
        raise UsageError(f"checkpoints {chosen.checkpoints}: expected a divisor of the {chosen.steps} steps.")


def over_pairs(values: Mapping[Pair, float]) -> tuple[float, Interval | None]:
    """The mean over pairs of models and its 95 % interval; none of fewer than three independent units.

    Ours: Student's t over pairs where no model is in two of them; else the jackknife that leaves out one model at a time, with
    all its pairs, because pairs that share a model are not independent.
    """
    known = {pair: value for pair, value in values.items() if math.isfinite(value)}
    if not known:
        return math.nan, None
    mean = fmean(known.values())
    named = [model for pair in known for model in pair]
    if len(set(named)) == len(named):
        without = [[v for other, v in known.items() if other != pair] for pair in known]
    else:
        without = [[v for pair, v in known.items() if model not in pair] for model in dict.fromkeys(named)]
    left = [fmean(rest) for rest in without if rest]
    units = len(left)
    if units < 3 or units < len(without):
        return mean, None
    centre = fmean(left)
    error = math.sqrt((units - 1) / units * sum((value - centre) ** 2 for value in left))
    reach = float(stdtrit(units - 1, 0.975)) * error
    return mean, (mean - reach, mean + reach)


def means(pairs: Iterable[SeedPair]) -> tuple[SeedMean, ...]:
    """The mean over pairs of every condition and measure, in the order in which they first come.

    Ours: both ends of an interval are cut at what is possible (`POSSIBLE`), and the mean is never outside.
    """
    groups: dict[tuple[str, float, str, Measure], list[SeedPair]] = {}
    for pair in pairs:
        groups.setdefault((pair.axis, pair.at, pair.part, pair.measure), []).append(pair)
    found = []
    for key, own in groups.items():
        value, ci95 = over_pairs({pair.seeds: pair.value for pair in own})
        if ci95 is not None:
            least, most = POSSIBLE.get(key[-1], (0.0, 1.0))
            ci95 = (max(ci95[0], min(least, value)), min(ci95[1], max(most, value)))
        shuffled, untrained = (_mean(getattr(pair, name) for pair in own) for name in ("shuffled", "untrained"))
        found.append(SeedMean(*key, len(own), value, ci95, shuffled, untrained))
    return tuple(found)


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return fmean(known) if known else math.nan


def judged(
    pairs: Sequence[SeedPair],
    claim: Claimed,
    axis: str,
    part: str,
    measure: Measure,
    source: Literal["paper", "ours"] = "paper",
) -> Claim:
    """Whether a direction shows: the difference within pairs, its interval over pairs, and on which side of 0 that lies.

    Ours: where the measure is not above untrained models at both ends, untrained models can rise or fall in the same way, so this
    cannot tell.
    Over iterations the first end is the untrained models, so the rule does not apply.
    """
    degree = DEGREES["nearly"] if claim == "nearly" else None
    own = [pair for pair in pairs if (pair.axis, pair.part, pair.measure) == (axis, part, measure)]
    places = sorted({pair.at for pair in own})
    if not places:
        return Claim(claim, axis, part, measure, degree, math.nan, 0, math.nan, None, "cannot_tell", source)
    at = {place: {pair.seeds: pair for pair in own if pair.at == place} for place in (places[0], places[-1])}
    last = at[places[-1]]
    if claim == "rises":
        below = {seeds: pair.value for seeds, pair in at[places[0]].items()}
    elif claim == "nearly":
        below = dict.fromkeys(last, DEGREES["nearly"])
    else:
        below = {seeds: getattr(pair, claim.removeprefix("above_")) for seeds, pair in last.items()}
    gains = {seeds: pair.value - below[seeds] for seeds, pair in last.items() if seeds in below}
    difference, ci95 = over_pairs(gains) if claim != "rises" or len(places) > 1 else (math.nan, None)
    found: Found = "cannot_tell"
    if ci95 is not None:
        found = "agrees" if ci95[0] > 0 else "does_not" if ci95[1] < 0 else "cannot_tell"
    measured = ci95 is not None and claim == "rises" and axis != ITERATIONS
    as_untrained = measured and not all(map(_above_untrained, at.values()))
    if as_untrained:
        found = "cannot_tell"
    first = places[0] if claim == "rises" else degree
    return Claim(
        claim, axis, part, measure, first, places[-1], len(gains), difference, ci95, found, source, as_untrained
    )


def _above_untrained(pairs: Mapping[Pair, SeedPair]) -> bool:
    """Whether pairs are above the same models untrained, or those were not measured."""
    gains = {seeds: pair.value - pair.untrained for seeds, pair in pairs.items()}
    mean, ci95 = over_pairs(gains)
    return math.isnan(mean) or (ci95 is not None and ci95[0] > 0)


# -- the result


def figure(
    name: str,
    experiment: Experiment,
    chosen: Any,
    options: ReproduceOptions,
    *,
    inputs: Sequence[Input],
    pairs: Sequence[SeedPair],
    models: Sequence[SeedModel],
    scatters: Sequence[Scatter] = (),
    alerts: Sequence[Alert] = (),
) -> RoederFigure:
    """What an experiment found, with means over pairs and the paper's statements judged."""
    if not pairs:
        raise DataError(
            f"{name}: no pair of models is left of {len(models)} models; train longer, or set a smaller learning_rate."
        )
    published = dict(experiment.published)
    claims = published.pop("claims", [])
    stand_in = options.scale != "paper"
    removed = [model for model in models if model.removed is not None]
    return RoederFigure(
        inputs=tuple(inputs),
        settings={"experiment": name, "scale": options.scale, "seed": options.seed, **asdict(chosen)},
        alerts=(
            *([Alert("stand_in", {"scale": options.scale})] if stand_in else []),
            *([Alert("models_removed", {"removed": len(removed), "models": len(models)})] if removed else []),
            *alerts,
        ),
        provenance=with_torch(
            default_provenance(options.seed, options.command or f"identifiable.experiments.reproduce({name!r})")
        ),
        experiment=name,  # type: ignore[arg-type]
        scale=options.scale,
        stand_in=stand_in,
        choices=choices(chosen, experiment.settings),
        published=published,
        claims=tuple(judged(pairs, **claim) for claim in claims),
        means=means(pairs),
        pairs=tuple(pairs),
        models=tuple(models),
        scatters=tuple(scatters),
    )
