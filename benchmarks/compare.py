"""What `compare` costs: python benchmarks/compare.py [--rows 222000] [--width 384] [--repeat 3]

Every figure is a ratio of two things measured in this run, round by round in turn (README.md beside this file says
what each one means). The exit code is 1 if the ladder composed from scipy does not find the same errors as `compare`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from machine import Timed, interleaved, machine, ratios, seconds, timed, warnings_of
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from identifiable.api import compare
from identifiable.blocks import Blocks, available_workers, one_blas_thread
from identifiable.groups import GROUPS, haar_rotation
from identifiable.identifiability.run import CompareRun, Table
from identifiable.io import open_representation
from identifiable.moments import Moments
from identifiable.options import NULLS, CompareOptions
from identifiable.results import Comparison, whole_file, write_text
from identifiable.rows import plan_rows

HERE = Path(__file__).resolve().parent
RECIPE = 1  # raise it when `_write_tables` changes, so that kept files are not mistaken for the new ones
BLOCK = 4096
DECADES = 3.2  # of variance between the first and the last principal component
NOISE = 0.3  # rms, relative to the signal
FOLDS = 5
SEED = 0
RUNGS = tuple(GROUPS)
MEMORY_ROWS = 50_000
ONE_THREAD = "bare_one_thread"  # a baseline for CPU seconds only: `compare` uses every core, this one does not
HELD_OUT_AGREES, IN_SAMPLE_AGREES = 1e-3, 1e-6  # relative; held out, the folds differ

Array = NDArray[np.float64]
Paths = tuple[Path, Path]


# -- data


def tables(folder: Path, rows: int, width: int) -> Paths:
    """Two float32 .npy files in `folder`; files of the same recipe that are already there are used again."""
    stem = f"recipe{RECIPE}_{rows}x{width}_seed{SEED}.npy"
    paths = folder / f"x_{stem}", folder / f"y_{stem}"
    if not all(p.exists() for p in paths):
        with whole_file(paths[0]) as x, whole_file(paths[1]) as y:
            _write_tables((x, y), rows, width)
    return paths


def _write_tables(paths: Paths, rows: int, width: int) -> None:
    """Real-like rows: independent sources of three kinds, a principal spectrum over three decades, off centre.

    y is a rigid motion of x, with noise in proportion to each principal component (so that y is as ill-conditioned
    as x) and a mild nonlinearity. Blocks have their own seeds: a shorter table is a prefix of a longer one.
    """
    rng = np.random.default_rng([SEED, 0])
    spread = np.logspace(0, -DECADES / 2, width)
    mixing = spread[:, None] * haar_rotation(width, rng)
    moved = mixing @ haar_rotation(width, rng)
    size = float(np.sqrt(np.mean(spread**2)))
    offset_x, offset_y = size * rng.standard_normal((2, width))
    out = [np.lib.format.open_memmap(p, mode="w+", dtype=np.float32, shape=(rows, width)) for p in paths]
    for k, a in enumerate(range(0, rows, BLOCK)):
        m = min(BLOCK, rows - a)
        rng = np.random.default_rng([SEED, 1, k])
        sources = _sources(width, rng)
        noisy = sources + NOISE * rng.standard_normal(sources.shape)
        y = noisy @ moved
        out[0][a : a + m] = (sources @ mixing + offset_x)[:m]
        out[1][a : a + m] = (y + 0.1 * size * np.tanh(y / size) + offset_y)[:m]
    for table in out:
        table.flush()


def _sources(width: int, rng: np.random.Generator) -> Array:
    """Heavy-tailed, sub-Gaussian and near-Gaussian columns in turn, all of unit variance."""
    sources = rng.standard_normal((BLOCK, width))
    heavy, flat, near = sources[:, ::3], sources[:, 1::3], sources[:, 2::3]
    heavy[:] = rng.standard_t(5, heavy.shape) * np.sqrt(3 / 5)
    flat[:] = rng.uniform(-np.sqrt(3), np.sqrt(3), flat.shape)
    near += 0.3 * rng.laplace(scale=np.sqrt(1 / 2), size=near.shape)
    near /= np.sqrt(1 + 0.3**2)
    return sources


def correlation_condition(moments: Moments) -> float:
    """Largest over smallest eigenvalue of the correlation matrix, that is of the Gram matrix with equal columns."""
    spread = np.sqrt(np.diag(moments.scatter))
    return float(np.linalg.cond(moments.scatter / np.outer(spread, spread)))


# -- what is timed


def moments_pass(blocks: Sequence[Blocks]) -> Callable[[], list[Moments]]:
    """The first pass of `compare` over these tables, folds drawn beforehand."""
    settings = CompareOptions(groups=RUNGS, folds=FOLDS, intervals=False, axes=False, neighbours=0, nulls=(), seed=SEED)
    run = CompareRun.of(settings, settings=settings)
    run.plan = plan_rows(blocks[0].n, None, seed=SEED, n_folds=FOLDS)
    sides = [Table(b.name, b, None, run) for b in blocks]
    return lambda: run.moments(sides)


def as_compare_reads(path: Path) -> Blocks:
    values = open_representation(path).values
    return values if isinstance(values, Blocks) else Blocks(values)


def as_memory_map(path: Path) -> Blocks:
    return Blocks(np.load(path, mmap_mode="r"))


class StageClock:
    """Wall seconds by stage: what has passed since the last call is booked under the name given."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def book(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


