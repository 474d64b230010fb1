"""Roles: which columns of a table are batch, plate, well and perturbation, and which rows are controls."""

from __future__ import annotations

import difflib
import fnmatch
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.columns import ColumnTable, candidates, unused_columns
from identifiable.deconfounding.design import (
    Codes,
    Design,
    Labels,
    Mask,
    first_rows,
    joined,
    labels_of,
    rows_named,
)
from identifiable.deconfounding.presets import (
    COMMON,
    CONTROL_COLUMNS,
    CONTROL_NAMES,
    CONTROL_TYPE_VALUES,
    CONTROL_TYPES,
    DOSES,
    PRESETS,
    Preset,
    plain_name,
)
from identifiable.options import ScreenOptions
from identifiable.results import Alert

NONE = "none"  # for an optional role: the table has no such column, whatever its names suggest
NOT_A_CONTROL = " (not a control)"  # added to the name of a control where a row of that name is none
WELL = re.compile(r"([A-Za-z]{1,2})[ _-]?0*([1-9]\d?)")
WELL_BY_NUMBERS = re.compile(r"[Rr]0*([1-9]\d?)[ _-]?[Cc]0*([1-9]\d?)|0*([1-9]\d?)-0*([1-9]\d?)")
GRID = (48, 72)  # rows and columns of the largest plate made, 3,456 wells
LABELLED = ("batch", "plate", "well", "perturbation", "target", "cell_count")  # roles that are columns


@dataclass(frozen=True, eq=False)
class Assigned:
    """The design of a table, and what a reader must know of how it was read; `rows` are those it is of, None for all."""

    design: Design
    alerts: tuple[Alert, ...]
    rows: Codes | None = None


def assign_roles(
    columns: Mapping[str, NDArray[Any]], options: ScreenOptions | None = None, *, name: str = "screen"
) -> Assigned:
    """Read the design of a screen from the columns of its table.

    Ours. Roles that are not named are taken from the preset, else from the preset whose columns are all there, else from names in
    common use. Where plate numbers start again in every batch, the plate is batch and number together, and an alert says so.
    `columns` are text (an empty cell is "") or numbers (an empty cell is NaN); 1.0 and "1" are the same label. A role may be
    several columns with commas between them, which are joined; "none" leaves out an optional one.

    >>> table = {"plate": np.array([1, 1, 2, 2]), "treatment": np.array(["DMSO", "a", "a", "DMSO"])}
    >>> assign_roles(table, ScreenOptions(well="none")).design.control.tolist()
    [True, False, False, True]
    """
    options = options or ScreenOptions()
    if options.batch_key not in (None, "plate"):
        raise UsageError(f"{name}: batch_key: expected 'plate' or nothing, got {options.batch_key!r}.")
    table = ColumnTable(columns, name)
    source = _preset(table, options.preset)
    roles = _columns_of_roles(table, source, {role: getattr(options, role) for role in LABELLED})
    alerts: list[Alert] = []

    batches = table.label(roles["batch"], "batch") if roles["batch"] else None
    mask, said = _controls(table, source, options.control, roles["perturbation"], batches, alerts)
    unnamed = (joined([table.labels(column) for column in roles["perturbation"]], "_").text() == "") & ~mask
    if unnamed.any():
        values = {"name": name, "column": ",".join(roles["perturbation"]), **first_rows(unnamed)}
        if options.unnamed == "drop":
            return _without(columns, unnamed, options, Alert("unnamed_dropped", values), name)
        alerts.append(Alert("unnamed_controls", values))
        mask = mask | unnamed
    perturbations = _perturbations(table, roles["perturbation"], mask, alerts)
    place = _places(table, roles["well"], alerts)
    plates, plate_columns = _plates(table, roles, batches, place, options.batch_key, alerts)
    if mask.all():
        raise DataError(
            f"{name}: all {table.n} rows are controls ({_frequent(perturbations, 3)}); there is no perturbation to tell from them: "
            "narrow the condition (--control, control=)."
        )
    targets = _targets(table, roles["target"], perturbations, mask, alerts)
    counts = _cell_counts(table, roles["cell_count"], alerts, asked=options.cell_count is not None)
    if counts is None:
        roles["cell_count"] = ()
    design = Design(
        plate=plates,
        perturbation=perturbations,
        control=mask,
        batch=batches,
        dose=None if (dose := _dose_column(table, roles, perturbations)) is None else table.labels(dose),
        target=targets,
        row=None if place is None else place[0],
        column=None if place is None else place[1],
        cell_count=counts,
        roles={role: ",".join(found) for role, found in {**roles, "plate": plate_columns}.items() if found}
        | ({"control": said} if said else {}),
        name=name,
        compound=_compounds(table, roles["perturbation"], perturbations),
    )
    design = replace(design, unused=unused_columns(table, design, said.split("=")[0]))
    alerts += [
        *candidates(design),
        *_control_like(design),
        *_one_class_plates(design),
        *_repeated_wells(design),
        *_pooled_doses(table, roles, perturbations),
    ]
    return Assigned(design, tuple(alerts))


