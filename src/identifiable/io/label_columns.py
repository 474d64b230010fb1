"""What is known of the rows, as columns: text as numpy 'U' with "" for a missing cell; numbers as int64, or as float64 with NaN.

And which columns of a table are none of that but features. Truth values are whole numbers (0, 1).
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_plain, is_missing
from identifiable.io.containers import did_you_mean, matching, named, shown
from identifiable.results import Alert

ID_NAMES = ("id", "sample_id", "index")  # columns that are ids if nobody says otherwise, in any case of letters
METADATA = "metadata_"  # pycytominer and JUMP call every column that is no feature so, in any case of letters
FEATURES = ("feature_", "component_")  # RxRx3-core calls its features so, we call components so
COMPARTMENTS = ("Cells_", "Cytoplasm_", "Nuclei_")  # CellProfiler begins the names of features so
WELL_ID = "well_id"  # RxRx3-core
EXACT = 2**53  # whole numbers up to here are float64 as they are
EVERY_FLOAT = "*"  # this pattern alone would take numbers of plates along

# As it is plainly written: 007 and 1_000 are names.
NUMBER = re.compile(r"[+-]?(?!0\d)((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf(inity)?))")
INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")
TRUTH = {"true": True, "false": False}
NUMBERED = re.compile(r"(.*?)\d+")

# What pandas reads and writes for a missing word. In this case of letters: `none` is a fair name of a dose.
MARKS_AMONG_WORDS = frozenset({"", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "NULL", "null", "None"})
MARKS_AMONG_NUMBERS = frozenset({"", "na", "n/a", "<na>", "#n/a", "nan", "null", "none", "?", ".", "-"})

REMEDY = "fill them in, remove those rows, or leave them out with --drop-missing (drop_missing=True)"

Kind = Literal["float", "whole", "list", "other"]


@dataclass(frozen=True)
class FeatureChoice:
    """The columns taken as features, in the order of the table, and what a reader may not expect of the choice."""

    names: tuple[str, ...]
    notes: tuple[Alert, ...] = ()


# -- which columns are features


def is_metadata(name: str) -> bool:
    return name.lower().startswith(METADATA)


def is_id_name(name: str) -> bool:
    """Whether a column of that name tells who the rows are if nobody says otherwise."""
    name = name.lower()
    return name.removeprefix(METADATA) in (*ID_NAMES, WELL_ID)


def choose_features(kinds: dict[str, Kind], asked: Sequence[str] | str | None, label: str) -> FeatureChoice:
    """The columns that are features: those `asked` for by name or pattern, or by the habits of the field.

    Without `asked`, where there are columns `Metadata_*`, the other floats; else `feature_*`; else the
    compartments of CellProfiler; else all floats, unless some of them look like another kind of thing. Where
    no column of single floats is left, the only column of lists.
    """
    if asked is not None:
        return _asked_for(kinds, asked, label)
    floats = [name for name, kind in kinds.items() if kind == "float" and not is_metadata(name)]
    lists = [name for name, kind in kinds.items() if kind == "list" and not is_metadata(name)]
    if not floats:
        if len(lists) == 1:
            return FeatureChoice(tuple(lists))
        raise DataError(
            f"{label}: expected columns of floats, found none among {named(kinds)}; name the columns that are "
            f"features, as in {label}:{shown(next(iter(lists or kinds), 'feature_*'))}"
        )
    if any(map(is_metadata, kinds)):
        _refuse_words(kinds, kinds, label)
        return FeatureChoice(tuple(floats), _whole_left_out(kinds, lambda name: not is_metadata(name)))
    for beginnings in (FEATURES, COMPARTMENTS):
        if any(name.startswith(beginnings) for name in floats):
            return _beginning_with(beginnings, kinds, floats, label)
    _refuse_mixture(floats, label)
    return FeatureChoice(tuple(floats))


def choose_without(kinds: dict[str, Kind], no_feature: Callable[[str], bool], label: str) -> FeatureChoice:
    """The features by the habits of the field, without columns that are none by their name: these are metadata, and a note says so.

    Columns that number an embedding stay (rep0, rep1, rep2), and where features have a beginning of their own, it decides.
    """
    floats = [name for name, kind in kinds.items() if kind == "float" and not is_metadata(name)]
    if any(name.startswith((*FEATURES, *COMPARTMENTS)) for name in floats):
        return choose_features(kinds, None, label)
    stem = {name: match.group(1) for name in floats if (match := NUMBERED.fullmatch(name))}
    sizes = Counter(stem.values())
    left_out = [name for name in floats if no_feature(name) and sizes[stem.get(name, "")] < 3]
    choice = choose_features({name: kind for name, kind in kinds.items() if name not in left_out}, None, label)
    told = {"columns": [shown(name) for name in left_out], "features": len(choice.names)}
    return replace(choice, notes=(*choice.notes, Alert("not_features", told))) if left_out else choice


def columns_named(names: Sequence[str], part: str | None, label: str) -> list[str]:
    """The columns that names and patterns select, of whatever kind; all of them without a part."""
    if part is None:
        return list(names)
    return [names[j] for j in matching(names, part, lambda missing: _no_column(names, missing, label))]


def _beginning_with(
    beginnings: tuple[str, ...], kinds: dict[str, Kind], floats: Sequence[str], label: str
) -> FeatureChoice:
    _refuse_words(kinds, kinds, label)
    chosen = tuple(name for name in floats if name.startswith(beginnings))
    others = [name for name in floats if not name.startswith(beginnings)]
    patterns = " ".join(f"{beginning}*" for beginning in beginnings if any(n.startswith(beginning) for n in chosen))
    read = {"features": len(chosen), "patterns": patterns, "others": [shown(name) for name in others]}
    notes = (Alert("reading", read),) if others else ()
    return FeatureChoice(chosen, notes + _whole_left_out(kinds, lambda name: name.startswith(beginnings)))


def is_feature_name(name: str) -> bool:
    """Whether a column of that name holds numbers, if it is as its name says."""
    return name.startswith((*FEATURES, *COMPARTMENTS)) and NUMBERED.fullmatch(name) is not None


def _refuse_words(kinds: dict[str, Kind], names: Iterable[str], label: str) -> None:
    """A numbered feature that is text would be missed without a word."""
    wrong = [name for name in names if kinds[name] == "other" and is_feature_name(name)]
    if wrong:
        raise DataError(
            f"{label}: expected numbers in the columns of features, got text in {named(wrong)}; correct it, or name the "
            "columns to take."
        )


def _asked_for(kinds: dict[str, Kind], asked: Sequence[str] | str, label: str) -> FeatureChoice:
    """Columns named outright must be numbers; a pattern takes the numbers among what it matches."""
    names = list(kinds)
    patterns = [asked] if isinstance(asked, str) and asked in kinds else None
    patterns = patterns or (asked.split(",") if isinstance(asked, str) else list(asked))
    chosen: set[str] = set()
    for pattern in patterns:
        if pattern in kinds:
            if kinds[pattern] == "other":
                raise DataError(f"{label}: column {shown(pattern)!r} holds no numbers; choose other features.")
            chosen.add(pattern)
            continue
        found = [names[j] for j in matching(names, [pattern], lambda missing: _no_column(kinds, missing, label))]
        wanted = ("float",) if pattern == EVERY_FLOAT else ("float", "whole")
        about_rows = not pattern.lower().startswith(METADATA)
        numbers = [n for n in found if kinds[n] in wanted and not (about_rows and (is_metadata(n) or is_id_name(n)))]
        _refuse_words(kinds, found, label)
        if not numbers:
            raise DataError(f"{label}: no column that matches {pattern!r} holds numbers ({named(found)}).")
        chosen.update(numbers)
    ordered = tuple(name for name in names if name in chosen)
    lists = [name for name in ordered if kinds[name] == "list"]
    if lists and len(ordered) > 1:
        raise DataError(f"{label}: column {shown(lists[0])!r} holds a list in each row; name it alone.")
    return FeatureChoice(ordered)


def _no_column(names: Iterable[str], pattern: str, label: str) -> DataError:
    names = list(names)
    return DataError(
        f"{label}: no column matches {pattern!r}; it has columns {named(names)}{did_you_mean(pattern, names)}"
    )


def _whole_left_out(kinds: dict[str, Kind], like_a_feature: Callable[[str], bool]) -> tuple[Alert, ...]:
    whole = [n for n, kind in kinds.items() if kind == "whole" and like_a_feature(n) and not is_id_name(n)]
    return (Alert("reading", {"whole": [shown(name) for name in whole]}),) if whole else ()


def _refuse_mixture(floats: Sequence[str], label: str) -> None:
    """Among numbered columns of one name (an embedding), others may be doses or counts: a guess would move every figure."""
    stems = [match.group(1) if (match := NUMBERED.fullmatch(name)) else None for name in floats]
    numbered = [stem for stem in stems if stem is not None]
    most = max(set(numbered), key=numbered.count, default="")
    if numbered.count(most) < max(2, len(floats) / 2):
        return
    others = [name for name, stem in zip(floats, stems, strict=True) if stem is None]
    if others:
        raise DataError(
            f"{label}: {numbered.count(most)} columns are called {shown(most)}0, {shown(most)}1, … and other floats "
            f"{named(others)}; name those that are features, as in {label}:{shown(most)}*"
        )


# -- columns of values


class CellColumn:
    """A column of text cells, kept as they come in; most columns repeat a few."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._codes = array("q")

    def extend(self, cells: Sequence[str]) -> None:
        places = self._places
        for cell in dict.fromkeys(cells):
            places.setdefault(cell, len(places))
        self._codes.extend(map(places.__getitem__, cells))

    @property
    def has_numbers(self) -> bool:
        """Whether some cell is a number, if not all."""
        return any(map(NUMBER.fullmatch, self._held()))

    @property
    def kind(self) -> Kind:
        """What all cells are that have a value."""
        held = _typed(self._held())
        return (
            "other" if held.dtype.kind == "U" or held.dtype == bool else "whole" if held.dtype.kind == "i" else "float"
        )

    def labels(self) -> NDArray[Any]:
        """Truth values and whole numbers as int64, numbers as float64, or else text."""
        held = _typed(self._held())
        values = held.astype(np.int64) if held.dtype == bool else held
        position = iter(count())
        renumbered = [-1 if cell.strip() in MARKS_AMONG_WORDS else next(position) for cell in self._places]
        codes = np.frombuffer(self._codes, np.int64) if self._codes else np.empty(0, np.int64)
        return taken(values, np.array(renumbered, np.int64)[codes])

    def _held(self) -> list[str]:
        cells = (cell.strip() for cell in self._places)
        return [cell for cell in cells if cell not in MARKS_AMONG_WORDS]


