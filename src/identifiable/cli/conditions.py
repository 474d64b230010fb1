"""`--fail-if "linear.r2.value < 0.9"`: a field of a result by its path, an operator, a number, true or false, or a word.

A path is that of the JSON: names with dots between them. In a list of records a number takes one record, a word the records that
hold it (`rungs.rigid`; `source:run1` for words that come from the data), and the name of a field reads it in every record that is
left. A list of records at the end of a path is counted; `count` counts any list. `low` and `high` are the ends of an interval.
Words are compared by == and != (`verdict.degree == none`); null reads as `none`.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from identifiable import results
from identifiable._checks import UsageError
from identifiable.options.tables import Metric
from identifiable.results.dictionaries import ScoreName

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"^\s*([A-Za-z][\w.:-]*)\s*(>=|<=|==|!=|>|<)\s*([^\s<>=!].*?)\s*$")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
EQUALITY = ("==", "!=")  # all that words can be asked for
NULL = "none"
TRUTHS = {"true": True, "false": False}
ENDS = {"low": 0, "high": 1}
COUNT, ONLY = "count", "only"  # of a list; the one value of a mapping
SUGGESTED = 4  # paths that an error proposes

_ICA = r"(after\.(?:(?:centred|literal|whitened)\.)?)?"
_METRIC = f"({'|'.join(typing.get_args(Metric))})"
_SCORES = ((_METRIC, r"\2", ONLY), (rf"{_METRIC}\.(\w+?)", r"\2", r"\3"), (r"(\w+?)", "infomec", r"\2"))
_ABOUT = (("_low", "intervals.{}.low"), ("_high", "intervals.{}.high"), ("_p", "nulls.{}.p"), ("", "scores.{}"))
_FIT, _LIFT = "fits.form:{}.estimator:exact.unit:latent.", "lifts.ica:centred.data:all."
_TRIAL, _DIFFERENCE = r"conditions.representation:\1.target:all.0.", r"differences.first:\1.second:\2.target:all.0."
_SEARCH = "ways.0.queries.metric:cosine.0."
_MATCH = f"({'|'.join(typing.get_args(ScoreName))})"
SHORT: Mapping[type, tuple[tuple[str, str], ...]] = {
    results.Comparison: (
        (r"(.+)", r"pairs.rungs.\1"),
        (r"(.+)", r"pairs.\1"),
        (r"(form\..+)", r"pairs.verdict.\1"),
    ),
    results.JointResolution: ((r"(.+)", r"models.\1"),),
    results.Distortion: (  # of the worst point
        (r"(constant|condition|sigma_max)", r"summary.\1.max"),
        (r"sigma_min", r"summary.sigma_min.min"),
        (r"((?:constant|condition|sigma_max|sigma_min)\..+)", r"summary.\1"),
    ),
    results.Disentanglement: tuple(
        (_ICA + scored + about, rf"\1metrics.{metric}.{path.format(score)}")
        for scored, metric, score in _SCORES
        for about, path in _ABOUT
    ),
    results.Reproduction: (
        (r"(mean|maximum|sample)\.(.+)", _FIT.format(r"\1") + r"\2"),
        (r"((?:spearman|within_leak|r2|slope).*)", _FIT.format("mean") + r"\1"),
    ),
    results.Table2: (
        (r"(before|after|infoe_difference)", rf"{_LIFT}\1.mean"),
        (r"lift", f"{_LIFT}difference.mean"),
        (r"lift_(low|high)", rf"{_LIFT}difference.ci95.\1"),
    ),
    results.Audit: (
        (r"(stop|caution|fine)", r"findings.severity:\1"),
        (r"(position|plate|batch|cell_count|embedding)", r"blind.features:\1.0.auroc"),
        (r"duplicate_rows", r"features.duplicate_rows"),
    ),
    results.ScreenEvaluation: (
        (r"(\w+?)_minus_(\w+)_(low|high)", rf"{_DIFFERENCE}ci95.\3"),
        (r"(\w+?)_minus_(\w+)", f"{_DIFFERENCE}difference"),
        (r"(\w+)_(low|high)", rf"{_TRIAL}ci95.\2"),
        (r"(\w+)", f"{_TRIAL}auroc"),
    ),
    results.Heads: (  # of the map from the first to the second
        (r"(agreement|total_variation|(?:relative_)?logit_distance)", r"premise.\1"),
        (r"(fixed|expressed|offset)", r"maps.0.\1"),
        (r"(\w+)", r"maps.0.fit.\1"),
    ),
    results.Alignment: (  # of the map from the first table to the second: stored vectors by cosine, as in the sentence; else queries
        (r"(recall_10|within_100)_(low|high)", r"ways.0.uses.0.\1.ci95.\2"),
        (r"(recall_10|within_100)", r"ways.0.uses.0.\1.value"),
        (r"(\w+)_(low|high)", rf"{_SEARCH}\1.ci95.\2"),
        (r"(\w+)", rf"{_SEARCH}\1.value"),
        (r"(r2|cosine|own_overlap)", r"ways.0.\1.value"),
        (r"(\w+)", r"ways.0.\1"),
    ),
    results.Matches: (
        (_MATCH, r"pairs.scores.name:\1.value"),
        (rf"{_MATCH}\.(.+)", r"pairs.scores.name:\1.\2"),
        (r"(.+)", r"pairs.\1"),
    ),
    results.Attribution: ((r"(technical|biological|both|neither)", r"components.role:\1"),),
    results.Cleaning: ((r"removed", r"removed.count"),),
}
"""Short names: a pattern and the path it stands for. What is not a path of the result is tried as each of them in turn."""

_REFITS = ("stability", "--stability 2")
NEEDED: Mapping[str, tuple[str, str]] = {
    "intervals": ("bootstrap", "--bootstrap 100"),
    "nulls": ("null", "--null 100"),
    "after": ("resolve", "--resolve"),
    **dict.fromkeys(("premise", "fit"), ("features", "--features F1 F2")),
    **dict.fromkeys(("identifiable", "ties", "stability", "stability_min", "sign_kept"), _REFITS),
}
"""Parts of a path that have no value unless an option is set: the option, and what to pass."""

OVER_POINTS = ("summary", "deficient", "best_scale", "best_constant", "supremum", "random_directions", "bounds")


@dataclass(frozen=True)
class Condition:
    """A condition on a result. It holds if it does so for any of the values it is about."""

    text: str
    field: str
    compare: Callable[[Any, Any], bool]
    threshold: float | str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, kind: type, example: str, options: Any = None) -> Condition:
        """Read a condition and check, before any work, that a result of this kind can have such a value."""
        form = _FORM.match(text)
        if form is None:
            raise UsageError(f"--fail-if {text!r}: expected FIELD OPERATOR VALUE, for example {example}.")
        field, symbol, given = form.groups()
        try:
            path, leads_to = _found(kind, field.lower())  # tables print InfoM and R²; no field has capitals
            _check_measured(kind, path, options)
        except UsageError as error:
            raise UsageError(f"--fail-if {text!r}: {error}") from None
        try:
            threshold = _threshold(field, symbol, given, leads_to)
        except UsageError as error:
            raise UsageError(f"--fail-if {text!r}: {error} For example {example}.") from None
        return cls(text, field, OPERATORS[symbol], threshold, path)

    def failures(self, result: Any) -> Iterator[str]:
        """A sentence for everything for which the condition holds."""
        for whose, value in self._read(result):
            worded = isinstance(self.threshold, str)
            found = (NULL if value is None else _spelled(value)) if worded and isinstance(value, str | None) else value
            if not isinstance(found, str if worded else int | float) or found != found:
                raise UsageError(
                    f"--fail-if {self.text!r}: {self.field} has no value for {whose}, "
                    "so the gate cannot decide; use another field."
                )
            if self.compare(found, self.threshold):
                yield f"{whose}: {self.text} ({self.field} = {found if worded else format(found, '.6g')})"

    def _read(self, result: Any) -> list[tuple[str, Any]]:
        try:
            _check_refitted(result, self.path)
            _check_defined(result, self.path)
            return list(_reached(result, _name(result), self.path))
        except UsageError as error:
            raise UsageError(f"--fail-if {self.text!r}: {error}") from None


def _threshold(field: str, symbol: str, given: str, leads_to: Any) -> float | str:
    """What a field is compared with: a word where it holds words, else a number, or true or false where it holds those."""
    truth, number = TRUTHS.get(given.lower()), _NUMBER.fullmatch(given)
    word = _spelled(given.strip("'\""))
    literal = typing.get_args(leads_to) if typing.get_origin(leads_to) is typing.Literal else ()
    choices = list(dict.fromkeys([*map(_spelled, literal), NULL])) if literal else []
    if leads_to is str or choices or (leads_to is Any and truth is None and number is None):
        if symbol not in EQUALITY:
            raise UsageError(f"{field} is a word: compare it by {' or '.join(EQUALITY)}.")
        if choices and word not in choices:
            raise UsageError(f"{field} is never {given!r}; choose from {', '.join(choices)}.")
        return word
    if truth is not None:
        if leads_to not in (bool, Any):  # `identifiable == true` would compare a count
            raise UsageError(f"{field} is a number, not true or false.")
        return truth
    if number is None:
        raise UsageError(f"{given!r} is not a number, and {field} is one.")
    return float(given)


class _NoStepError(UsageError):
    """A path that ends early: the step that is not there, how many were left, and what could stand there."""

    def __init__(self, step: str, left: int, choices: Iterable[str]):
        super().__init__(step)
        self.step, self.left, self.choices = step, left, list(choices)


def _found(kind: type, text: str) -> tuple[tuple[str, ...], Any]:
    """The path that a text stands for in results of a class, and the annotation it leads to."""
    if kind is results.Comparison:  # its own are those of one pair; a condition is about all of them
        text = re.sub(r"^(verdict|rungs)\b", r"pairs.\1", text)
    spelled = [text, *(form.expand(path) for short, path in SHORT.get(kind, ()) if (form := re.fullmatch(short, text)))]
    spelled += [f"{s.rpartition('_')[0]}_ci95.{s.rpartition('_')[2]}" for s in spelled if s.endswith(("_low", "_high"))]
    errors = []
    for path in (tuple(s.split(".")) for s in spelled):
        try:
            return path, _kind_at(kind, path)
        except _NoStepError as error:
            errors.append(error)
    left = min(error.left for error in errors)
    nearest = [error for error in errors if error.left == left]
    if left == 0:
        raise UsageError(
            f"{text} is not a number or a word; name one of its fields: {', '.join(nearest[0].choices) or 'none'}."
        )
    choices = dict.fromkeys(choice for error in nearest for choice in error.choices)
    if not choices:
        raise UsageError(f"{nearest[0].step!r} is not a field of a number; drop it.")
    known = list(_paths(kind))
    last = text.rpartition(".")[2]
    alike = [p for p in known if p.rpartition(".")[2] == last] or difflib.get_close_matches(text, known, SUGGESTED)
    hint = f"; near to it: {', '.join(alike[:SUGGESTED])}" if alike else ""
    raise UsageError(f"no field {nearest[0].step!r} in {text!r}; choose from {', '.join(choices)}{hint}.")


def _kind_at(kind: Any, path: tuple[str, ...]) -> Any:
    """The annotation that a path leads to: that of a number or a word, or int for what is counted."""
    for at, step in enumerate(path):
        kind = _without_none(kind)
        if kind is Any:
            return Any
        found = _next(kind, step)
        if found is None:
            raise _NoStepError(step, len(path) - at, _choices(kind))
        kind = found
    kind = _without_none(kind)
    if kind in (float, int, bool, str, Any) or typing.get_origin(kind) is typing.Literal:
        return kind
    if _record(kind) is None:  # numbers are not counted: `ci95 < 1` would compare 2, the number of its ends
        raise _NoStepError(path[-1], 0, _choices(kind))
    return int


def _next(kind: Any, step: str) -> Any:
    """The annotation one step further; None if there is no such step."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    record = _record(kind)
    if is_dataclass(kind):
        return _kinds(kind).get(step)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        keys = typing.get_args(arguments[0])
        return arguments[1] if not keys or step in keys else None
    if origin is tuple and step == COUNT:
        return int
    if record is not None and not step.isdigit():
        field, colon, _ = step.partition(":")
        if step in _kinds(record):
            return _kinds(record)[step]
        return kind if (field in _kinds(record) if colon else step in _words(record)) else None
    return arguments[0] if origin is tuple and (step.isdigit() or step in ENDS) else None


