"""What it takes to be called reproducible or shared, in words, from the limits that a result records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identifiable.ica.joint import DRAWS, SHARED_P
from identifiable.report.words import known, percent, probability, short

Settings = Mapping[str, Any]


def limit(settings: Settings, name: str) -> float | None:
    """The limit of that name; None in results that do not record it."""
    limits = settings.get("limits")
    return _figure(limits.get(name)) if isinstance(limits, Mapping) else None


def _figure(value: Any) -> float | None:
    """`value` if it is a number: settings are free-form."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and known(value) else None


def reproducible_rule(settings: Settings) -> str:
    """One sentence with every limit that the settings record; empty if there is none."""
    mean, worst = limit(settings, "stability"), limit(settings, "stability_min")
    level, angle = limit(settings, "gaussian_level"), limit(settings, "angle_se")
    residual, row = limit(settings, "residual"), limit(settings, "variance_in_one_row")
    parts = []
    if mean is not None and worst is not None:
        parts.append(f"refits on halves find it at mean |r| ≥ {short(mean)}, worst ≥ {short(worst)}")
    margin = limit(settings, "unseen_margin")
    if margin is not None:
        parts.append(f"on rows not fitted to, curvature with every other ≥ {short(margin)} standard errors")
    if angle is not None:
        parts.append(f"angle error ≤ {short(angle)} rad")
    if level is not None:
        parts.append(f"not Gaussian (p × components < {short(level)}) or the only one that is")
    if row is not None:
        parts.append(f"≤ {percent(row)} of its variance in one row")
    if residual is not None:
        parts.append(f"still to turn ≤ {short(residual)} rad")
    return f"Reproducible means: {'; '.join([*parts, 'sign certain'])}." if parts else ""


def shared_rule(settings: Settings, first: str) -> str:
    """What makes a component shared, and whose components are counted."""
    above = shared_limit(settings)
    link = f"every two of its partners correlate at {above}, " if above else ""
    level = _figure(settings.get("shared_p")) or SHARED_P
    means = f"Shared means: {link}p below {short(level)}, reproducible in every model."
    return f"{means} Counted are the components of {first}, the first model."


def shared_limit(settings: Settings) -> str:
    """'|r| 0.8 or more'; empty if the settings do not say."""
    above = _figure(settings.get("shared_above"))
    return "" if above is None else f"|r| {short(above)} or more"


def p_cell(p: float, settings: Settings) -> str:
    """A permutation p-value; the smallest that its draws can give is a bound and not a value."""
    if not known(p):
        return probability(p)
    floor = 1 / (1 + (_figure(settings.get("draws")) or DRAWS))
    return f"≤ {floor:.1g}" if p <= floor * (1 + 1e-9) else probability(p)
