"""`.csv` and `.tsv`, and plain lists of text.

A table is scanned once: every cell is checked and the numbers go, as float64, to a temporary file
without a name, from which rows are then read like those of a `.npy`. Parsing text is slow (tens of MB
a second) and a comparison passes over its rows many times, so it is done once. What is in memory is
one piece of the text (`PIECE_BYTES`) and the ids.

The first row is a header if one of its cells is not a number, or if it reads 0, 1, 2, … (three or more
columns, as pandas writes an array without an index). Cells may be quoted; lines end in LF, CRLF or CR.
"""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import (
    PACKED,
    IdentifiedColumn,
    IdentifiedRows,
    did_you_mean,
    identities_from_text,
    matching,
    named,
    reason,
    shown,
    suffix_of,
)
from identifiable.io.label_columns import ID_NAMES, MARKS_AMONG_NUMBERS, CellColumn, Kind, is_feature_name, said
from identifiable.io.labelled import Found, LabelledTable, check_names
from identifiable.io.stored_rows import FileBytes, Layout, StoredRows, local_copy, reopened, scratch_file

DELIMITERS = {".csv": ",", ".tsv": "\t", f".csv{PACKED}": ",", f".tsv{PACKED}": "\t"}
PIECE_BYTES = 2**20
MAX_RECORD_BYTES = 2**24  # of a record with its quotes; one quote left open makes a record of all that follows
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")

Parsed = tuple[NDArray[np.float64], list[str]]
"""Values and ids of some lines."""