def _typed(cells: Sequence[str]) -> NDArray[Any]:
    if cells and all(cell.lower() in TRUTH for cell in cells):
        return np.array([TRUTH[cell.lower()] for cell in cells])
    if cells and all(map(INTEGER.fullmatch, cells)):
        return np.array(cells).astype(np.int64)
    if cells and all(map(NUMBER.fullmatch, cells)):
        return np.array(cells).astype(np.float64)
    return np.array(cells, dtype=str)


def labels_from_objects(values: Sequence[Any], where: str) -> NDArray[Any]:
    """A column of Python objects: all text, or all numbers; None, NaN and pandas.NA are missing cells."""
    missing = np.array([is_missing(value) for value in values], bool)
    words = [i for i, value in enumerate(values) if not missing[i] and isinstance(value, (str, bytes))]
    numbers = [i for i, v in enumerate(values) if not missing[i] and isinstance(v, (Real, Decimal, np.bool_))]
    if words and numbers:
        text, number = (_examples(places, values) for places in (words, numbers))
        raise DataError(
            f"{where}: expected text or numbers in every row, got {len(words)} rows of text ({text}) and {len(numbers)} "
            f"of numbers ({number}); store the column as one kind, for example as text with .astype(str)."
        )
    held = [values[i] for i in np.flatnonzero(~missing).tolist()]
    if numbers and len(numbers) == len(held):
        whole = all(isinstance(value, (Integral, np.bool_)) for value in held)
        distinct = _whole([int(v) for v in held]) if whole else np.array([float(v) for v in held])
    else:
        distinct = np.array([_text(value, where) for value in held], dtype=str)
    codes = np.full(len(values), -1, np.intp)
    codes[~missing] = np.arange(len(held))
    return taken(distinct, codes)