def known_roles(columns: Mapping[str, NDArray[Any]], roles: Mapping[str, str], *, name: str = "screen") -> Design:
    """Plates, batches and controls of new plates, by the columns and the condition another design had (`Design.roles`).

    One plate is enough, since nothing is held out.
    """
    wanted = [column for role in ("plate", "batch") for column in roles.get(role, "").split(",") if column]
    condition, _, within = roles["control"].partition(" in ")
    column, _, value = condition.partition("=")
    if missing := [part for part in (*wanted, *column.split(",")) if part not in columns]:
        raise DataError(
            f"{name}: this correction scales plates by their own controls, and needs the columns {', '.join(wanted)} and "
            f"{column}; missing are {', '.join(dict.fromkeys(missing))}."
        )
    table = ColumnTable(columns, name)
    plates = table.label(roles["plate"].split(","), "plate")
    batches = table.label(roles["batch"].split(","), "batch") if roles.get("batch") else None
    parts = [table.labels(part) for part in column.split(",")]
    candidates = [joined(parts, "_"), *parts] if len(parts) > 1 else parts
    found = _meeting(table, condition if len(parts) == 1 or not value else value, candidates, column)
    mask = np.zeros(table.n, dtype=bool) if found is None else found[0]
    if within and batches is not None:
        mask = mask & _fits(batches, [within])[batches.codes]
    if not mask.any():
        raise DataError(f"{name}: this correction scales plates by their own controls, and no row meets {condition}.")
    return Design(plates, candidates[0], mask, batch=batches, roles=roles, name=name)


def _without(
    columns: Mapping[str, NDArray[Any]], unnamed: Mask, options: ScreenOptions, alert: Alert, name: str
) -> Assigned:
    """The design of the rows that have a perturbation."""
    kept = np.flatnonzero(~unnamed)
    if not kept.size:
        raise DataError(
            f"{name}: {alert.values['column']} (perturbation) is empty in all {len(unnamed)} rows; name another column "
            "(--perturbation, perturbation=)."
        )
    found = assign_roles({key: np.asarray(column)[kept] for key, column in columns.items()}, options, name=name)
    rows = kept if found.rows is None else kept[found.rows]
    return Assigned(found.design, (alert, *found.alerts), rows)


def well_place(text: str) -> tuple[int, int] | None:
    """Row and column of a well, from 0, or None where `text` is no well. The inverse of `address_name`.

    >>> well_place("A01"), well_place("af48"), well_place("r02c11"), well_place("A0")
    ((0, 0), (31, 47), (1, 10), None)
    """
    if found := WELL.fullmatch(text):
        row = 0
        for letter in found[1].upper():
            row = 26 * row + ord(letter) - ord("A") + 1
        column = int(found[2])
    elif found := WELL_BY_NUMBERS.fullmatch(text):
        row, column = (int(number) for number in found.groups() if number)
    else:
        return None
    return (row - 1, column - 1) if row <= GRID[0] and column <= GRID[1] else None