def _choices(kind: Any) -> list[str]:
    record = kind if is_dataclass(kind) else _record(kind)
    if record is None:
        keys = typing.get_args(typing.get_args(kind)[0]) if typing.get_args(kind) else ()
        return [str(key) for key in keys]
    named = [name for name in _kinds(record) if name not in ("schema", "text", "headline", "gist")]
    return named if record is kind else [*named, *_words(record)]


def _words(record: Any) -> list[str]:
    """What fields of a record may hold, where that is declared."""
    kinds = [_without_none(kind) for kind in _kinds(record).values()]
    return [word for kind in kinds if typing.get_origin(kind) is typing.Literal for word in typing.get_args(kind)]


def _paths(kind: Any, before: str = "", depth: int = 5) -> Iterator[str]:
    """The paths of the numbers of a class that need no name of the data."""
    for name, found in _kinds(kind).items():
        inner = _without_none(found)
        if inner in (int, float):
            yield before + name
        record = inner if is_dataclass(inner) else _record(inner)
        if record is not None and depth > 1 and name not in ("inputs", "provenance", "alerts"):
            yield from _paths(record, f"{before}{name}.", depth - 1)


def _kinds(kind: Any) -> dict[str, Any]:
    """The annotation of every field and public property of a dataclass, fields first."""
    hints = typing.get_type_hints(kind)
    found = {f.name: hints[f.name] for f in fields(kind) if f.metadata.get("json", f.name) is not None}
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_"):
            found[name] = typing.get_type_hints(value.fget).get("return", Any)
    return found


