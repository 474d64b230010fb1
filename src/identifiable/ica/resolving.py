"""resolve(): whitening and ICA of one representation, with what each component is worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, PassLog, one_blas_thread
from identifiable.groups import AffineMap
from identifiable.ica import diagnostics
from identifiable.ica.fitting import Fit, fit
from identifiable.ica.refits import group_numbers, refit
from identifiable.ica.stability import Refit, Stability
from identifiable.ica.stability import stability as measure_stability
from identifiable.intake import as_representation, blocks_of, default_provenance, gather_moments, inputs_of
from identifiable.moments import Array, Moments
from identifiable.options import IcaOptions, ResolveOptions
from identifiable.representation import Representation
from identifiable.results import Alert, Component, Holder, Resolution
from identifiable.run import Run, Stage

DEFAULT = ResolveOptions()
PICTURE_ROWS = 10_000  # of which densities are drawn
DENSITY_EDGES = tuple(np.linspace(-5, 5, 41).tolist())
FEW_ROWS = 10  # rows per component below which directions are mostly noise
OUTLIER_SHARE = 0.05  # of a component's variance in one row
COLUMNS = "columns"  # the setting that holds the names of the columns, where they have names
START_GAP = 1e-3  # relative difference in contrast from which on starts are said to disagree


@dataclass(frozen=True, eq=False, repr=False)
class Resolved(Holder):
    """A resolved representation: the map to its components, the map back, and the result that describes them."""

    to_components: AffineMap
    from_components: AffineMap
    result: Resolution

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns it was fitted to, None where they had none."""
        known = self.result.settings.get(COLUMNS)
        return tuple(map(str, known)) if known else None

    def arranged(self, order: list[int]) -> Resolved:
        """The same basis for rows whose columns come in another `order`: place j holds its column ``order[j]``."""
        to, back, settings = self.to_components, self.from_components, dict(self.result.settings)
        if self.columns is not None:
            settings[COLUMNS] = [self.columns[j] for j in order]
        return replace(
            self,
            to_components=AffineMap(to.matrix[order], to.offset),
            from_components=AffineMap(back.matrix[:, order], back.offset[order]),
            result=replace(self.result, settings=settings),
        )


def resolve(
    source: Any,
    options: ResolveOptions = DEFAULT,
    *,
    group_by_name: str | None = None,
    cluster: Any = None,
    log: PassLog | None = None,
) -> Resolved:
    """Whiten and unmix one representation; say which components another sample would give again.

    Implements the recipe of Theorem 2 (Nelson et al. 2026): whitening leaves a rotation, ICA fixes it up to order and
    sign. Ours: the canonical form that fixes those too, standard errors, refits on halves, and the verdicts.

    Parameters
    ----------
    source
        An array (n, d), a `Representation`, `Blocks` or a Dask array.
    options
        `group_by` holds one label per row, called `group_by_name` in the result.
    cluster
        A `distributed.Client`: its workers make the passes over the rows.
    log
        Keeps the passes, for a call that begins again after it was stopped.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(4000, 3)) @ rng.standard_normal((3, 3))
    >>> resolve(X).result.headline
    '3 of 3 components are reproducible'
    """
    settings = options.shared(IcaOptions)
    run, group_by = Run.of(options, cluster=cluster, log=log), options.group_by
    representation = as_representation(source, alone=True)
    groups = None if group_by is None else group_numbers(group_by, representation)
    with one_blas_thread():
        found = _resolved(representation, settings, groups, run)
    fitted, judged, stable, refits, alerts = found
    components = _components(fitted, judged, stable)
    unresolved, unresolved_pairs = fitted.directions.unresolved(diagnostics.looks_gaussian(fitted.shape))
    inputs = inputs_of([representation], run)
    result = Resolution(
        inputs=inputs,
        settings={
            **asdict(settings),
            "restarts": len(fitted.starts),
            "limits": diagnostics.LIMITS,
            "group_by": group_by_name or ("labels" if group_by is not None else None),
            **({} if representation.columns is None else {COLUMNS: list(representation.columns)}),
        },
        alerts=tuple(alerts),
        provenance=default_provenance(options.seed, options.command or "identifiable.resolve(...)"),
        rank=len(fitted.rotation),
        converged=fitted.converged,
        passes=fitted.passes.spent + sum(r.passes for r in refits),
        contrast=fitted.contrast,
        components=components,
        whitening=fitted.whitener.record,
        starts=fitted.starts,
        steps=tuple(fitted.solution.steps),
        unresolved=tuple(unresolved),
        unresolved_pairs=unresolved_pairs,
        ties=tuple(diagnostics.ties(fitted.form, judged)),
        density_edges=DENSITY_EDGES,
    )
    return Resolved(fitted.to_components, fitted.from_components, result)