def _preset(table: ColumnTable, preset: str | None) -> Preset:
    if preset is not None:
        if preset not in PRESETS:
            raise UsageError(f"preset: expected one of {', '.join(PRESETS)}, got {preset!r}.")
        return PRESETS[preset]
    for candidate in PRESETS.values():
        if all(column in table.names for column in candidate.needed):
            return candidate
    return Preset((), {}, ())


def _columns_of_roles(
    table: ColumnTable, source: Preset, asked: Mapping[str, str | None]
) -> dict[str, tuple[str, ...]]:
    """The columns of every role; none for an optional role that is not there."""
    roles: dict[str, tuple[str, ...]] = {}
    for role, option in asked.items():
        if option == NONE and NONE not in table.names:
            if role in ("plate", "perturbation"):
                raise UsageError(f"{table.name}: {role} cannot be 'none'; every screen has one.")
            roles[role] = ()
        elif option is not None:
            roles[role] = table.asked(option, role)
    taken = {column for found in roles.values() for column in found}
    # What is most certain chooses first: `gene` is the perturbation only where nothing finer is.
    for role in ("plate", "well", "perturbation", "batch", "target", "cell_count"):
        if role not in roles:
            free = [column for column in table.names if column not in taken]
            roles[role] = _from_preset(source, role, free) or _from_common_names(role, free)
            taken.update(roles[role])
        if not roles[role] and role in ("plate", "perturbation"):
            raise UsageError(
                f"{table.name}: which column is the {role} cannot be told from the names; name it "
                f"(--{role} COLUMN, {role}=). Columns: {table.overview()}."
            )
    return {role: roles[role] for role in asked}


def _from_preset(source: Preset, role: str, free: Sequence[str]) -> tuple[str, ...]:
    for candidate in source.columns.get(role, ()):
        columns = tuple(candidate.split(","))
        if all(column in free for column in columns):
            return columns
    return ()


def _from_common_names(role: str, free: Sequence[str]) -> tuple[str, ...]:
    plain = {plain_name(column): column for column in reversed(free)}
    return next(((plain[known],) for known in COMMON[role] if known in plain), ())


def _controls(
    table: ColumnTable,
    source: Preset,
    control: str | None,
    columns: tuple[str, ...],
    batches: Labels | None,
    alerts: list[Alert],
) -> tuple[Mask, str]:
    """Which rows are controls, and the condition they meet; none, and no condition, where there are none."""
    parts = [table.labels(column) for column in columns]
    candidates = [joined(parts, "_"), *parts] if len(parts) > 1 else parts
    shown = ",".join(columns)
    none: Mask = np.zeros(table.n, dtype=np.bool_)
    if control == NONE:
        return none, ""
    if control is not None:
        if (found := _meeting(table, control, candidates, shown)) is not None:
            return found
        if elsewhere := _holding(table, control, columns):
            raise UsageError(
                f"{table.name}: no row is a control: {control!r} is a value of {' and '.join(elsewhere)} and not of {shown} "
                f"(perturbation); name its column (--control {shlex.quote(f'{elsewhere[0]}={control}')}, control=)."
            )
        raise UsageError(
            f"{table.name}: no row is a control: {control!r} is no value of {shown}, no column of 0 and 1 and no "
            f"column=value{_close(control, candidates)}; the most frequent perturbations are {_frequent(candidates[0])}."
        )
    for condition in source.controls:
        if (found := _meeting(table, condition, candidates, shown)) is None:
            continue
        mask, said = found
        if source.control_batches == "*" or batches is None:
            return found
        mask = mask & _fits(batches, [source.control_batches])[batches.codes]
        if mask.any():
            return mask, f"{said} in {source.control_batches}"
        raise UsageError(
            f"{table.name}: {said} wells are in no batch named {source.control_batches}, the only ones this preset takes "
            f"controls from; to take them wherever they are, name them (--control {condition}, control=)."
        )
    if (found := _likely_controls(table, candidates, shown)) is not None:
        return found
    alerts.append(Alert("no_controls", {"name": table.name, "frequent": _frequent(candidates[0])}))
    return none, ""