def _record(kind: Any) -> Any:
    """The dataclass that a list is of; None if it is not a list of records."""
    first = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
    return first if is_dataclass(first) else None


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(a for a in typing.get_args(kind) if a is not type(None))
    return kind


def _reached(value: Any, whose: str, path: tuple[str, ...], *, chosen: bool = False) -> Iterator[tuple[str, Any]]:
    """Whose, and the value, of all that a path leads to; NaN where it ends early. `chosen`: records were picked by a word."""
    if isinstance(value, results.Metric) and path[0] in ("scores", "intervals", "nulls"):
        score = "".join(path[1:2])
        why = value.meaningless().get(score)
        by_chance = score not in value.by_definition()  # which shuffles can tell
        if why is not None and not (by_chance and path[0] == "nulls"):
            judge = f"infoe, or {score}_p with --null" if by_chance else "another score"
            raise UsageError(
                f"{whose}: {str(why.message).rstrip('.')}. So the gate cannot decide on {score}; judge {judge}."
            )
    if not path or value is None:
        counted = isinstance(value, tuple) and (not value or is_dataclass(value[0]))
        yield whose, len(value) if counted else math.nan if path else value
        return
    step, rest = path[0], path[1:]
    if is_dataclass(value):
        yield from _reached(getattr(value, step), whose, rest)
    elif isinstance(value, Mapping):
        yield from _reached(_entry(value, step), whose, rest)
    elif step == COUNT:
        yield whose, len(value)
    elif step.isdigit() or step in ENDS:
        place = ENDS[step] if step in ENDS else int(step)
        yield from _reached(value[place] if place < len(value) else None, whose, rest)
    elif value and step in _kinds(type(value[0])):
        for item in value:
            if isinstance(item, results.AfterICA) and step == "metrics" and not (item.converged or chosen):
                raise UsageError(
                    f"{item.mode} ICA did not converge, so the gate cannot decide; judge it all the same by its name "
                    f"(after.{item.mode}), or pass --resolve whitened."
                )
            name = whose if len(value) == 1 else _name(item, whose)
            yield from _reached(getattr(item, step), name, rest)
    else:
        field, colon, word = step.partition(":")
        kept = tuple(item for item in value if _holds(item, *((word, field) if colon else (step,))))
        if not kept and rest and value:
            held = dict.fromkeys(_spelled(getattr(item, field)) for item in value) if colon else {}
            listed = f"; choose from {', '.join(held)}" if held else ""
            raise UsageError(f"the result has no {word or step!r}, so the gate cannot decide{listed}.")
        yield from _reached(kept, whose, rest, chosen=True)