class TextTable(LabelledTable):
    """A table in text, with or without a header and a column of ids.

    With `gaps`, missing cells among numbers are NaN; `first_gap` says where the first was, once they were read. Columns that are
    named in `labels` are no values unless columns are asked for.
    """

    labels: Collection[str] = ()
    where_missing = ""  # what else to do if a cell is left empty, said by whoever reads the table

    def __init__(self, path: Path, *, gaps: bool = False):
        self._path, self.label, self._gaps = path, str(path), gaps
        self.first_gap: str | None = None
        self._delimiter = DELIMITERS[suffix_of(path)]
        self._file = _unpacked(path) if suffix_of(path).endswith(PACKED) else local_copy(path, self.label)
        line, text = next(_pieces(self._file))
        records = self._records(line, text)
        first = next(records)[1]
        self._has_header = not all(_is_number(cell) for cell in first) or _counts_columns(first, records)
        self._header = [cell.strip() for cell in first] if self._has_header else [str(j) for j in range(len(first))]
        self.names = tuple(self._header)
        self._place = {name: j for j, name in reversed(list(enumerate(self._header)))}  # the first with that name
        self.unnamed = "" if self._header[0] == "" else None
        if len(first) == 1:
            self._refuse_other_delimiters(first[0])

    @property
    def column_names(self) -> tuple[str, ...]:
        """What the header calls the columns, all of them; nothing without a header."""
        return tuple(self._header) if self._has_header else ()

    # -- numbers, all columns but the ids

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        columns, id_column = self.roles(part, ids, own_ids)
        rows, found = self._parsed(columns, id_column)
        names = tuple(self._header[j] for j in columns) if self._has_header else None
        return IdentifiedRows(rows, None if id_column is None else identities_from_text(found), names)

    def rows(self, features: Sequence[str | int]) -> StoredRows:
        """The numbers of some columns, by their names or places."""
        return self._parsed([self._place[f] if isinstance(f, str) else f for f in features], None)[0]

    def _parsed(self, columns: list[int], id_column: int | None) -> tuple[StoredRows, list[str]]:
        """The numbers of some columns, and the cells of the column of ids."""
        found: list[str] = []
        n = 0

        def parse(file: IO[bytes]) -> None:
            nonlocal n
            for line, text in self._body():
                values, names = self._numbers(line, text, columns, id_column)
                file.write(values.data)
                found.extend(names)
                n += len(values)

        file = scratch_file(self.label, parse)
        if n == 0:
            raise DataError(f"{self.label}: expected rows of numbers, found a header and nothing below it.")
        again = partial(reopened, TextTable, self._path.absolute(), columns, gaps=self._gaps)
        rows = StoredRows(file, Layout(0, (n, len(columns)), np.dtype(np.float64)), again)
        rows.stored_dtype = "text"
        return rows, found

    def column(self, part: str | None) -> IdentifiedColumn:
        wanted, id_column = self._places_of_one(part)
        values: list[str] = []
        ids: list[str] = []
        for at, cells in self.records():
            values.append(self.filled(at, cells, wanted))
            if id_column is not None:
                ids.append(self.filled(at, cells, id_column))
        if not values:
            raise DataError(f"{self.label}: expected rows below the header, found none.")
        return IdentifiedColumn(identities_from_text(values), None if id_column is None else identities_from_text(ids))

    # -- features and labels

    @property
    def columns(self) -> Sequence[str]:
        if not self._has_header:
            raise DataError(f"{self.label}: expected the names of the columns in line 1, got numbers; put them there.")
        names = [name for name in self._header if name]
        check_names(names, self.label)
        return names

    def kinds(self) -> dict[str, Kind]:
        """What the columns hold, by the first piece of the file."""
        columns = self._collected(self.columns, [next(self._body(), (1, ""))])
        kinds = {name: column.kind for name, column in columns.items()}
        for name, column in columns.items():
            if is_feature_name(name) and column.has_numbers and kinds[name] == "other":
                kinds[name] = "float"  # parsing it says which line is wrong
        return kinds

    def read(self, names: Sequence[str]) -> Found:
        wanted = dict.fromkeys(
            (*names, *(() if self.unnamed is None else (self.unnamed,)))
        )  # not to pass twice over the text
        return {name: column.labels() for name, column in self._collected(wanted, self._body()).items()}

    def _collected(self, names: Iterable[str], pieces: Iterable[tuple[int, str]]) -> dict[str, CellColumn]:
        columns = {name: (self._place[name], CellColumn()) for name in names}
        for piece in pieces:
            by_column = list(zip(*(cells for _, cells in self._checked(*piece)), strict=True))
            for j, column in columns.values():
                column.extend(by_column[j] if by_column else ())
        return {name: column for name, (_, column) in columns.items()}

    # -- which column is what

    def roles(self, part: str | None, ids: str | None, own_ids: bool) -> tuple[list[int], int | None]:
        """Which columns hold the values, and which the ids. What looks like ids is no value unless named as one."""
        asked = [] if part is None else matching(self._header, part, self._no_column)
        exactly = {j for j in asked if part is not None and self._header[j] in (part, *part.split(","))}
        id_like = [j for j in self._id_like() if j not in exactly]
        id_column = self._position(ids) if ids is not None else self._own_ids(id_like) if own_ids else None
        left_out = {*id_like, id_column, *(self._place.get(name) for name in self.labels if part is None)}
        columns = [j for j in (asked if part is not None else range(len(self._header))) if j not in left_out]
        if not columns:
            raise DataError(f"{self.label}: expected columns of numbers, found only ids ({named(self._header)}).")
        return columns, id_column

    def _places_of_one(self, part: str | None) -> tuple[int, int | None]:
        id_like = self._id_like()
        if part is not None:
            wanted = self._position(part)
        else:
            choice = [j for j in range(len(self._header)) if j not in id_like] or list(range(len(self._header)))
            if len(choice) != 1:
                names = [self._header[j] for j in choice]
                raise DataError(
                    f"{self.label}: expected one column, it has {len(choice)} ({named(names)}); "
                    f"name one after a colon, as in {self.label}:{shown(names[0])}"
                )
            wanted = choice[0]
        return wanted, self._own_ids([j for j in id_like if j != wanted])

    def _id_like(self) -> list[int]:
        if not self._has_header:
            return []
        unnamed = [0] if self._header[0] == "" and len(self._header) > 1 else []
        return unnamed + [j for j, name in enumerate(self._header) if name.lower() in ID_NAMES]

    def _own_ids(self, id_like: Sequence[int]) -> int | None:
        headed = [j for j in id_like if self._header[j]]
        if len(headed) > 1:
            names = named([self._header[j] for j in headed])
            raise DataError(f"{self.label}: columns {names} could all be the ids; choose one with --ids.")
        return next(iter(headed or id_like), None)

    def _position(self, name: str) -> int:
        places = [j for j, column in enumerate(self._header) if column == name]
        if len(places) > 1:
            raise DataError(f"{self.label}: {len(places)} columns are called {name!r}; rename all but one.")
        if not places:
            raise self._no_column(name)
        return places[0]

    def _no_column(self, name: str) -> DataError:
        what = "columns" if self._has_header else "no header, so its columns are called"
        hint = did_you_mean(name, self._header)
        return DataError(f"{self.label}: no column matches {name!r}; it has {what} {named(self._header)}{hint}")

    def _refuse_other_delimiters(self, cell: str) -> None:
        for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
            if other != self._delimiter and other in cell:
                raise DataError(
                    f"{self.label}: expected cells separated by {'tabs' if self._delimiter == chr(9) else 'commas'}, "
                    f"the first line is separated by {name}; save it again as .csv (commas) or .tsv (tabs)."
                )

    def _body(self) -> Iterator[tuple[int, str]]:
        """Pieces of text below the header, each with the number of its first line."""
        pieces = _pieces(self._file)
        line, text = next(pieces)
        if self._has_header:
            header = io.StringIO(text, newline="")
            reader = csv.reader(header, delimiter=self._delimiter)
            next(reader)
            line, text = line + reader.line_num, header.read()
        if text:
            yield line, text
        yield from pieces

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Cells of every record below the header, with the number of the line it begins on."""
        for piece in self._body():
            yield from self._checked(*piece)

    def _checked(self, line: int, text: str) -> Iterator[tuple[int, list[str]]]:
        for at, cells in self._records(line, text):
            if len(cells) != len(self._header):
                raise DataError(
                    f"{self.label}: line {at} has {len(cells)} cells where the first line has {len(self._header)}; "
                    "every line needs the same number."
                )
            yield at, cells

    def _records(self, line: int, text: str) -> Iterator[tuple[int, list[str]]]:
        """Cells of each record, with the number of the line it begins on."""
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
        at = line
        try:
            for cells in reader:
                if not cells:
                    raise _blank(self.label, at)
                yield at, cells
                at = line + reader.line_num
        except csv.Error as error:
            raise DataError(f"{self.label}: line {at}: cannot be read ({error}); check its quotes.") from None

    def _numbers(self, line: int, text: str, columns: list[int], id_column: int | None) -> Parsed:
        """Values and ids of a piece: by numpy's parser, or cell by cell if that fails, to say where."""
        fast = self._fast(line, text, columns, id_column)
        return self._cell_by_cell(line, text, columns, id_column) if fast is None else fast

    def _fast(self, line: int, text: str, columns: list[int], id_column: int | None) -> Parsed | None:
        width, delimiter = len(self._header), self._delimiter
        usecols: list[int] | None = None if columns == [*range(width)] else columns
        if '"' in text:
            records = [cells for _, cells in self._records(line, text)]
            if any(len(cells) != width for cells in records):
                return None
            ids = [] if id_column is None else [cells[id_column].strip() for cells in records]
            lines = [delimiter.join([cells[j] for j in columns]) for cells in records]
            usecols = None
        else:
            lines = text.removesuffix("\n").split("\n")
            if any(row.count(delimiter) != width - 1 for row in lines):
                return None
            ids = [] if id_column is None else [row.split(delimiter, id_column + 1)[id_column].strip() for row in lines]
        if not all(ids):
            return None
        try:
            values = np.loadtxt(lines, np.float64, comments=None, delimiter=delimiter, usecols=usecols, ndmin=2)
        except ValueError:
            return None
        if values.shape != (len(lines), len(columns)) or (self._gaps and np.isnan(values).any()):
            return None  # gaps are read cell by cell, to know where they are
        return values, ids

    def _cell_by_cell(self, line: int, text: str, columns: list[int], id_column: int | None) -> Parsed:
        rows, ids = [], []
        for at, cells in self._checked(line, text):
            rows.append([self._number(at, cells, j) for j in columns])
            if id_column is not None:
                ids.append(self.filled(at, cells, id_column))
        return np.array(rows, np.float64), ids

    def filled(self, at: int, cells: Sequence[str], column: int) -> str:
        cell = cells[column].strip()
        if not cell:
            where = f"line {at}, {self.headed(column)}"
            raise DataError(f"{self.label}: {where}: the cell is empty; fill it in or drop the row.")
        return cell

    def _number(self, at: int, cells: Sequence[str], column: int) -> float:
        missing = cells[column].strip()
        if self._gaps and missing.lower() in MARKS_AMONG_NUMBERS:
            self.first_gap = self.first_gap or f"line {at}, {self.headed(column)}: {said(missing)}"
            return float("nan")
        cell = self.filled(at, cells, column)
        if _is_number(cell):
            return float(cell)
        told = f"{self.label}: line {at}, {self.headed(column)}: {cell[:60]!r} is not a number"
        if self._gaps:
            raise DataError(f"{told}; correct this cell, or leave it empty{self.where_missing}.")
        ids = f", or name the id column with --ids {shown(self._header[column])}" if self._has_header else ""
        raise DataError(f"{told}; correct this cell, choose the columns to read with {self.label}:PATTERN{ids}.")

    def headed(self, column: int) -> str:
        name = self._header[column] if self._has_header else ""
        return f"column {shown(name)!r}" if name else f"column {column + 1}"