def _holding(table: ColumnTable, control: str, columns: Sequence[str]) -> list[str]:
    """The columns besides the perturbation that have a value for controls."""
    found = []
    for column in table.names:
        if column in columns:
            continue
        try:
            labels = table.labels(column)
        except DataError:  # of mixed kinds: no role could be read from it
            continue
        if _fits(labels, _alternatives(labels, control)).any():
            found.append(column)
    return found


def _meeting(table: ColumnTable, condition: str, candidates: Sequence[Labels], shown: str) -> tuple[Mask, str] | None:
    """Rows that meet a condition as `control=` takes it; None where there are none."""
    column, equals, values = (part.strip() for part in condition.partition("="))
    if equals and column in table.names:
        labels = table.labels(column)
        fits = _fits(labels, _alternatives(labels, values))
        return (fits[labels.codes], f"{column}={values}") if fits.any() else None
    if condition in table.names:
        labels = table.labels(condition)
        truth = {"0": False, "false": False, "no": False, "": False, "1": True, "true": True, "yes": True}
        if unknown := [name for name in labels.names if name.lower() not in truth]:
            raise UsageError(
                f"{table.name}: control {condition!r} is a column, which should hold only 0 and 1 (or true and false), got "
                f"{unknown[0]!r}; name the value that controls have there (--control {condition}=VALUE, control=)."
            )
        mask: Mask = np.array([truth[name.lower()] for name in labels.names])[labels.codes]
        return (mask, condition) if mask.any() else None
    for labels in candidates:
        fits = _fits(labels, _alternatives(labels, condition))
        if fits.any():
            return fits[labels.codes], f"{shown}={condition}"
    return None


def _alternatives(labels: Labels, values: str) -> list[str]:
    """One value, or several with commas between them where the whole is none."""
    return [values] if _fits(labels, [values]).any() else [value.strip() for value in values.split(",")]


def _fits(labels: Labels, patterns: Sequence[str]) -> Mask:
    """For every name whether it is, or fits, one of the patterns."""
    names = set(patterns) | set(labels_of(np.array(patterns)).names)  # 0.0 is written 0 among labels
    found = [
        bool(name) and (name in names or any(fnmatch.fnmatchcase(name, p) for p in patterns)) for name in labels.names
    ]
    return np.array(found, dtype=bool)


def _likely_controls(table: ColumnTable, candidates: Sequence[Labels], shown: str) -> tuple[Mask, str] | None:
    """Controls by the names in common use."""
    plain = {plain_name(column): column for column in reversed(table.names)}
    for known in CONTROL_COLUMNS:
        if known in plain and {n.lower() for n in table.labels(plain[known]).names} <= {"0", "1", "true", "false"}:
            return _meeting(table, plain[known], candidates, shown)
    for known in CONTROL_TYPES:
        if known in plain and (names := _full_matches(table.labels(plain[known]), CONTROL_TYPE_VALUES)):
            return _meeting(table, f"{plain[known]}={','.join(names)}", candidates, shown)
    for pattern in CONTROL_NAMES:
        for labels in candidates:
            if names := _full_matches(labels, pattern):
                return np.isin(labels.names, names)[labels.codes], f"{shown}={','.join(names)}"
    return None


def _full_matches(labels: Labels, pattern: re.Pattern[str]) -> list[str]:
    return [name for name in labels.names if pattern.fullmatch(name)]