class ProgressClock(StageClock):
    """The same as a progress callback.

    A stage is first heard of up to 0.2 s after it began, so the time between two stages (`before errors`) is
    work that reports no progress plus that start.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stage: str | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.book(stage if stage == self.stage else f"before {stage}")
        self.stage = stage


def whole_compare(paths: Paths, nulls: Sequence[str]) -> tuple[Comparison, dict[str, float]]:
    """`compare` of two files without ICA, intervals and neighbours, and its stages."""
    clock = ProgressClock()
    result = compare(
        *paths,
        groups=RUNGS,
        folds=FOLDS,
        intervals=False,
        axes=False,
        neighbours=0,
        nulls=nulls,
        seed=SEED,
        progress=clock,
    )
    clock.book(f"after {clock.stage}")
    return result, clock.seconds


def timed_runs(paths: Paths, X: Array, Y: Array) -> dict[str, Callable[[], Any]]:
    """Everything that is timed round by round, each beside what it is divided by."""
    X_copy, Y_copy = X.copy(), Y.copy()  # of two different arrays numpy takes a plain product, not the symmetric one

    def bare() -> tuple[Array, Array, Array]:
        return X.T @ X, Y.T @ Y, X.T @ Y

    def bare_one_thread() -> tuple[Array, Array, Array]:
        with one_blas_thread():
            return bare()

    return {
        "bare_numpy": bare,
        "moments": moments_pass([as_compare_reads(p) for p in paths]),
        "bare_gemm": lambda: (X.T @ X_copy, Y.T @ Y_copy, X.T @ Y),
        "moments_memory_map": moments_pass([as_memory_map(p) for p in paths]),
        ONE_THREAD: bare_one_thread,
        "compare": lambda: whole_compare(paths, ()),
        "compare_with_nulls": lambda: whole_compare(paths, NULLS),
    }


def warm_up(X: Array, Y: Array) -> None:
    """Load what is loaded once and start the threads, on a few rows."""
    rows = min(len(X), 2000)
    x, y = X[:rows], Y[:rows]
    compare(x, y, groups=RUNGS, intervals=False, axes=False, neighbours=0, null_draws=2)
    for _ in range(3):
        x.T @ x, x.T @ y


# -- the opponent


def composed(X: Array, Y: Array, tick: Callable[[str], None]) -> tuple[dict[str, Any], dict[str, float]]:
    """The cross-validated ladder both ways as one would write it with scipy, numpy and scikit-learn; mean errors.

    Written to be quick: the rotation is shared by rigid and similarity, and least squares are scipy's (gelsd), the
    fastest of numpy, scipy and scikit-learn on such tables. No diameter, no CCA or CKA, no quantiles.
    """
    clock = StageClock()
    means: dict[str, Any] = {}
    for direction, source, target in (("forward", X, Y), ("backward", Y, X)):
        tick(f"composed, {direction}: in sample")
        in_sample = _composed_errors(source, target, source, target, clock).mean(axis=1)
        sums = np.zeros(len(RUNGS))
        for k, (train, test) in enumerate(KFold(FOLDS, shuffle=True, random_state=SEED).split(source)):
            tick(f"composed, {direction}: fold {k + 1} of {FOLDS}")
            x, y, x_test, y_test = source[train], target[train], source[test], target[test]
            clock.book("splitting")
            sums += _composed_errors(x, y, x_test, y_test, clock).sum(axis=1)
        means[direction] = {
            group: {"in_sample": float(inside), "held_out": float(outside)}
            for group, inside, outside in zip(RUNGS, in_sample, sums / len(source), strict=True)
        }
    return means, clock.seconds


def _composed_errors(x: Array, y: Array, x_test: Array, y_test: Array, clock: StageClock) -> Array:
    """Errors of the four maps fitted to (x, y) at every test row: (maps, rows)."""
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    x, y, x_test, y_test = x - mean_x, y - mean_y, x_test - mean_x, y_test - mean_y
    clock.book("centring")
    d = x.shape[1]
    correlation = np.corrcoef(x, y, rowvar=False)[:d, d:]
    _, order = linear_sum_assignment(-np.abs(correlation))
    permutation = np.zeros((d, d))
    permutation[np.arange(d), order] = np.where(correlation[np.arange(d), order] < 0, -1.0, 1.0)
    clock.book("permutation")
    rotation, singular = scipy.linalg.orthogonal_procrustes(x, y)
    scale = singular / np.sum(x**2)
    clock.book("procrustes")
    linear = scipy.linalg.lstsq(x, y)[0]
    clock.book("least squares")
    matrices = (permutation, rotation, scale * rotation, linear)
    errors = np.array([np.linalg.norm(x_test @ matrix - y_test, axis=1) for matrix in matrices])
    clock.book("errors")
    return errors


def composed_trial(X: Array, Y: Array) -> dict[int, list[Timed]]:
    """One ladder on a fifth of the rows, with one BLAS thread and with one per core.

    On a busy machine threads that wait for each other can make default BLAS ten times slower; the opponent gets
    the setting that suits it.
    """
    x, y = X[: len(X) // FOLDS], Y[: len(Y) // FOLDS]

    def run(threads: int) -> Callable[[], Array]:
        def limited() -> Array:
            with threadpool_limits(threads, user_api="blas"):
                return _composed_errors(x, y, x, y, StageClock())

        return limited

    counts = sorted({1, available_workers()})
    taken = interleaved({str(count): run(count) for count in counts}, 2)
    return {count: taken[str(count)] for count in counts}


def agreement(result: Comparison, means: dict[str, Any]) -> dict[str, Any]:
    """Relative differences between the mean errors of `compare` and of the composed ladder."""
    found: dict[str, Any] = {}
    agrees = True
    for pair, direction in zip(result.pairs, ("forward", "backward"), strict=True):
        for group in RUNGS:
            rung, theirs = pair.rung(group), means[direction][group]
            inside = _apart(rung.in_sample.mean * pair.scale.rms, theirs["in_sample"])
            outside = _apart(rung.held_out.mean * pair.scale.rms, theirs["held_out"])
            found[f"{direction} {group}"] = {"in_sample": inside, "held_out": outside}
            # Which axes a signed permutation matches hangs on the folds where no axes correspond.
            judged = outside if group in ("rigid", "linear") else 0.0
            agrees = agrees and inside <= IN_SAMPLE_AGREES and judged <= HELD_OUT_AGREES
    return {"agrees": agrees, "relative_difference": found}


def _apart(ours: float, theirs: float) -> float:
    return abs(ours - theirs) / abs(theirs)


# -- memory

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, scipy.linalg, identifiable.api
from machine import peak_memory_mb
if len(sys.argv) > 2:
    x, y, nulls, groups = sys.argv[2:]
    options = {} if nulls == "default" else {"nulls": ()}
    identifiable.api.compare(x, y, groups=groups.split(","), intervals=False, axes=False, neighbours=0, **options)
print(peak_memory_mb())
"""


