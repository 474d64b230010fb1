"""recommend(): which correction helps a screen, judged on batches that had no part in the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.stats import t

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, one_blas_thread
from identifiable.deconfounding.corrections.tasks import Fit
from identifiable.deconfounding.design import Design, Labels, Mask, summarise
from identifiable.deconfounding.folds import plate_folds
from identifiable.deconfounding.intervals import FEW_GROUPS, FEWEST_GROUPS
from identifiable.deconfounding.metrics.retrieval import (
    BATCH_READABLE,
    BIOLOGICAL,
    FEWEST_BATCHES,
    REPLICATE_MAP,
    Found,
    Retrieval,
    Scores,
    pieced,
)
from identifiable.deconfounding.recommendation.candidates import AS_IS, INPUT, Candidate, Fits, candidates
from identifiable.deconfounding.recommendation.choosing import Choice, Sums, choose
from identifiable.deconfounding.recommendation.pictures import plate_maps, well_pictures
from identifiable.deconfounding.run import record_of, table_of
from identifiable.moments import Array
from identifiable.options import RecommendOptions
from identifiable.results import (
    Alert,
    Answer,
    AskedMetric,
    HeldOutScore,
    Interval,
    MethodScore,
    Pick,
    Recommendation,
    TriedMethod,
)
from identifiable.run import Run, Stage

Verdict = Literal["recommended", "tie", "keep-as-is"]
FOLDS = 10
MANY_WELLS, FEWER_FOLDS = 3_000, 5  # with more wells to compare, so many folds
SAME_FAMILY = 0.8  # of the folds, or it is called a tie


@dataclass(frozen=True, eq=False)
class Recommended:
    """What was found, and the correction to apply, fitted to all rows: what the verdict says is to be written."""

    result: Recommendation
    candidate: Candidate
    fit: Fit


def recommend(
    blocks: Blocks, design: Design, options: RecommendOptions | None = None, run: Run | None = None
) -> Recommended:
    r"""Which correction to use, or none. Ours.

    Candidates (`candidates`) are fitted without each of at most 10 parts of whole batches (plates, where there are fewer than 3
    batches; 5 parts where more than 3,000 wells are compared), and the wells of that part are judged. What learns from controls
    (control scaling, sphering, TVN) sees those of all plates, held out or not, because it would also when the table is
    written; it never sees their treated wells. Batches are then read from controls that were fitted to: a low value is in part
    due to that. ComBat and Harmony are fitted to all rows without labels, because they cannot correct others; and so
    is the z-score of the input, which makes it no easier to beat. `choose` says by which rule the metrics of `Retrieval` decide.

    The choice itself is judged as well: for each part the method is chosen by the wells of the other parts alone, with fits
    that have not seen the part, and scored on the part. The verdict rests on these scores:

    keep-as-is    the rule chooses the input; or the chosen method, fitted to all rows, is below the input by more than the
                  margin in a biological metric; or the nested choice is; or the nested choice neither gains biology nor makes
                  batches less readable. Biology is gained where a metric rises by the margin and its interval over the parts is
                  above 0, at 95 % for all metrics together (Bonferroni). `replicate_map` does not count here: it ranks replicates
                  among the controls that corrections were fitted to, and rises on noise. Batches are less readable where
                  readability falls by the margin (a value below chance counts as chance), its interval is below 0 and that of
                  the input is above chance: where batches cannot be read there is nothing to correct
    tie           otherwise, where fewer than 80 % of the parts choose the same family
    recommended   otherwise
    """
    options, run = options or RecommendOptions(), run or Run()
    design.check_rows(blocks)
    level, parts = _parts(design, options.folds, run.seed)
    asked = Retrieval.of(design, groups=parts, seed=run.seed)
    metrics = _metrics(asked, options.metrics)
    tried, skipped = candidates(design, () if options.candidates == ("auto",) else options.candidates, blocks.n)
    with one_blas_thread():
        board = _Board.of(Fits(blocks, design, parts, run), asked, metrics, tried, skipped)
        judged = _judge(board, options.margin)
        final = board.final(judged.written)
    told = Answer(judged.code, judged.values, remarks=judged.remarks)
    chosen = board.tried[judged.outer.chosen]
    written = board.tried[judged.written]
    result = Recommendation(
        inputs=table_of(run, blocks),
        settings={
            "margin": options.margin,
            "folds": parts.size,
            "candidates": tuple(c.name for c in board.tried),
            "metrics": tuple(metrics),
            "seed": run.seed,
        },
        alerts=tuple(
            dict.fromkeys((*_wide(judged, options.margin, design.name), *run.alerts, *_alerts(board, final, asked)))
        ),
        provenance=record_of(run, "recommend"),
        design=summarise(design, blocks.d),
        verdict=judged.verdict,
        told=told,
        chosen=chosen.name,
        written=written.name,
        family=chosen.family,
        stable=judged.stable,
        margin=options.margin,
        held_out=level,
        folds=parts.size,
        wells=len(asked.rows),
        metrics=board.asked_metrics(),
        methods=_methods(board, judged),
        scores=board.method_scores(),
        nested=judged.nested,
        picks=judged.picks(board),
        skipped=board.skipped,
        pictures=well_pictures(board.sample, final.step(board.sample, asked.rows), asked.design, run.seed),
        plate_maps=plate_maps(board.sample, final.step(board.sample, asked.rows), asked.design),
    )
    return Recommended(result, written, final)


def _held_out_level(design: Design) -> Literal["batch", "plate"]:
    return "batch" if design.batch is not None and design.batch.size >= FEWEST_BATCHES else "plate"


def _parts(design: Design, folds: int | None, seed: int) -> tuple[Literal["batch", "plate"], Labels]:
    """What is held out, and the part of every row."""
    level = _held_out_level(design)
    groups = design.batch if level == "batch" and design.batch is not None else design.plate
    wanted = folds or (FEWER_FOLDS if int((~design.control).sum()) > MANY_WELLS else FOLDS)
    if groups.size <= wanted:
        return level, groups
    codes = plate_folds(design, folds=wanted, hold_out=level, seed=seed)
    return level, Labels(codes, tuple(f"part {k + 1}" for k in range(wanted)))


def _metrics(asked: Retrieval, wanted: Sequence[str]) -> tuple[str, ...]:
    """The metrics to choose by; readability of batches always takes part."""
    if tuple(wanted) == ("auto",):
        return asked.metrics
    if missing := [name for name in wanted if name not in (*asked.metrics, "auto")]:
        raise UsageError(
            f"{asked.design.name}: metric {', '.join(missing)} cannot be measured on this screen; it allows "
            f"{', '.join(asked.metrics) or 'none'}."
        )
    return tuple(name for name in asked.metrics if name in (*wanted, BATCH_READABLE))


# -- scores of every candidate, with each part held out


class _Board:
    """Scores of all candidates: `scores[c][k]` of candidate c fitted without part k."""

    def __init__(
        self,
        fits: Fits,
        asked: Retrieval,
        metrics: Sequence[str],
        tried: list[Candidate],
        skipped: dict[str, str],
        scores: list[list[Scores]],
        sample: Array,
    ):
        self.fits, self.asked, self.metrics = fits, asked, tuple(metrics)
        self.tried, self.skipped, self.scores, self.sample = tried, skipped, scores, sample
        self.group_of = {metric: asked.group_of(metric) for metric in self.metrics}
        self.inputs: Mask = np.array([c.family == INPUT for c in tried])
        self._whole = [{m: self._pieced(per, m) for m in metrics} for per in scores]

    @classmethod
    def of(
        cls, fits: Fits, asked: Retrieval, metrics: Sequence[str], wanted: list[Candidate], skipped: dict[str, str]
    ) -> _Board:
        """Every candidate fitted without every part and scored; one that cannot be fitted is named in `skipped`."""
        sample = np.asarray(fits.blocks[asked.rows], dtype=np.float64)
        if not np.isfinite(sample).all():
            raise DataError(
                f"{fits.blocks.name}: expected finite numbers, got NaN or infinite values; drop or fill them."
            )
        tried, scores = [], []
        for done, candidate in enumerate(wanted):
            try:
                per = [
                    asked.scores(candidate.fit(fits, k).step(sample, asked.rows))
                    for k in ([None] if candidate.once else range(fits.part.size))
                ]
            except DataError as error:
                skipped[candidate.name] = str(error)
            else:
                tried.append(candidate)
                scores.append(per if len(per) > 1 else per * fits.part.size)
            fits.run.say(Stage("candidates", candidate.name), done + 1, len(wanted))
        return cls(fits, asked, metrics, tried, skipped, scores, sample)

    def final(self, place: int) -> Fit:
        """A candidate fitted to all rows."""
        return self.tried[place].fit(self.fits, None)

    def _pieced(self, per: Sequence[Scores], metric: str) -> Found:
        group = self.group_of[metric]
        return pieced([(group == k, found[metric]) for k, found in enumerate(per)])

    def whole(self, place: int, metric: str) -> Found:
        """A candidate's score, every query judged by the fit that has not seen its part."""
        return self._whole[place][metric]

    def of_picks(self, picks: Sequence[int], metric: str) -> Found:
        """The score of a choice: in every part, that of the candidate chosen for it."""
        return self._pieced([self.scores[c][k] for k, c in enumerate(picks)], metric)

    def sums(self) -> dict[str, Sums]:
        """By part, every query judged by the fit that has not seen its part."""
        return self._all_sums(lambda c, m: self.whole(c, m).value)

    def sums_without(self, part: int) -> dict[str, Sums]:
        """By part, of queries and neighbours outside of one part only, with fits that have not seen it."""
        return self._all_sums(lambda c, m: self.scores[c][part][m].without[:, part])

    def _all_sums(self, value: Callable[[int, str], Array]) -> dict[str, Sums]:
        """Of the metrics that any query asks."""
        every = {m: self._sums(m, [value(c, m) for c in range(len(self.tried))]) for m in self.metrics}
        return {metric: sums for metric, sums in every.items() if sums.weight.any()}

    def _sums(self, metric: str, values: Sequence[Array]) -> Sums:
        group, size = self.group_of[metric], self.fits.part.size
        weight = self.whole(0, metric).weight
        asks = np.isfinite(values[0])
        by_part = [np.bincount(group[asks], weights=weight[asks] * v[asks], minlength=size) for v in values]
        asking = np.bincount(group[asks], weights=weight[asks], minlength=size)
        return Sums(np.array(by_part), asking.astype(np.float64))

    def reference(self, metric: str) -> int:
        """The better of the inputs in a metric; of readability, the input that is better in most biological metrics."""
        if metric == BATCH_READABLE and (biological := [m for m in self.metrics if m in BIOLOGICAL]):
            references = [self.reference(m) for m in biological]
            return max(references, key=references.count)
        places = np.flatnonzero(self.inputs)
        return int(places[int(np.argmax([self.whole(int(c), metric).mean for c in places]))])

    def less_than_input(self, place: int, metric: str) -> tuple[float, Interval]:
        """A candidate less the input in a metric."""
        return self.whole(place, metric).minus(self.whole(self.reference(metric), metric))

    def asked_metrics(self) -> tuple[AskedMetric, ...]:
        found = []
        for metric in self.metrics:
            known, reference = self.asked.coverage[metric], self.reference(metric)
            value, ci95 = self.whole(reference, metric).interval()
            better: Literal["high", "low"] = "low" if metric == BATCH_READABLE else "high"
            told = (known.label, known.across, known.queries, known.of, known.chance)
            found.append(AskedMetric(metric, better, *told, self.tried[reference].name, value, ci95))
        return tuple(found)

    def method_scores(self) -> tuple[MethodScore, ...]:
        found = []
        for c, candidate in enumerate(self.tried):
            for metric in self.metrics:
                value, ci95 = self.whole(c, metric).interval()
                found.append(MethodScore(candidate.name, metric, value, ci95, *self.less_than_input(c, metric)))
        return tuple(found)