def _frequent(labels: Labels, most: int = 5) -> str:
    order = np.argsort(-labels.counts, kind="stable")[:most]
    return ", ".join(f"{labels.names[k]!r} ({labels.counts[k]} rows)" for k in order)


def _close(wanted: str, candidates: Iterable[Labels]) -> str:
    lowered = {name.lower(): name for labels in candidates for name in labels.names}
    found = difflib.get_close_matches(wanted.strip("*").lower(), lowered, 2)
    return f" (did you mean {' or '.join(repr(lowered[f]) for f in found)}?)" if found else ""


def _perturbations(table: ColumnTable, columns: tuple[str, ...], control: Mask, alerts: list[Alert]) -> Labels:
    """Names of perturbations: no row is without one, and no name is both a control's and another's."""
    labels = joined([table.labels(column) for column in columns], "_")
    empty = labels.text() == ""
    names = list(labels.names)
    codes = labels.codes.copy()
    if empty.any():  # a control that another column told us of
        names[names.index("")] = "control"
    of_controls = np.bincount(codes[control], minlength=labels.size) > 0
    of_others = np.bincount(codes[~control], minlength=labels.size) > 0
    both = np.flatnonzero(of_controls & of_others)
    if both.size:
        renamed = np.full(labels.size, -1, dtype=np.intp)
        renamed[both] = labels.size + np.arange(both.size)
        names += [names[k] + NOT_A_CONTROL for k in both]
        others = ~control & (renamed[codes] >= 0)
        codes[others] = renamed[codes[others]]
        alerts.append(
            Alert(
                "control_name_shared",
                {
                    "name": table.name,
                    "rows": int(others.sum()),
                    "names": [labels.names[k] for k in both[:3]],
                    "suffix": NOT_A_CONTROL,
                },
            )
        )
    return _relabelled(codes, names)


def _compounds(table: ColumnTable, columns: tuple[str, ...], perturbations: Labels) -> Labels | None:
    """The perturbation without its dose, where one of the columns is named like a dose; of a control the name it has."""
    kept = [column for column in columns if plain_name(column) not in DOSES]
    if not kept or len(kept) == len(columns):
        return None
    parts = joined([table.labels(column) for column in kept], "_")
    return parts if (parts.text() != "").all() else joined([parts, perturbations], "_")


def _relabelled(codes: Codes, names: Sequence[str]) -> Labels:
    """`Labels` of codes whose names are in any order, may repeat and need not all occur."""
    kept, codes = np.unique(codes, return_inverse=True)
    unique, places = np.unique(np.array(names)[kept], return_inverse=True)
    return Labels(places[codes].astype(np.intp), tuple(unique.tolist()))


def _places(table: ColumnTable, columns: tuple[str, ...], alerts: list[Alert]) -> tuple[Codes, Codes] | None:
    """Row and column of every well."""
    if not columns:
        alerts.append(Alert("no_wells", {"name": table.name}))
        return None
    if len(columns) > 2:
        raise UsageError(f"{table.name}: well: expected one column, or two (row and column), got {','.join(columns)}.")
    labels = joined([table.complete(column, "well") for column in columns], "-")
    if len(columns) == 1:
        places = [well_place(name) for name in labels.names]
    else:
        places = _places_from_two([name.rsplit("-", 1) for name in labels.names])
    unread = np.array([place is None for place in places])[labels.codes]
    if unread.any():
        values = ", ".join(repr(v) for v in labels.text()[np.flatnonzero(unread)[:5]].tolist())
        raise DataError(
            f"{table.name}: {','.join(columns)} (well) should read like A01 to AF48 or r01c02, got {values} in "
            f"{rows_named(unread)}; name another column (well=, --well), or 'none'."
        )
    found = np.array([place for place in places if place is not None], dtype=np.intp)
    return found[labels.codes, 0], found[labels.codes, 1]


