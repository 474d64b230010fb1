"""All metrics of one pair of tables: with intervals, against shuffled factors, under noise, before and after ICA."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from scipy.stats import t as student

from identifiable._checks import DataError, UsageError
from identifiable.blocks import in_tasks, one_blas_thread
from identifiable.disentanglement.binned import dcimig, jemmig, mig, mig_sup, modularity
from identifiable.disentanglement.codes import Codes, as_codes
from identifiable.disentanglement.correlated import mcc
from identifiable.disentanglement.ica_step import Mode, ica_step
from identifiable.disentanglement.info_scores import converged_infoe, infomec, prepare
from identifiable.disentanglement.predicted import dci, explicitness, sap
from identifiable.disentanglement.regressed import r2
from identifiable.disentanglement.sampled import betavae_score, factorvae_score, irs
from identifiable.disentanglement.unsupervised import unsupervised
from identifiable.intake import default_provenance
from identifiable.options import ScoreOptions
from identifiable.results import (
    AfterICA,
    Alert,
    Disentanglement,
    Input,
    Interval,
    Metric,
    NoisePoint,
    ScoreNull,
)
from identifiable.run import Run, Stage

Measure = Callable[..., Metric]
MODES: tuple[Mode, ...] = get_args(Mode)

METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        "infomec": infomec,
        "dci": dci,
        "mig": mig,
        "mig_sup": mig_sup,
        "jemmig": jemmig,
        "dcimig": dcimig,
        "modularity": modularity,
        "explicitness": explicitness,
        "sap": sap,
        "irs": irs,
        "mcc": mcc,
        "mcc_spearman": partial(mcc, kind="spearman"),
        "mcc_linear": partial(mcc, after="linear"),
        "r2": r2,
        "r2_kernel": partial(r2, predictor="kernel"),
        "betavae": betavae_score,
        "factorvae": factorvae_score,
        "unsupervised": unsupervised,
    }
)
"""What can be asked for by name. SIS takes slots and UDR several runs: they are functions of `identifiable.metrics` only."""

DEFAULT = ScoreOptions()
SEEDED = frozenset(METRICS) - {"mig", "mig_sup", "jemmig", "dcimig", "modularity", "irs", "unsupervised"}
FACTORLESS = frozenset({"unsupervised"})  # nothing to shuffle
UNBOUNDED = FACTORLESS  # all others are at most 1
NOISE_LEVELS = (0.0, 0.01, 0.03, 0.1)  # of the standard deviation of each latent
AGREES = 1e-3  # by how much InfoE of converged regressions may differ before and after an invertible map
LEAST_ROWS = 20  # from which halves are drawn


def disentangle(
    codes: Codes, options: ScoreOptions = DEFAULT, inputs: tuple[Input, ...] = (), *, cluster: Any = None
) -> Disentanglement:
    """Score latents against factors by every metric asked for.

    `resolve` names modes of `ica_step`: the scores of what each makes of the latents follow in `after`; their intervals and nulls
    are those of the components as they are, not of ICA made anew. `noise_sweep` is ours: InfoMEC with noise of 0, 1, 3 and 10 % of
    each latent's standard deviation. Mutual information has no scale: of a latent that follows its factor without noise,
    neighbours resolve a leak of 1 % of another one, and InfoM falls. `bootstrap` is ours, from random splits: a bootstrap with
    replacement would repeat rows, and a row is its own nearest neighbour. See `_with_intervals`. The workers of a `cluster` (a
    `distributed.Client`) make its splits and the shuffles of `null`.
    """
    profile, resolve, null, bootstrap = options.profile, options.resolve, options.null, options.bootstrap
    noise_sweep, seed, run = options.noise_sweep, options.seed, Run.of(options, cluster=cluster)
    names, everything = _names(options.metrics)
    scored = partial(_scored, names=names, profile=profile)
    lost: list[Alert] = []
    if "infomec" in names:
        prepare(codes, run)
    found = scored(codes, run, lost=lost if everything else None)
    scored = partial(_scored, names=tuple(found), profile=profile)

    def complete(table: Codes, scores: dict[str, Metric]) -> dict[str, Metric]:
        if bootstrap:
            scores = _with_intervals(scores, table, scored, bootstrap, run)
        return _with_nulls(scores, table, scored, null, run) if null else scores

    found = complete(codes, found)
    sweep = _sweep(codes, profile, run) if noise_sweep and not codes.discrete else ()
    after, failed = [], []
    for mode in resolve:
        try:
            after.append(_after(codes, mode, scored, complete, run))
        except DataError as error:  # of this mode: the other scores are not lost for it
            failed.append(Alert("ica_failed", {"after_ica": mode, "error": str(error)}))
    return Disentanglement(
        inputs=inputs,
        settings=options.shared(ScoreOptions).settings(metrics=list(names), seed=seed),
        alerts=(*_alerts(codes, found, after, asked_for_sweep=noise_sweep), *failed, *lost),
        provenance=default_provenance(seed, options.command or "identifiable.disentangle(...)"),
        n=codes.n,
        latents=codes.latent_names,
        latent_kind="discrete" if codes.discrete else "continuous",
        factors=tuple(f.about for f in codes.factors),
        metrics=found,
        sweep=sweep,
        after=tuple(after),
    )


def noise_sweep(
    latents: Any,
    factors: Any = None,
    *,
    levels: Sequence[float] = NOISE_LEVELS,
    profile: str = "hsu-standalone",
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> tuple[NoisePoint, ...]:
    """InfoMEC with Gaussian noise of `levels` standard deviations added to each latent.

    Ours. A score that rises with noise was low for a leak that the noise covers: smaller than it, in standard deviations.
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    if codes.discrete:
        raise UsageError("noise_sweep: expected continuous latents; noise makes other codes of discrete ones.")
    if any(not (math.isfinite(level) and level >= 0) for level in levels):
        raise UsageError(f"levels {tuple(levels)}: expected numbers of at least 0.")
    return _sweep(codes, profile, Run(seed), levels)