def _entry(value: Mapping[str, Any], key: str) -> Any:
    if key == ONLY and len(value) == 1:
        return next(iter(value.values()))
    found = next((k for k in value if k.lower() == key), None)
    if found is None and value:
        what = "several values" if key == ONLY else f"no {key!r}"
        raise UsageError(f"the result has {what}, so the gate cannot decide; choose from {', '.join(value)}.")
    return None if found is None else value[found]


def _holds(item: Any, word: str, field: str | None = None) -> bool:
    held = [getattr(item, name) for name in ([field] if field else _kinds(type(item)))]
    return any(isinstance(value, str) and _spelled(value) == word.replace("-", "_") for value in held)


def _spelled(word: str) -> str:
    return word.replace("-", "_").lower()


def _name(item: Any, whole: str = "") -> str:
    """What a message calls a result, or a part of the whole of that name."""
    if isinstance(item, results.PairResult):
        return f"{item.source} -> {item.target}"
    if isinstance(item, results.DictionaryPair):
        return f"{item.first} and {item.second}"
    if isinstance(item, results.LayerPair):
        return f"{item.first}, {item.second}"
    if isinstance(item, results.Layers):
        return " and ".join(item.names)
    if isinstance(item, results.AfterICA):
        return f"{whole}, {item.mode} ICA"
    if isinstance(item, results.Disentanglement):
        return item.inputs[0].name if item.inputs else "latents"
    own = getattr(item, "decoder", None) or getattr(item, "experiment", None)
    return own or ", ".join(i.name for i in getattr(item, "inputs", ())) or whole