# -- the verdict


@dataclass(frozen=True, eq=False)
class _Judged:
    verdict: Verdict
    code: str
    values: Mapping[str, Any]
    outer: Choice
    chosen_without: tuple[int, ...]
    stable: float
    written: int
    nested: tuple[HeldOutScore, ...]
    remarks: tuple[Answer, ...] = ()

    def picks(self, board: _Board) -> tuple[Pick, ...]:
        names = _held_out_names(board.fits)
        return tuple(
            Pick(names[k], board.tried[c].name, board.tried[c].family) for k, c in enumerate(self.chosen_without)
        )


def _held_out_names(fits: Fits) -> list[tuple[str, ...]]:
    """The batches (or plates) of every part."""
    design = fits.design
    groups = design.batch if _held_out_level(design) == "batch" and design.batch is not None else design.plate
    pairs = np.unique(np.stack([fits.part.codes, groups.codes]), axis=1)
    return [tuple(groups.names[g] for g in pairs[1][pairs[0] == k]) for k in range(fits.part.size)]


def _judge(board: _Board, margin: float) -> _Judged:
    outer = choose(board.sums(), board.inputs, margin)
    picks = tuple(choose(board.sums_without(k), board.inputs, margin).chosen for k in range(board.fits.part.size))
    nested = []
    for metric in board.metrics:
        found = board.of_picks(picks, metric)
        difference = found.minus(board.whole(board.reference(metric), metric))
        nested.append(HeldOutScore(metric, found.mean, *difference))
    keep = next(c for c, candidate in enumerate(board.tried) if candidate.name == AS_IS)
    family = board.tried[outer.chosen].family
    stable = float(np.mean([board.tried[c].family == family for c in picks]))
    values: dict[str, Any] = {
        "method": board.tried[outer.chosen].name,
        "same": sum(board.tried[c].family == family for c in picks),
        "folds": len(picks),
        "tried": int((~board.inputs).sum()),
        "margin": margin,
        "level": _held_out_level(board.fits.design),
    }

    def told(verdict: Verdict, code: str, written: int, **more: Any) -> _Judged:
        return _Judged(verdict, code, {**values, **more}, outer, picks, stable, written, tuple(nested))

    biological = [score for score in nested if score.metric in BIOLOGICAL]
    if not biological:
        return told("keep-as-is", "nothing_to_judge_by", keep)
    if board.inputs[outer.chosen]:
        remarks = (*_picks_differ(values), *_scaling_helps(board, keep, margin))
        if outer.contender is None:
            kept = told("keep-as-is", "none_is_better", keep)
        else:
            off = {m: board.less_than_input(outer.contender, m)[0] for m in board.metrics}
            contender = board.tried[outer.contender].name
            kept = told("keep-as-is", "none_differs", keep, contender=contender, differences=off)
        return replace(kept, outer=replace(outer, chosen=keep), remarks=remarks)
    if board.fits.part.size < FEWEST_GROUPS:
        return told("keep-as-is", "too_few_to_judge", keep, parts=board.fits.part.size)
    below = _below(board, outer.chosen, margin)
    if below:
        return told("keep-as-is", "harms_when_written", keep, metrics=below)
    worse = [score.metric for score in biological if score.difference < -margin]
    if worse:
        return told("keep-as-is", "choice_harms", keep, metrics=worse)
    better = _gained(biological, board.fits.part.size, margin)
    quieter = [s for s in nested if s.metric == BATCH_READABLE and _is_quieter(board, s, margin)]
    if not better and not quieter:
        return told("keep-as-is", "no_clear_gain", keep, **_short_of_a_gain(biological, margin))
    gains: dict[str, Any] = {"better": better} if better else {}
    if quieter:
        gains |= {"readable": quieter[0].value, "readable_before": quieter[0].value - quieter[0].difference}
        gains["wells"] = "control wells" if board.fits.design.control.any() else "wells"
    code: Literal["tie", "recommended"] = "tie" if stable < SAME_FAMILY else "recommended"
    settled = told(code, code, outer.chosen, **gains)
    return replace(settled, remarks=tuple(_ties(board, outer)))