def _names(metrics: Sequence[str] | str) -> tuple[tuple[str, ...], bool]:
    """The names asked for, and whether all were."""
    asked = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if "all" in asked:
        return tuple(METRICS), True
    unknown = [name for name in asked if name not in METRICS]
    if unknown or not asked:
        raise UsageError(f"metrics {', '.join(unknown) or 'none'}: expected some of {', '.join(METRICS)}, or all.")
    return tuple(dict.fromkeys(asked)), False


def _scored(
    codes: Codes, run: Run, *, names: Sequence[str], profile: str, lost: list[Alert] | None = None
) -> dict[str, Metric]:
    """Every metric; where `lost` is given, one that these tables do not admit is left out, and said there."""
    found = {}
    for done, name in enumerate(names):
        run.say(Stage(name), done, len(names))
        options: dict[str, Any] = {"seed": run.seed} if name in SEEDED else {}
        if name == "infomec":
            options |= {"profile": profile, "workers": run.workers}
        try:
            with one_blas_thread():  # with more threads, products round in another order
                found[name] = METRICS[name](codes, **options)
        except DataError as error:
            if lost is None:
                raise
            lost.append(Alert("metric_left_out", {"metric": name, "error": str(error)}))
    run.say(Stage("metrics"), len(names), len(names))
    return found


def _with_intervals(
    found: dict[str, Metric],
    codes: Codes,
    scored: Callable[..., dict[str, Metric]],
    draws: int,
    run: Run,
) -> dict[str, Metric]:
    """95 % intervals of the scores of tables of this size, by Student's t with as many degrees of freedom as there are splits.

    Ours. Every split gives two halves and two quarters that share no row, and the variance of a score at n / 2 and at n / 4 from
    their differences; the variance at n is extrapolated from both. It halves from n / 2 to n for a mean, and less for scores that
    are ratios, maxima or quantiles of few rows. They know the rows, not the bias of a score that falls or rises with n.
    """
    if codes.n < LEAST_ROWS:
        raise DataError(f"latents: expected at least {LEAST_ROWS} rows to draw halves for intervals, got {codes.n}.")

    seed = run.seed

    def split(draw: int) -> list[dict[str, Metric]] | None:
        order = np.random.default_rng([seed, 1, draw]).permutation(codes.n)
        half, quarter = codes.n // 2, codes.n // 4
        parts = [
            codes.rows(np.sort(part))
            for part in (order[:half], order[half : 2 * half], order[:quarter], order[-quarter:])
        ]
        if any(len(part.factors) < len(codes.factors) for part in parts):  # of fewer factors it would be another score
            return None
        return [scored(part, Run(seed, workers=1)) for part in parts]

    splits = [s for s in in_tasks(split, range(draws), run, Stage("halves")) if s]
    few = () if len(splits) == draws else (_rare_alert(draws - len(splits), draws),)
    return {
        name: replace(
            metric,
            intervals={
                key: _interval(
                    metric.scores[key], [[part[name].scores[key] for part in parts] for parts in splits], name
                )
                for key in metric.scores
            },
            alerts=(*metric.alerts, *few),
        )
        for name, metric in found.items()
    }


def _rare_alert(lost: int, draws: int) -> Alert:
    return Alert("rare_classes", {"lost": lost, "splits": draws})


