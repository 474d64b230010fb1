"""`.pt` and `.pth`, as `torch.save` writes them: a zip of raw tensors, and a pickle that says where each of them lies.

Nothing is unpickled, and torch is not needed. The pickle is read as a list of instructions (`pickletools.genops`, which parses
and executes nothing). Of those, the few that put together dicts, lists, tuples and numbers are followed; a call or a class
named in the pickle is kept as its name, and only the names under which torch saves tensors mean anything. So there is no
code that a file could run, and rows are read in place, as those of a `.safetensors` are.
"""

from __future__ import annotations

import pickletools
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from identifiable._checks import DataError
from identifiable.io.array_files import ArraysInFile, stored_at
from identifiable.io.containers import damage_named, shown
from identifiable.io.stored_rows import Layout

SUFFIXES = (".pt", ".pth")
ORDERS = {b"little": "<", b"big": ">"}
ALONE = "tensor"  # what the only tensor of a file is called
# That of a model with 20,000 tensors has some 4 million bytes and 0.8 million instructions, which take a second.
LARGEST_PICKLE, MOST_INSTRUCTIONS = 2**25, 2**21

STORAGES = {
    "Float": "f4", "Double": "f8", "Half": "f2", "BFloat16": "u2", "Long": "i8", "Int": "i4", "Short": "i2", "Char": "i1",
    "Byte": "u1", "Bool": "b1", "ComplexFloat": "c8", "ComplexDouble": "c16",
}  # fmt: skip
DTYPES = {
    "float32": "f4", "float64": "f8", "float16": "f2", "bfloat16": "u2", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "b1", "complex64": "c8", "complex128": "c16",
}  # fmt: skip
BFLOAT16 = ("BFloat16", "bfloat16")


class Named(NamedTuple):
    """A class or a function that the pickle names."""

    name: str


class Called(NamedTuple):
    """What calling `function` would give. It is never called."""

    function: str
    arguments: tuple[Any, ...]


class Stored(NamedTuple):
    """A reference to bytes outside of the pickle, as torch writes it: ("storage", class, key, device, numbers)."""

    reference: Any


