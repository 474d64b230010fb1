"""Small runs of every command, kept as numbers: what a change of the code must not move without saying so.

    python scripts/golden.py                    # run all, compare with tests/golden
    python scripts/golden.py --write            # run all, write tests/golden (then read the diff)
    python scripts/golden.py --write compare    # run those whose name starts so

A run is a line of the shell in a folder of made data. Kept are the numbers, flags and short names of its JSON; sentences,
times, versions and hashes are not. For one run of each kind the page is kept too, as Markdown, so that a change of wording
is a diff to read. `tests/test_golden.py` runs the same comparison, and compares the numbers in the tables of the pages.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from identifiable.cli import main as identifiable

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"

# What moves by the last bits of a product on another processor is far below these.
RELATIVE, ABSOLUTE = 1e-4, 1e-5
ROWS_AT_EDGES = (
    2e-3  # two rows of 5,000 in a bin of .25: with other last bits, a row at the edge of a bin is in the next one
)
# InfoM and InfoC of 900 rows of a model that is trained in the run: torch's kernels (plain, AVX2, AVX-512) round differently, and rows at
# the edges of bins moved them by up to 6e-4.
TRAINED, ROWS_OF_TRAINED = re.compile(r"^\.(cells|lifts)\[|\.evaluations\["), 2e-3
DIGITS = 7
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00")
PROSE = 4  # a string of so many words is a sentence for readers

RUNS = {
    "compare": "compare a.npy b.npy --null-draws 19",
    "compare-paper": "compare a.npy b.npy --protocol paper --nulls none --no-intervals --groups signed_permutation,rigid,linear",
    "compare-three": "compare a.npy b.npy c.csv --ids ids_a.txt --ids ids_a.txt --ids id --folds 3 --null-draws 9 --seed 3",
    "compare-grouped": "compare a.npy b.npy --group-by labels.csv:plate --nulls shuffle --null-draws 9",
    "compare-widths": "compare a.npy wide.npy --null-draws 9 --epsilon 0.5",
    "resolve": "resolve mixed.npy -o basis.safetensors",
    "resolve-options": "resolve c.csv --ids id --rank 3 --contrast exp --order kurtosis --stability 2 --restarts 2 --precision double",
    "resolve-joint": "resolve mixed.npy remixed.npy --stability 2 --shared-above 0.9",
    "bilipschitz": "bilipschitz mixed.npy --decoder golden_decoder:decoder --directions 5",
    "disentangle": "disentangle latents.npy factors.csv --metrics infomec,mig,sap,mcc,r2 --resolve --noise-sweep --null 3 --bootstrap 3",
    "disentangle-all": "disentangle latents.npy factors.csv --metrics all --profile hsu-training",
    "disentangle-codes": "disentangle codes.npy factors.csv:shape,size --metrics infomec,mig,modularity --profile tripod",
    "align": "align a.npy b.npy --labels labels.csv:plate",
    "align-widths": "align a.npy wide.npy --no-curve --group rigid --normalize",
    "heads": "heads heads.npz:head_a heads.npz:head_b --features a.npy wide.npy --null-draws 9",
    "match": "match heads.npz:head_a heads.npz:head_c heads.npz:head_d --null-draws 9",
    "layers": "layers stack.npz:a_* stack.npz:b_* --untrained stack.npz:u_* stack.npz:v_* --null-draws 19",
    "mechanisms": "mechanisms points.npy --jacobians jacobians.npy --blocks 2,3 -o factors.safetensors",
    "audit": "deconfound audit cells.csv --preset rxrx3-core --permutations 20 --min-wells 20",
    # without ica-clean: 500 wells do not determine ICA of their own, and with other kernels of BLAS it ends elsewhere
    "recommend": "deconfound recommend cells.csv --preset rxrx3-core "
    "--candidates control-z,control-mad,sphering,control-z+sphering,tvn,combat,harmony,pca",
    "evaluate": "deconfound evaluate cells.csv --preset rxrx3-core --classifiers ridge,logistic --max-targets 2 --min-wells 8 "
    "--rotations 2 --null-guides 2 --bootstrap 50 --baselines control-z,tvn,combat --fit train,all --rank 6",
    "attribute": "deconfound attribute cells.csv --preset rxrx3-core --basis given.safetensors --permutations 20",
    "clean": "deconfound clean cells.csv --preset rxrx3-core --basis given.safetensors --permutations 20",
    "clean-shrink": "deconfound clean cells.csv --preset rxrx3-core --basis given.safetensors "
    "--permutations 20 --method shrink --budget 0.3",
    "fig2": "reproduce fig2 --scale smoke --set leaks=0.3,0.8 --set reference_leak=0.8 --set max_epochs=3",
    "table2": "reproduce table2 --scale smoke --set data=sprites --set models=ae --set seeds=1 --set resolution=8 --set widths=4 "
    "--set dense=8 --set latents-per-factor=1 --set rows=900 --set validation=900 --set sprite_sizes=3,4,5,5,3 --set steps=2 "
    "--set evaluations=1 --set batch=8",
}
PAGES: tuple[str, ...] = (
    "compare",
    "compare-three",
    "resolve",
    "resolve-joint",
    "bilipschitz",
    "disentangle",
    "align",
    "heads",
    "match",
    "layers",
    "mechanisms",
    "audit",
    "recommend",
    "evaluate",
    "attribute",
)
PAGES += ("clean", "fig2", "table2")
# Besides words and times: the path of a solver, which ends at the same place on any processor, pictures rounded to a digit, and bases
# of a subspace, whose signs are the solver's.
LEFT_OUT = {
    "provenance",
    "sha256",
    "times",
    "seconds",
    "message",
    "text",
    "steps",
    "starts",
    "passes",
    "plate_map",
    "subspace",
}

DECODER = """
import numpy as np

