"""Latents and factors of the same rows, checked once: what every metric starts from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, rel_entr
from scipy.stats import rankdata

from identifiable._checks import (
    DataError,
    PairingError,
    UsageError,
    as_array,
    check_numeric,
    check_plain,
    check_values,
    counted,
    is_missing,
)
from identifiable.representation import frame_of, is_frame, read_frame
from identifiable.results import Alert, Factor
from identifiable.results.disentanglement import Kind

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

FEW_VALUES = 256  # a column of floats with at most this many values, each of them at least ...
ROWS_PER_VALUE = 10  # ... this often on average, is taken for a discrete factor
MOSTLY_DIFFERENT = 2  # rows per value below which whole numbers are no classes, and words are ids
QUANTISED = 32  # a table of floats with at most so many values in each column looks like codes
FEW_ROWS = 50  # below, |correlation| of noise exceeds 2 / sqrt(50) = 0.28 in one of 20 pairs
MANY_COPIED = (
    0.05  # share of rows from which on copies are said: those held out of noise are predicted to about that R²
)
MORE_COPIES = 2  # times the pairs that few combinations of factors give; equal numbers of each give one
DEPENDENT = 0.3  # maximal correlation of two factors, beyond chance, from which on they are called dependent
LOOKED_AT = 10_000  # rows, at most, from which dependence is estimated
LARGEST, SMALLEST = 1e100, 1e-100  # of a number in a table; squares of others overflow, or vanish


@dataclass(frozen=True, eq=False)
class FactorColumn:
    """One factor: `values` as numbers (class numbers where it is discrete), `codes` 0, 1, … where it is discrete."""

    about: Factor
    values: Array
    codes: Labels | None

    @property
    def discrete(self) -> bool:
        return self.codes is not None


class Column(NamedTuple):
    """A factor whose kind is known, before it is coded."""

    name: str
    kind: Kind
    values: NDArray[Any]
    words: bool = False


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
            [Column(f.about.name, f.about.kind, f.values[index], f.about.words) for f in self.factors],
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
        kept = tuple(names) if names is not None else tuple(f"latent {j}" for j in range(latents.shape[1]))
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
        Of DataFrames the columns give names; two that have the same labels of rows in another order are joined on them.
    discrete
        Whether latents are discrete codes; None: they are if they are integers, unless most of a column occur once.
    kinds
        "auto", "discrete", "continuous", or one for each factor. auto: integers, booleans and words are discrete, but integers
        most of which occur once; floats are discrete with at most 256 different values that occur 10 times on average.
    """
    if isinstance(latents, Codes):
        if factors is not None:
            raise UsageError("expected latents and factors as arrays, or one Codes alone, got a Codes and factors.")
        return latents
    latents, factors = frame_of(latents, "latents"), frame_of(factors, "factors")
    factors = _in_order_of(latents, factors)
    values = _numbers(latents, "latents")
    whole = as_array(latents, "latents").dtype.kind in "iub"
    varied = [j for j, column in enumerate(values.T) if whole and _mostly_different(column)]
    is_discrete = whole and not varied if discrete is None else bool(discrete)
    columns = _columns(factors, values.shape[0])
    names = _given_names(factor_names, factors, len(columns), "factor")
    chosen = [kinds] * len(columns) if isinstance(kinds, str) else list(kinds)
    if len(chosen) != len(columns):
        raise UsageError(f"kinds: expected one for each of {len(columns)} factors, got {len(chosen)}.")
    decided = [
        Column(name, _kind(column, kind, name), column, column.dtype.kind in "US")
        for name, kind, column in zip(names, chosen, columns, strict=True)
    ]
    named = _given_names(latent_names, latents, values.shape[1], "latent")
    made = codes_of(values, decided, discrete=is_discrete, latent_names=named)
    doubts = _doubts(made, chosen, columns, asked=discrete is not None)
    if discrete is None and _swapped(made, chosen):
        doubts.insert(0, Alert("perhaps_swapped", {"latents": made.d, "factors": len(made.factors)}))
    if varied and discrete is None:
        doubts.append(Alert("taken_as_continuous", {"latents": [named[j] for j in varied]}))
    return replace(made, alerts=(*made.alerts, *doubts))


def _given_names(names: Sequence[str] | None, table: Any, count: int, what: str) -> tuple[str, ...]:
    """As given, or the columns of a DataFrame, or numbers from 0 on, as columns are counted."""
    if names is None:
        columns = getattr(table, "columns", None)
        own = [str(column) for column in columns] if columns is not None else []
        return tuple(own) if len(own) == count else tuple(f"{what} {k}" for k in range(count))
    if len(names) != count:
        raise UsageError(f"{what}_names: expected one for each of {count} {what}s, got {len(names)}.")
    return tuple(map(str, names))