def _counts_columns(first: Sequence[str], records: Iterator[tuple[int, Sequence[str]]]) -> bool:
    """Whether a line of numbers is a header: 0, 1, 2 … as pandas writes it, or these in another order above numbers that are not whole."""
    counted = [str(j) for j in range(len(first))]
    if len(first) < 3 or sorted(first) != sorted(counted):
        return False
    second = next(records, (0, ()))[1]
    return list(first) == counted or any(not cell.strip().isdecimal() for cell in second)


def _unpacked(path: Path) -> FileBytes:
    """The text in a `.gz`, in a temporary file without a name."""
    room = shutil.disk_usage(tempfile.gettempdir()).free * 9 // 10  # a few bytes may unpack to any number

    def unpack(file: IO[bytes]) -> None:
        written = 0
        with FileBytes.open(path, str(path)).stream() as raw:
            try:
                with gzip.open(raw) as stream:
                    while piece := stream.read(PIECE_BYTES):
                        written += len(piece)
                        if written > room:
                            raise DataError(
                                f"{path}: unpacks to more than the {room:,} bytes that {tempfile.gettempdir()} has room for; "
                                "set TMPDIR to a larger disk."
                            )
                        file.write(piece)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise DataError(
                    f"{path}: not gzip, or damaged or truncated ({reason(error)}); copy it again."
                ) from None

    unpacked = scratch_file(str(path), unpack)
    if not unpacked.size:
        raise DataError(f"{path}: the file is empty (0 bytes) once unpacked; write it again.")
    return unpacked