def _check_measured(kind: type, path: tuple[str, ...], options: Any) -> None:
    """Refuse, before the work, what the options leave out of the result."""
    for part in path:
        option, remedy = NEEDED.get(part, ("", ""))
        if not getattr(options, option, True):
            raise UsageError(f"{'.'.join(path)} is not measured; pass {remedy}.")
    asked = getattr(options, "metrics", ())
    if kind is results.Disentanglement and "metrics" in path and "all" not in asked:
        metric = path[path.index("metrics") + 1]
        if asked and metric not in asked:
            raise UsageError(f"{metric} is not measured; choose from {', '.join(asked)}, or add it to --metrics.")


def _check_refitted(result: Any, path: tuple[str, ...]) -> None:
    """Without refits nothing is called identifiable: a gate on that would fail, or pass, for want of a measurement."""
    if any(NEEDED.get(part) == _REFITS for part in path):
        for model in getattr(result, "models", (result,)):
            if isinstance(model, results.Resolution) and all(c.stability is None for c in model.components):
                raise UsageError(f"{_name(model)} has too few rows for refits, so the gate cannot decide.")


def _check_defined(result: Any, path: tuple[str, ...]) -> None:
    """What a decoder does at the points where it has no derivative is not known: the worst of the others is not the worst."""
    if isinstance(result, results.Distortion) and result.summary and result.undefined and path[0] in OVER_POINTS:
        raise UsageError(
            f"{_name(result)} has no finite derivative at {result.undefined} of {result.n} points, so the gate cannot decide; leave "
            "these points out, or judge 'undefined > 0'."
        )
