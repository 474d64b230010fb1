"""Joint mode: several representations of the same rows, each resolved by itself, then matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.blocks import Blocks, PassLog, one_blas_thread
from identifiable.ica.matching import match_components, match_correlations
from identifiable.ica.refits import group_numbers
from identifiable.ica.resolving import COLUMNS, DEFAULT, Resolved, resolve
from identifiable.intake import (
    as_representation,
    blocks_of,
    default_provenance,
    distinct,
    gather_moments,
    identical_inputs,
)
from identifiable.moments import Array
from identifiable.options import ResolveOptions
from identifiable.representation import Pairing, Representation, pair
from identifiable.results import Alert, Component, ComponentMatch, Holder, JointResolution, Reason
from identifiable.rows import uniforms
from identifiable.run import Run

SHARED_ABOVE = 0.8  # |correlation| between partners from which on a component counts as shared
SHARED_P = 0.01
TEST_ROWS = 2_000  # rows the permutation test shuffles
DRAWS = 200


@dataclass(frozen=True, eq=False, repr=False)
class JointlyResolved(Holder):
    """The models, each resolved by itself, and the result that says what they share."""

    models: tuple[Resolved, ...]
    result: JointResolution


def resolve_jointly(
    sources: Sequence[Any],
    options: ResolveOptions = DEFAULT,
    *,
    group_by_name: str | None = None,
    cluster: Any = None,
    log: PassLog | None = None,
) -> JointlyResolved:
    """Resolve two or more representations of the same rows and match their components.

    Ours. Nothing is fitted jointly. Components
    of the first model are matched with those of every other one by signed Hungarian on |correlation| over all common
    rows; one is shared when every two of its partners correlate above `shared_above`, no match could be chance
    (permutation p-value, family-wise), and every model calls its partner reproducible, but for its sign: on the same rows,
    two models of one Gaussian cloud fit the same noise and match, too. Options as for `resolve`.

    >>> rng = np.random.default_rng(0)
    >>> S = rng.laplace(size=(4000, 3))
    >>> found = resolve_jointly([S @ rng.standard_normal((3, 3)), S @ rng.standard_normal((3, 3))])
    >>> found.result.headline
    '3 of 3 components are found in both a and b'
    """
    if len(sources) < 2:
        raise UsageError(f"joint mode needs at least two representations, got {len(sources)}.")
    shared_above = SHARED_ABOVE if options.shared_above is None else options.shared_above
    representations = distinct([as_representation(s, i) for i, s in enumerate(sources)])
    pairing = pair(*representations)
    tables = [
        replace(r, values=blocks_of(r) if rows is None else blocks_of(r).select(rows), ids=None, labels={})
        for r, rows in zip(representations, pairing.rows, strict=True)
    ]
    group_by = options.group_by
    if group_by is not None:  # labels are of the rows of the first table
        group_numbers(group_by, representations[0])
        rows = pairing.rows[0]
        group_by = np.asarray(group_by) if rows is None else np.asarray(group_by)[rows]
    alone = replace(options, group_by=group_by)
    models = tuple(resolve(t, alone, group_by_name=group_by_name, cluster=cluster, log=log) for t in tables)
    with one_blas_thread():
        components = [
            blocks_of(t).through(m.to_components.apply, m.result.rank) for t, m in zip(tables, models, strict=True)
        ]
        correlation = _correlations(components, Run.of(options, cluster=cluster))
        matches = _matches(components, models, correlation, shared_above, options.seed)
    inputs = tuple(m.result.inputs[0] for m in models)
    result = JointResolution(
        inputs=inputs,
        settings={
            **{name: value for name, value in models[0].result.settings.items() if name != COLUMNS},
            **{"shared_above": shared_above, "shared_p": SHARED_P, "draws": DRAWS},
        },
        alerts=tuple(_alerts(representations, pairing, models) + identical_inputs(inputs)),
        provenance=default_provenance(options.seed, options.command or "identifiable.resolve(...)"),
        models=tuple(replace(m.result, provenance=replace(m.result.provenance, time="")) for m in models),
        matches=matches,
        shared_counts=_shared_counts([c.d for c in components], correlation, shared_above),
        n=pairing.n,
    )
    return JointlyResolved(models, result)


def _correlations(components: Sequence[Blocks], run: Run) -> dict[tuple[int, int], Array]:
    """Of the components of every two models, over all rows."""
    return {
        (i, j): _correlation([components[i], components[j]], run) for i, j in combinations(range(len(components)), 2)
    }


def _shared_counts(
    widths: Sequence[int], correlation: dict[tuple[int, int], Array], shared_above: float
) -> tuple[tuple[int, ...], ...]:
    counts = np.diag(widths)
    for (i, j), r in correlation.items():
        counts[i, j] = counts[j, i] = int((match_correlations(r)[1] >= shared_above).sum())
    return tuple(tuple(row) for row in counts.tolist())


def _matches(
    components: Sequence[Blocks],
    models: Sequence[Resolved],
    correlation: dict[tuple[int, int], Array],
    shared_above: float,
    seed: int,
) -> tuple[ComponentMatch, ...]:
    """One for every component of the first model."""
    names = [model.result.inputs[0].name for model in models]
    partners = [np.arange(components[0].d)]
    partners += [match_correlations(correlation[0, j])[0] for j in range(1, len(components))]
    p = _p_values(components, seed)
    found = []
    for k in range(components[0].d):
        places = [int(partner[k]) for partner in partners]
        sizes = [
            float(abs(correlation[i, j][places[i], places[j]])) if min(places[i], places[j]) >= 0 else 0.0
            for i, j in correlation
        ]
        own = [None if at < 0 else m.result.components[at] for at, m in zip(places, models, strict=True)]
        match = ComponentMatch(
            partners=tuple(None if place < 0 else place for place in places),
            signs=(1, *(_sign(correlation[0, j], k, places[j]) for j in range(1, len(places)))),
            correlation=min(sizes),
            p=float(p[k]),
            shared=False,
            identifiable=all(component is not None and component.identifiable for component in own),
        )
        missing = _missing(match, own, names, shared_above)
        sign = [name for name, component in zip(names, own, strict=True) if component and not component.identifiable]
        doubt = Reason("sign_uncertain", {"models": sign}) if sign else None
        found.append(replace(match, shared=missing is None, reason=missing or doubt))
    return tuple(found)


def _missing(
    match: ComponentMatch, own: Sequence[Component | None], names: Sequence[str], shared_above: float
) -> Reason | None:
    """What a component lacks to be one that every model has; `own` are its partners. A sign is a convention and not asked for."""
    if without := [name for name, component in zip(names, own, strict=True) if component is None]:
        return Reason("no_partner", {"models": without})
    if match.correlation < shared_above:
        return Reason("weak_match", {"correlation": match.correlation, "least": shared_above})
    if match.p >= SHARED_P:
        return Reason("match_by_chance", {"p": match.p, "level": SHARED_P})
    lost = {name: c.reason for name, c in zip(names, own, strict=True) if c is not None and not c.found_again}
    if all(reason.code == "not_refitted" for reason in lost.values()):
        return Reason("not_refitted") if lost else None
    return Reason("not_reproducible", {"models": list(lost)})


def _sign(correlation: Array, k: int, place: int) -> int | None:
    return None if place < 0 else -1 if correlation[k, place] < 0 else 1


def _correlation(both: list[Blocks], run: Run) -> Array:
    moments = gather_moments(both, run)[0]
    d = moments.widths[0]
    spread = np.sqrt(np.outer(moments.energy[:d], moments.energy[d:]))
    return np.divide(moments.xy, spread, out=np.zeros_like(spread), where=spread > 0)


def _p_values(components: Sequence[Blocks], seed: int) -> Array:
    """For every component of the first model the largest p-value of its matches with the others."""
    n = components[0].n
    rows: NDArray[np.intp] = np.sort(np.argsort(uniforms(seed, 0, n), kind="stable")[:TEST_ROWS])
    first, *others = (table[rows] for table in components)
    rng = np.random.default_rng([seed, 5])
    found = [match_components(first, other, draws=DRAWS, rng=rng).p for other in others]
    largest: Array = np.max(found, axis=0)
    return largest


def _alerts(representations: Sequence[Representation], pairing: Pairing, models: Sequence[Resolved]) -> list[Alert]:
    alerts = [alert for m in models for alert in m.result.alerts]
    if pairing.ids is None:
        alerts.append(Alert("paired_by_position"))
    elif any(pairing.dropped):
        lost = {r.name: k for r, k in zip(representations, pairing.dropped, strict=True) if k}
        alerts.append(Alert("rows_dropped", {"dropped": lost, "remain": pairing.n}))
    return alerts