def _in_order_of(latents: Any, factors: Any) -> Any:
    """The factors with their rows as the labels of the latents' rows say, if both have labels (DataFrames)."""
    wanted, given = (np.asarray(t.index) if hasattr(t, "iloc") else None for t in (latents, factors))
    if wanted is None or given is None or (len(wanted) == len(given) and (wanted == given).all()):
        return factors
    for name, labels in (("latents", wanted), ("factors", given)):
        if len(np.unique(labels)) < len(labels):
            raise PairingError(
                f"{name}: labels of rows occur more than once, and differ from the other table's; drop some."
            )
    place = {label: k for k, label in enumerate(given.tolist())}
    missing = [label for label in wanted.tolist() if label not in place]
    if missing or len(wanted) != len(given):
        raise PairingError(
            f"latents and factors have different labels of rows ({len(missing)} of {len(wanted)} have no factors, first: "
            f"{missing[0] if missing else given[0]!r}); pass .to_numpy() to pair them by position."
        )
    return factors.iloc[[place[label] for label in wanted.tolist()]]


def _doubts(codes: Codes, kinds: Sequence[str], columns: Sequence[NDArray[Any]], *, asked: bool) -> list[Alert]:
    """What a user may not have meant."""
    alerts = []
    kept = {f.about.name: f.about for f in codes.factors}
    rare = [name for name, about in kept.items() if about.classes * ROWS_PER_VALUE > codes.n]
    if rare:
        alerts.append(Alert("few_rows_per_class", {"factors": rare, "rows": ROWS_PER_VALUE}))
    turned = [
        name
        for name, kind, column in zip(kept, kinds, columns, strict=False)
        if kind == "auto" and column.dtype.kind in "iu" and kept[name].kind == "continuous"
    ]
    if turned:
        alerts.append(Alert("taken_as_continuous", {"factors": turned}))
    alerts += [*_too_few_rows(codes), *_dependent_factors(codes)]
    values = [len(np.unique(z)) for z in codes.latents.T]
    if not codes.discrete and not asked and 1 < max(values, default=0) <= min(QUANTISED, codes.n // ROWS_PER_VALUE):
        alerts.append(Alert("few_values", {"values": max(values)}))
    if codes.discrete:
        sparse = [name for name, k in zip(codes.latent_names, values, strict=True) if k * ROWS_PER_VALUE > codes.n]
        return [*alerts, Alert("few_rows_per_class", {"latents": sparse, "rows": ROWS_PER_VALUE})] if sparse else alerts
    copied = _copied(codes)
    return [*alerts, Alert("rows_alike", {"copied": copied})] if copied > MANY_COPIED else alerts


def _swapped(codes: Codes, kinds: Sequence[str]) -> bool:
    """Whether the tables may have been given in the wrong order: factors that look like latents, and latents like factors.

    Latents are classes by the rule for factors, and no factor is one. Codes of continuous factors are that, too; but a model seldom has
    fewer latents than factors, and its codes come from books of one size, where entries may be rare: values of factors are all
    frequent, and factors differ in their number. Only where nobody said which is what.
    """
    if not codes.discrete or not set(kinds) <= {"auto"} or any(f.discrete for f in codes.factors):
        return False
    times = [np.unique(z, return_counts=True)[1] for z in codes.latents.T]
    frequent = min(t.min() for t in times) >= ROWS_PER_VALUE
    return codes.d <= len(codes.factors) and frequent and len(set(map(len, times))) > 1


def _copied(codes: Codes) -> float:
    """The share of rows that are in the table more than once, latents and factors; 0 where few combinations of factors explain it.

    Independent factors give n² / 2 prod sum p² pairs of rows of one combination by themselves, and a code without noise repeats.
    """
    table = np.column_stack([codes.latents, *(f.values for f in codes.factors)]) + 0.0  # -0.0 is 0.0
    rows = np.ascontiguousarray(table).view(np.dtype((np.void, table.itemsize * table.shape[1])))
    _, times = np.unique(rows, return_counts=True)
    by_themselves = codes.n**2 / 2
    for factor in codes.factors:
        by_themselves *= float(((np.unique(factor.values, return_counts=True)[1] / codes.n) ** 2).sum())
    if (times * (times - 1)).sum() / 2 <= MORE_COPIES * by_themselves:
        return 0.0
    return float(times[times > 1].sum() / codes.n)


def _too_few_rows(codes: Codes) -> list[Alert]:
    found = []
    if codes.n < FEW_ROWS:
        found.append(
            Alert("few_rows", {"rows": codes.n, "correlation": min(1.0, 2 / math.sqrt(codes.n)), "least": FEW_ROWS})
        )
    if codes.d >= codes.n:
        found.append(Alert("more_latents_than_rows", {"latents": codes.d, "rows": codes.n}))
    return found


def _dependent_factors(codes: Codes) -> list[Alert]:
    rows = np.random.default_rng(0).permutation(codes.n)[
        :LOOKED_AT
    ]  # at random: a grid in order has every step of a factor alike
    pairs = dependent_pairs([f.values[rows] for f in codes.factors], [f.discrete for f in codes.factors], DEPENDENT)
    if not pairs:
        return []
    strongest, of = pairs[0], len(codes.factors) * (len(codes.factors) - 1) // 2
    return [
        Alert(
            "dependent_factors",
            {
                "first": codes.names[strongest.first],
                "second": codes.names[strongest.second],
                "correlation": strongest.correlation,
                "mixture": math.sqrt((1 + strongest.correlation) / 2),
                "dependent": len(pairs),
                "pairs": of,
            },
        )
    ]


def codes_of(latents: Array, columns: Sequence[Column], *, discrete: bool, latent_names: Sequence[str]) -> Codes:
    """`Codes` of columns whose kinds are known; constant factors are left out, since nothing can be said of them."""
    if len(latents) < 2:
        raise DataError(f"latents: expected at least 2 rows, got {len(latents)}.")
    kept, constant = [], []
    for column in columns:
        found = _factor(column)
        if found is None:
            constant.append(column.name)
        else:
            kept.append(found)
    if not kept:
        raise DataError(
            f"factors: none of {', '.join(constant)} varies, so nothing can be said of them; pass more rows."
        )
    alerts = (Alert("constant_factors", {"factors": constant}),) if constant else ()
    return Codes(latents, tuple(kept), discrete, tuple(latent_names), alerts)


def _factor(column: Column) -> FactorColumn | None:
    name, kind, values, words = column
    distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        return None
    if kind == "continuous":
        return FactorColumn(Factor(name, kind, 0, float("nan")), values.astype(np.float64), None)
    share = counts / len(values)
    entropy = float(-(share * np.log(share)).sum())
    codes = codes.reshape(-1).astype(np.int64)
    return FactorColumn(Factor(name, kind, len(distinct), entropy, words), codes.astype(np.float64), codes)


def _mostly_different(column: NDArray[Any]) -> bool:
    """Whether values of more than a few rows occur less than twice on average."""
    return len(np.unique(column)) * MOSTLY_DIFFERENT > len(column) > MOSTLY_DIFFERENT * ROWS_PER_VALUE


def _kind(column: NDArray[Any], kind: str, name: str) -> Kind:
    if kind not in ("auto", "discrete", "continuous"):
        raise UsageError(f"kind of {name}: expected auto, discrete or continuous, got {kind!r}.")
    is_number = column.dtype.kind in "fiub"
    if kind == "continuous" and not is_number:
        raise DataError(f"{name}: expected numbers for a continuous factor, got {column.dtype}; call it discrete.")
    if kind == "auto":
        different = len(np.unique(column))
        mostly_different = _mostly_different(column)
        if not is_number and mostly_different:
            raise DataError(
                f"{name}: {different} different words in {len(column)} rows: an id? Name it as such (--ids), leave it out, or call "
                "it discrete."
            )
        if column.dtype.kind in "iu":
            return "continuous" if mostly_different else "discrete"
        few = column.dtype.kind != "f" or different <= min(FEW_VALUES, len(column) // ROWS_PER_VALUE)
        return "discrete" if few else "continuous"
    return "discrete" if kind == "discrete" else "continuous"


def latents_of(latents: Any, name: str = "latents") -> Array:
    """Latents alone, checked; those of a `Codes` as they are."""
    return latents.latents if isinstance(latents, Codes) else _numbers(latents, name)


def _numbers(values: Any, name: str) -> Array:
    table = frame_of(values, name)
    given = as_array(table, name)
    if given.dtype == object and is_frame(table):  # columns of several kinds, or of pandas' own, which know NA
        given = read_frame(table, None, name).values
    check_values(given, name)
    numbers = np.ascontiguousarray(given, dtype=np.float64)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"{name}: expected finite numbers, got {counted(int(wrong.sum()), 'NaN or infinite value')} (first: row {row}, column "
            f"{column}); remove those rows."
        )
    _refuse_extreme(numbers, name)
    return numbers


def _refuse_extreme(numbers: Array, name: str) -> None:
    """Refuse columns of which no square, or only zero, is left: every one of them is scaled by its own size."""
    tops = np.abs(numbers).max(axis=0)
    if (tops > LARGEST).any() or ((tops > 0) & (tops < SMALLEST)).any():
        raise DataError(
            f"{name}: expected numbers of ordinary size ({SMALLEST:g} to {LARGEST:g}), got a column whose largest is "
            f"{tops[((tops > LARGEST) | ((tops > 0) & (tops < SMALLEST)))][0]:.3g}; divide it by that."
        )


def _of_one_kind(column: NDArray[Any], i: int) -> NDArray[Any]:
    """A column of Python objects as numbers or words; a gap among them is not a word."""
    gaps = [k for k, value in enumerate(column) if is_missing(value)]
    if gaps:
        raise DataError(
            f"factors: column {i} (from 0) has {counted(len(gaps), 'missing value')} (first: row {gaps[0]}); remove those rows."
        )
    return np.asarray(column.tolist())


def _columns(factors: Any, n: int) -> list[NDArray[Any]]:
    """Every factor as its own array, words as words."""
    if factors is None:
        raise UsageError("factors: expected an array (n, factors) beside the latents, got none.")
    check_plain(factors, "factors")
    if isinstance(factors, (list, tuple)) and factors and all(np.ndim(f) == 1 for f in factors) and len(factors) != n:
        columns = [as_array(column, "factors") for column in factors]
    else:
        table = as_array(factors, "factors")
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or not table.size:
            raise DataError(f"factors: expected an array (rows, factors), got shape {np.shape(factors)}.")
        columns = [_of_one_kind(column, i) if table.dtype == object else column for i, column in enumerate(table.T)]
    for i, column in enumerate(columns):
        if len(column) != n:
            raise PairingError(
                f"factors: expected {n} rows as of the latents, got {len(column)} of factor {i} (from 0); pass the same rows."
            )
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            gaps = np.flatnonzero(~np.isfinite(column))
            raise DataError(
                f"factors: column {i} (from 0) has NaN or infinite values in {counted(len(gaps), 'row')} (first: row "
                f"{gaps[0]}); remove those rows."
            )
        if column.dtype.kind == "f":
            check_numeric(column.dtype, f"factors: column {i + 1}")
            _refuse_extreme(column.astype(np.float64)[:, None], f"factors: column {i + 1}")
        if column.dtype.kind not in "fiubUS":
            raise DataError(
                f"factors: expected numbers or words, got {column.dtype} in column {i + 1}; convert it first."
            )
    return columns


# -- How strongly the columns of one table depend on each other: factors that move together, latents that repeat each other.

MOST_BINS = 10  # of a continuous column
MOST_CLASSES = 100  # a discrete column with more is put into bins, too: a table of classes by classes would be slow
MOST_COLUMNS = 50  # more columns are compared by ranks alone: tables of all pairs would take seconds
BY_CHANCE = 0.01  # tables of independent columns in which ranks correlate as much in some pair
UNTIED = (
    3.0  # largest product of two ranks without ties, in standard deviations: their correlation is normal in few rows
)
EXPECTED = 5  # rows expected where two classes meet, from which on counts are called normal (Cochran 1954)
ROUNDING = 1e-9  # added to the variance of a column, so that copies leave a matrix that has an inverse


class Pair(NamedTuple):
    """Two columns, their maximal correlation, and what independent columns of this size reach by chance."""

    first: int
    second: int
    correlation: float
    chance: float


def maximal_correlation(a: Labels, b: Labels) -> float:
    """The largest correlation that any numbering of the classes of `a` and of `b` gives: 0 only if they are independent.

    Implements Hirschfeld (1935), Gebelein (1941): the second singular value of P(a, b) / sqrt(P(a) P(b)). Every class must occur.

    >>> maximal_correlation(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), maximal_correlation(np.arange(3), np.arange(3))
    (0.0, 1.0)
    """
    shape = (int(a.max()) + 1, int(b.max()) + 1)
    together = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape) / len(a)
    expected = np.outer(together.sum(axis=1), together.sum(axis=0))
    return round(float(np.linalg.norm((together - expected) / np.sqrt(expected), 2)), 12)