def _resolved(
    representation: Representation, settings: IcaOptions, groups: NDArray[Any] | None, run: Run
) -> tuple[Fit, list[diagnostics.Judged], Stability | None, list[Refit], list[Alert]]:
    blocks = blocks_of(representation)
    moments = gather_moments([blocks], run)[0]
    fitted = fit(blocks, moments, settings, run, stage=Stage("resolving", representation.name))
    covariance = moments.scatter / moments.n
    refits = refit(blocks, settings, fitted, groups, run, representation.name)
    stable = measure_stability(fitted.to_components, refits, covariance) if refits else None
    judged = diagnostics.judge(fitted.shape, fitted.directions, fitted.form, stable)
    alerts = _alerts(representation.name, fitted, judged, moments, refits, settings.stability)
    alerts += data_alerts(representation.name, blocks, fitted, grouped=groups is not None)
    return fitted, judged, stable, refits, alerts


def _components(fitted: Fit, judged: list[diagnostics.Judged], stable: Stability | None) -> tuple[Component, ...]:
    shape, directions, form = fitted.shape, fitted.directions, fitted.form
    variance = (fitted.from_components.matrix**2).sum(axis=1)
    total = float((np.asarray(fitted.whitener.record.spectrum) ** 2).sum())
    p, margin, hardest = diagnostics.gaussian_p(shape), directions.margin, directions.hardest
    places = diagnostics.places(form)
    densities = fitted.passes.densities(fitted.rotation, DENSITY_EDGES, PICTURE_ROWS).round(4).tolist()
    return tuple(
        Component(
            index=i,
            variance=float(variance[i] / total),
            negentropy=float(shape.negentropy[i]),
            negentropy_se=float(shape.negentropy_se[i]),
            skew=float(shape.skew[i]),
            skew_se=float(shape.skew_se[i]),
            kurtosis=float(shape.kurtosis[i]),
            kurtosis_se=float(shape.kurtosis_se[i]),
            gaussian_p=float(p[i]),
            curvature=float(margin[i]),
            hardest=hardest[i],
            angle_se=float(directions.angle_se[i]),
            residual=float(directions.residual[i]),
            sign=form.rule[i],
            identifiable=judged[i].identifiable,
            reason=judged[i].reason,
            density=tuple(densities[i]),
            places=places[i],
            stability=None if stable is None else float(stable.mean[i]),
            stability_min=None if stable is None else float(stable.least[i]),
            sign_kept=None if stable is None else bool(stable.sign_kept[i]),
        )
        for i in range(len(fitted.rotation))
    )


