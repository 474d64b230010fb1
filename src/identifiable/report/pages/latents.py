"""Which latent carries which factor: the heat map of a matrix, the latents and the factors in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from identifiable.report.frame import shade
from identifiable.report.page import Block, Fold, Table, Text, columns
from identifiable.report.words import MISSING, clip, count, display_name, known, listed, number, one_line
from identifiable.results import AfterICA, Disentanglement, Factor, FactorLatentMatrix, Metric

INFOMEC = "infomec"
LATENTS_SHOWN = 40  # columns of a heat map
NAMED = 0.9  # share of a latent's information that the factors named for it make up

Values = Sequence[Sequence[float]]
Active = Sequence[bool] | None


# -- what of the result there is


def active_latents(infomec: Metric | None, size: int) -> Active:
    """Which latents vary, by the rule of the InfoMEC profile. Details are free-form: only a list of so many truths is one."""
    found = None if infomec is None else infomec.details.get("active")
    fits = isinstance(found, list) and len(found) == size and all(isinstance(v, bool) for v in found)
    return list(found) if fits and isinstance(found, list) else None


def fits(matrix: FactorLatentMatrix | None, result: Disentanglement) -> bool:
    """Whether a matrix has a number for every factor and latent: a file can hold anything."""
    rows, width = matrix.values if matrix is not None else (), len(result.latents)
    return len(rows) == len(result.factors) > 0 and all(len(row) == width > 0 for row in rows)


def largest(matrix: FactorLatentMatrix | None) -> float:
    """The largest known value of a matrix."""
    return max((v for row in (matrix.values if matrix else ()) for v in row if known(v)), default=math.nan)


# -- the matrix


def matrix_blocks(result: Disentanglement) -> Iterator[Block]:
    """The heat map of NMI, then the latents and the factors in words."""
    infomec = result.metrics.get(INFOMEC)
    matrix = infomec.matrix if infomec is not None else None
    active = active_latents(infomec, len(result.latents))
    values: Values = ()
    if matrix is not None and fits(matrix, result):
        values = matrix.values
        shown = diagonal_order(values, active)[:LATENTS_SHOWN]
        nmi = replace(matrix, what=f"NMI, {matrix.what}")
        yield Text(_order(result, active, len(shown)))
        yield _heat(result, nmi, shown, active, top=1.0)
        yield from map(Text, _shared(result, values, active))
        if shown != sorted(shown):
            in_file = _heat(result, nmi, sorted(shown), active, top=1.0)
            yield Fold("The same with latents in the order of the file", (in_file,))
        yield from _latents(result, values, active)
    yield _factors(result, values, active)
    if place := _place(result):
        yield Text(place, note=True, brief=bool(values))


def folded(result: Disentanglement, matrix: FactorLatentMatrix, summary: str) -> Fold:
    """The matrix of another metric."""
    active = active_latents(result.metrics.get(INFOMEC), len(result.latents))
    top = max(0.0, largest(matrix))
    return Fold(summary, (_heat(result, matrix, diagonal_order(matrix.values, None)[:LATENTS_SHOWN], active, top=top),))


def diagonal_order(values: Values, active: Active) -> list[int]:
    """Latents so that the best of each factor stands on the diagonal, no latent twice; then the others, strongest first.

    Inactive ones are assigned to a factor only if no other is left.
    """
    weights = np.abs(np.nan_to_num(np.array(values, dtype=float), nan=0.0, posinf=0.0, neginf=0.0))
    still = np.zeros(weights.shape[1], dtype=bool) if active is None else ~np.array(active)
    chosen = [int(j) for j in linear_sum_assignment(weights - 2.0 * still, maximize=True)[1]]
    rest = set(range(weights.shape[1])) - set(chosen)
    strongest = weights.max(axis=0)
    return [*chosen, *sorted(rest, key=lambda j: (bool(still[j]), -strongest[j], j))]


def _order(result: Disentanglement, active: Active, shown: int) -> str:
    width = len(result.latents)
    told = "The latent assigned to each factor is on the diagonal; the others follow, the most informative first."
    if shown < width:
        told += f" {count(shown)} of {count(width)} latents are shown; the JSON has all."
    if active is not None and not all(active):
        told += f" {count(width - sum(active))} of {count(width)} latents hardly vary by the rule of the profile (○). "
        told += "They are left out of InfoM and InfoC."
    return told


def _heat(
    result: Disentanglement, matrix: FactorLatentMatrix, order: Sequence[int], active: Active, *, top: float
) -> Table:
    """Factors down, latents across, coloured from 0 to `top`; the last line marks the active ones."""
    mixed = len(set(map(_kind, result.factors))) > 1
    rows, shades = [], []
    for factor, values in zip(result.factors, matrix.values, strict=True):
        name = clip(one_line(factor.name), 24)
        rows.append((f"{name} ({_kind(factor)})" if mixed else name, *(cell(values[j]) for j in order)))
        shades.append(tuple(shade(abs(values[j]), top) if known(values[j]) else None for j in order))
    if active is not None:
        rows.append(("active", *("●" if active[j] else "○" for j in order)))
        shades.append((None,) * len(order))
    plain = [re.fullmatch(r"(?:latent|component) (\d+)", result.latents[j]) for j in order]
    labels = [m[1] if m else clip(one_line(result.latents[j]), 10) for m, j in zip(plain, order, strict=True)]
    caption = (
        f"{one_line(matrix.what[:1].upper() + matrix.what[1:])}; factors down, {result.latent_kind} latents across"
    )
    return Table(caption, columns("factor", *labels), tuple(rows), shades=tuple(shades))


def _top_two(row: Sequence[float], active: Active = None) -> list[int]:
    """Places of the largest and the second largest number of a row, among the active ones."""
    places = (j for j, v in enumerate(row) if known(v) and (active is None or active[j]))
    return sorted(places, key=lambda j: (-abs(row[j]), j))[:2]


def _shared(result: Disentanglement, values: Values, active: Active) -> Iterator[str]:
    """Latents that are the best for more than one factor, and inactive ones that carry more than every active one."""
    owners: dict[int, dict[str, float]] = {}
    hidden = []
    for factor, row in zip(result.factors, values, strict=True):
        name = display_name(factor.name)
        best, first = _top_two(row, active)[:1], _top_two(row)[:1]
        for j in best:
            owners.setdefault(j, {})[name] = row[j]
        if first != best and number(row[first[0]], 2) != number(row[best[0]] if best else 0.0, 2):
            latent, nmi = display_name(result.latents[first[0]]), number(row[first[0]], 2)
            hidden.append(
                f"{latent} is not active, yet its NMI with {name} ({nmi}) is above that of every active latent."
            )
    for j, nmis in owners.items():
        names = [name for name, nmi in nmis.items() if nmi >= max(nmis.values()) / 2 > 0]
        if len(names) > 1:
            yield f"{display_name(result.latents[j])} is the best latent of {len(names)} factors: {listed(names)}."
    yield from hidden


def _latents(result: Disentanglement, values: Values, active: Active) -> Iterator[Block]:
    """Every active latent: its column in the array, the share of its best factor, what it carries; mixtures first."""
    found = []
    for j, name in enumerate(result.latents):
        nmis = [(row[j], f.name) for row, f in zip(values, result.factors, strict=True) if known(row[j])]
        total = sum(value for value, _ in nmis)
        if total > 0 and (active is None or active[j]):
            share = max(nmis)[0] / total
            words = _carried(sorted(nmis, reverse=True), total)
            found.append((share, (one_line(name), str(j), number(share, 2), words)))
    lines = [line for _, line in sorted(found, key=lambda one: one[0])]
    more = f"; {LATENTS_SHOWN} of {count(len(lines))}" if len(lines) > LATENTS_SHOWN else ""
    if lines:
        heads = columns("latent", "column, from 0", "share of the best", "in words", words=("in words",))
        yield Table(f"Active latents, mixtures first, with their NMI{more}", heads, tuple(lines[:LATENTS_SHOWN]))


def _carried(nmis: Sequence[tuple[float, str]], total: float) -> str:
    """The factors that make up most of a latent's information, with the NMI of each."""
    named: list[str] = []
    summed = 0.0
    for value, name in nmis:
        if summed >= NAMED * total:
            break
        named.append(f"{display_name(name)} {number(value, 2)}")
        summed += value
    return f"{'carries' if len(named) == 1 else 'mixes'} {listed(named)}"


