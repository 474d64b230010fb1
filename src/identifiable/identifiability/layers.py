"""Every layer of one model against every layer of another, and which of them match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.blocks import in_threads, one_blas_thread
from identifiable.identifiability.agreement import LEAST
from identifiable.identifiability.layer_measures import (
    measure_pair,
    null_of,
    r2_without,
    shuffled_cka,
    shuffled_measures,
    svcca_without,
)
from identifiable.identifiability.layer_sums import LayerSums, crossed, digest
from identifiable.identifiability.neighbours import SAMPLE_ROWS, Index, Neighbourhood, overlap_of
from identifiable.identifiability.trend import spearman
from identifiable.intake import blocks_of, default_provenance, identical_inputs, inputs_of
from identifiable.moments import Array, jackknife_spread
from identifiable.neighbours import common_entries
from identifiable.options import LayersOptions
from identifiable.representation import Representation, pair
from identifiable.results import (
    Alert,
    Answer,
    Interval,
    LayerCheckpoint,
    LayerGrid,
    LayerMatch,
    LayerPair,
    Layers,
)
from identifiable.results.layers import MEASURES, Measure
from identifiable.rows import FEWEST_UNITS, plan_rows
from identifiable.run import Run, Stage

COMPONENTS = 256
ROWS_PER_COMPONENT = 10  # of SVCCA by default: unrelated layers then have about .27
FEWEST_ROWS = 4  # for an unbiased HSIC
LEVEL = 0.05
MAP_LEVEL = 0.01  # of the largest CKA of a map: the one test that says whether two models share anything
ROUNDING = 1e-9  # difference of two CKA that rounding can make
HALF = 0.5  # of the weight in CKA: one direction then counts as much as all others together
FEW_ROWS = 10  # per column
FEWEST_DEPTHS = 5


@dataclass(frozen=True, eq=False)
class Model:
    """The layers of a model, or of a checkpoint of it, in their order; `source` is the file they come from, `step` its name there."""

    name: str
    layers: tuple[Representation, ...]
    source: str = ""
    step: str = ""

    @property
    def checkpoint(self) -> str:
        return self.step or self.name


def compare_layers(
    firsts: Sequence[Model], seconds: Sequence[Model], untrained: Sequence[Model], options: LayersOptions, run: Run
) -> Layers:
    """Compare all layers of two models on the same rows. The last checkpoint of a folder is the model.

    Implements linear CKA from the unbiased HSIC (Kornblith et al. 2019, Song et al. 2012), SVCCA (Raghu et al. 2017, columns
    standardised as by Roeder et al. 2021), mutual nearest neighbours (Huh et al. 2024), and the similarity of `compare`. Ours: R² in
    the leading components of either layer, of all the variance of the target; the jackknife of CKA; the rule for a match.

    A layer has a match if the CKA of the best is above that of each other layer by more than the 95 % interval of the difference (a
    cell of rows is left out of both), and above what shuffled rows give. In every draw the largest CKA of the whole map counts
    (Westfall and Young 1993). It must be above all of 19 draws, and above the 99 % quantile of a Gumbel distribution with the
    moments of their maxima (ours; 1 to 2 % of simulated maps of noise are above both). Layers at chance are not tied.
    Where layers are wider than the components, the interval of CKA has the relative spread of these components; its value is of
    all columns.
    """
    with one_blas_thread():
        return _Call(firsts, seconds, untrained, options, run).result()


def same_depth(first: Sequence[str], second: Sequence[str]) -> dict[int, int]:
    """For each layer of the first model the layer of the second at the same relative depth; of a single layer, that of the same name.

    >>> same_depth(["a", "b", "c"], ["p", "q", "r", "s", "t"])
    {0: 0, 1: 2, 2: 4}
    """
    if len(first) == 1 or len(second) == 1:
        return {i: list(second).index(name) for i, name in enumerate(first) if name in second}
    return {i: round(i * (len(second) - 1) / (len(first) - 1)) for i in range(len(first))}


@dataclass(frozen=True, eq=False)
class _Digested:
    """A model with its layers digested, and the nearest neighbours of a sample of rows in each."""

    layers: list[LayerSums]
    lists: list[Index]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(layer.name for layer in self.layers)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Every measure between the layers of two models, and CKA without each cell of rows (first, second, cell).

    `chance` is CKA on a sample of rows (draw, first, second): of the rows as they are, then shuffled.
    """

    first: _Digested
    second: _Digested
    components: int
    values: dict[Measure, Array]
    without: Array
    chance: Array | None = None

    def reversed(self) -> _Grid:
        turned = {name: values.T for name, values in self.values.items()}
        turned["r2"], turned["r2_back"] = turned["r2_back"], turned["r2"]
        chance = None if self.chance is None else self.chance.transpose(0, 2, 1)
        return _Grid(self.second, self.first, self.components, turned, self.without.transpose(1, 0, 2), chance)

    def shown(self, of: Any) -> LayerGrid:
        plain: dict[str, Any] = {name: tuple(map(tuple, values.tolist())) for name, values in self.values.items()}
        return LayerGrid(of, self.first.names, self.second.names, components=self.components, **plain)