class Bent:
    def jvp(self, z, v):
        return np.column_stack([v * [2.0, 0.7, 1.0, 1.2, 0.9], (v * np.cos(z)).sum(1)])

decoder = Bent()
"""


def make_inputs(folder: Path) -> None:
    """The tables that the runs read."""
    rng = np.random.default_rng(20261117)
    n = 400
    sources = rng.laplace(size=(n, 5)) * [1, 2, 0.5, 1, 1]
    a = sources @ rng.standard_normal((5, 5))
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", 2 * a @ turn + 0.3 * rng.standard_normal((n, 5)) + 1)
    np.save(folder / "wide.npy", np.column_stack([a @ turn, rng.standard_normal((n, 3))]).astype(np.float32))
    np.save(folder / "mixed.npy", rng.gamma([0.5, 1, 2, 4, 400], size=(3000, 5)) @ rng.standard_normal((5, 5)))
    np.save(folder / "remixed.npy", np.load(folder / "mixed.npy") @ rng.standard_normal((5, 5)) + 0.1)
    ids = [f"row{i:03d}" for i in range(n)]
    (folder / "ids_a.txt").write_text("\n".join(ids) + "\n")
    order = rng.permutation(n)[: n - 20]
    third = np.tanh(a) + 0.1 * rng.standard_normal((n, 5))
    _table(
        folder / "c.csv", ["id", *(f"x{j}" for j in range(5))], [[ids[i], *map(repr, third[i].tolist())] for i in order]
    )
    _table(folder / "labels.csv", ["plate"], [[f"p{i // 20}"] for i in range(n)])
    factors = np.column_stack([rng.integers(4, size=600), rng.integers(3, size=600), rng.integers(5, size=600)])
    words = np.array(["square", "round", "star", "cross"])
    _table(folder / "factors.csv", ["shape", "size", "x"], [[words[s], str(k), str(x)] for s, k, x in factors])
    z = factors @ rng.standard_normal((3, 4)) * 0.3 + np.column_stack([factors, factors[:, :1] % 2])
    np.save(folder / "latents.npy", z + 0.1 * rng.standard_normal(z.shape))
    np.save(folder / "codes.npy", np.column_stack([factors[:, 0], factors[:, 1] // 2, rng.integers(3, size=600)]))
    (folder / "golden_decoder.py").write_text(DECODER)
    drawn = np.random.default_rng(21)
    head_a, head_b = drawn.standard_normal((12, 5)), drawn.standard_normal((12, 8))
    head_b[:, :5] += 3 * head_a @ turn  # wide.npy is a.npy turned, with three columns of noise
    bias_a, bias_b = drawn.standard_normal((2, 12))
    like = {
        f"head_{name}": head_a + 0.1 * np.cos(np.arange(60.0).reshape(12, 5) * step)
        for name, step in (("c", 2), ("d", 3))
    }
    np.savez(folder / "heads.npz", head_a=head_a, head_b=head_b, bias_a=bias_a, bias_b=bias_b, **like)
    stack: dict[str, Any] = {f"a_{i}": np.tanh(a @ drawn.standard_normal((5, 5))) for i in range(3)}
    stack |= {f"b_{i}": stack[f"a_{i}"] @ turn + 0.2 * drawn.standard_normal((n, 5)) for i in range(3)}
    stack |= {f"{m}_{i}": np.tanh(a @ drawn.standard_normal((5, 5))) for m in "uv" for i in range(3)}
    np.savez(folder / "stack.npz", **stack)
    points = drawn.laplace(size=(200, 5))
    jacobians = np.zeros((200, 24, 5))
    jacobians[:, :10, :2] = np.cos(points[:, None, :2] + drawn.uniform(0, 6, (10, 2)))
    jacobians[:, 10:, 2:] = np.cos(points[:, None, 2:] + drawn.uniform(0, 6, (14, 3)))
    jacobians += 0.01 * drawn.standard_normal(jacobians.shape)
    mixing = drawn.standard_normal((5, 5))
    np.save(folder / "points.npy", points @ mixing)
    np.save(folder / "jacobians.npy", jacobians @ np.linalg.inv(mixing).T)
    _run("simulate cells -o cells.csv --preset tiny")
    # 500 wells do not determine ICA of their own: the basis is one that any processor finds.
    np.save(folder / "many.npy", rng.laplace(size=(5000, 24)) @ rng.standard_normal((24, 24)))
    _run("resolve many.npy -o given.safetensors --stability 0")


def _table(path: Path, names: list[str], rows: list[list[str]]) -> None:
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")


def _run(line: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = identifiable(shlex.split(line))
    if code != 0:
        raise SystemExit(f"golden: '{line}' ended with {code}: {said.getvalue()[-500:]}")


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A folder with the inputs, as the current directory."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        sys.path.insert(0, name)
        try:
            make_inputs(Path(name))
            yield Path(name)
        finally:
            os.chdir(before)
            sys.path.remove(name)
            sys.modules.pop("golden_decoder", None)


def result_of(name: str) -> tuple[dict[str, Any], str | None]:
    """The numbers of a run, and its page if that is kept. Called in a `workplace`."""
    page = f" --report {name}.md" if name in PAGES else ""
    _run(f"{RUNS[name]} --json {name}.json{page} --quiet")
    kept = numbers(json.loads(Path(f"{name}.json").read_text()))
    return kept, TIME.sub("TIME", Path(f"{name}.md").read_text()) if page else None


def numbers(value: Any) -> Any:
    """A result without its sentences, times, versions and hashes, rounded."""
    if isinstance(value, dict):
        kept = {k: numbers(v) for k, v in value.items() if k not in LEFT_OUT}
        return {k: v for k, v in kept.items() if v is not None or value[k] is None}
    if isinstance(value, list):
        return [numbers(v) for v in value]
    if isinstance(value, str) and len(value.split()) >= PROSE:
        return None
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value


def differences(kept: Any, found: Any, path: str = "") -> list[str]:
    """Where two results differ by more than another processor explains."""
    if isinstance(kept, dict) and isinstance(found, dict):
        gone = [f"{path}.{k}: gone" for k in kept if k not in found]
        return gone + [line for k in kept if k in found for line in differences(kept[k], found[k], f"{path}.{k}")]
    if isinstance(kept, list) and isinstance(found, list):
        if len(kept) != len(found):
            return [f"{path}: {len(kept)} items, now {len(found)}"]
        return [
            line for i, (a, b) in enumerate(zip(kept, found, strict=True)) for line in differences(a, b, f"{path}[{i}]")
        ]
    if _number(kept) and _number(found):
        edges = ROWS_AT_EDGES if ".density[" in path else ROWS_OF_TRAINED if TRAINED.search(path) else ABSOLUTE
        same = math.isclose(kept, found, rel_tol=RELATIVE, abs_tol=edges)
    else:
        same = type(kept) is type(found) and kept == found
    return [] if same else [f"{path}: {kept!r}, now {found!r}"]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs whose names start so (default all)")
    parser.add_argument("--write", action="store_true", help="write tests/golden")
    options = parser.parse_args()
    chosen = [name for name in RUNS if not options.names or name.startswith(tuple(options.names))]
    moved = 0
    with workplace():
        for name in chosen:
            begun = time.monotonic()
            found, page = result_of(name)
            spent = time.monotonic() - begun
            target = GOLDEN / f"{name}.json"
            if options.write:
                GOLDEN.mkdir(exist_ok=True)
                target.write_text(json.dumps(found, separators=(",", ":"), ensure_ascii=False) + "\n")
                if page is not None:
                    target.with_suffix(".md").write_text(page)
                print(f"{name}: written, {spent:.1f} s")
                continue
            lines = differences(json.loads(target.read_text()), found)
            moved += len(lines)
            print(f"{name}: {f'{len(lines)} differ' if lines else 'same'}", *lines[:20], sep="\n  ")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
