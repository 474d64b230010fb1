"""What a condition on a result of `deconfound` may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields
from identifiable.results import Attribution, Audit, ComponentRole, ScreenEvaluation

ENDS = {"_low": 0, "_high": 1}
MINUS = "_minus_"

Reading = Callable[[Any], Any]


def audit_fields() -> Fields:
    """`stop`, `caution` (findings), `position`, `plate`, `embedding` (AUROC), `confounding`, `duplicate_rows`."""
    known: dict[str, tuple[Any, Reading]] = {
        "stop": (int, lambda r: _severe(r, "stop")),
        "caution": (int, lambda r: _severe(r, "caution")),
        "confounding": (float, lambda r: r.confounding),
        "duplicate_rows": (int, lambda r: r.features.duplicate_rows),
        **{name: (float, partial(_blind, features=name)) for name in ("position", "plate", "batch", "embedding")},
    }
    return Fields("stop > 0", lambda path: _known(path, known))


def evaluation_fields() -> Fields:
    """`ica` (AUROC over all targets), `ica_low`, `ica_minus_pca`, `ica_minus_pca_low`, `position`."""

    def find(path: tuple[str, ...]) -> Field:
        if len(path) != 1:
            raise UsageError(
                f"{'.'.join(path)} names no score; write ica, ica_low, ica_minus_pca or ica_minus_pca_low."
            )
        name = path[0]
        bare = next((name.removesuffix(end) for end in ENDS if name.endswith(end)), name)
        end = name.removeprefix(bare)
        return Field(float, lambda result: [(result.inputs[0].name, _evaluated(result, bare, end))])

    return Fields("ica_minus_pca_low < 0", find)


def attribution_fields() -> Fields:
    """`technical`, `biological`, `both`, `neither`: how many components are."""
    known: dict[str, tuple[Any, Reading]] = {
        role: (int, partial(_of_role, role=role)) for role in ("technical", "biological", "both", "neither")
    }
    return Fields("technical > 10", lambda path: _known(path, known))


def cleaning_fields() -> Fields:
    """`removed`, `biology_lost`."""
    known: dict[str, tuple[Any, Reading]] = {
        "removed": (int, lambda r: len(r.removed)),
        "biology_lost": (float, lambda r: r.biology_lost),
    }
    return Fields("biology_lost > 0.1", lambda path: _known(path, known))


def _known(path: tuple[str, ...], known: Mapping[str, tuple[Any, Reading]]) -> Field:
    name = ".".join(path)
    if name not in known:
        raise UsageError(f"no field {name!r}; choose from {', '.join(known)}.")
    kind, read = known[name]
    return Field(kind, lambda result: [(result.inputs[0].name, read(result))])


def _severe(result: Audit, severity: str) -> int:
    return sum(finding.severity == severity for finding in result.findings)


def _of_role(result: Attribution, role: ComponentRole) -> int:
    return len(result.of_role(role))


def _blind(result: Audit, features: str) -> float | None:
    return next((score.auroc for score in result.blind if score.features == features), None)


def _evaluated(result: ScreenEvaluation, name: str, end: str) -> float | None:
    """A score or a difference over all targets, or an end of its interval; None where it was not measured."""
    first, minus, second = name.partition(MINUS)
    if minus:
        difference = result.difference(_spelled(first), _spelled(second))
        if difference is None:
            known = ", ".join(sorted({f"{d.first}{MINUS}{d.second}".replace("-", "_") for d in result.differences}))
            raise UsageError(f"no difference {name!r}; choose from {known}.")
        return difference.ci95[ENDS[end]] if end else difference.difference
    condition = result.condition(_spelled(name))
    if condition is None:
        known = ", ".join(sorted({c.representation.replace("-", "_") for c in result.conditions}))
        raise UsageError(f"no representation {name!r}; choose from {known}.")
    return condition.ci95[ENDS[end]] if end else condition.auroc


def _spelled(name: str) -> str:
    """A representation as results name it: conditions know no hyphen, which would be a minus."""
    return name.replace("_", "-")