def read_lines(path: Path) -> NDArray[Any]:
    """A plain text file, one id or label per line."""
    values: list[str] = []
    for line, text in _pieces(local_copy(path, str(path)), quotes=False):
        for at, value in enumerate(text.removesuffix("\n").split("\n"), line):
            if not value.strip():
                raise _blank(str(path), at)
            values.append(value.strip())
    return identities_from_text(values)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is Python, not a number in a table


def _pieces(file: FileBytes, *, quotes: bool = True) -> Iterator[tuple[int, str]]:
    """The text of a file in pieces of whole records, each with the number of its first line; at least one.

    Blank lines are allowed at the end of the file only: elsewhere one may be a missing value, and the
    rows below it would be paired with the wrong samples.
    """
    line, blank, empty = 1, 0, True
    for data in _whole_records(file, quotes):
        text = _decoded(data, line, file.label)
        content = text.rstrip("\n")
        if content:
            if blank or text.startswith("\n"):
                raise _blank(file.label, blank or line)
            if "\n\n" in content and '"' not in content:  # within quotes it is for the csv module to say
                raise _blank(file.label, line + content.count("\n", 0, content.index("\n\n")) + 1)
            yield line, content + "\n"
            empty = False
        after = line + text.count("\n")
        if text.endswith("\n\n") or not content:
            blank = blank or after - (len(text) - len(content)) + bool(content)
        line = after
    if empty:
        raise DataError(f"{file.label}: expected text, found nothing in it.")


def _whole_records(file: FileBytes, quotes: bool) -> Iterator[bytes]:
    """The bytes of a text file, cut where a record ends, with every line end as LF."""
    offset, inside, waiting, held = 0, False, list[bytes](), b""
    while raw := file.read(offset, PIECE_BYTES):
        if offset == 0:
            if raw.startswith(UTF16):
                raise DataError(f"{file.label}: expected UTF-8 text, got UTF-16; save it again as UTF-8.")
            raw, offset = raw.removeprefix(BOM), len(raw)
        else:
            offset += len(raw)
        data = held + raw
        held = b"\r" if data.endswith(b"\r") else b""  # its LF may come with the next piece
        data = data.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut, inside = _record_end(data, inside) if quotes else (data.rfind(b"\n") + 1, False)
        if cut:
            yield b"".join([*waiting, data[:cut]])
            waiting.clear()
        waiting.append(data[cut:])
        unended = sum(map(len, waiting))
        if unended > MAX_RECORD_BYTES:
            raise DataError(
                f"{file.label}: expected lines of text, got {unended:,} bytes without an end; "
                "is a quote left open, or is this not a text file?"
            )
    if rest := b"".join([*waiting, held.replace(b"\r", b"\n")]):
        yield rest


def _record_end(data: bytes, inside: bool) -> tuple[int, bool]:
    """Behind the last newline that ends a record, 0 if there is none; and whether a quote is open at the end, as `inside` is before."""
    last = data.rfind(b'"')
    ends_inside = inside ^ bool(data.count(b'"') % 2)
    if not ends_inside and (after := data.rfind(b"\n", last + 1)) >= 0:
        return after + 1, False
    if last < 0:
        return 0, inside
    characters = np.frombuffer(data, np.uint8)
    quoted = np.logical_xor.accumulate(characters == ord('"')) ^ inside
    ends = np.flatnonzero((characters == ord("\n")) & ~quoted)
    return (int(ends[-1]) + 1 if ends.size else 0), ends_inside


def _decoded(data: bytes, line: int, label: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = line + data.count(b"\n", 0, error.start)
        raise DataError(
            f"{label}: line {at}: expected UTF-8 text, got byte {data[error.start]:#04x}; save it again as UTF-8."
        ) from None


def _blank(label: str, line: int) -> DataError:
    return DataError(f"{label}: line {line} is blank; remove it, or fill in its values if they are missing.")