def dependent_pairs(columns: Sequence[Array], discrete: Sequence[bool], above: float) -> list[Pair]:
    """Pairs of columns whose maximal correlation exceeds `above`, beyond chance, strongest first.

    Ours, by two lower bounds of the maximal correlation. The correlation of ranks exceeds `above`, and what one in a hundred tables
    of independent columns reaches. Or the maximal correlation in bins exceeds `above` and the level of chance together: continuous
    columns, and those of more than 100 classes, enter in up to 10 bins of equal frequency, and the level is the largest
    singular value of noise, (sqrt(classes of a - 1) + sqrt(classes of b - 1)) / sqrt(n). More than 50 columns: ranks alone.

    Both levels are limits for many rows, which rare classes do not reach: two rare classes that meet twice correlate. Where the
    limits may not hold, some cell of the two binned columns must also have a count that independence hardly gives (`_met`).
    """
    n, pairs = len(columns[0]), list(combinations(range(len(columns)), 2))
    if not pairs:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = rankdata(np.stack(columns), axis=1)
        ranked = np.nan_to_num(np.abs(np.corrcoef(ranks)))
    level = -float(ndtri(BY_CHANCE / (2 * len(pairs)))) / math.sqrt(n)
    found = [Pair(i, j, float(ranked[i, j]), level) for i, j in pairs if ranked[i, j] > max(above, level)]
    bins = min(MOST_BINS, max(2, int(math.sqrt(n) / 4)))
    classes = [
        _classes(column)
        if kept and len(np.unique(column)) <= MOST_CLASSES
        else _classes(rankdata(column) * bins // (n + 1))
        for column, kept in zip(columns, discrete, strict=True)
    ]
    away = np.abs(ranks - ranks.mean(axis=1, keepdims=True))
    farthest = away.max(axis=1) / np.maximum(np.sqrt((away**2).mean(axis=1)), 1e-300)  # sqrt(3) without ties
    least = BY_CHANCE / len(pairs)
    # Correlations of ranks are normal unless rows at the ends of both columns, as rare classes are, hold most of them.
    found = [
        pair
        for pair in found
        if (reach := farthest[pair.first] * farthest[pair.second]) <= UNTIED
        or n >= EXPECTED * reach**2
        or _met(classes[pair.first], classes[pair.second], least)
    ]
    if len(columns) <= MOST_COLUMNS:
        edges = [math.sqrt(int(c.max()) / n) for c in classes]
        binned = (Pair(i, j, maximal_correlation(classes[i], classes[j]), edges[i] + edges[j]) for i, j in pairs)
        found += [
            pair
            for pair in binned
            if pair.correlation > above + pair.chance and _met(classes[pair.first], classes[pair.second], least)
        ]
    strongest: dict[tuple[int, int], Pair] = {}
    for pair in sorted(found, key=lambda pair: -pair.correlation):
        strongest.setdefault((pair.first, pair.second), pair)
    return list(strongest.values())


def _met(a: Labels, b: Labels, least: float) -> bool:
    """Whether some class of `a` meets some class of `b` more or less often than independence gives, at level `least`.

    A count of `a`'s rows in a class of `b` is hypergeometric, and Hoeffding's bound exp(-rows KL(share || expected share)) holds for
    its tails at any size (Hoeffding 1963, theorems 1 and 4); both tails of all cells share the level.
    """
    shape = (int(a.max()) + 1, int(b.max()) + 1)
    together = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape)
    evidence = 0.0
    for counts in (together, together.T):
        rows = counts.sum(axis=1, keepdims=True)
        share, expected = counts / rows, counts.sum(axis=0) / len(a)
        divergence = rel_entr(share, expected) + rel_entr(1 - share, 1 - expected)
        evidence = max(evidence, float((rows * divergence).max()))
    return evidence > math.log(2 * together.size / least)


def _classes(column: Array) -> Labels:
    """Values as 0, 1, …; all of them occur."""
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def redundancy(columns: Array) -> Array:
    """How well all other columns together predict each one linearly: R² on the rows given, of values or of ranks if that is larger.

    1 - 1 / (inverse of the correlation matrix) on its diagonal; 0 for a constant column.
    """
    return np.maximum(_explained_by_others(columns), _explained_by_others(rankdata(columns, axis=0)))


def _explained_by_others(columns: Array) -> Array:
    varies = np.ptp(columns, axis=0) > 0
    centred = np.where(varies, columns - columns.mean(axis=0), 0.0)
    unit = centred / np.where(varies, centred.std(axis=0), 1.0)
    correlation = unit.T @ unit / len(unit) + np.diag(np.where(varies, ROUNDING, 1.0))
    return np.asarray(np.where(varies, 1 - 1 / np.diag(np.linalg.inv(correlation)), 0.0))