def _factors(result: Disentanglement, values: Values, active: Active) -> Table:
    """Every factor: kind, values, its best active latent and the next with their NMI."""
    lines = []
    for i, factor in enumerate(result.factors):
        best: list[str] = []
        for j in [*_top_two(values[i], active), None, None][:2] if values else ():
            best += [MISSING, MISSING] if j is None else [one_line(result.latents[j]), number(values[i][j], 2)]
        classes = count(factor.classes) if factor.kind == "discrete" else MISSING
        lines.append((one_line(factor.name), _kind(factor), classes, *best))
    heads = ("factor", "kind", "values", *(("best latent", "NMI", "next", "NMI") if values else ()))
    caption = "Factors, and the two active latents with the largest NMI" if values else "Factors"
    return Table(caption, columns(*heads, words=("kind", "best latent", "next")), tuple(lines), brief=True)


def _place(result: Disentanglement) -> str:
    """How to find a latent in the array: from which number names count. Those of results before 0.1 counted from 1."""
    if any(name == "latent 0" for name in result.latents):
        return "Latents are counted from 0, as columns of the array and in the JSON."
    j = next((j for j, name in reversed(list(enumerate(result.latents))) if name == f"latent {j + 1}"), None)
    return (
        "" if j is None else f"Latents are counted from 1: {result.latents[j]} is column {j} of the array and the JSON."
    )


def component_blocks(result: Disentanglement, after: AfterICA) -> Iterator[Block]:
    """The heat map of the components, folded."""
    infomec = after.metrics.get(INFOMEC)
    if infomec is None or infomec.matrix is None:
        return
    width = len(infomec.matrix.values[0]) if infomec.matrix.values else 0
    resolved = replace(result, latents=tuple(f"component {j}" for j in range(width)), latent_kind="continuous")
    if fits(infomec.matrix, resolved):
        active = active_latents(infomec, width)
        order = diagonal_order(infomec.matrix.values, active)[:LATENTS_SHOWN]
        table = _heat(resolved, infomec.matrix, order, active, top=1.0)
        yield Fold(f"Which component carries which factor, after {after.mode} ICA", (table,))


def cell(value: float) -> str:
    """A number of a matrix, or beside one."""
    return number(round(value, 2), 2) if known(value) else MISSING


def _kind(factor: Factor) -> str:
    """The kind of a factor, and whether its classes are words, which have no order."""
    return f"{factor.kind}, words" if factor.words else factor.kind
