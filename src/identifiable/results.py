"""Results: frozen data from which every table, page and line of the command line is drawn.

A result is plain numbers and words. It goes to JSON and comes back unchanged, so a page can be drawn
again from a file, byte for byte.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from identifiable._checks import DataError, OutputError, UsageError

Interval = tuple[float, float]


@dataclass(frozen=True)
class Input:
    """One representation that went in. `sha256` is of its values, row by row, whatever the container."""

    name: str
    n: int
    d: int
    dtype: str
    sha256: str


@dataclass(frozen=True)
class Alert:
    """Something a reader must know before trusting a number."""

    code: str
    message: str


@dataclass(frozen=True)
class Provenance:
    """What it takes to get these numbers again."""

    version: str
    libraries: Mapping[str, str]
    seed: int
    command: str
    time: str


@dataclass(frozen=True)
class Scale:
    """Yardsticks of the target: the exact largest pairwise distance, and the root mean square one."""

    diameter: float
    rms: float


@dataclass(frozen=True)
class Errors:
    """Euclidean errors over rows, divided by `Scale.rms`; `mean_over_diameter` is the paper's figure.

    `quantiles` holds the 0th to the 100th percentile, for drawing; `ci95` is of the mean (held-out only).
    """

    mean: float
    q50: float
    q95: float
    q99: float
    max: float
    mean_over_diameter: float
    quantiles: tuple[float, ...] = ()
    ci95: Interval | None = None


@dataclass(frozen=True)
class Null:
    """What chance gives: the same held-out mean on data with the link broken `draws` times.

    On tables longer than `rows` both the null and `observed` use that many rows, drawn by the seed.
    """

    mean: float
    p: float
    observed: float
    draws: int
    rows: int


@dataclass(frozen=True)
class Rung:
    """One step of the ladder. `null` maps the name of a null to its result; None where it says nothing."""

    group: str
    in_sample: Errors
    held_out: Errors
    null: Mapping[str, Null | None]

    def judged(self, protocol: str) -> float:
        """The figure a verdict is taken from: the 95 % quantile on held-out rows, or the paper's in-sample mean."""
        return self.in_sample.mean_over_diameter if protocol == "paper" else self.held_out.q95


@dataclass(frozen=True)
class Efficiency:
    """How much of the way from permutation to rigid ICA goes: (permutation - ica) / (permutation - rigid)."""

    in_sample: float | None
    held_out: float | None
    ci95: Interval | None = None


@dataclass(frozen=True)
class Similarity:
    """Mean canonical correlation, the same on k principal components, and linear CKA; 1 is alike.

    `null` holds the mean of each under row shuffling and its p-value.
    """

    cca: float
    svcca: Mapping[str, float]
    cka: float
    cka_debiased: float
    null: Mapping[str, Null]


@dataclass(frozen=True)
class Verdict:
    """The smallest group whose headline error is below epsilon; None if there is none."""

    group: str | None
    epsilon: float
    text: str


@dataclass(frozen=True)
class Solver:
    """How the linear maps were obtained. `refined`: a second pass in whitened coordinates was needed."""

    condition_source: float
    condition_target: float
    rank_source: int
    rank_target: int
    refined: bool
    error_dtype: str


@dataclass(frozen=True)
class WorstRow:
    """A row the verdict's map (the linear one if no group fits) serves badly on held-out data."""

    row: str
    error: float


@dataclass(frozen=True)
class PairResult:
    """Source to target: can the source be mapped onto the target, by how large a group?

    `dropped` counts the rows of both sides without a partner. Where the sides differ in width, the wider one is
    compared in its first `width` principal components; `kept_source` and `kept_target` are the shares of variance
    that were compared.
    """

    source: str
    target: str
    n: int
    dropped: int
    width: int
    kept_source: float
    kept_target: float
    scale: Scale
    rungs: tuple[Rung, ...]
    ica_efficiency: Efficiency | None
    similarity: Similarity
    verdict: Verdict
    solver: Solver
    worst: tuple[WorstRow, ...]

    def rung(self, group: str) -> Rung:
        """The rung of that name."""
        for rung in self.rungs:
            if rung.group == group:
                return rung
        raise UsageError(f"there is no rung {group!r} here; choose from {', '.join(r.group for r in self.rungs)}.")


@dataclass(frozen=True)
class Spectrum:
    """Principal variances of one representation, largest first.

    `rank` counts directions above rounding; `effective_rank` is exp(entropy) of the normalised
    variances (Roy and Vetterli 2007).
    """

    name: str
    variances: tuple[float, ...]
    rank: int
    effective_rank: float


@dataclass(frozen=True)
class ErrorMatrix:
    """Held-out mean error of one group for every ordered pair; `values[i][j]` maps i onto j, 0 on the diagonal."""

    group: str
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ConsensusDistance:
    """Distance of one model to the consensus, per row, in units of the consensus' rms distance."""

    name: str
    rms: float
    mean: float
    q95: float
    max: float