def _gained(biological: Sequence[HeldOutScore], parts: int, margin: float) -> list[str]:
    """The metrics that rise by the margin, with intervals above 0 at 95 % for all of them together."""
    asked = [s for s in biological if s.metric != REPLICATE_MAP]
    wider = t.ppf(1 - 0.025 / max(len(asked), 1), parts - 1) / t.ppf(0.975, parts - 1)
    return [s.metric for s in asked if s.difference >= max(margin, wider * (s.difference - s.difference_ci95[0]))]


def _short_of_a_gain(biological: Sequence[HeldOutScore], margin: float) -> dict[str, Any]:
    """The differences that were judged, and that of `replicate_map` where it rises, which does not count."""
    counted = {s.metric: s.difference for s in biological if s.metric != REPLICATE_MAP}
    rises = [s for s in biological if s.metric == REPLICATE_MAP and s.difference >= margin and s.difference_ci95[0] > 0]
    return {"counted": counted} | ({"uncounted": rises[0].difference} if rises else {}) if counted else {}


def _is_quieter(board: _Board, nested: HeldOutScore, margin: float) -> bool:
    """Whether batches could be read from the input, and can be read less from the method that is chosen."""
    value, (low, _) = board.whole(board.reference(BATCH_READABLE), BATCH_READABLE).interval()
    chance = board.asked.coverage[BATCH_READABLE].chance
    return low > chance and nested.difference_ci95[1] < 0 and value - max(nested.value, chance) >= margin