def labels_from_numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Numbers or truth values as int64 or float64; `missing` marks cells without a value."""
    if values.dtype.kind == "f":
        found = values.astype(np.float64)
        if missing is not None:
            found[missing] = np.nan
        return found
    whole = (
        values.astype(np.int64) if values.dtype.kind != "u" or values.dtype.itemsize < 8 else _whole(values.tolist())
    )
    if missing is None or not missing.any():
        return whole
    return taken(whole, np.where(missing, -1, np.arange(len(whole))))


def labels_from_series(series: Any, where: str) -> NDArray[Any]:
    """A column of a pandas frame, or of polars."""
    if not hasattr(series, "iloc"):
        return labels_from_objects(series.to_list(), where)
    if hasattr(series, "cat"):
        return taken(
            labels_from_objects(series.cat.categories.tolist(), where), series.cat.codes.to_numpy().astype(np.intp)
        )
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
        return labels_from_numbers(series.to_numpy())
    return labels_from_objects(series.tolist(), where)


def labels_from_array(values: Any, where: str) -> NDArray[Any]:
    """A column in memory: an array, a list, or a column of a pandas frame."""
    if hasattr(values, "iloc"):
        return labels_from_series(values, where)
    check_plain(values, where)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
        return labels_from_numbers(values)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "U":
        return values
    return labels_from_objects(values.tolist() if hasattr(values, "tolist") else list(values), where)


def taken(distinct: NDArray[Any], codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """`distinct[codes]`, where the code -1 is a missing cell."""
    missing = codes < 0
    if not missing.any():
        return np.asarray(distinct[codes])
    if distinct.dtype.kind in "iu":
        if np.abs(distinct[codes[~missing]]).max(initial=0) > EXACT:  # as floats they would be other numbers
            distinct = distinct.astype(str)
        else:
            distinct = distinct.astype(np.float64)
    gap: Any = np.nan if distinct.dtype.kind == "f" else ""
    return np.asarray(np.append(distinct, np.array([gap], distinct.dtype))[codes])


def _whole(values: Sequence[int]) -> NDArray[Any]:
    try:
        return np.array(values, np.int64)
    except OverflowError:  # beyond 64 bits a number is a name
        return np.array([str(value) for value in values])


def _text(value: Any, where: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{where}: expected text, got bytes that are not UTF-8; store it as text.") from None
    if isinstance(value, (list, tuple, dict, set, np.ndarray)):
        raise DataError(
            f"{where}: expected one value in every row, got a {type(value).__name__}; leave the column out."
        )
    return str(value)


def _examples(places: Sequence[int], values: Sequence[Any]) -> str:
    first = values[places[0]]
    rows = ", ".join(map(str, places[:5])) + (", …" if len(places) > 5 else "")
    return (
        f"{str(first)[:40]!r} and the like: rows {rows} from 0" if isinstance(first, str) else f"{first}: rows {rows}"
    )


# -- missing cells


def said(cell: str) -> str:
    """A missing cell, as an error calls it."""
    return f"{cell!r} is a missing value" if cell else "the cell is empty"


def of_rows(missing: NDArray[np.bool_]) -> str:
    """How many rows have a missing cell; `missing` marks rows, or their cells."""
    count = int(missing.reshape(len(missing), -1).any(axis=1).sum())
    return f"{count:,} of {len(missing):,} rows {'has' if count == 1 else 'have'} a missing value"


def gaps_in(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values of a column in memory are missing: NaN, None (of objects), or a mark among words."""
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column), dtype=bool)
    if column.dtype.kind == "O":
        return np.array(
            [is_missing(v) or (isinstance(v, str) and v.strip() in MARKS_AMONG_WORDS) for v in column], bool
        )
    if column.dtype.kind == "U":
        return np.asarray(np.isin(np.char.strip(column), sorted(MARKS_AMONG_WORDS)), dtype=bool)
    return np.zeros(len(column), dtype=bool)