class TorchFile(ArraysInFile):
    """Named tensors of a `.pt`: a tensor, or a dict of them, in which names within names are joined by dots."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._unreadable: dict[str, str] = {}
        with self._file.stream() as stream, damage_named(self._damaged):
            if not zipfile.is_zipfile(stream):
                raise DataError(
                    f"{self._label}: expected a file as torch.save writes it since 1.6 (a zip), got another one; load it with "
                    "torch.load(weights_only=True) and save it again, or as .safetensors."
                )
            with zipfile.ZipFile(stream) as archive:
                self._read(archive)
        self.names = (*self._layouts, *self._unreadable)

    def _read(self, archive: zipfile.ZipFile) -> None:
        members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise self._damaged("two of its members have the same name")
        index = members.get("data.pkl")
        if index is None:
            raise self._damaged("it has no data.pkl")
        for member in filter(None, (index, members.get("byteorder"))):
            if member.file_size > LARGEST_PICKLE or member.compress_type not in (
                zipfile.ZIP_STORED,
                zipfile.ZIP_DEFLATED,
            ):
                raise self._damaged(f"{shown(member.filename)!r} is too large, or not packed as torch does it")
        order = ORDERS.get(archive.read(members["byteorder"]).strip()) if "byteorder" in members else "<"
        if order is None:
            raise self._damaged("its byte order is neither little nor big")
        with warnings.catch_warnings():  # of Python, about odd escapes in damaged text
            warnings.simplefilter("ignore")
            whole = followed(archive.read(index))
        found = list(_tensors(whole, (), set()))
        if not found:
            raise DataError(
                f"{self._label}: expected a tensor or a dict of tensors, found none; save module.state_dict() or the tensor itself."
            )
        for name, tensor in found:
            try:
                self._place(name or ALONE, tensor, members, order)
            except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
                if isinstance(error, DataError):
                    raise
                raise self._damaged(f"the entry of {shown(name)!r} cannot be read") from None

    def _place(self, name: str, tensor: Called, members: Mapping[str, zipfile.ZipInfo], order: str) -> None:
        storage, start, shape, strides, *more = tensor.arguments
        word, kind, key, _, count = storage.reference
        untyped = kind.name.endswith("UntypedStorage")  # of the types that have no storage of their own
        called = more[2].name if untyped else kind.name.removesuffix("Storage")
        called = called.rpartition(".")[2]
        code = (DTYPES if untyped else STORAGES).get(called)
        shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
        if code is None or word != "storage":
            self._unreadable[name] = f"{shown(called)} numbers"
            return
        fortran = len(shape) == 2 and strides == (1, shape[0]) and shape[0] > 1
        if not (fortran or _contiguous(shape, strides)):
            self._unreadable[name] = f"a view with strides {strides}"
            return
        stored = np.dtype(order + code)
        member = members[f"data/{key}"]
        inside = Layout(int(start) * stored.itemsize, shape, stored, fortran, called in BFLOAT16)
        whole = int(count) * (1 if untyped else stored.itemsize)
        if start < 0 or inside.offset + inside.nbytes > member.file_size or whole != member.file_size:
            raise self._damaged(f"{shown(name)!r} of shape {shape} does not fit its place in the file")
        self._layouts[name] = stored_at(self._file, member, inside, self._damaged)

    def _choose(self, part: str | None, ndim: int) -> str:
        if part in self._unreadable:
            raise DataError(
                f"{self._at(str(part))}: cannot read {self._unreadable[str(part)]}; save it as .contiguous().float()."
            )
        return super()._choose(part, ndim)

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._label}: the .pt file is damaged or not of torch.save ({why}); copy or write it again."
        )


def _tensors(value: Any, path: tuple[str, ...], seen: set[int]) -> Iterator[tuple[str, Called]]:
    """Every tensor in what a pickle holds, with its name; a dict or list that is there twice is entered once."""
    if isinstance(value, Called):
        function = value.function.rpartition(".")[2]
        if function in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            yield ".".join(path), value
        elif function.startswith("_rebuild_parameter"):
            for inner in value.arguments[:1]:
                yield from _tensors(inner, path, seen)
        return
    if id(value) in seen or isinstance(value, Named | Stored) or not isinstance(value, dict | list | tuple):
        return
    seen.add(id(value))
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _tensors(inner, (*path, str(key)), seen)


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


MARK = object()


def followed(pickled: bytes) -> Any:
    """What a pickle describes, put together without calling or importing anything.

    >>> import pickle
    >>> followed(pickle.dumps({"a": (1, [2.5, "b"])}, protocol=2))
    {'a': (1, [2.5, 'b'])}
    >>> followed(pickle.dumps(print, protocol=4))
    Named(name='builtins.print')
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        at = len(stack) - 1 - next(i for i, value in enumerate(reversed(stack)) if value is MARK)
        taken = stack[at + 1 :]
        del stack[at:]
        return taken

    argument: Any
    for count, (operation, argument, _) in enumerate(pickletools.genops(pickled)):
        name = operation.name
        if count > MOST_INSTRUCTIONS:
            raise ValueError("it has too many instructions")
        if name in ("PROTO", "FRAME"):
            continue
        if name == "STOP":
            return stack.pop()
        if name == "MARK":
            stack.append(MARK)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(Named(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            last = stack.pop()
            stack.append(Named(f"{stack.pop()}.{last}"))
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            taken = since_mark()
            stack.append(taken if name == "LIST" else tuple(taken))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            length = int(name[-1])
            stack[-length:] = [tuple(stack[-length:])]
        elif name == "DICT":
            _fill(stack, since_mark(), new=True)
        elif name == "SETITEM":
            value = stack.pop()
            _fill(stack, [stack.pop(), value])
        elif name == "SETITEMS":
            _fill(stack, since_mark())
        elif name == "APPEND":
            value = stack.pop()
            _extend(stack, [value])
        elif name in ("APPENDS", "ADDITEMS"):
            _extend(stack, since_mark())
        elif name == "BINPERSID":
            stack.append(Stored(stack.pop()))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, function = stack.pop(), stack.pop()
            stack.append(_called(function, arguments))
        elif name == "BUILD":
            stack.pop()  # the state of an object: attributes, of which none is a tensor of a dict
        elif name == "POP":
            stack.pop()
        elif operation.arg is not None and not operation.stack_before:
            stack.append(argument)  # numbers and text
        else:
            raise ValueError(f"an instruction that tensors do not need ({name})")
    raise ValueError("it ends early")


CONSTANTS: Mapping[str, Any] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_TUPLE": tuple,
}


def _called(function: Any, arguments: Any) -> Any:
    name = function.name if isinstance(function, Named) else ""
    if name == "collections.OrderedDict" and not arguments:
        return {}
    return Called(name, arguments if isinstance(arguments, tuple) else ())


def _fill(stack: list[Any], items: list[Any], *, new: bool = False) -> None:
    """Put keys and values into the dict on top of the stack; an object that takes items is left as it is."""
    if new:
        stack.append({})
    if isinstance(stack[-1], dict):
        stack[-1].update(
            (key, value) for key, value in zip(items[::2], items[1::2], strict=True) if isinstance(key, str | int)
        )


def _extend(stack: list[Any], items: list[Any]) -> None:
    if isinstance(stack[-1], list):
        stack[-1].extend(items)
