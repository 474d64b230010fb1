"""Numbers at the edge, through every public call: a right result, an error of ours, or an alert.

The same numbers in another form (byte order, strides, a mask without gaps) give the result of plain float64. Other numbers give a
result that is finite, or says that it is not in an alert which plain numbers do not raise. No call raises anything but our errors.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardening.attempts import Attempt, attempted
from hardening.checks import Check, Setting

PART = "values"
ROWS, COLUMNS = 60, 3
SECONDS = 60.0  # of one call: this is about values
TOLERANCE = 1e-4  # of the same numbers in another form, relative to the largest number of the same name
ROUNDING = 1e-8  # so small numbers are zero: rounding of numbers near 1 in sums that cancel

# How it was got, and not what was found; passes are counted until a tolerance is met, the residual is what is left of it then.
PASSED_OVER = ("provenance", "inputs", "settings", "times", "passes", "steps", "residual")
# Not finite by what they are: the smallest over pairs of components, of one component; a share of the biology, where there is none.
BY_DEFINITION = {".curvature": ("inf",), ".biology_lost": ("nan",)}
# Numbers that an alert is about: they may be NaN beside it, even if plain numbers raise it too.
ABOUT = {"no_splits": ("hoyer", "hoyer_null", "ci95"), "draws_agree": ("ci95",)}

Array = NDArray[Any]
Call = Callable[[Any, Any], Any]
Given = Callable[[Array, Array], tuple[Any, Any]]


def checks(setting: Setting) -> Iterator[Check]:
    for name, call in calls().items():
        yield tried(name, call, setting)


def tried(name: str, call: Call, setting: Setting) -> Check:
    """A call with every kind of numbers, each in its first argument, its second, and both."""
    X, Y = drawn(setting.seed)
    given = [case for case in cases() if name not in OF_ONE or case[1] == "first" or case[0] in ROW_COUNTS]
    plain: list[tuple[dict[str, float], set[str]]] = []

    def prepare(index: int) -> Attempt:
        if not plain:  # in the child
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = call(X.copy(), Y.copy())
            plain.append((numbers(found), alerts(found)))
        kind, where, make = given[index]
        first, second = make(X.copy(), Y.copy())
        if kind not in SAME and name in HOLDING:
            return Attempt(f"{kind}, {where}", lambda: call(first, second))
        judge = partial(like, plain[0][0]) if kind in SAME else partial(silent, *plain[0])
        return Attempt(f"{kind}, {where}", lambda: call(first, second), judge)

    return attempted(Check(PART, name), prepare, setting.of(len(given)), setting.folder / "values", seconds=SECONDS)


def drawn(seed: int) -> tuple[Array, Array]:
    """Sources of two clusters each, and a rotation of them with a little noise; all of it exact in single precision.

    So few rows of Laplace numbers can look Gaussian: ICA then has optima that are nearly as good as each other, and rounding in
    single precision chooses one (9 of 60 seeds, where it is none of 60 with clusters).
    """
    rng = np.random.default_rng([25, seed])
    clusters = rng.choice([-1.0, 1.0], size=(ROWS, COLUMNS)) + 0.2 * rng.standard_normal((ROWS, COLUMNS))
    X = clusters.astype(np.float32).astype(np.float64)
    turn, _ = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))
    Y = X @ turn + 0.05 * rng.standard_normal(X.shape)
    return X, Y.astype(np.float32).astype(np.float64)


# -- the same numbers

SAME: dict[str, Callable[[Array], Any]] = {
    "big-endian": lambda X: X.astype(">f8"),
    "single": lambda X: X.astype(np.float32),
    "single, big-endian": lambda X: X.astype(">f4"),
    "longdouble": lambda X: X.astype(np.longdouble),
    "by columns": np.asfortranarray,
    "strides": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "unaligned": lambda X: np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape),
    "read-only": lambda X: _read_only(X),
    "a mask without gaps": lambda X: np.ma.MaskedArray(X),
    "lists": lambda X: X.tolist(),
    "a subclass": lambda X: X.view(np.matrix),
}


def _read_only(X: Array) -> Array:
    X.flags.writeable = False
    return X


# -- other numbers


def put(value: Any) -> Callable[[Array], Any]:
    def change(X: Array) -> Array:
        X[5, 1] = value
        return X

    return change


def column(make: Callable[[Array], Any]) -> Callable[[Array], Any]:
    def change(X: Array) -> Array:
        X[:, 1] = make(X)
        return X

    return change


def scaled(by: float) -> Callable[[Array], Any]:
    def change(X: Array) -> Array:
        with np.errstate(all="ignore"):
            return X * by

    return change


def halved(X: Array) -> Array:
    """Half precision, near its largest number: sums overflow there."""
    return (np.sign(X) * np.minimum(np.abs(X) * 2e4, 6.5e4)).astype(np.float16)


OTHER: dict[str, Callable[[Array], Any]] = {
    "inf": put(np.inf),
    "-inf": put(-np.inf),
    "NaN": put(np.nan),
    "one of 1e300": put(1e300),
    "one of 1e-300": put(1e-300),
    "subnormal": scaled(1e-310),
    "× 1e300": scaled(1e300),
    "× 1e-300": scaled(1e-300),
    "× 1e150": scaled(1e150),
    "× 1e-150": scaled(1e-150),
    "a column × 1e150": column(lambda X: X[:, 1] * 1e150),
    "a column × 1e-150": column(lambda X: X[:, 1] * 1e-150),
    "+ 1e12": lambda X: X + 1e12,
    "half precision": halved,
    "longdouble out of range": lambda X: X.astype(np.longdouble) * np.longdouble("1e4000"),
    "a masked number": lambda X: np.ma.MaskedArray(X, np.arange(X.size).reshape(X.shape) == 7),
    "whole numbers": lambda X: np.round(X).astype(np.int64),
    "whole numbers of 2^62": lambda X: np.round(X).astype(np.int64) << 60,
    "unsigned": lambda X: np.abs(X * 10).astype(np.uint8),
    "true and false": lambda X: X > 0,
    "complex": lambda X: X.astype(complex),
    "text": lambda X: X.astype(str),
    "objects": lambda X: X.astype(object),
    "dates": lambda X: X.astype("M8[s]"),
    "records": lambda X: np.zeros(len(X), [("a", float), ("b", float)]),
    "a constant column": column(lambda X: 3.0),
    "a column twice": column(lambda X: X[:, 0]),
    "a column nearly twice": column(lambda X: X[:, 0] * (1 + 1e-15)),
    "all equal": lambda X: np.ones_like(X),
    "all zero": np.zeros_like,
    "all rows equal": lambda X: np.broadcast_to(X[:1], X.shape),
    "rows twice": lambda X: np.repeat(X[: len(X) // 2], 2, axis=0),
    "three dimensions": lambda X: X[:, :, None],
    "one dimension": lambda X: X[:, 0],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "one column": lambda X: X[:, :1],
    "nothing": lambda X: None,
    "a number": lambda X: 3.0,
    "a word": lambda X: "no such file",
}
ROW_COUNTS = {"n = 1": 1, "n = 2": 2, "n = d": COLUMNS, "n = d + 1": COLUMNS + 1}


def cases() -> list[tuple[str, str, Given]]:
    found: list[tuple[str, str, Given]] = []
    for kind, change in (SAME | OTHER).items():
        for where, first, second in (("first", True, False), ("second", False, True), ("both", True, True)):
            found.append((kind, where, partial(_given, change, first=first, second=second)))
    for kind, n in ROW_COUNTS.items():
        found.append((kind, "both", partial(_given, partial(_rows, n=n), first=True, second=True)))
    return found


def _given(change: Callable[[Array], Any], X: Array, Y: Array, *, first: bool, second: bool) -> tuple[Any, Any]:
    return change(X) if first else X, change(Y) if second else Y


def _rows(X: Array, n: int) -> Array:
    return X[:n]


# -- the calls

OF_ONE = (
    "resolve", "transform", "transform, inverse", "bilipschitz", "mechanisms", "metrics.ica_step", "metrics.unsupervised",
    "Representation", "AffineMap", "AffineMap, its matrix", "Moments", "Blocks", "deconfound.screen", "deconfound.audit",
    "deconfound.evaluate", "deconfound.attribute", "deconfound.clean", "deconfound.recommend",
)  # fmt: skip


HOLDING = ("Representation", "Blocks", "fold", "AffineMap, its matrix")  # hold numbers as they are given, NaN too
RESULTS = (
    "Aligned", "Alignment", "Comparison", "Disentanglement", "Distortion", "Extraction", "Heads", "JointResolution", "Layers",
    "Matches", "Mechanisms", "Resolution", "Resolved",
)  # fmt: skip
NO_CALLS = {
    **dict.fromkeys(RESULTS, "a result, which a call here makes"),
    **dict.fromkeys(("DataError", "DataWarning", "IdentifiableError", "PairingError", "UsageError"), "an error or a warning"),
    **dict.fromkeys(("load", "load_basis"), "takes a file: see `readers`"),
    "save_basis": "writes a result that a call here makes: see `kills` and `disks`",
    "GROUPS": "a constant",
    "deconfound": "a module, see `screen_calls`",
    "metrics": "a module, see `metric_calls`",
    "pp": "the calls of `deconfound` on AnnData, which it reads as they do",
    "extract": "takes a model and files: see `readers` (inputs)",
}  # fmt: skip
NO_SCREEN_CALLS = {
    **dict.fromkeys(("CLASSIFIERS", "CORRECTIONS", "REPRESENTATIONS"), "a constant"),
    **dict.fromkeys(("Attributed", "Cleaned", "Design", "Labels", "Recommended", "Screen"), "what a call here makes"),
    **dict.fromkeys(
        ("save_cleaned", "save_corrected", "save_recommended", "save_scores"), "writes what a call here makes"
    ),
}


def without_call(public: Iterable[str], found: Iterable[str], left_out: Iterable[str]) -> list[str]:
    """Public names that no call here tries, and names that are left out and not public."""
    tried = {name.partition(",")[0].rpartition(".")[2] for name in found}
    return sorted((({*public} - tried) | ({*left_out} - {*public})) - ({*left_out} & {*public}))


def calls() -> dict[str, Call]:
    """Every public call, on two tables of the same rows; one that takes one table takes the first."""
    import identifiable as i

    found: dict[str, Call] = {
        "compare": lambda X, Y: i.compare(X, Y, null_draws=2),
        "compare, three": lambda X, Y: i.compare(X, Y, X, null_draws=2, intervals=False),
        "structural": lambda X, Y: i.structural(X, Y, null_draws=2),
        "resolve": lambda X, Y: i.resolve(X, stability=2, restarts=1),
        "resolve, two": lambda X, Y: i.resolve(X, Y, stability=0, restarts=1),
        "ICA": lambda X, Y: i.ICA(random_state=0, restarts=1).fit(X).transform(Y),
        "transform": lambda X, Y: i.transform(basis(), X),
        "transform, inverse": lambda X, Y: i.transform(basis(), X, inverse=True),
        "align": lambda X, Y: i.align(X, Y).result,
        "Aligner": lambda X, Y: i.Aligner(random_state=0).fit(X, Y).transform(X),
        "match": lambda X, Y: i.match(X, Y, null_draws=2),
        "heads": lambda X, Y: i.heads(X, Y, null_draws=2),
        "layers": lambda X, Y: i.layers({"a": X, "b": Y}, {"a": Y, "b": X}, null_draws=2),
        "bilipschitz": lambda X, Y: i.bilipschitz(jvp, X, directions=2),
        "mechanisms": lambda X, Y: i.mechanisms(as_jacobians(X)),
        "disentangle": lambda X, Y: i.disentangle(X, Y, bootstrap=0, null=0),
        "match_components": lambda X, Y: i.match_components(X, Y, draws=2),
        "pair": lambda X, Y: i.pair(i.Representation(X), i.Representation(Y, name="b")).n,
        "Representation": lambda X, Y: i.Representation(X).values[:],
        "AffineMap": lambda X, Y: i.AffineMap(np.eye(COLUMNS), np.ones(COLUMNS))(X),
        "AffineMap, its matrix": lambda X, Y: i.AffineMap(X, np.ones(COLUMNS))(np.ones((2, ROWS))),
        "Moments": lambda X, Y: _of_moments(i.Moments.of(X)),
        "Blocks": lambda X, Y: np.asarray(i.Blocks(X)[:], dtype=np.float64),
        "fold": lambda X, Y: i.fold([i.Blocks(X), i.Blocks(Y)], _Sums).sums,
    }
    if missing := without_call(i.__all__, found, NO_CALLS):
        raise AssertionError(f"no call of {missing}")
    return {**found, **metric_calls(), **screen_calls()}


def _of_moments(moments: Any) -> list[Array]:
    return [moments.mean, moments.scatter, moments.energy]


class _Sums:
    """What `fold` makes here: sums of columns."""

    sums: Any = 0.0

    def add(self, first: int, rows: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            self.sums = self.sums + sum(np.asarray(each, np.float64).sum() for each in rows)

    def merge(self, later: _Sums) -> None:
        self.sums = self.sums + later.sums


def jvp(z: Array, v: Array) -> Array:
    return (1 + z**2) * v


def as_jacobians(X: Any) -> Any:
    """A Jacobian for every row, of two latents with outputs of their own; what is no table stays as it is."""
    if (
        not isinstance(X, np.ndarray)
        or isinstance(X, np.matrix)
        or X.ndim != 2
        or X.dtype.kind not in "fiub"
        or X.shape[1] != COLUMNS
    ):
        return X
    moved = np.array([[True, False], [True, False], [False, True]])
    return np.where(moved, X[:, :, None], X.dtype.type(0))


def basis() -> Any:
    import identifiable as i

    if not _BASIS:
        _BASIS.append(i.resolve(drawn(0)[0], stability=0, restarts=1))
    return _BASIS[0]


_BASIS: list[Any] = []


def metric_calls() -> dict[str, Call]:
    from identifiable import metrics

    named: dict[str, Mapping[str, Any]] = {
        "dci": {}, "dcimig": {},
        "explicitness": {}, "infomec": {"workers": 1}, "irs": {}, "jemmig": {}, "mcc": {}, "mig": {}, "mig_sup": {}, "modularity": {},
        "noise_sweep": {"levels": (0.0, 0.1)}, "r2": {}, "sap": {},
        "sis": {"slots_latents": ((0,), (1, 2)), "slots_factors": ((0,), (1, 2))},
    }  # fmt: skip
    found: dict[str, Call] = {}
    for name, arguments in named.items():
        found[f"metrics.{name}"] = partial(getattr(metrics, name), **arguments)
    for name in ("betavae_score", "factorvae_score"):  # these need factors with values that rows share
        found[f"metrics.{name}"] = partial(_of_signs, getattr(metrics, name), train=100, test=100)
    found["metrics.ica_step"] = lambda X, Y: metrics.ica_step(X)
    found["metrics.unsupervised"] = lambda X, Y: metrics.unsupervised(X)
    found["metrics.udr"] = lambda X, Y: metrics.udr([X, Y, X])
    found["metrics.as_codes"] = lambda X, Y: metrics.as_codes(X, Y).latents
    if missing := without_call(metrics.__all__, found, ("PROFILES", "Codes", "IcaStep", "Metric")):
        raise AssertionError(f"no call of metrics.{missing}")
    return found


def _of_signs(score: Call, X: Any, Y: Any, **named: Any) -> Any:
    numbers = isinstance(Y, np.ndarray) and Y.dtype.kind in "fiu"
    return score(X, np.sign(Y) if numbers else Y, **named)


def screen_calls() -> dict[str, Call]:
    from identifiable import deconfound

    wells = 12
    labels: dict[str, Any] = {
        "plate": np.repeat(["p1", "p2", "p3", "p4", "p5"], wells),
        "well": [f"{row}{k:02d}" for row in "AB" for k in range(1, 7)] * 5,
        "treatment": ["DMSO", "x", "DMSO", "y", "DMSO", "x", "DMSO", "y", "DMSO", "x", "DMSO", "y"] * 5,
    }

    def screen(X: Any) -> Any:
        n = len(X) if hasattr(X, "__len__") and not isinstance(X, str) else ROWS
        return deconfound.screen(X, metadata={name: column[:n] for name, column in labels.items()}, control="DMSO")

    found: dict[str, Call] = {
        "deconfound.screen": lambda X, Y: screen(X).representation.values[:],
        "deconfound.audit": lambda X, Y: deconfound.audit(screen(X), permutations=20),
        "deconfound.evaluate": lambda X, Y: deconfound.evaluate(screen(X), representations=("base", "pca")),
        "deconfound.attribute": lambda X, Y: deconfound.attribute(screen(X), stability=2, permutations=20),
        "deconfound.clean": lambda X, Y: deconfound.clean(screen(X), stability=2, permutations=20),
        "deconfound.recommend": lambda X, Y: deconfound.recommend(screen(X), candidates=("control-z",)),
    }
    if missing := without_call(deconfound.__all__, found, NO_SCREEN_CALLS):
        raise AssertionError(f"no call of deconfound.{missing}")
    return found


# -- what a result says


def numbers(found: Any) -> dict[str, float]:
    """Every number of a result by its place; times, hashes and what says how it was stored are none."""
    held: dict[str, float] = {}

    def walk(value: Any, at: str) -> None:
        if isinstance(value, bool | str) or value is None:
            return
        if isinstance(value, int | float | np.number):
            held[at] = float(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "fiu":
                held.update({f"{at}[{k}]": float(v) for k, v in enumerate(np.asarray(value, float).ravel().tolist())})
        elif is_dataclass(value):
            for field in fields(value):
                if field.name not in PASSED_OVER:
                    walk(getattr(value, field.name), f"{at}.{field.name}")
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, f"{at}.{key}")
        elif isinstance(value, list | tuple):
            for k, inner in enumerate(value):
                walk(inner, f"{at}[{k}]")

    walk(found, "")
    return held


def alerts(found: Any) -> set[str]:
    """The codes of the alerts of a result, its parts included."""
    if is_dataclass(found):
        own = {alert.code for alert in getattr(found, "alerts", ())}
        parts = [getattr(found, field.name) for field in fields(found) if field.name in ("result", "models")]
        return own.union(*map(alerts, parts))
    return set().union(*map(alerts, found)) if isinstance(found, tuple) else set()


def silent(plain: Mapping[str, float], known: Set[str], found: Any) -> str | None:
    """A number that is not finite where that of plain numbers is, in a result without an alert other than theirs."""
    defined = {at: value for at, value in numbers(found).items() if math.isfinite(plain.get(at, 0.0))}
    allowed = {at: known for at in defined for name, known in BY_DEFINITION.items() if at.endswith(name)}
    held = {at: value for at, value in defined.items() if str(value) not in allowed.get(at, ())}
    raised = alerts(found)
    about = [name for code in raised for name in ABOUT.get(code, ())]
    bad = [f"{at} = {value}" for at, value in held.items() if not math.isfinite(value) and not _is_of(at, about)]
    said = raised - known
    return f"{len(bad)} numbers that are not finite, and no alert: {', '.join(bad[:3])}" if bad and not said else None


def like(plain: Mapping[str, float], result: Any) -> str | None:
    """Where a result differs from that of plain float64: each number on the scale of those of its name, its places left out."""
    found = numbers(result)
    if found.keys() != plain.keys():
        return f"other numbers than of plain float64: {sorted(found.keys() ^ plain.keys())[:3]}"
    scale: dict[str, float] = {}
    for at, value in plain.items():
        if math.isfinite(value):
            scale[_named(at)] = max(scale.get(_named(at), 0.0), abs(value))
    for at, value in plain.items():
        other, near = found[at], max(TOLERANCE * scale.get(_named(at), 0.0), ROUNDING)
        if not (math.isclose(value, other, rel_tol=0.0, abs_tol=near) or (math.isnan(value) and math.isnan(other))):
            return f"{at} = {other:.6g}, of plain float64 {value:.6g}"
    return None


def _named(at: str) -> str:
    return re.sub(r"\[\d+\]", "", at)


def _is_of(at: str, names: Sequence[str]) -> bool:
    return _named(at).endswith(tuple(names))