class _Call:
    """One call: the models on their shared rows."""

    def __init__(
        self,
        firsts: Sequence[Model],
        seconds: Sequence[Model],
        untrained: Sequence[Model],
        options: LayersOptions,
        run: Run,
    ):
        self.firsts, self.seconds, self.untrained, self.options, self.run = firsts, seconds, untrained, options, run
        self.first, self.second = firsts[-1], seconds[-1]
        self._check_layers()
        self.models = [*firsts, *seconds, *untrained]
        pairing = pair(*(replace(model.layers[0], name=model.name) for model in self.models))
        if pairing.ids is None:
            run.alerts.append(Alert("paired_by_position"))
        elif any(pairing.dropped):
            dropped = {model.name: k for model, k in zip(self.models, pairing.dropped, strict=True) if k}
            run.alerts.append(Alert("rows_dropped", {"dropped": dropped, "remain": pairing.n}))
        self.n = pairing.n
        if self.n < FEWEST_ROWS:
            names = " and ".join(model.name for model in self.models)
            raise DataError(f"{names} share {self.n} rows; CKA needs at least {FEWEST_ROWS}.")
        self.rows = dict(zip(map(id, self.models), pairing.rows, strict=True))
        self.plan = plan_rows(self.n, pairing.ids, seed=options.seed, n_folds=options.folds)
        self.width = options.components or COMPONENTS
        self.components = options.components or max(1, min(COMPONENTS, self.n // ROWS_PER_COMPONENT))
        self.sample = self.plan.sample(SAMPLE_ROWS)
        self.neighbours = max(1, min(options.neighbours, (len(self.sample) - 1) // 2))

    def _check_layers(self) -> None:
        first, second = self.first, self.second
        if len(first.layers) == len(second.layers) == 1:
            raise UsageError(
                f"{first.name} and {second.name} have one layer each; compare two tables with 'identifiable compare'."
            )
        alike = [(model, first) for model in (*self.firsts, *self.untrained[:1])]
        alike += [(model, second) for model in (*self.seconds, *self.untrained[1:])]
        for model, like in alike:
            if len(model.layers) != len(like.layers):
                raise DataError(
                    f"{model.name} has {len(model.layers)} layers and {like.name} has {len(like.layers)}; checkpoints and "
                    "untrained models need the same layers (--layers chooses them)."
                )
        if 1 < len(self.firsts) != len(self.seconds) > 1:
            raise DataError(
                f"{first.name} has {len(self.firsts)} checkpoints and {second.name} has {len(self.seconds)}; keep as many "
                "of both, or pass one file in place of a folder."
            )

    # -- measuring

    def _digested(self, model: Model) -> _Digested:
        rows = self.rows[id(model)]
        layers, lists = [], []
        for layer in model.layers:
            blocks = blocks_of(layer) if rows is None else blocks_of(layer).select(rows)
            layers.append(
                digest(
                    model.name,
                    layer.name,
                    blocks,
                    rows,
                    plan=self.plan,
                    width=self.width,
                    components=self.components,
                    run=self.run,
                )
            )
            lists.append(Neighbourhood.of(blocks[self.sample], k=self.neighbours, run=self.run).lists)
        return _Digested(layers, lists)

    def _grid(self, first: _Digested, second: _Digested) -> _Grid:
        itself = first is second
        shape = (len(first.layers), len(second.layers))
        k = min(max(layer.principal.shape[1] for layer in model.layers) for model in (first, second))
        values = {measure: np.ones(shape) for measure in MEASURES}
        without = np.ones((*shape, self.plan.n_cells))
        quiet = Run(workers=self.run.workers)
        for tile in crossed(first.layers, second.layers, self.plan, self.run, itself=itself):
            measured = in_threads(
                lambda found: measure_pair(first.layers[found.i], second.layers[found.j], found, self.plan),
                tile,
                quiet,
            )
            for (i, j, *_), found in zip(tile, measured, strict=True):
                shared = len(common_entries(first.lists[i], second.lists[j])[0]) / first.lists[i].size
                for a, b, own in ((i, j, found), *([(j, i, found.reversed())] if itself else [])):
                    for measure in MEASURES:
                        values[measure][a, b] = shared if measure == "overlap" else getattr(own, measure)
                    without[a, b] = own.cka_without
        if itself:
            return _Grid(first, second, k, values, without)
        left, right = ([layer.blocks[self.sample] for layer in model.layers] for model in (first, second))
        chance = shuffled_cka(left, right, self.options.null_draws, self.run)
        return _Grid(first, second, k, values, without, chance)

    def _diagonal(self, grid: _Grid, *, whole: bool) -> tuple[LayerPair, ...]:
        """The pairs at the same depth: `whole` with every interval and null, else with the interval of CKA."""
        first, second = grid.first, grid.second
        depth = same_depth(first.names, second.names)
        found: list[LayerPair] = []
        for i, j in depth.items():
            values: dict[str, Any] = {measure: float(grid.values[measure][i, j]) for measure in MEASURES}
            if self.plan.can_leave_out:
                values["cka_ci95"] = _interval(values["cka"], grid.without[i, j])
            if whole:
                values |= self._bounded(grid, i, j, values)
                self.run.say(Stage("layers at the same depth"), len(found) + 1, len(depth))
            found.append(LayerPair(first.names[i], second.names[j], **values))
        return tuple(found)

    def _bounded(self, grid: _Grid, i: int, j: int, values: dict[str, Any]) -> dict[str, Any]:
        """The other intervals of a pair, and its nulls."""
        x, y = grid.first.layers[i], grid.second.layers[j]
        lists = grid.first.lists[i], grid.second.lists[j]
        found: dict[str, Any] = {}
        if self.plan.can_leave_out:
            r2 = r2_without(x, y, self.plan, self.run)
            svcca = svcca_without(x, y, self.plan, self.run)
            drawn = {"svcca": svcca, "r2": r2[:, 0], "r2_back": r2[:, 1]}
            found = {f"{name}_ci95": _interval(values[name], draws) for name, draws in drawn.items()}
            found["overlap_ci95"] = overlap_of(*lists, self.plan.cell[self.sample], 0.0).ci95
        null = {} if grid.chance is None else {"cka": null_of(grid.chance[:, i, j], len(self.sample))}
        more = shuffled_measures(x, y, lists, self.plan, self.options.null_draws, self.run)
        return {**found, "null": {**null, **more}}

    def _matches(self, grid: _Grid) -> tuple[LayerMatch, ...]:
        """The best match of every layer of the first model."""
        first, second = grid.first.names, grid.second.names
        depth = same_depth(first, second)
        chance = grid.chance
        largest = np.empty(0) if chance is None else chance[1:].max(axis=(1, 2))
        found = []
        for i, name in enumerate(first):
            cka, without = grid.values["cka"][i], grid.without[i]
            best, *others = np.argsort(-cka, kind="stable").tolist()
            gaps = cka[best] - cka[others]
            spreads = jackknife_spread((without[best] - without[others]).T)
            apart = (gaps - spreads > ROUNDING) if self.plan.can_leave_out else np.zeros(len(others), dtype=bool)
            p, by_chance = 1.0, self._by_chance(1.0)
            if chance is not None:
                own = chance[0, i].max()
                p = null_of(np.append(own, largest), len(self.sample)).p
                by_chance = self._by_chance(p) or (self._by_chance(1.0) and own < gumbel_limit(largest, MAP_LEVEL))
            rival = {}
            if others:
                rival = {"runner_up": second[others[0]], "gap": float(gaps[0])}
                if self.plan.can_leave_out:
                    rival["gap_ci95"] = (float(gaps[0] - spreads[0]), float(gaps[0] + spreads[0]))
            found.append(
                LayerMatch(
                    layer=name,
                    best=second[best],
                    cka=float(cka[best]),
                    clear=bool(apart.all()) and not by_chance,
                    same=depth.get(i) == best,
                    p=p,
                    by={m: second[int(np.argmax(grid.values[m][i]))] for m in MEASURES if m != "cka"},
                    cka_ci95=_interval(float(cka[best]), without[best]) if self.plan.can_leave_out else None,
                    tied=() if by_chance else tuple(second[j] for j, far in zip(others, apart, strict=True) if not far),
                    **rival,
                )
            )
        return tuple(found)

    def _by_chance(self, p: float) -> bool:
        """Whether shuffled rows give as much; too few draws cannot say so."""
        return 1 / (1 + self.options.null_draws) <= LEVEL < p

    # -- over training

    def _training(self, last: tuple[_Digested, _Digested], grid: _Grid) -> Iterator[LayerCheckpoint]:
        """Every checkpoint against the last one of its model, and against the other model."""
        several = len(self.firsts) > 1, len(self.seconds) > 1
        for step in range(max(len(self.firsts), len(self.seconds)) if any(several) else 0):
            models = [m[step] if many else m[-1] for m, many in zip((self.firsts, self.seconds), several, strict=True)]
            ends = [model is end for model, end in zip(models, (self.first, self.second), strict=True)]
            now = [own if end else self._digested(m) for m, end, own in zip(models, ends, last, strict=True)]
            for series, at in (("first", 0), ("second", 1)):
                if several[at] and not ends[at]:
                    end = (self.first, self.second)[at]
                    yield self._checkpoint(series, step, models[at], end, self._grid(now[at], last[at]))
            between = grid if all(ends) else self._grid(now[0], now[1])
            yield self._checkpoint("between", step, models[0], models[1], between)

    def _checkpoint(self, series: Any, step: int, model: Model, other: Model, grid: _Grid) -> LayerCheckpoint:
        matches = self._matches(grid)
        matched, same = _counted(matches)
        diagonal = self._diagonal(grid, whole=False)
        return LayerCheckpoint(series, step, model.checkpoint, other.checkpoint, matched, same, diagonal, matches)

    # -- the result

    def result(self) -> Layers:
        named = [replace(layer, name=f"{m.name}:{layer.name}") for m in self.models for layer in m.layers]
        inputs = inputs_of(named, self.run)
        first, second = self._digested(self.first), self._digested(self.second)
        grid = self._grid(first, second)
        grids = [grid.shown("models"), self._grid(first, first).shown("self")]
        base = None
        if self.untrained:
            before = [self._digested(model) for model in self.untrained]
            base = self._grid(before[0], before[1])
            grids.append(base.shown("untrained"))
        diagonal, matches, back = self._diagonal(grid, whole=True), self._matches(grid), self._matches(grid.reversed())
        matched, same = _counted(matches)
        baseline = None if base is None else self._diagonal(base, whole=False)
        above = None if baseline is None else sum(map(_above, diagonal, baseline))
        training = tuple(self._training((first, second), grid))
        self.run.alerts += [*identical_inputs(inputs), *self._alerts(first, second, diagonal, above)]
        return Layers(
            inputs=inputs,
            settings=self.options.settings(),
            alerts=tuple(dict.fromkeys(self.run.alerts)),
            provenance=default_provenance(self.options.seed, self.options.command or "identifiable.layers(...)"),
            names=(self.first.name, self.second.name),
            n=self.n,
            text=self._answer(matches, back, diagonal, baseline),
            matched=matched,
            same=same,
            tied=sum(bool(match.tied) for match in matches),
            diagonal=diagonal,
            matches=matches,
            matches_back=back,
            layers=tuple(layer.facts for layer in (*first.layers, *second.layers)),
            grids=tuple(grids),
            components=grid.components,
            map_components=self.width,
            neighbours=self.neighbours,
            sample=len(self.sample),
            above_untrained=above,
            sources=tuple(model.source for model in (self.first, self.second)),
            training=training,
        )

    def _alerts(
        self, first: _Digested, second: _Digested, diagonal: Sequence[LayerPair], above: int | None
    ) -> Iterator[Alert]:
        layers = [layer.facts for layer in (*first.layers, *second.layers)]
        if above is None:
            yield Alert("untrained_missing", {"first": self.first.name, "second": self.second.name})
        elif above < len(diagonal):
            yield Alert("no_more_than_untrained", {"layers": len(diagonal) - above, "of": len(diagonal)})
        if led := [layer for layer in layers if layer.weight > HALF]:
            most = max(led, key=lambda layer: layer.weight)
            yield Alert(
                "leading_direction",
                {
                    "layers": len(led),
                    "of": len(layers),
                    "layer": f"{most.model}:{most.name}",
                    "leading": most.leading,
                    "weight": most.weight,
                    "column": most.rogue,
                },
            )
        width = max(layer.width for layer in layers)
        if self.n < FEW_ROWS * width:
            chance = [pair.null["svcca"].mean for pair in diagonal if pair.null]
            per = {"rows": self.n, "columns": width, "per_column": self.n / width, "components": self.components}
            yield Alert("few_rows_for_layers", {**per, **({"svcca": max(chance)} if chance else {})})
        if not self.plan.can_leave_out:
            least = FEWEST_UNITS * self.plan.n_cells
            yield Alert("too_few_groups", {"rows": self.plan.units, "folds": self.plan.n_folds, "least": least})

    def _answer(
        self,
        matches: Sequence[LayerMatch],
        back: Sequence[LayerMatch],
        diagonal: Sequence[LayerPair],
        baseline: Sequence[LayerPair] | None,
    ) -> Answer:
        """The sentence, and what must stand beside it."""
        first, second = self.first.name, self.second.name
        if len(back) == 1:  # the one layer is that of the second model
            matches, first, second = back, second, first
        matched, same = _counted(matches)
        names = {"first": first, "second": second}
        counts = {**names, "layers": len(matches), "matched": matched, "same": same}
        remarks = [*_trend(diagonal), *_beside(baseline)]
        by_chance = [match for match in matches if not (match.clear or match.tied)]
        if len(by_chance) == len(matches):
            return Answer(
                "layers_unrelated", {**counts, "cka": max(match.cka for match in matches)}, remarks=tuple(remarks)
            )
        if len(matches) == 1:
            (one,) = matches
            code = "layer_found" if one.clear else "layer_tied"
            said = {**names, "layer": one.layer, "best": one.best, "cka": one.cka, "others": [one.best, *one.tied]}
            return Answer(code, said, remarks=tuple(remarks))
        places = [match.layer for match in back]
        found = [places.index(match.best) for match in matches if match.clear]
        one_each = len(set(found)) == matched
        often = max(set(found), key=found.count, default=0)
        nearly_all = len(matches) - len(matches) // 10
        if not one_each and 2 * found.count(often) > len(matches):
            code = "layers_alike" if len(matches) >= FEWEST_DEPTHS else "layers_share_match"
            times = found.count(often)
            counts |= {"best": places[often], "times": times, **({"every": times} if times == len(matches) else {})}
        elif matched < nearly_all:
            tied = sum(bool(match.tied) for match in matches)
            code = "layers_tied" if 2 * tied > len(matches) else "layers_some"
            counts |= {name: n for name, n in (("tied", tied), ("chance", len(by_chance))) if n}
        elif len(matches) == len(back) and one_each and same >= nearly_all:
            code = "layers_one_to_one"
        elif all(a <= b for a, b in pairwise(found)):
            code = "layers_in_order"
        else:
            code = "layers_reordered" if one_each else "layers_partly"
        return Answer(code, counts, remarks=tuple(remarks))


def _counted(matches: Sequence[LayerMatch]) -> tuple[int, int]:
    """How many layers have a match, and how many of these are at the same depth."""
    clear = [match for match in matches if match.clear]
    return len(clear), sum(match.same for match in clear)


def gumbel_limit(maxima: Array, level: float) -> float:
    """What a maximum like these exceeds with this probability: the quantile of the Gumbel distribution with their moments.

    >>> round(gumbel_limit(np.array([0.0, 2.0]), 0.01), 3)
    5.436
    """
    scale = float(maxima.std(ddof=1)) * np.sqrt(6) / np.pi
    return float(maxima.mean() - scale * (np.euler_gamma + np.log(-np.log1p(-level))))


def _interval(value: float, draws: Array) -> Interval | None:
    """95 % from the values without each cell, symmetric in log(1 - value), as that of R² is."""
    if not (np.isfinite(value) and np.isfinite(draws).all()):
        return None
    lost, spread = np.log(max(1 - value, LEAST)), float(jackknife_spread(np.log((1 - draws).clip(LEAST))))
    return float(1 - np.exp(lost + spread)), float(1 - np.exp(lost - spread))


def _above(trained: LayerPair, untrained: LayerPair) -> bool:
    """Whether a pair is more alike than before training."""
    low = trained.cka if trained.cka_ci95 is None else trained.cka_ci95[0]
    return low > untrained.cka


def _trend(diagonal: Sequence[LayerPair]) -> Iterator[Answer]:
    """How CKA at the same depth goes with depth: by its rank correlation, if that is beyond chance at 5 % (t approximation).

    Fewer than `FEWEST_DEPTHS` layers cannot say: the chance of a perfect order, 2 / n!, is above 5 %.
    """
    from scipy.special import stdtrit

    if len(diagonal) < 2:
        return
    cka = [pair.cka for pair in diagonal]
    code, values, free = "depth_between", _span(cka), len(cka) - 2
    if len(cka) >= FEWEST_DEPTHS and "only" not in values:
        rank = spearman(np.arange(float(len(cka))), np.array(cka)) or 0.0
        limit = float(stdtrit(free, 1 - LEVEL / 2))
        if abs(rank) > limit / np.sqrt(free + limit**2):
            code = "depth_falls" if rank < 0 else "depth_rises"
            values |= {"begin": cka[0], "end": cka[-1]}
    yield Answer(code, values)


def _beside(baseline: Sequence[LayerPair] | None) -> Iterator[Answer]:
    if baseline:
        yield Answer("untrained_pair", _span([pair.cka for pair in baseline]))


def _span(values: Sequence[float]) -> dict[str, float]:
    """The ends of a range, and `only` where they are shown alike."""
    low, high = min(values), max(values)
    return {"low": low, "high": high, **({"only": low} if round(low, 2) == round(high, 2) else {})}