@dataclass(frozen=True)
class Consensus:
    """Generalised Procrustes mean of three or more models, each centred and scaled to unit rms first."""

    width: int
    iterations: int
    converged: bool
    distances: tuple[ConsensusDistance, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found, and all it takes to draw it."""

    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    alerts: tuple[Alert, ...]
    provenance: Provenance
    pairs: tuple[PairResult, ...]
    spectra: tuple[Spectrum, ...]
    matrices: tuple[ErrorMatrix, ...] = ()
    consensus: Consensus | None = None
    schema: Literal["identifiable/compare/1"] = "identifiable/compare/1"

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The ladder of the first pair."""
        return self.pairs[0].rungs

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict over all ordered pairs: what holds for every one of them."""
        pair = self.weakest
        if len(self.pairs) <= 2:
            return pair.verdict
        return replace(pair.verdict, text=f"{pair.source} to {pair.target}: {pair.verdict.text}")

    @property
    def weakest(self) -> PairResult:
        """The pair that takes the largest group, or has none; of those, the one whose best figure is the largest."""
        protocol = str(self.settings.get("protocol"))

        def weakness(pair: PairResult) -> tuple[int, float]:
            names = [rung.group for rung in pair.rungs]
            if pair.verdict.group in names:
                return names.index(pair.verdict.group), pair.rung(pair.verdict.group).judged(protocol)
            return len(names), min((rung.judged(protocol) for rung in pair.rungs), default=math.inf)

        return max(self.pairs, key=weakness)

    def __repr__(self) -> str:
        names = ", ".join(i.name for i in self.inputs)
        return f"<Comparison of {names}: {self.verdict.group or 'not the same up to any group'}>"

    def table(self) -> str:
        """The ladder as text, as the command line prints it."""
        return str(_report_room().text_table(self))

    def to_json(self) -> str:
        """The result as JSON text (`schema` identifiable/compare/1)."""
        return to_json(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the self-contained page and return its path."""
        return write_text(path, _report_room().html(self))

    def _repr_html_(self) -> str:
        return str(_report_room().fragment(self))


def _report_room() -> Any:
    """The one call upwards: a result can show itself. By name and when asked, so this room imports nothing above it."""
    return import_module("identifiable.report")


SCHEMAS: dict[str, type] = {"identifiable/compare/1": Comparison}

T = TypeVar("T")


def to_json(result: Any) -> str:
    """JSON text of a result: fields in their declared order, non-finite numbers as null, absent ones left out."""
    data = _plain(result)
    ordered = {"schema": data.pop("schema"), **data} if "schema" in data else data
    return json.dumps(ordered, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, name: str = "result") -> Any:
    """The result that `to_json` wrote; a clear error for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}: expected a JSON result of identifiable, got text that is not JSON ({error})."
        ) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema not in SCHEMAS:
        raise DataError(f"{name}: expected a result with schema {' or '.join(SCHEMAS)}, got {schema!r}.")
    try:
        return _typed(SCHEMAS[schema], data)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name}: the result does not follow schema {schema} ({error}); write it again with this version."
        ) from None


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        items = ((f.name, getattr(value, f.name)) for f in fields(value))
        optional = {f.name for f in fields(value) if f.default is None or f.default == ()}
        return {k: _plain(v) for k, v in items if not (k in optional and v in (None, ()))}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _typed(kind: Any, value: Any) -> Any:
    """`value` (from JSON) as an instance of the annotation `kind`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {getattr(kind, '__name__', kind)}, got {type(value).__name__}")
        hints = typing.get_type_hints(kind)
        known = {f.name: f for f in fields(kind)}
        return typing.cast(Any, kind)(**{k: _typed(hints[k], v) for k, v in value.items() if k in known})
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _typed(next(a for a in arguments if a is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_typed(arguments[0], v) for v in value)
        if len(value) != len(arguments):
            raise TypeError(f"expected {len(arguments)} values, got {len(value)}")
        return tuple(_typed(a, v) for a, v in zip(arguments, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        return {k: _typed(arguments[1], v) for k, v in value.items()}
    if kind is float:
        if value is None:  # written as null: JSON has no infinity or NaN
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"expected a number, got {value!r}")
        if not abs(float(value)) < 1e100:  # no figure of ours is so large; a page could not draw it
            raise ValueError(f"expected a number of ordinary size, got {value!r:.40}")
        return float(value)
    if isinstance(kind, type) and kind in (int, str, bool) and not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value


def without_time(result: T) -> T:
    """The same result with the only field that changes between equal runs left empty."""
    record: Any = result
    return typing.cast(T, replace(record, provenance=replace(record.provenance, time="")))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` whole or not at all: to a temporary file beside `path`, then renamed over it.

    A pipe or a device (/dev/stdout) cannot be replaced and is written to.
    """
    write_texts({path: text})
    return Path(path)


def write_texts(texts: Mapping[str | os.PathLike[str], str]) -> None:
    """Write several texts, all of them or none: every one is on disk before the first takes its name."""
    paths = {Path(path): text for path, text in texts.items()}
    for path, text in paths.items():
        if _is_stream(path):
            try:
                path.write_text(text, encoding="utf-8", errors="replace")
            except OSError as error:
                raise _unwritable(path, error) from None
    with ExitStack() as stack:
        for path, text in paths.items():
            if not _is_stream(path):
                stack.enter_context(whole_file(path)).write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the body succeeds and vanishes if not."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        if path.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private; a result is an ordinary file
        os.replace(temporary, path)
    except OutputError:  # of another file written together with this one
        temporary.unlink(missing_ok=True)
        raise
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    """Whether `path` is a pipe or a device."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # a name no file can have: the attempt to write it says so
        return False


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot write there ({error.strerror}); choose another path.")