def _wide(judged: _Judged, margin: float, name: str) -> list[Alert]:
    """The metrics whose intervals are too wide to show that nothing is lost."""
    found = [s for s in judged.nested if s.metric in BIOLOGICAL]
    wide = [s for s in found if not s.difference_ci95[1] - s.difference_ci95[0] <= 2 * margin]
    lowest = {s.metric: s.difference for s in sorted(wide, key=lambda s: s.difference)[:1]}
    told = {"name": name, "metrics": len(wide), "of": len(found), "margin": margin, "lowest": lowest}
    return [Alert("wide_intervals", told)] if wide and judged.verdict != "keep-as-is" else []


def _picks_differ(values: Mapping[str, Any]) -> list[Answer]:
    """Said of a table that is kept, where it is not kept without some of the parts."""
    others = values["folds"] - values["same"]
    told = {"others": others, "folds": values["folds"], "level": values["level"]}
    return [Answer("picks_differ", told)] if others else []


def _scaling_helps(board: _Board, keep: int, margin: float) -> list[Answer]:
    """Said of a table that is kept, where its z-scored columns find more: scaling is left to whoever compares wells."""
    found = next(c for c in np.flatnonzero(board.inputs).tolist() if c != keep)
    gains = {m: board.whole(found, m).mean - board.whole(keep, m).mean for m in board.metrics if m in BIOLOGICAL}
    most = max(gains, key=lambda metric: gains[metric])
    if gains[most] < margin:
        return []
    values = {"metric": most, "kept": board.whole(keep, most).mean, "scaled": board.whole(found, most).mean}
    return [Answer("scale_before_comparing", values)]


