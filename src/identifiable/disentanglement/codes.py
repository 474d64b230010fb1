"""Latents and factors of the same rows, checked once: what every metric starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, UsageError, check_matrix_shape, check_numeric
from identifiable.results import Alert, Factor
from identifiable.results.disentanglement import Kind

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

FEW_VALUES = 256  # a column of floats with at most this many values, each of them at least ...
ROWS_PER_VALUE = 10  # ... this often on average, is taken for a discrete factor


@dataclass(frozen=True, eq=False)
class FactorColumn:
    """One factor: `values` as numbers (class numbers where it is discrete), `codes` 0, 1, … where it is discrete."""

    about: Factor
    values: Array
    codes: Labels | None

    @property
    def discrete(self) -> bool:
        return self.codes is not None


@dataclass(frozen=True, eq=False)
class Codes:
    """Latents (n, d) and the factors of the same rows; whether latents are discrete codes. `alerts` tell what was left out."""

    latents: Array
    factors: tuple[FactorColumn, ...]
    discrete: bool
    latent_names: tuple[str, ...]
    alerts: tuple[Alert, ...] = ()

    @property
    def n(self) -> int:
        return len(self.latents)

    @property
    def d(self) -> int:
        return int(self.latents.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.about.name for f in self.factors)

    def rows(self, index: NDArray[np.intp]) -> Codes:
        """Some rows, in this order; a factor that no longer varies is left out with an alert."""
        return codes_of(
            self.latents[index],
            [(f.about.name, f.about.kind, f.values[index]) for f in self.factors],
            discrete=self.discrete,
            latent_names=self.latent_names,
        )

    def shuffled(self, order: NDArray[np.intp]) -> Codes:
        """The rows of the factors in another order, those of the latents as they are."""
        moved = tuple(
            replace(f, values=f.values[order], codes=None if f.codes is None else f.codes[order]) for f in self.factors
        )
        return replace(self, factors=moved)

    def with_latents(self, latents: Array, names: Sequence[str] | None = None, *, discrete: bool = False) -> Codes:
        """Other latents of the same rows."""
        kept = tuple(names) if names is not None else tuple(f"latent {j + 1}" for j in range(latents.shape[1]))
        return replace(self, latents=latents, latent_names=kept, discrete=discrete)


def as_codes(
    latents: Any,
    factors: Any = None,
    *,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
    latent_names: Sequence[str] | None = None,
    factor_names: Sequence[str] | None = None,
) -> Codes:
    """Latents and factors as `Codes`; a `Codes` given as `latents` (without factors) as it is.

    Parameters
    ----------
    latents
        (n, d) finite numbers.
    factors
        (n,) or (n, m): numbers or words; a list of columns of different kinds is an object array or a list of arrays of (n,).
    discrete
        Whether latents are discrete codes; None: they are if they are integers.
    kinds
        "auto", "discrete", "continuous", or one for each factor. auto: integers, booleans and words are discrete; floats
        are discrete with at most 256 different values that occur 10 times on average.
    """
    if isinstance(latents, Codes):
        if factors is not None:
            raise UsageError("expected latents and factors as arrays, or one Codes alone, got a Codes and factors.")
        return latents
    values = _numbers(latents, "latents")
    is_discrete = np.asarray(latents).dtype.kind in "iub" if discrete is None else bool(discrete)
    columns = _columns(factors, values.shape[0])
    names = list(factor_names) if factor_names is not None else [f"factor {i + 1}" for i in range(len(columns))]
    chosen = [kinds] * len(columns) if isinstance(kinds, str) else list(kinds)
    for what, given in (("factor_names", names), ("kinds", chosen)):
        if len(given) != len(columns):
            raise UsageError(f"{what}: expected one for each of {len(columns)} factors, got {len(given)}.")
    named = (
        tuple(latent_names) if latent_names is not None else tuple(f"latent {j + 1}" for j in range(values.shape[1]))
    )
    if len(named) != values.shape[1]:
        raise UsageError(f"latent_names: expected one for each of {values.shape[1]} latents, got {len(named)}.")
    decided = [
        (name, _kind(column, kind, name), column) for name, kind, column in zip(names, chosen, columns, strict=True)
    ]
    return codes_of(values, decided, discrete=is_discrete, latent_names=named)


def codes_of(
    latents: Array, columns: Sequence[tuple[str, Kind, NDArray[Any]]], *, discrete: bool, latent_names: Sequence[str]
) -> Codes:
    """`Codes` of columns whose kinds are known; constant factors are left out, since nothing can be said of them."""
    if len(latents) < 2:
        raise DataError(f"latents: expected at least 2 rows, got {len(latents)}.")
    kept, constant = [], []
    for name, kind, column in columns:
        found = _factor(name, kind, column)
        if found is None:
            constant.append(name)
        else:
            kept.append(found)
    if not kept:
        raise DataError(
            f"factors: none of {', '.join(constant)} varies, so nothing can be said of them; pass more rows."
        )
    alerts = (
        (Alert("constant_factors", f"{', '.join(constant)}: the same in every row, so no metric looks at it."),)
        if constant
        else ()
    )
    return Codes(latents, tuple(kept), discrete, tuple(latent_names), alerts)


def _factor(name: str, kind: Kind, column: NDArray[Any]) -> FactorColumn | None:
    distinct, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        return None
    if kind == "continuous":
        return FactorColumn(Factor(name, kind, 0, float("nan")), column.astype(np.float64), None)
    share = counts / len(column)
    entropy = float(-(share * np.log(share)).sum())
    codes = codes.reshape(-1).astype(np.int64)
    return FactorColumn(Factor(name, kind, len(distinct), entropy), codes.astype(np.float64), codes)


def _kind(column: NDArray[Any], kind: str, name: str) -> Kind:
    if kind not in ("auto", "discrete", "continuous"):
        raise UsageError(f"kind of {name}: expected auto, discrete or continuous, got {kind!r}.")
    is_number = column.dtype.kind in "fiub"
    if kind == "continuous" and not is_number:
        raise DataError(f"{name}: expected numbers for a continuous factor, got {column.dtype}; call it discrete.")
    if kind == "auto":
        few = column.dtype.kind != "f" or len(np.unique(column)) <= min(FEW_VALUES, len(column) // ROWS_PER_VALUE)
        return "discrete" if few else "continuous"
    return "discrete" if kind == "discrete" else "continuous"


def latents_of(latents: Any, name: str = "latents") -> Array:
    """Latents alone, checked; those of a `Codes` as they are."""
    return latents.latents if isinstance(latents, Codes) else _numbers(latents, name)


def _numbers(values: Any, name: str) -> Array:
    given = np.asarray(values)
    check_numeric(given.dtype, name)
    check_matrix_shape(given.shape, name)
    numbers = np.ascontiguousarray(given, dtype=np.float64)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"{name}: expected finite numbers, got {int(wrong.sum())} NaN or infinite ones (first: row {row}, column "
            f"{column}); remove those rows."
        )
    return numbers


def _columns(factors: Any, n: int) -> list[NDArray[Any]]:
    """Every factor as its own array, words as words."""
    if factors is None:
        raise UsageError("factors: expected an array (n, factors) beside the latents, got none.")
    if isinstance(factors, (list, tuple)) and factors and all(np.ndim(f) == 1 for f in factors) and len(factors) != n:
        columns = [np.asarray(column) for column in factors]
    else:
        table = np.asarray(factors)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or not table.size:
            raise DataError(f"factors: expected an array (rows, factors), got shape {np.shape(factors)}.")
        columns = [np.asarray(column.tolist()) if table.dtype == object else column for column in table.T]
    for i, column in enumerate(columns):
        if len(column) != n:
            raise PairingError(
                f"factors: expected {n} rows as of the latents, got {len(column)} of factor {i + 1}; pass the same rows."
            )
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            raise DataError(f"factors: column {i + 1} has NaN or infinite values; remove those rows.")
        if column.dtype.kind not in "fiubUS":
            raise DataError(
                f"factors: expected numbers or words, got {column.dtype} in column {i + 1}; convert it first."
            )
    return columns