def _interval(score: float, parts: Sequence[Sequence[float]], name: str) -> Interval:
    values = np.array(parts).reshape(-1, 4)
    if not len(values) or not np.isfinite(values).all() or not math.isfinite(score):
        return (math.nan, math.nan)
    at_half, at_quarter = (((values[:, k] - values[:, k + 1]) ** 2).mean() / 2 for k in (0, 2))
    shrinks = min(max(at_half / at_quarter, 0.5), 1.0) if at_quarter > 0 else 1.0
    reach = float(student.ppf(0.975, len(values)) * math.sqrt(at_half * shrinks))
    top = math.inf if name in UNBOUNDED else 1.0
    return (score - reach, max(score, min(score + reach, top)))


def _with_nulls(
    found: dict[str, Metric],
    codes: Codes,
    scored: Callable[..., dict[str, Metric]],
    draws: int,
    run: Run,
) -> dict[str, Metric]:
    seed = run.seed

    def shuffled(draw: int) -> dict[str, Metric]:
        order = np.random.default_rng([seed, 2, draw]).permutation(codes.n)
        return scored(codes.shuffled(order), Run(seed, workers=1))

    nulls = in_tasks(shuffled, range(draws), run, Stage("shuffled factors"))
    return {
        name: replace(metric, nulls={key: _null(metric.scores[key], name, key, nulls) for key in metric.scores})
        if name not in FACTORLESS
        else metric
        for name, metric in found.items()
    }


def _null(score: float, name: str, key: str, nulls: Sequence[dict[str, Metric]]) -> ScoreNull:
    values = np.array([one[name].scores[key] for one in nulls])
    if not np.isfinite(values).all() or not math.isfinite(score):
        return ScoreNull(math.nan, math.nan, math.nan)
    p = (1 + int((values >= score).sum())) / (1 + len(values))
    return ScoreNull(float(values.mean()), float(np.quantile(values, 0.95)), p)


def _sweep(codes: Codes, profile: str, run: Run, levels: Sequence[float] = NOISE_LEVELS) -> tuple[NoisePoint, ...]:
    noise = np.random.default_rng([run.seed, 3]).standard_normal(codes.latents.shape) * codes.latents.std(axis=0)
    points = []
    for level in levels:
        noisy = codes.with_latents(codes.latents + level * noise, codes.latent_names)
        points.append(NoisePoint(level, infomec(noisy, profile=profile, seed=run.seed, workers=run.workers).scores))
    return tuple(points)


def _after(
    codes: Codes,
    mode: str,
    scored: Callable[..., dict[str, Metric]],
    complete: Callable[[Codes, dict[str, Metric]], dict[str, Metric]],
    run: Run,
) -> AfterICA:
    """Scores after ICA, and whether InfoE of converged regressions stayed what it was, as it must under an invertible map."""
    if codes.discrete:
        raise UsageError("resolve: expected continuous latents; ICA of discrete codes says nothing.")
    step = ica_step(codes.latents, mode=mode, seed=run.seed)  # type: ignore[arg-type]
    turned = codes.with_latents(step.latents, [f"component {k}" for k in range(step.latents.shape[1])])
    before, after = (converged_infoe(each, workers=run.workers) for each in (codes, turned))
    return AfterICA(
        mode=step.mode,
        converged=step.converged,
        n_components=step.n_components,
        invertible=step.invertible,
        metrics=complete(turned, scored(turned, run)),
        infoe_converged=(before, after),
        infoe_agrees=abs(after - before) <= AGREES,
        alerts=tuple(_after_ica(alert, step.mode) for alert in step.alerts),
    )


def _after_ica(alert: Alert, mode: str) -> Alert:
    """The alert of a table without a name, said of what an ICA step made of it."""
    return Alert(alert.code, {k: v for k, v in alert.values.items() if k != "name"} | {"after_ica": mode})


def _alerts(
    codes: Codes, found: Mapping[str, Metric], after: Sequence[AfterICA], *, asked_for_sweep: bool
) -> tuple[Alert, ...]:
    """Every alert once, those of single metrics with the name of the metric."""
    alerts = list(codes.alerts)
    for name, metric in found.items():
        alerts += [Alert(a.code, {**a.values, "metric": name}) for a in metric.alerts if a not in codes.alerts]
    for step in after:
        alerts += step.alerts
        if step.invertible and not step.infoe_agrees:
            before, now = step.infoe_converged
            alerts.append(Alert("infoe_moved", {"mode": step.mode, "before": before, "after": now}))
    if asked_for_sweep and codes.discrete:
        alerts.append(Alert("no_noise_sweep"))
    return tuple(alerts)
