"""Two or more dictionaries: every two matched one to one, each score beside chance, and which features all of them share."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, counted
from identifiable.blocks import one_blas_thread, silent
from identifiable.dictionaries.assignment import Assignment, Float32, Index, assign
from identifiable.dictionaries.chance import (
    Chance,
    Directions,
    Law,
    PairChance,
    Permuted,
    Shuffled,
    chance,
    closed_cycles,
    isotropic_matching,
    isotropic_maximum,
    scores_of,
    span_of,
)
from identifiable.intake import blocks_of, default_provenance, identical_inputs
from identifiable.moments import Array
from identifiable.options import MatchOptions
from identifiable.representation import Representation
from identifiable.results import (
    Alert,
    Cycles,
    DictionaryPair,
    DictionarySummary,
    FeatureMatch,
    FeatureStability,
    HeldFeatures,
    Input,
    MatchArrays,
    Matches,
    MatchScore,
    Subspaces,
)
from identifiable.results.dictionaries import NullName, ScoreName
from identifiable.run import Run, Stage

FEWEST = 2  # live features of a dictionary
STEPS = np.linspace(0, 1, 21)  # of the quantiles that are kept
SHOWN = 5  # strongest matches that a result keeps of every pair
BLOCK = 4096  # rows that are scaled at once


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Features as unit vectors in float32: those of `size` that are not zero, at these places (`live`) of the table.

    `fitted` is the table that a basis was fitted to; None of a matrix.
    """

    name: str
    unit: Float32
    live: Index
    names: NDArray[Any]
    fitted: Input | None = None

    @classmethod
    def of(cls, table: Representation, *, fitted: Input | None = None) -> Dictionary:
        """The rows of a table, scaled to length 1."""
        rows = blocks_of(table)
        unit = np.empty((table.n, table.d), np.float32)
        lengths = np.empty(table.n)
        for start in range(0, table.n, BLOCK):
            part = np.asarray(rows[start : min(start + BLOCK, table.n)], np.float64)
            with silent():
                largest = np.abs(part).max(axis=1, keepdims=True)  # so that no square overflows or vanishes
                part = np.divide(part, largest, out=np.zeros_like(part), where=largest != 0)
                length = np.linalg.norm(part, axis=1, keepdims=True)
                unit[start : start + BLOCK] = np.divide(part, length, out=part, where=length > 0)
            lengths[start : start + BLOCK] = length[:, 0]
        bad = np.flatnonzero(~np.isfinite(lengths))
        if bad.size:
            first = ", ".join(map(str, bad[:5]))
            raise DataError(
                f"{table.name}: expected finite numbers, got NaN or infinite values in {counted(bad.size, 'feature')} "
                f"(first, from 0: {first})."
            )
        live = np.flatnonzero(lengths > 0)
        if len(live) < FEWEST or table.d < 2:
            raise DataError(
                f"{table.name}: expected at least {FEWEST} features that are not zero, of at least 2 dimensions, got {len(live)} of "
                f"{table.d}; check --features rows|columns."
            )
        names = np.arange(table.n) if table.ids is None else np.asarray(table.ids)
        return cls(table.name, unit if len(live) == table.n else unit[live], live, names, fitted)

    @property
    def basis(self) -> bool:
        return self.fitted is not None

    @property
    def dead(self) -> NDArray[np.bool_]:
        dead = np.ones(len(self.names), bool)
        dead[self.live] = False
        return dead

    def spread(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """Values of live features at the places of the table."""
        found = np.full(len(self.names), fill, values.dtype)
        found[self.live] = values
        return found


def match_dictionaries(dictionaries: Sequence[Dictionary], options: MatchOptions, run: Run) -> Matches:
    """Every two dictionaries, one to one by cosine, with nulls; over three or more, the stability of each feature.

    Implements PW-MCC: the mean cosine of the Hungarian assignment, in both conventions (reconstructed: the paper is not in our
    copy). Ours: the nulls, the candidates of large dictionaries, stability and cycles.
    """
    if len(dictionaries) < 2:
        raise UsageError(f"match needs at least two dictionaries, got {len(dictionaries)}.")
    bases = [each.basis for each in dictionaries]
    if len(set(bases)) > 1:
        raise UsageError(
            f"{dictionaries[bases.index(True)].name} is a basis of resolve and {dictionaries[bases.index(False)].name} is not; pass "
            "bases only, or file.safetensors:from_components.matrix for its directions."
        )
    _check_widths(dictionaries)
    signed = not all(bases) if options.signed is None else options.signed
    features = [len(each.unit) for each in dictionaries]
    run.alerts += [*_alerts(dictionaries), *identical_inputs(run.inputs)]
    with one_blas_thread():
        spans = [span_of(each.unit) for each in dictionaries]
        units = [each.unit for each in dictionaries]
        laws: dict[NullName, list[Law]] = {
            "gaussian": [Directions.of(unit, span) for unit, span in zip(units, spans, strict=True)],
            "permuted": [Permuted.of(unit) for unit in units],
            "shuffled": [Shuffled.of(unit) for unit in units],
        }
        found: dict[tuple[int, int], list[Assignment]] = {}
        places = list(combinations(range(len(dictionaries)), 2))
        for i, j in places:
            run.say(Stage("matching"), len(found), len(places))
            found[i, j] = assign(dictionaries[i].unit, dictionaries[j].unit, run)
        how: dict[str, Any] = {
            "draws": options.null_draws,
            "threshold": options.threshold,
            "seed": options.seed,
            "run": run,
        }
        drawn = {name: chance(law, features, signed, **how) for name, law in laws.items()}
        sizes = drawn["gaussian"].sizes
        nulls = [_Nulls({name: each.pairs[at] for name, each in drawn.items()}, signed) for at in range(len(places))]
        chosen = {at: pair[0 if signed else 1] for at, pair in found.items()}
        pairs = [
            _pair(dictionaries[i], dictionaries[j], found[i, j], null, (spans[i], spans[j]), signed, sizes, options)
            for (i, j), null in zip(places, nulls, strict=True)
        ]
    if any(pair.solver == "sparse" for pair in pairs):
        run.alerts.append(Alert("match_from_candidates", {"features": max(features)}))
    if len(sizes) > 1:
        run.alerts.append(Alert("chance_extrapolated", {"sizes": list(sizes), "features": max(features)}))
    run.alerts += [Alert("match_unsigned", _opposite(pair)) for pair in pairs if pair.opposite]
    several = len(dictionaries) > 2
    stability = [_stability(i, chosen, features) if several else None for i in range(len(dictionaries))]
    return Matches(
        inputs=tuple(run.inputs),
        settings=options.settings(signed=signed),
        alerts=tuple(dict.fromkeys(run.alerts)),
        provenance=default_provenance(options.seed, options.command or "identifiable.match(...)"),
        dictionaries=tuple(
            DictionarySummary(
                name=each.name,
                features=len(each.unit),
                dead=len(each.names) - len(each.unit),
                dimensions=each.unit.shape[1],
                rank=len(span),
                basis=each.basis,
                stability=None
                if cosines is None
                else _summary(i, cosines, dict(zip(places, nulls, strict=True)), features, options.threshold),
            )
            for i, (each, span, cosines) in enumerate(zip(dictionaries, spans, stability, strict=True))
        ),
        pairs=tuple(pairs),
        threshold=options.threshold,
        draws=options.null_draws,
        cycles=_cycles(chosen, nulls, drawn, len(dictionaries)) if several else None,
        held=tuple(
            HeldFeatures(each.names, each.dead, None if cosines is None else each.spread(cosines.mean(axis=0), np.nan))
            for each, cosines in zip(dictionaries, stability, strict=True)
        ),
    )


def _check_widths(dictionaries: Sequence[Dictionary]) -> None:
    """Refuse features of different dimensions; say which option helps where one table is turned."""
    first = dictionaries[0]
    k, d = len(first.names), first.unit.shape[1]
    for other in dictionaries[1:]:
        n, width = len(other.names), other.unit.shape[1]
        if width == d:
            continue
        # Decoders have more features than dimensions, so where either table could be turned it is the wide one.
        layouts = {"columns,rows": k == width and k < d, "rows,columns": n == d, "columns": k == n}
        turned = next((layout for layout, fits in layouts.items() if fits), None)
        hint = "" if turned is None else f" If features are columns, pass --features {turned}."
        raise DataError(
            f"{first.name} and {other.name}: expected features of the same dimensions, one in each row, got {d} and {width} (shapes "
            f"({k}, {d}) and ({n}, {width})).{hint}"
        )


def _alerts(dictionaries: Sequence[Dictionary]) -> list[Alert]:
    found = []
    for each in dictionaries:
        dead = len(each.names) - len(each.unit)
        if dead:
            found.append(Alert("dead_features", {"name": each.name, "dead": dead, "features": len(each.names)}))
    if all(len(each.names) < each.unit.shape[1] and not each.basis for each in dictionaries):
        k, d = len(dictionaries[0].names), dictionaries[0].unit.shape[1]
        found.append(Alert("features_as_rows", {"features": k, "dimensions": d}))
    of = {each.fitted.sha256: (each.name, each.fitted.name) for each in dictionaries if each.fitted is not None}
    if len(of) > 1:
        (first, source), (second, target), *_ = of.values()
        found.append(
            Alert("bases_of_other_tables", {"first": first, "second": second, "source": source, "target": target})
        )
    return found


@dataclass(frozen=True, eq=False)
class _Nulls:
    """What the nulls give for a pair. Chance is the larger level, of every score by itself."""

    of: Mapping[NullName, PairChance]
    signed: bool

    def larger(self, which: int) -> NullName:
        return max(self.of, key=lambda name: self.of[name].draws[:, which].mean())

    @property
    def main(self) -> PairChance:
        """Chance matches: those of the null with the larger PW-MCC."""
        return self.of[self.larger(0 if self.signed else 1)]


def _opposite(pair: DictionaryPair) -> dict[str, Any]:
    better = pair.score_of("pw_mcc_absolute")
    said = {"first": pair.first, "second": pair.second, "value": better.value, "chance": better.chance}
    return said | {"signed": pair.main.value, "signed_chance": pair.main.chance}


def _pair(
    a: Dictionary,
    b: Dictionary,
    found: list[Assignment],
    nulls: _Nulls,
    spans: tuple[Array, Array],
    signed: bool,
    sizes: tuple[int, ...],
    options: MatchOptions,
) -> DictionaryPair:
    chosen = found[0 if signed else 1]
    has = chosen.partner >= 0
    size = np.where(has, chosen.scored, np.float32(np.nan))
    null = nulls.main
    null99 = null.extreme
    scores = _scores(scores_of(found, signed, options.threshold), nulls, len(a.unit), len(b.unit), a.unit.shape[1])
    above = size > options.threshold
    p = np.where(has, null.p_of(size), np.nan)
    partner = np.where(has, b.live[chosen.partner], -1)
    strongest = np.argsort(np.where(has, -size, np.inf), kind="stable")[: min(SHOWN, int(has.sum()))]
    k_a, k_b = len(a.unit), len(b.unit)
    return DictionaryPair(
        first=a.name,
        second=b.name,
        signed=signed,
        matched=int(has.sum()),
        above=int(above.sum()),
        chance_above=scores[-1].chance * int(has.sum()),
        above_null=int(np.sum(size > null99)),
        null99=null99,
        unmatched_first=k_a - int(has.sum()),
        unmatched_second=k_b - int(has.sum()),
        scores=tuple(scores),
        subspaces=_subspaces(*spans),
        quantiles=tuple(np.quantile(size[has], STEPS).tolist()),
        null_quantiles=tuple(np.quantile(null.sizes, STEPS).tolist()),
        solver=chosen.solver,
        null_features=sizes,
        strongest=tuple(
            FeatureMatch(
                str(a.names[a.live[i]]),
                str(b.names[partner[i]]),
                float(chosen.cosine[i]),
                float(chosen.margin[i]),
                float(p[i]),
            )
            for i in strongest
        ),
        arrays=MatchArrays(
            partner=a.spread(partner, -1),
            cosine=a.spread(np.where(has, chosen.cosine, np.float32(np.nan)), np.nan),
            margin=a.spread(chosen.margin, np.nan),
            p=a.spread(p, np.nan),
            above_null=a.spread(size > null99, False),
        ),
    )


def _scores(values: Array, nulls: _Nulls, k_a: int, k_b: int, d: int) -> list[MatchScore]:
    isotropic = (
        isotropic_matching(k_a, k_b, d, signed=True),
        isotropic_matching(k_a, k_b, d, signed=False),
        isotropic_maximum(k_b, d, signed=nulls.signed),
        isotropic_maximum(k_a, d, signed=nulls.signed),
        None,
    )
    found = []
    for which, (name, value, level) in enumerate(
        zip(typing.get_args(ScoreName), values.tolist(), isotropic, strict=True)
    ):
        larger = nulls.larger(which)
        drawn = nulls.of[larger].draws[:, which]
        found.append(
            MatchScore(
                name=name,
                value=value,
                chance=float(drawn.mean()),
                p=float((1 + np.sum(drawn >= value)) / (1 + len(drawn))),
                chance_ci95=(float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))),
                null=larger,
                gaussian=float(nulls.of["gaussian"].draws[:, which].mean()),
                permuted=float(nulls.of["permuted"].draws[:, which].mean()),
                shuffled=float(nulls.of["shuffled"].draws[:, which].mean()),
                isotropic=level,
            )
        )
    return found