def _places_from_two(pairs: Sequence[Sequence[str]]) -> list[tuple[int, int] | None]:
    """Places from a column of rows (letters or numbers) and one of columns; numbers may start at 0 or at 1."""
    first = [1 - int(any(pair[side] in ("0", "00") for pair in pairs)) for side in (0, 1)]
    shifted = [
        tuple(str(int(text) + 1 - start) if text.isdigit() else text for text, start in zip(pair, first, strict=True))
        for pair in pairs
    ]
    return [well_place(f"{row}-{column}") for row, column in shifted]


def _plates(
    table: ColumnTable,
    roles: Mapping[str, tuple[str, ...]],
    batches: Labels | None,
    place: tuple[Codes, Codes] | None,
    batch_key: str | None,
    alerts: list[Alert],
) -> tuple[Labels, tuple[str, ...]]:
    """The physical plates, and the columns that name them."""
    columns, name = roles["plate"], table.name
    plates = table.label(columns, "plate")
    shown = ",".join(columns)
    numbered = all(re.fullmatch(r"-?\d+", text) for text in plates.names)
    repeated = _repeats(plates, place)
    if batches is None:
        if numbered and repeated.any() and batch_key != "plate":
            raise UsageError(
                f"{name}: {shown} holds whole numbers and the same well of a plate more than once ({rows_named(repeated)}), as where "
                "numbers start again in every batch; name the batch (--batch COLUMN, batch=), or say that these are the plates "
                "(--batch-key plate, batch_key=)."
            )
        if numbered and place is None and batch_key != "plate":
            alerts.append(Alert("plate_numbers_unchecked", {"name": name, "column": shown}))
    else:
        batches_of = np.unique(np.stack([plates.codes, batches.codes]), axis=1)[0]
        spanning = np.flatnonzero(np.bincount(batches_of, minlength=plates.size) > 1)
        if spanning.size:
            together = joined([batches, plates], "_")
            example = plates.names[spanning[0]]
            told = {"name": name, "labels": int(spanning.size), "of": plates.size, "column": shown, "example": example}
            batch_columns = ",".join(roles["batch"])
            if batch_key == "plate":
                alerts.append(Alert("plate_spans_batches", told))
            elif numbered or _repeats(together, place).sum() < repeated.sum():
                alerts.append(Alert("plate_joined", {**told, "batch": batch_columns, "plates": together.size}))
                plates, columns = together, (*roles["batch"], *columns)
            else:
                alerts.append(Alert("plate_spans_batches", {**told, "batch": batch_columns}))
    if plates.size < 2:
        raise DataError(
            f"{name}: there is one plate only ({plates.names[0]!r} in {shown}), so none can be held out; expected at least two. "
            "Is that the right column (--plate, plate=)?"
        )
    return plates, columns


def _repeats(plates: Labels, place: tuple[Codes, Codes] | None) -> Mask:
    """Rows whose plate and well some other row has too."""
    if place is None:
        return np.zeros(len(plates), dtype=bool)
    _, codes, counts = np.unique(
        (plates.codes * GRID[0] + place[0]) * GRID[1] + place[1], return_inverse=True, return_counts=True
    )
    repeated: Mask = counts[codes] > 1
    return repeated


def _targets(
    table: ColumnTable, columns: tuple[str, ...], perturbations: Labels, control: Mask, alerts: list[Alert]
) -> Labels | None:
    """Targets; a perturbation without one is its own."""
    if not columns:
        return None
    labels = joined([table.labels(column) for column in columns], "_")
    empty = labels.text() == ""
    if not empty.any():
        return labels
    if (empty & ~control).any():
        alerts.append(
            Alert("target_missing", {"name": table.name, "column": ",".join(columns), **first_rows(empty & ~control)})
        )
    codes = np.where(empty, labels.size + perturbations.codes, labels.codes)
    return _relabelled(codes, [*labels.names, *perturbations.names])


