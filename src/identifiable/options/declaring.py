"""How options are declared, and what is derived from a declaration.

An options class is a frozen dataclass. Every field has a type, a default and, in its annotation, an `Option`:

    @dataclass(frozen=True, kw_only=True)
    class CompareOptions(Options):
        folds: Annotated[int, Option("cross-validation folds", least=2)] = 5

From it come the keywords of the Python call (`takes`), the parser of the command line and the recorded command (`cli.options`),
the settings in the JSON (`Options.settings`) and the reference page of the docs (`scripts/reference.py`).
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from identifiable._checks import UsageError
from identifiable._importing import import_for_threads

P = ParamSpec("P")
O_contra = TypeVar("O_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@dataclass(frozen=True)
class Option:
    """What a field of an options class is, for readers and for the command line.

    `moves`: it affects results, so the recorded command keeps it; and so do the settings, unless it says where data are
    (`setting`). `flag`: its name on the command line, derived from the field's if empty; None keeps it out of there; `short` is
    another name there. `negative` is a second flag that sets False, `bare` what the flag stands for when no value follows,
    `repeat` allows the flag several times, `values` is how many follow it, `read` turns its text into a value, `shown` is the
    default in words.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    moves: bool = True
    setting: bool = True
    flag: str | None = ""
    short: str | None = None
    metavar: str | None = None
    group: str | None = None
    negative: str | None = None
    bare: str | None = None
    repeat: bool = False
    values: int = 1
    required: bool = False  # on the command line
    read: Callable[[str], Any] | None = None
    shown: str | None = None


@dataclass(frozen=True)
class Declared:
    """One option: its name, its type without `None`, its default and its `Option`."""

    name: str
    kind: Any
    optional: bool
    default: Any
    option: Option

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may be, or a list of them may hold."""
        return self.option.choices or _literals(self.kind) or _literals(self.item)

    @property
    def item(self) -> Any:
        """The type of one item of a list; None if it is not a list."""
        return typing.get_args(self.kind)[0] if typing.get_origin(self.kind) in (tuple, Sequence) else None

    @property
    def flag(self) -> str | None:
        return self.option.flag if self.option.flag != "" else "--" + self.name.replace("_", "-")

    def checked(self, value: Any) -> Any:
        """The value in the declared type; an error that says what was expected."""
        if value is None and self.optional:
            return None
        if self.item is not None:
            values = with_commas(value) if isinstance(value, str) else value
            try:
                return tuple(self._one(item, self.item) for item in values)
            except TypeError:
                raise UsageError(f"{self.name}: expected a list, got {value!r}.") from None
        return self._one(value, self.kind)

    def _one(self, value: Any, kind: Any) -> Any:
        if self.choices and isinstance(value, str) and value in self.choices:
            return value
        if _accepts(kind, bool) and isinstance(value, bool | np.bool_):
            return bool(value)
        whole, number = _accepts(kind, int), _accepts(kind, float)
        if (whole or number) and not isinstance(value, bool | np.bool_):
            if whole and isinstance(value, int | np.integer):
                return self._within(int(value))
            if number and isinstance(value, int | float | np.integer | np.floating) and not math.isnan(value):
                return self._within(float(value))
        if self.choices or kind in (int, float, bool) or (kind is str and not isinstance(value, str)):
            raise UsageError(f"{self.name} {value!r}: expected {self.expected}.")
        return value

    def _within(self, value: float) -> float:
        o = self.option
        too_small = (o.least is not None and value < o.least) or (o.above is not None and value <= o.above)
        too_large = (o.most is not None and value > o.most) or (o.below is not None and value >= o.below)
        if too_small or too_large or not math.isfinite(value):
            raise UsageError(f"{self.name} {value!r}: expected {self.expected}.")
        return value

    @property
    def expected(self) -> str:
        """What it may be, in words."""
        kind, o = self.item or self.kind, self.option
        limits = [
            f"{word} {int(limit) if limit == int(limit) else limit}"
            for word, limit in (
                ("of at least", o.least),
                ("above", o.above),
                ("of at most", o.most),
                ("below", o.below),
            )
            if limit is not None
        ]
        number = "a whole number" if _accepts(kind, int) else "a number" if _accepts(kind, float) else ""
        words = [*([" ".join([number, " and ".join(limits)]).strip()] if number else []), *self.choices]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or _named(kind)


def with_commas(text: str) -> tuple[str, ...]:
    """The parts of a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


class Options:
    """The base of every options class: values are checked when it is made, and can be derived from."""

    def __post_init__(self) -> None:
        for option in declared(type(self)):
            object.__setattr__(self, option.name, option.checked(getattr(self, option.name)))

    def settings(self, **beside: Any) -> dict[str, Any]:
        """What affects results, for the JSON of a result; the seed stands in its provenance."""
        kept = {d.name: getattr(self, d.name) for d in declared(type(self)) if d.option.moves and d.option.setting}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in {**kept, **beside}.items()}

    def shared(self, kind: type[R]) -> R:
        """The options of another class that has some of the same fields, filled from this one."""
        names = {f.name for f in fields(typing.cast(Any, kind))}
        return kind(**{f.name: getattr(self, f.name) for f in fields(typing.cast(Any, self)) if f.name in names})