def _ties(board: _Board, outer: Choice) -> list[Answer]:
    """The other families that tie with the chosen one."""
    own = board.tried[outer.chosen].family
    families = dict.fromkeys(board.tried[c].family for c in np.flatnonzero(outer.tied))
    others = [family for family in families if family != own]
    return [Answer("ties_with", {"families": others})] if others else []


def _below(board: _Board, chosen: int, margin: float) -> list[str]:
    """The biological metrics in which the table that would be written, fitted to all rows, is below the input."""
    rows, sample = board.asked.rows, board.sample
    after = board.asked.scores(board.final(chosen).step(sample, rows))
    inputs = [board.asked.scores(board.final(int(c)).step(sample, rows)) for c in np.flatnonzero(board.inputs)]
    return [
        metric
        for metric in board.metrics
        if metric in BIOLOGICAL and after[metric].mean < max(s[metric].mean for s in inputs) - margin
    ]


def _methods(board: _Board, judged: _Judged) -> tuple[TriedMethod, ...]:
    """Best first: harmless ones by what they are worth, then the others."""
    outer = judged.outer
    order = sorted(range(len(board.tried)), key=lambda c: (c != outer.chosen, not outer.harmless[c], -outer.worth[c]))
    return tuple(
        TriedMethod(
            name=board.tried[c].name,
            family=board.tried[c].family,
            fitted=board.tried[c].fitted,
            worth=float(outer.worth[c]),
            harmless=bool(outer.harmless[c]),
            tied=bool(outer.tied[c]),
            picks=sum(pick == c for pick in judged.chosen_without),
            notes=board.final(c).notes,
        )
        for c in order
    )


def _alerts(board: _Board, final: Fit, asked: Retrieval) -> list[Alert]:
    design, parts = board.fits.design, board.fits.part.size
    alerts = list(final.alerts)
    level = _held_out_level(design)
    if parts < FEW_GROUPS:
        alerts.append(Alert("few_groups", {"name": design.name, "groups": parts, "level": level, "least": FEW_GROUPS}))
    if level == "plate":
        batches = {} if design.batch is None else {"batches": design.batch.size, "least": FEWEST_BATCHES}
        alerts.append(Alert("plates_held_out", {"name": design.name, **batches}))
    if asked.sampled:
        alerts.append(
            Alert("judged_on_some_wells", {"name": design.name, "judged": len(asked.rows), "wells": design.n})
        )
    if not design.control.any():
        alerts.append(Alert("recommended_without_controls", {"name": design.name}))
    return alerts
