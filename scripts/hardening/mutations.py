"""Files that are almost right: one change of structure at a time, drawn by a `random.Random`, so that it can be made again.

Content is a mapping of names to bytes: one entry for a file, several for a folder. A mutation takes a content and returns it
changed, with a word for what was done.
"""

from __future__ import annotations

import io
import json
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Literal

Content = Mapping[str, bytes]
Bytes = Callable[[bytes, Random], bytes]
Path = tuple[str | int, ...]

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    65_535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
EDGE = 600  # bytes at either end of a file, where headers and footers are


# -- bytes


def place(content: bytes, rng: Random) -> int:
    """An offset, more often near an end."""
    size, kind = max(len(content), 1), rng.random()
    if kind < 0.35:
        return rng.randrange(min(size, EDGE))
    return size - 1 - rng.randrange(min(size, EDGE)) if kind < 0.7 else rng.randrange(size)


def flipped(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4)) if content else 0):
        changed[place(content, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def numbered(content: bytes, rng: Random) -> bytes:
    """A number of 1 to 8 bytes overwritten: a length, an offset, a count."""
    width: int = rng.choice((1, 2, 4, 4, 8, 8))
    order: Literal["little", "big"] = "big" if rng.random() < 1 / 3 else "little"
    at = place(content, rng)
    at -= rng.choice((0, at % width))
    before = int.from_bytes(content[at : at + width], order)
    value: int = rng.choice((*NUMBERS, before - 1, before + 1, 2 * before, before // 2)) % 256**width
    written = value.to_bytes(width, order)
    return content[:at] + written[: max(len(content) - at, 0)] + content[at + width :]


def cut(content: bytes, rng: Random) -> bytes:
    return content[: place(content, rng)]


def longer(content: bytes, rng: Random) -> bytes:
    return content + rng.choice((b"\0", b"\n", b" ", rng.randbytes(17), content, bytes(4096)))


def run_of(content: bytes, rng: Random) -> tuple[int, int]:
    at = place(content, rng)
    return at, at + rng.choice((1, 2, 4, 8, 16, rng.randrange(1, 300)))


def removed(content: bytes, rng: Random) -> bytes:
    a, b = run_of(content, rng)
    return content[:a] + content[b:]


def doubled(content: bytes, rng: Random) -> bytes:
    a, b = run_of(content, rng)
    return content[:b] + content[a:]


def zeroed(content: bytes, rng: Random) -> bytes:
    a, b = run_of(content, rng)
    return content[:a] + bytes([rng.choice((0, 255))]) * len(content[a:b]) + content[b:]


def swapped(content: bytes, rng: Random) -> bytes:
    (a, b), (c, d) = sorted((run_of(content, rng), run_of(content, rng)))
    return (
        content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:] if b <= c else content[b:] + content[:b]
    )


def retold(content: bytes, rng: Random) -> bytes:
    """A number that is written in digits, another one."""
    found = list(re.finditer(rb"-?\d+", content[:100_000]))
    if not found:
        return flipped(content, rng)
    one = rng.choice(found)
    value = rng.choice((*NUMBERS, -1, -(2**63), 10**30, int(one[0][:15]) + 1))
    return content[: one.start()] + str(value).encode() + content[one.end() :]


BYTES: tuple[Bytes, ...] = (
    flipped, flipped, numbered, numbered, numbered, cut, longer, removed, doubled, zeroed, swapped, retold,
)  # fmt: skip


def changed_bytes(content: bytes, rng: Random) -> tuple[str, bytes]:
    how = rng.choice(BYTES)
    return how.__name__, how(content, rng)


def spliced(content: bytes, other: bytes, rng: Random) -> bytes:
    """The start of one file and the end of another."""
    at = place(content, rng)
    return content[:at] + other[rng.choice((at, max(len(other) - (len(content) - at), 0), place(other, rng))) :]


# -- JSON

WRONG: tuple[str, ...] = (
    "null", "true", "false", "0", "-1", "1", "2", "0.5", "-0.0", "1e50", "-1e308", "1e999", "NaN", "-Infinity", "10000000",
    "9223372036854775808", "1" + "0" * 400, '""', '"wrong"', '"\\u0000"', '"\\ud800"', '"<script>"', '"\\u001b[31m"', '"../x"', "[]",
    "{}", "[1]", '["x"]', "[[]]", "[null]", "[1, 2, 3]", '{"a": 1}', '{"a": null}', "[" * 2000 + "]" * 2000, '"' + "x" * 5000 + '"',
)  # fmt: skip


def spans(text: str) -> list[tuple[Path, int, int]]:
    """Where every value of a JSON text stands, containers too: its path, where it begins and ends."""
    found: list[tuple[Path, int, int]] = []
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        while text[at : at + 1].isspace():
            at += 1
        return at

    def value(at: int, path: Path) -> int:
        start = at
        if text[at] in "{[":
            closing, count, at = {"{": "}", "[": "]"}[text[at]], 0, skip(at + 1)
            while text[at] != closing:
                key: str | int = count
                if closing == "}":
                    key, at = decoder.raw_decode(text, at)
                    at = skip(skip(at) + 1)
                at = skip(value(at, (*path, key)))
                at, count = skip(at + 1) if text[at] == "," else at, count + 1
            end = at + 1
        else:
            _, end = decoder.raw_decode(text, at)
        found.append((path, start, end))
        return end

    value(skip(0), ())
    return found


class JsonText:
    """A JSON text whose values are changed one at a time; of values that are alike (``rungs[0].mean``) each is as likely as one."""

    def __init__(self, text: str):
        self.text = text
        self.alike: dict[Path, list[tuple[Path, int, int]]] = {}
        for each in spans(text):
            self.alike.setdefault(tuple("#" if isinstance(step, int) else step for step in each[0]), []).append(each)
        self.kinds = list(self.alike.values())

    @property
    def ways(self) -> int:
        """In how many ways `wrong` changes it: one value of every kind, by every one of `WRONG`."""
        return len(self.kinds) * len(WRONG)

    def wrong(self, way: int, rng: Random) -> tuple[str, str]:
        path, start, end = rng.choice(self.kinds[way // len(WRONG)])
        value = WRONG[way % len(WRONG)]
        return f"{'.'.join(map(str, path)) or 'all'} = {value[:40]}", self.text[:start] + value + self.text[end:]

    def changed(self, rng: Random) -> tuple[str, str]:
        path, start, end = rng.choice(rng.choice(self.kinds))
        shown = ".".join(map(str, path)) or "all"
        before, value, after = self.text[:start], self.text[start:end], self.text[end:]
        kind = rng.random()
        if kind < 0.7:
            wrong = rng.choice(WRONG)
            return f"{shown} = {wrong[:40]}", before + wrong + after
        if kind < 0.8:  # the value of another field
            _, a, b = rng.choice(rng.choice(self.kinds))
            return f"{shown} = that at {a}", before + self.text[a:b] + after
        if kind < 0.9:
            return f"{shown} gone", _without(before, after)
        if value[:1] == "[":
            items = json.loads(value)
            how = rng.choice(("reversed", "doubled", "shorter"))
            items = items[::-1] if how == "reversed" else items * 2 if how == "doubled" else items[:-1]
            return f"{shown} {how}", before + json.dumps(items) + after
        how, content = changed_bytes(self.text.encode(), rng)
        return how, content.decode("utf-8", "surrogateescape")


KEY = re.compile(r'"(?:[^"\\]|\\.)*"\s*:\s*$')


def _without(before: str, after: str) -> str:
    """A text without a value, its key and its comma."""
    tail = before[-400:]
    before = before[: len(before) - len(tail)] + KEY.sub("", tail)
    after = after.lstrip()
    return before + after[1:] if after.startswith(",") else before.rstrip().removesuffix(",") + after


def changed_json(content: bytes, rng: Random) -> tuple[str, bytes]:
    try:
        how, text = JsonText(content.decode()).changed(rng)
    except (ValueError, IndexError):  # not JSON: changed before
        return changed_bytes(content, rng)
    return how, text.encode("utf-8", "surrogateescape")


# -- formats

SHAPES = (
    "()", "(4,)", "(3, 4)", "(4, 3, 1)", "(0, 3)", "(4, 0)", "(-1, 3)", "(4, -3)", "(12, 1)", "(5, 3)", "(4, 4)", "(2, 3)",
    "(4611686018427387904, 4)", "(2147483648, 2147483648)", "(4, 3.0)", "(True, 3)", "('4', 3)", "[4, 3]", "4", "None", "(4, 3",
    "(10**9, 3)", "(1000000000, 3)", "(1,)*100", "(4L, 3L)", "(4, 3)" + " " * 9000, "(" + "1, " * 70 + ")",
)  # fmt: skip
DESCRS = (
    "<f4", ">f4", "<f8", "<f2", "<f16", "|b1", "|u1", "<i8", "<u8", "<c8", "<c16", "|O", "|S4", "<U4", "<U0", "|S0", "|V4", "|V0", "<M8[s]",
    "<m8", "x", "", "f4,f4", "(2,)f4", "<f4" * 50, "O", "object", "<U99999999999", "<f4\n",
)  # fmt: skip


def changed_npy(content: bytes, rng: Random) -> tuple[str, bytes]:
    """The header of a `.npy` rewritten, its length right more often than not."""
    if content[:6] != b"\x93NUMPY" or rng.random() < 0.4:
        return changed_bytes(content, rng)
    length = int.from_bytes(content[8:10], "little")
    header, data = content[10 : 10 + length].decode("latin1").rstrip(), content[10 + length :]
    kind = rng.choice(("shape", "descr", "fortran", "key", "version", "data", "text"))
    version = content[6:8]
    if kind == "shape":
        header = re.sub(r"'shape': \([^)]*\)", lambda _: f"'shape': {rng.choice(SHAPES)}", header)
    elif kind == "descr":
        new = rng.choice(
            (*map(repr, DESCRS), "[('a', '<f4')]", "[('a', '<f4'), ('b', '|O')]", "4", "None", "('<f4', (3,))")
        )
        header = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': {new}", header)
    elif kind == "fortran":
        header = re.sub(r"True|False", lambda found: rng.choice(("True", "False", "1", "None", "'x'")), header)
    elif kind == "key":
        header = rng.choice(
            (
                header.replace("'descr'", "'dtype'"),
                header.replace("}", "'more': 1}"),
                "{}",
                "[]",
                header + "; import os",
                header * 2,
            )
        )
    elif kind == "version":
        version = bytes([rng.choice((0, 1, 2, 3, 4, 255)), rng.choice((0, 0, 1))])
    elif kind == "data":
        data = changed_bytes(data, rng)[1]
    else:
        header = changed_bytes(header.encode("latin1"), rng)[1].decode("latin1")
    raw = header.encode("latin1", "replace") + b"\n"
    width = "<H" if version[0] < 2 else "<I"
    said = len(raw) if rng.random() < 0.8 else rng.choice(NUMBERS)
    said %= 256 ** struct.calcsize(width)
    return f"npy {kind}", content[:6] + version + struct.pack(width, said) + raw + data


def changed_zip(inside: Callable[[bytes, Random], tuple[str, bytes]]) -> Callable[[bytes, Random], tuple[str, bytes]]:
    """Members removed, doubled, moved, renamed, packed otherwise or changed `inside`, with right checksums; or bytes of the whole."""

    def changed(content: bytes, rng: Random) -> tuple[str, bytes]:
        if rng.random() < 0.35:
            return changed_bytes(content, rng)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(each.filename, archive.read(each), each.compress_type) for each in archive.infolist()]
        kind, at = (
            rng.choice(("inside", "inside", "inside", "gone", "twice", "moved", "name", "packed", "other")),
            rng.randrange(len(members)),
        )
        name, data, packed = members[at]
        if kind == "inside":
            kind, data = inside(data, rng)
            members[at] = (name, data, packed)
        elif kind == "gone":
            del members[at]
        elif kind == "twice":
            members.insert(rng.randrange(len(members) + 1), (name, inside(data, rng)[1], packed))
        elif kind == "moved":
            rng.shuffle(members)
        elif kind == "name":
            members[at] = (
                rng.choice(("../" + name, "/" + name, name.upper(), name + "/", "", "é" * 300, "a\nb.npy", "ids.npy")),
                data,
                packed,
            )
        elif kind == "packed":
            members[at] = (name, data, rng.choice((0, 8, 12, 14)))
        else:
            members[at] = (name, members[rng.randrange(len(members))][1], packed)
        stream = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
            warnings.simplefilter("ignore")  # of a name that is there twice
            for name, data, packed in members:
                archive.writestr(zipfile.ZipInfo(name), data, packed)
        return f"zip {kind}", stream.getvalue()

    return changed


def changed_safetensors(content: bytes, rng: Random) -> tuple[str, bytes]:
    """A value of the header, its length right."""
    if rng.random() < 0.35 or len(content) < 8:
        return changed_bytes(content, rng)
    length = int.from_bytes(content[:8], "little")
    how, header = changed_json(content[8 : 8 + length], rng)
    if rng.random() < 0.8:
        header += b" " * (-len(header) % 8)
    return f"header {how}", len(header).to_bytes(8, "little") + header + content[8 + length :]


CELLS = (
    "", " ", "nan", "inf", "-inf", "1e999", "1e-999", "abc", '"', '""', '"1"', '"1', "1_000", "0x1p3", "١", "1,5", "TRUE", "None", "é",
    "\0",     "1" * 400, "=1+1", "-", "+1", "1e", ".5", "<script>", "\x1b[31m", "\u202e1", "NA", "1\r", '"a\nb"', "9" * 20, "x" * 5000,
)  # fmt: skip


def changed_text(content: bytes, rng: Random) -> tuple[str, bytes]:
    """A cell, a row or a column of a table of text."""
    if rng.random() < 0.3:
        return changed_bytes(content, rng)
    separator = "\t" if b"\t" in content else ","
    rows = [line.split(separator) for line in content.decode("utf-8", "surrogateescape").split("\n")]
    kind, i = (
        rng.choice(
            ("cell", "cell", "cell", "row gone", "row twice", "moved", "column gone", "columns", "separator", "ends")
        ),
        rng.randrange(len(rows)),
    )
    j = rng.randrange(len(rows[i]))
    if kind == "cell":
        rows[i][j] = rng.choice(CELLS)
        kind = f"cell {i},{j} = {rows[i][j][:20]!r}"
    elif kind == "row gone":
        del rows[i]
    elif kind == "row twice":
        rows.insert(rng.randrange(len(rows)), list(rows[i]))
    elif kind == "moved":
        rng.shuffle(rows)
    elif kind == "column gone":
        rows = [row[:j] + row[j + 1 :] for row in rows]
    elif kind == "columns":
        rows[i] = rows[i] * rng.choice((2, 100))
    text = "\n".join(separator.join(row) for row in rows)
    if kind == "separator":
        text = text.replace(separator, rng.choice((";", " ", "|", "\t", ",,")))
    elif kind == "ends":
        text = text.replace("\n", rng.choice(("\r", "\r\n", "\n\n", "\u2028", "\0")))
    raw = text.encode("utf-8", "surrogateescape")
    return kind, rng.choice(
        (raw, raw, raw, raw, b"\xef\xbb\xbf" + raw, raw.decode("utf-8", "replace").encode("utf-16"))
    )


def changed_gzip(content: bytes, rng: Random) -> tuple[str, bytes]:
    if rng.random() < 0.5:
        return changed_bytes(content, rng)
    how, text = changed_text(zlib.decompress(content, 31), rng)
    packer = zlib.compressobj(wbits=31)
    return how, packer.compress(text) + packer.flush()


def changed_hdf5(content: bytes, rng: Random) -> tuple[str, bytes]:
    """An element of an HDF5 file removed, or put there anew with another shape, type or attribute; or bytes of the whole."""
    if rng.random() < 0.6:
        return changed_bytes(content, rng)
    import h5py
    import numpy as np

    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = rng.choice(names)
        element = file[name]
        kind = rng.choice(("gone", "value", "attribute", "attribute", "link", "moved", "group"))
        if kind == "attribute" and not len(element.attrs):
            element = file
        if kind == "attribute" and len(element.attrs):
            key = rng.choice(sorted(element.attrs))
            new: Any = rng.choice(
                (
                    None,
                    0,
                    "wrong",
                    [1, 2],
                    "csr_matrix",
                    "categorical",
                    "dataframe",
                    "array",
                    "9.9.9",
                    np.zeros(0),
                    ["a"],
                    [10**9, 3],
                )
            )
            del element.attrs[key]
            if new is not None:
                element.attrs[key] = new
            kind = f"{name}@{key} = {new}"
        elif kind in ("value", "gone", "link", "moved", "group"):
            held = dict(element.attrs)
            other = rng.choice(names)
            del file[name]
            if kind == "value":
                shape: Any = rng.choice(((), (0,), (1,), (4,), (5,), (4, 3), (3, 4), (4, 0), (4, 3, 1), (2, 2)))
                dtype = rng.choice(("f4", "f8", "i8", "i1", "u8", "?", "S3", h5py.string_dtype(), "c8", "f2"))
                text = dtype not in ("f4", "f8", "i8", "i1", "u8", "?", "c8", "f2")
                values = np.full(shape, b"a" if text else rng.choice((0, 1, 7)))
                values = values if text else (values - (rng.random() < 0.3)).astype(dtype)
                file.create_dataset(name, data=values, dtype=dtype).attrs.update(held)
                kind = f"value {shape} {dtype}"
            elif kind == "link":
                file[name] = rng.choice(
                    (h5py.SoftLink("/" + other), h5py.ExternalLink("/etc/passwd", "/x"), h5py.SoftLink("/" + name))
                )
            elif kind == "moved" and other in file and not name.startswith(other):
                file.copy(file[other], name)
            elif kind == "group":
                file.create_group(name).attrs.update(held)
        said = f"{name} {kind}"
    return said, stream.getvalue()


def changed_arrow(parquet: bool) -> Callable[[bytes, Random], tuple[str, bytes]]:
    """A column or the metadata of an Arrow table, written again; or bytes of the whole."""

    def changed(content: bytes, rng: Random) -> tuple[str, bytes]:
        if rng.random() < 0.75:
            return changed_bytes(content, rng)
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(content)) if parquet else pa.ipc.open_file(io.BytesIO(content)).read_all()
        kind, j = (
            rng.choice(("gone", "twice", "type", "name", "metadata", "nulls", "rows")),
            rng.randrange(table.num_columns),
        )
        column, name = table.column(j), table.column_names[j]
        n = table.num_rows
        if kind == "gone":
            table = table.remove_column(j)
        elif kind == "twice":
            table = table.append_column(rng.choice((name, name + "_")), column)
        elif kind == "type":
            made: Any = rng.choice((
                pa.array([None] * n), pa.array(["x"] * n), pa.array([[1.0]] * n), pa.array([[1.0] * i for i in range(n)]),
                pa.array([True] * n),
                pa.array([b"\xff"] * n), pa.array([{"a": 1}] * n), pa.array([2**63] * n, pa.uint64()), pa.array([0] * n, pa.timestamp("s")),
                pa.array([1] * n, pa.decimal128(30, 2)), pa.array([float("inf")] * n), pa.array(["a"] * n).dictionary_encode(),
                pa.array([1.0] * n, pa.float16()), pa.array([[[1.0]]] * n), pa.nulls(n, pa.list_(pa.float32(), 3)),
            ))  # fmt: skip
            table = table.set_column(j, name, made)
            kind = f"type {made.type}"
        elif kind == "name":
            names = list(table.column_names)
            names[j] = rng.choice(
                (
                    "",
                    "id",
                    "ids",
                    "a\nb",
                    "\x1b[31m",
                    "<script>",
                    "x" * 3000,
                    "feature_0",
                    "__index_level_0__",
                    names[j - 1],
                )
            )
            table = table.rename_columns(names)
        elif kind == "metadata":
            held = dict(table.schema.metadata or {})
            key = rng.choice(sorted(held) or [b"pandas"])
            held[key] = changed_json(held.get(key, b'{"index_columns": ["id"], "columns": []}'), rng)[1]
            table = table.replace_schema_metadata(held)
        elif kind == "nulls":
            values = column.to_pylist()
            values[rng.randrange(n)] = None
            table = table.set_column(
                j, name, pa.array(values, column.type if not pa.types.is_dictionary(column.type) else None)
            )
        else:
            table = table.slice(0, rng.choice((0, 1, 2)))
        stream = io.BytesIO()
        if parquet:
            pq.write_table(table, stream)
        else:
            with pa.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)
        return f"{name} {kind}", stream.getvalue()

    return changed


def changed_folder(
    one: Callable[[str], Callable[[bytes, Random], tuple[str, bytes]]],
) -> Callable[[Content, Random], tuple[str, dict[str, bytes]]]:
    """A file of a folder removed, doubled, moved, exchanged, or changed by what `one` says of its name."""

    def changed(content: Content, rng: Random) -> tuple[str, dict[str, bytes]]:
        files = dict(content)
        name = rng.choice(sorted(files))
        kind = rng.random()
        if kind < 0.7:
            how, files[name] = one(name)(files[name], rng)
            return f"{name} {how}", files
        other = rng.choice(sorted(files))
        if kind < 0.8:
            del files[name]
            return f"{name} gone", files
        if kind < 0.9:
            files[name], files[other] = files[other], files[name]
            return f"{name} and {other} exchanged", files
        moved = rng.choice((f"{name}~", f"copy of {name}", name.replace("0", "1"), f"more/{name}", name.upper()))
        if any(moved == held or held.startswith(f"{moved}/") or moved.startswith(f"{held}/") for held in files):
            return changed(content, rng)
        files[moved] = files[name] if kind < 0.95 else files.pop(name)
        return f"{name} as {moved}", files

    return changed


def alone(
    change: Callable[[bytes, Random], tuple[str, bytes]], others: Sequence[bytes] = ()
) -> Callable[[Content, Random], tuple[str, dict[str, bytes]]]:
    """The same for a single file, which is also spliced with `others`."""

    def changed(content: Content, rng: Random) -> tuple[str, dict[str, bytes]]:
        ((name, data),) = content.items()
        if others and rng.random() < 0.08:
            return "spliced", {name: spliced(data, rng.choice(others), rng)}
        how, data = change(data, rng)
        if rng.random() < 0.1:  # and once more
            more, data = changed_bytes(data, rng)
            how = f"{how}, {more}"
        return how, {name: data}

    return changed