def peak_of_child(*arguments: str) -> float:
    command = [sys.executable, "-c", CHILD, str(HERE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the memory run failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def memory(cases: dict[int, Paths], tick: Callable[[str], None]) -> dict[str, Any]:
    tick("memory: imports only")
    interpreter = peak_of_child()
    above: dict[str, dict[str, float]] = {}
    for nulls in ("none", "default"):
        above[nulls] = {}
        for rows, paths in cases.items():
            tick(f"memory: {rows} rows, nulls {nulls}")
            above[nulls][str(rows)] = peak_of_child(*map(str, paths), nulls, ",".join(RUNGS)) - interpreter
    return {"imports_only_mb": interpreter, "above_imports_mb": above, "target_mb": 600}


# -- putting it together


def measure(options: argparse.Namespace, folder: Path, tick: Callable[[str], None]) -> dict[str, Any]:
    about = machine()
    rows, width = options.rows, options.width
    tick("writing data")
    paths = tables(folder, rows, width)
    fewer = min(MEMORY_ROWS, rows // 2)
    peaks = memory({fewer: tables(folder, fewer, width), rows: paths}, tick)

    tick("loading float64 arrays, warming up")
    X, Y = (np.load(p).astype(np.float64) for p in paths)
    warm_up(X, Y)
    taken = interleaved(timed_runs(paths, X, Y), options.repeat, tick=tick)
    total = taken["moments"][0].result[0]
    result, stages = _median(taken["compare"]).result
    solver = result.pairs[0].solver
    report: dict[str, Any] = {
        "benchmark": "compare",
        "command": shlex.join(["python", *sys.argv]),
        "machine": about,
        "warnings": warnings_of(about),
        "data": {
            "rows": rows,
            "width": width,
            "dtype": "float32",
            "folds": FOLDS,
            "seed": SEED,
            "recipe": RECIPE,
            "correlation_condition": [correlation_condition(total.alone(i)) for i in (0, 1)],
            "solver_condition": [solver.condition_source, solver.condition_target],
            "refined": solver.refined,
            "error_dtype": solver.error_dtype,
        },
        "seconds": {name: seconds(runs_of) for name, runs_of in taken.items()},
        "stages_of_median_run": {
            "compare": stages,
            "compare_with_nulls": _median(taken["compare_with_nulls"]).result[1],
        },
        "ratios": [
            {"figure": figure, "over": over, "target": target, **_ratios(taken, figure, over)}
            for figure, target in (
                ("moments", "<= 1"),
                ("moments_memory_map", "<= 1"),
                ("compare", "<= 3"),
                ("compare_with_nulls", None),
            )
            for over in ("bare_numpy", "bare_gemm", ONE_THREAD)
        ],
        "memory": peaks,
        "composed": None,
    }
    if not options.skip_composed:
        del taken
        report["composed"] = against_composed(X, Y, paths, options.composed_threads, tick)
    report["load_average_at_end"] = [round(load, 2) for load in os.getloadavg()]
    return report


def against_composed(
    X: Array, Y: Array, paths: Paths, threads: int | None, tick: Callable[[str], None]
) -> dict[str, Any]:
    """The composed ladder once, between two runs of `compare`."""
    tick("composed: with how many BLAS threads is it faster?")
    trial = composed_trial(X, Y)
    threads = threads or min(trial, key=lambda count: min(t.wall for t in trial[count]))
    tick("compare, before the composed ladder")
    before = timed(lambda: whole_compare(paths, ()))
    with threadpool_limits(threads, user_api="blas"):
        theirs = timed(lambda: composed(X, Y, tick))
    tick("compare, after the composed ladder")
    after = timed(lambda: whole_compare(paths, ()))
    means, stages = theirs.result
    return {
        "over": "compare",
        "target": ">= 15",
        "blas_threads": threads,
        "trial_by_blas_threads": {str(count): seconds(runs) for count, runs in trial.items()},
        **ratios([theirs, theirs], [before, after]),
        "composed_wall_s": theirs.wall,
        "composed_cpu_s": theirs.cpu,
        "composed_stages_wall_s": stages,
        "compare": seconds([before, after]),
        "mean_errors": means,
        **agreement(before.result[0], means),
    }


def _ratios(taken: dict[str, list[Timed]], figure: str, over: str) -> dict[str, Any]:
    found = ratios(taken[figure], taken[over])
    return {k: v for k, v in found.items() if k.startswith("cpu")} if over == ONE_THREAD else found


def _median(runs: Sequence[Timed]) -> Timed:
    return sorted(runs, key=lambda r: r.wall)[len(runs) // 2]


def as_text(report: dict[str, Any]) -> str:
    data, about = report["data"], report["machine"]
    lines = [
        f"{data['rows']} x {data['width']} float32, {data['folds']} folds; {about['processor']}, {about['cores']} cores; "
        f"condition of the correlations {data['correlation_condition'][0]:.0f} and {data['correlation_condition'][1]:.0f}",
        *report["warnings"],
        "",
        f"{'seconds':42} {'wall':>8} {'CPU':>8}   all wall",
    ]
    for name, taken in report["seconds"].items():
        every = " ".join(f"{s:.2f}" for s in taken["wall_s_all"])
        lines.append(f"{name:42} {taken['wall_s']:8.2f} {taken['cpu_s']:8.2f}   {every}")
    lines += ["", f"{'ratio':42} {'wall':>8} {'CPU':>8} {'target':>8}   all wall"]
    for r in report["ratios"]:
        wall = f"{r['wall']:.2f}" if "wall" in r else ""
        every = " ".join(f"{v:.2f}" for v in r.get("wall_all", ()))
        name = f"{r['figure']} / {r['over']}"
        lines.append(f"{name:42} {wall:>8} {r['cpu']:8.2f} {r['target'] or '':>8}   {every}")
    theirs = report["composed"]
    if theirs:
        every = " ".join(f"{v:.2f}" for v in theirs["wall_all"])
        lines.append(f"{'composed / compare':42} {theirs['wall']:8.2f} {theirs['cpu']:8.2f} {'>= 15':>8}   {every}")
        took = f"{theirs['composed_wall_s']:.1f} s wall, {theirs['composed_cpu_s']:.1f} s CPU"
        lines.append(f"composed took {took}, BLAS threads: {theirs['blas_threads']}")
        lines.append("  " + _stages(theirs["composed_stages_wall_s"]))
        lines.append(f"same errors as compare: {'yes' if theirs['agrees'] else 'NO'}")
    lines.append("")
    for name, stages in report["stages_of_median_run"].items():
        lines += [f"stages of {name}, wall seconds:", "  " + _stages(stages)]
    lines += ["", f"peak memory above imports ({report['memory']['imports_only_mb']:.0f} MB), MB; target < 600"]
    for nulls, peaks in report["memory"]["above_imports_mb"].items():
        lines.append(f"  nulls {nulls:8} " + "   ".join(f"{rows} rows: {mb:.0f}" for rows, mb in peaks.items()))
    return "\n".join(lines)


def _stages(stages: dict[str, float]) -> str:
    return ", ".join(f"{stage} {taken:.2f}" for stage, taken in stages.items())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=222_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=3, help="rounds of everything but the composed ladder")
    parser.add_argument("--data", type=Path, help="keep the data files in this folder, and use them again")
    parser.add_argument("--skip-composed", action="store_true", help="leave out the slow opponent (minutes)")
    parser.add_argument(
        "--composed-threads",
        type=int,
        help="BLAS threads of the slow opponent (without it: the faster of 1 and all cores in a trial)",
    )
    parser.add_argument("--output", type=Path, default=HERE / "results" / "compare.json")
    options = parser.parse_args()
    if options.rows < 1000 or options.width < 3 or options.rows < 4 * options.width or options.repeat < 1:
        parser.error("expected --rows >= 1000 and >= 4 times --width, --width >= 3 and --repeat >= 1")
    return options


def main() -> int:
    options = parse()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.output.is_dir() or not os.access(options.output.parent, os.W_OK):
        raise SystemExit(f"{options.output}: cannot write there; choose another --output.")  # now, not in ten minutes
    start = time.perf_counter()

    def tick(what: str) -> None:
        print(f"[{time.perf_counter() - start:6.1f} s] {what}", file=sys.stderr, flush=True)

    with ExitStack() as stack:
        if options.data is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="identifiable-benchmark-")))
        else:
            folder = options.data
            folder.mkdir(parents=True, exist_ok=True)
        report = measure(options, folder, tick)
    tick("done")
    print(as_text(report))
    write_text(options.output, json.dumps(report, indent=1) + "\n")
    return 1 if report["composed"] and not report["composed"]["agrees"] else 0


if __name__ == "__main__":
    sys.exit(main())