def _subspaces(first: NDArray[Any], second: NDArray[Any]) -> Subspaces:
    d = first.shape[1]
    ranks = (len(first), len(second))
    if min(ranks) == d:
        return Subspaces(*ranks, d)
    cosines = np.linalg.svd(first @ second.T, compute_uv=False).clip(max=1)
    angles = np.degrees(np.arccos(cosines))
    return Subspaces(
        *ranks, d, float(np.mean(cosines**2)), max(ranks) / d, float(np.median(angles)), float(angles.max())
    )


def _stability(i: int, chosen: dict[tuple[int, int], Assignment], features: Sequence[int]) -> NDArray[Any]:
    """The cosines of the features of one dictionary with their partners: a line for each other dictionary, 0 without a partner."""
    lines = []
    for (a, b), found in chosen.items():
        if a == i:
            lines.append(found.scored)
        elif b == i:
            has = found.partner >= 0
            line = np.zeros(features[i], np.float32)
            line[found.partner[has]] = found.scored[has]
            lines.append(line)
    return np.array(lines)


def _summary(
    i: int, cosines: NDArray[Any], nulls: Mapping[tuple[int, int], _Nulls], features: Sequence[int], threshold: float
) -> FeatureStability:
    """Features without a partner count as 0, in the value and by chance."""
    level = [
        null.main.sizes.mean() * min(features[a], features[b]) / features[i]
        for (a, b), null in nulls.items()
        if i in (a, b)
    ]
    return FeatureStability(
        float(cosines.mean()), float(np.mean(level)), int(np.sum((cosines > threshold).all(axis=0)))
    )


def _cycles(
    chosen: dict[tuple[int, int], Assignment], nulls: Sequence[_Nulls], drawn: Mapping[NullName, Chance], count: int
) -> Cycles:
    triples = len(list(combinations(range(count), 3)))
    share = closed_cycles(chosen, [null.main.extreme for null in nulls], count)
    return Cycles(share, max(each.cycles for each in drawn.values()), triples)