def _alerts(
    name: str, fitted: Fit, judged: list[diagnostics.Judged], moments: Moments, refits: list[Refit], asked: int
) -> list[Alert]:
    record, shape, n, d = fitted.whitener.record, fitted.shape, moments.n, len(fitted.rotation)
    looks_gaussian = diagnostics.looks_gaussian(shape)
    gaussian, pairs = int(looks_gaussian.sum()), fitted.directions.unresolved(looks_gaussian)[1]
    # Not of noise: which of its directions point at a row depends on where the solver ended, and none of them means anything.
    heavy = int((~looks_gaussian & (shape.largest**2 > OUTLIER_SHARE * n)).sum())
    reached = [s.contrast for s in fitted.starts]
    dropped: dict[str, Any] = {
        "dropped": record.dropped,
        "of": len(moments.mean),
        "rank": d,
        "constant": record.constant,
    }
    if record.rule == "auto":
        dropped["tolerance"] = record.tolerance
    stopped = sum(not r.converged for r in refits)
    found: list[tuple[bool, str, dict[str, Any]]] = [
        (record.dropped > 0, "rank_deficient", dropped),
        (not fitted.converged, "not_converged", {}),
        (n < FEW_ROWS * d, "few_rows", {"rows": n, "components": d, "least": FEW_ROWS}),
        (gaussian > 1, "gaussian_components", {"gaussian": gaussian, "components": d}),
        (pairs > 0, "unresolved_pairs", {"pairs": pairs, "rows": n}),
        (heavy > 0, "heavy_tails", {"components": heavy, "share": OUTLIER_SHARE}),
        (stopped > 0, "refits_not_converged", {"stopped": stopped, "refits": len(refits)}),
        (not refits, "stability_not_measured", {"asked": asked, "rows": n} if asked else {}),
        (
            max(reached) - min(reached) > START_GAP * max(reached),
            "starts_disagree",
            {"lowest": min(reached), "highest": max(reached)},
        ),
        (fitted.whitener.ill_conditioned, "ill_conditioned", {"condition": record.condition}),
        (bool(refits) and not any(j.identifiable for j in judged), "nothing_reproducible", {}),
    ]
    return [Alert(code, {"name": name, **values}) for holds, code, values in found if holds]


# -- What in the rows themselves makes a verdict doubtful: neighbours that are alike, and rounding of the stored values.

NEIGHBOURS = 5_000  # rows from the beginning in which neighbours are compared
ALIKE = 0.2  # correlation of neighbouring rows from which on they are said to be alike
ROUNDING = 0.1  # share of a component's variance that rounding of the stored values may be


def data_alerts(name: str, blocks: Blocks, fitted: Fit, *, grouped: bool) -> list[Alert]:
    """Alerts about rows that are not independent, and about components that are rounding of the input."""
    alerts = []
    alike = _autocorrelation(blocks, fitted)
    if alike > ALIKE and not grouped:
        alerts.append(Alert("rows_alike", {"name": name, "correlation": alike}))
    rounded = int((_rounding_share(blocks.dtype, fitted) > ROUNDING).sum())
    if rounded:
        alerts.append(
            Alert(
                "below_input_precision",
                {"name": name, "dtype": str(blocks.dtype), "share": ROUNDING, "components": rounded},
            )
        )
    return alerts


def _autocorrelation(blocks: Blocks, fitted: Fit) -> float:
    """The largest correlation, over components, of neighbouring rows at the beginning of the table."""
    y = fitted.to_components.apply(blocks[: min(NEIGHBOURS, blocks.n)])
    y = y - y.mean(axis=0)
    energy = np.einsum("ij,ij->j", y, y)
    if len(y) < 100:
        return 0.0
    lagged = np.einsum("ij,ij->j", y[1:], y[:-1])
    return float(np.max(np.divide(lagged, energy, out=np.zeros_like(energy), where=energy > 0)))


def _rounding_share(dtype: np.dtype[Any], fitted: Fit) -> Array:
    """Variance that rounding to `dtype` adds to each component of unit variance."""
    if dtype.kind != "f":
        return np.zeros(len(fitted.rotation))
    spread = (fitted.whitener.back**2).sum(axis=0)
    size = spread + fitted.whitener.center**2
    noise = (
        float(np.finfo(dtype).eps) ** 2 / 12 * size
    )  # a value is rounded to half an ulp, at most eps / 2 of its size
    share: Array = noise @ fitted.to_components.matrix**2
    return share