_DECLARED: dict[type, tuple[Declared, ...]] = {}


def declared(kind: type) -> tuple[Declared, ...]:
    """The options of a class, in their order."""
    if kind not in _DECLARED:
        _DECLARED[kind] = _read(kind)
    return _DECLARED[kind]


def _read(kind: type) -> tuple[Declared, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    # Fields of the class itself first, then those it shares with others.
    order = [name for base in kind.__mro__ for name in vars(base).get("__annotations__", {})]
    found = []
    for field in sorted(fields(kind), key=lambda f: order.index(f.name)):
        hint = hints[field.name]
        option = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Option)), None)
        if option is None:
            raise TypeError(f"{kind.__name__}.{field.name} has no Option in its annotation.")
        bare = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        found.append(Declared(field.name, _without_none(bare), _is_optional(bare), default, option))
    return tuple(found)


class _OfOne(Protocol[O_contra, R_co]):
    def __call__(self, source: Any, /, *, options: O_contra) -> R_co: ...


class _OfOneOrTwo(Protocol[O_contra, R_co]):
    def __call__(self, first: Any, second: Any = None, /, *, options: O_contra) -> R_co: ...


class _OfTwo(Protocol[O_contra, R_co]):
    def __call__(self, first: Any, second: Any, /, *, options: O_contra) -> R_co: ...


class _OfMany(Protocol[O_contra, R_co]):
    def __call__(self, *sources: Any, options: O_contra) -> R_co: ...


class OfTables(Protocol[P, R_co]):
    """A call of one or more tables, for type checkers."""

    @overload
    def __call__(self, first: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: Any, second: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: Any, second: Any, third: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class takes(Generic[P, O_contra]):
    """Give a function ``f(source, ..., options=)`` the fields of an options class as its keywords.

    `help()`, IPython and mypy see every keyword with its type and default; the docstring gains what each option means.
    """

    def __init__(self, options: Callable[P, O_contra]):
        self.options = options

    @overload
    def __call__(self, function: _OfMany[O_contra, R] | _OfOneOrTwo[O_contra, R]) -> OfTables[P, R]: ...
    @overload
    def __call__(self, function: _OfTwo[O_contra, R]) -> Callable[Concatenate[Any, Any, P], R]: ...
    @overload
    def __call__(self, function: _OfOne[O_contra, R]) -> Callable[Concatenate[Any, P], R]: ...
    def __call__(self, function: Any) -> Any:
        known = declared(typing.cast(type, self.options))
        names = {option.name for option in known}

        @functools.wraps(function)
        def call(*sources: Any, **keywords: Any) -> Any:
            import_for_threads()
            given = {name: keywords.pop(name) for name in list(keywords) if name in names}
            try:
                bound = inspect.signature(function).bind(*sources, **keywords, options=None)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}; its options are {', '.join(sorted(names))}.") from None
            bound.arguments["options"] = typing.cast(Any, self.options)(**given)
            return function(*bound.args, **bound.kwargs)

        before = [p for p in inspect.signature(function).parameters.values() if p.name != "options"]
        keywords = [
            inspect.Parameter(
                d.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=d.default,
                annotation=d.kind | None if d.optional else d.kind,
            )
            for d in known
        ]
        typing.cast(Any, call).__signature__ = inspect.signature(function).replace(parameters=[*before, *keywords])
        call.__doc__ = _documented(function.__doc__ or "", known)
        return call


def _documented(text: str, known: tuple[Declared, ...]) -> str:
    """A docstring with its options, before its example."""
    said = inspect.cleandoc(text)
    listed = "\n".join(f"{d.name}\n    {d.option.help[0].upper()}{d.option.help[1:]}." for d in known)
    body, prompt, example = said.partition("\n>>> ")
    return f"{body.rstrip()}\n\nOther Parameters\n----------------\n{listed}\n{prompt}{example}"


def _accepts(kind: Any, wanted: type) -> bool:
    return kind is wanted or wanted in typing.get_args(kind)


def _literals(kind: Any) -> tuple[str, ...]:
    parts = typing.get_args(kind) if _is_union(kind) else (kind,)
    return tuple(word for part in parts if typing.get_origin(part) is Literal for word in typing.get_args(part))


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union)


def _is_optional(kind: Any) -> bool:
    return kind is None or (_is_union(kind) and type(None) in typing.get_args(kind))


def _without_none(kind: Any) -> Any:
    if not _is_optional(kind):
        return kind
    return typing.Union[tuple(a for a in typing.get_args(kind) if a is not type(None))]  # noqa: UP007


def _named(kind: Any) -> str:
    return {str: "text", bool: "true or false"}.get(kind, getattr(kind, "__name__", str(kind)))