def _cell_counts(
    table: ColumnTable, columns: tuple[str, ...], alerts: list[Alert], *, asked: bool
) -> NDArray[np.float64] | None:
    if not columns:
        return None
    if len(columns) > 1:
        raise UsageError(f"{table.name}: cell_count: expected one column, got {','.join(columns)}.")
    counts = table.numbers(columns[0], "cell_count")
    missing = np.isnan(counts)
    if not missing.any():
        return counts
    where = f"{table.name}: {columns[0]} (cell_count) is empty in {rows_named(missing)}"
    if asked:
        raise DataError(
            f"{where}; fill these cells or drop the rows, or leave cell counts out (--cell-count none, cell_count=)."
        )
    alerts.append(Alert("cell_count_left_out", {"name": table.name, "column": columns[0], **first_rows(missing)}))
    return None


def _control_like(design: Design) -> list[Alert]:
    """Perturbations whose name is a control's but for capitals, blanks and signs: a control counted as a perturbation."""
    names = design.perturbation.names
    of_controls = np.bincount(design.perturbation.codes[design.control], minlength=len(names))
    plain = [re.sub(r"[\W_]+", "", name.casefold()) for name in names]
    of_control = {plain[k]: names[k] for k in np.flatnonzero(of_controls) if plain[k]}
    like = [k for k in np.flatnonzero(of_controls == 0) if plain[k] in of_control]
    if not like:
        return []
    alike = [f"{names[k]!r} ({design.perturbation.counts[k]} rows) like {of_control[plain[k]]!r}" for k in like]
    return [Alert("control_like", {"name": design.name, "names": alike})]


def _one_class_plates(design: Design) -> list[Alert]:
    """Plates without controls, or with nothing else: nothing can be compared within them."""
    if not design.control.any():
        return []
    controls = design.plate.count(design.control)
    alerts = []
    for plates, what in (
        (np.flatnonzero(controls == 0), "no controls"),
        (np.flatnonzero(controls == design.plate.counts), "only controls"),
    ):
        if plates.size:
            counts = {"plates": len(plates), "of": design.plate.size}
            names = [design.plate.names[k] for k in plates]
            alerts.append(Alert("plates_of_one_class", {"name": design.name, **counts, "hold": what, "names": names}))
    return alerts


def _repeated_wells(design: Design) -> list[Alert]:
    if design.row is None or design.column is None:
        return []
    repeated = _repeats(design.plate, (design.row, design.column))
    if not repeated.any():
        return []
    first = int(np.flatnonzero(repeated)[0])
    address = design.address.text()[first] if design.address else ""
    return [
        Alert(
            "duplicate_wells",
            {
                "name": design.name,
                **first_rows(repeated),
                "plate": str(design.plate.text()[first]),
                "well": str(address),
            },
        )
    ]


def _pooled(table: ColumnTable, dose: str, perturbations: Labels) -> int:
    """How many perturbations occur at several doses."""
    values = np.unique(np.stack([perturbations.codes, table.labels(dose).codes]), axis=1)[0]
    return int((np.bincount(values, minlength=perturbations.size) > 1).sum())


def _dose_column(table: ColumnTable, roles: Mapping[str, tuple[str, ...]], perturbations: Labels) -> str | None:
    """The column of doses that go by one name, if there is one."""
    used = {column for found in roles.values() for column in found}
    dose = next((c for c in table.names if plain_name(c) in DOSES and c not in used), None)
    return dose if dose is not None and _pooled(table, dose, perturbations) else None


def _pooled_doses(table: ColumnTable, roles: Mapping[str, tuple[str, ...]], perturbations: Labels) -> list[Alert]:
    """Doses of one compound that go by one name."""
    dose = _dose_column(table, roles, perturbations)
    if dose is None:
        return []
    pooled, columns = _pooled(table, dose, perturbations), ",".join(roles["perturbation"])
    return [Alert("doses_pooled", {"name": table.name, "perturbations": pooled, "dose": dose, "columns": columns})]
