"""Every command that writes, on tables that are small enough to run it a thousand times."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import zipfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OUT = "out"  # where every command writes, in the folder of the inputs
WORK = "work"  # a file beside it, in which the model of MODEL leaves a byte for each batch it is shown
FORMATS = ("npy", "npz", "safetensors", "parquet", "arrow", "feather", "h5ad", "h5", "hdf5", "zarr")


@dataclass(frozen=True)
class Writer:
    """A command and what it leaves on purpose in OUT when it is stopped.

    `eager` is a number of seconds between two states that it keeps; tries set it to none. `growing` says that it writes into a folder
    that appears before its files, each of which is whole.
    """

    name: str
    call: str
    kept: str | None = None
    eager: str | None = None
    growing: bool = False

    @property
    def words(self) -> list[str]:
        return shlex.split(self.call)


SCREEN = "cells.parquet --permutations 20 --stability 2 --rank 6"
EVALUATE = "deconfound evaluate cells.parquet --level target --min-wells 5 --max-targets 2 --rotations 1 --bootstrap 20"
WRITERS = (
    Writer(
        "compare",
        "compare a.npy b.npy --null-draws 2 --json out/r.json --report out/p.html --rows-out out/rows.parquet",
    ),
    Writer(
        "compare to .md and .csv",
        "compare a.npy b.npy --nulls none --no-intervals --report out/p.md --rows-out out/rows.csv",
    ),
    Writer("resolve", "resolve a.npy --stability 2 -o out/b.safetensors --json out/r.json --report out/p.html"),
    Writer(
        "resolve of two", "resolve a.npy b.npy --stability 0 --restarts 1 -o out/b-{name}.safetensors --json out/r.json"
    ),
    Writer(
        "resolve --checkpoint",
        "resolve a.npy --blocks 200 --stability 2 --checkpoint out/kept -o out/b.safetensors --json out/r.json",
        "kept",
    ),
    Writer("align", "align a.npy b.npy --holdout 100 -o out/map.safetensors --json out/r.json --report out/p.html"),
    Writer("match", "match h1.npy h2.npy --null-draws 2 -o out/m.csv --json out/r.json --report out/p.html"),
    Writer("match to .json", "match h1.npy h2.npy --null-draws 2 -o out/m.json"),
    Writer(
        "heads",
        "heads h1.npy h2.npy --features a.npy b.npy --null-draws 2 --map-out out/m.npz --json out/r.json --report out/p.html",
    ),
    Writer("layers", "layers stack.npz:a_* stack.npz:b_* --null-draws 2 --json out/r.json --report out/p.html"),
    Writer(
        "mechanisms",
        "mechanisms few.npy --decoder model:decoder -o out/b.safetensors --json out/r.json --report out/p.html",
    ),
    Writer("bilipschitz", "bilipschitz few.npy --decoder model:decoder --json out/r.json --report out/p.html"),
    Writer("disentangle", "disentangle a.npy factors.csv --metrics infomec,mig --json out/r.json --report out/p.html"),
    *(
        Writer(f"transform to .{form}", f"transform basis.safetensors tall.npy --blocks 4000 -o out/z.{form}")
        for form in FORMATS
    ),
    Writer("transform to a folder", "transform basis.safetensors shards -o out/z"),
    Writer("transform --flags .csv", "transform map.safetensors a.npy -o out/z.npy --flags out/flags.csv"),
    Writer("transform --flags .parquet", "transform map.safetensors a.npy -o out/z.npy --flags out/flags.parquet"),
    Writer(
        "extract",
        "extract model:net a.npy --layers 0,last --batch 8 -o out/e.safetensors --json out/r.json --report out/p.html",
        "e.safetensors.unfinished",
        "identifiable.io.growing:SECONDS",
    ),
    *(
        Writer(f"simulate cells to .{form}", f"simulate cells --preset tiny -o out/c.{form}")
        for form in ("parquet", "csv", "h5ad")
    ),
    Writer(
        "simulate cells to a folder", "simulate cells --preset tiny --patches 2 --keep-patches -o out/c", growing=True
    ),
    Writer("simulate sources", "simulate sources --rows 4000 --columns 4 -o out/s.npy"),
    Writer("simulate sources to a folder", "simulate sources --rows 4000 --columns 4 -o out/s", growing=True),
    Writer("report to .html", "report result.json -o out/p.html"),
    Writer("report to .md", "report result.json -o out/p.md"),
    Writer("demo", "demo --json out/r.json --report out/p.html"),
    Writer(
        "deconfound audit", "deconfound audit cells.parquet --permutations 20 --json out/r.json --report out/p.html"
    ),
    *(
        Writer(
            f"deconfound recommend to .{form}",
            f"deconfound recommend cells.parquet --candidates control-z,pca --metric nn_euclidean --save out/b.safetensors "
            f"-o out/t.{form} --json out/r.json --report out/p.html",
        )
        for form in ("parquet", "h5ad", "csv")
    ),
    *(
        Writer(
            f"deconfound clean to .{form}",
            f"deconfound clean {SCREEN} --force --save-basis out/b.safetensors -o out/t.{form} --json out/r.json --report out/p.html",
        )
        for form in ("parquet", "h5ad", "csv")
    ),
    Writer("deconfound evaluate", f"{EVALUATE} --quick --scores out/s.csv --json out/r.json --report out/p.html"),
    Writer(
        "deconfound evaluate --checkpoint",
        f"{EVALUATE} --quick --scores out/s.parquet --checkpoint out/kept --json out/r.json",
        "kept",
    ),
    Writer(
        "reproduce --checkpoint",
        "reproduce roeder-fig2 --set rules=hard --set hidden=16 --set seeds=2 --set steps=20 --set checkpoints=2 --set batch=64 "
        "--set rows=200 --set gate=2 --checkpoint out/kept --json out/r.json --report out/p.html",
        "kept",
        "identifiable.nn.training:CHECKPOINT_SECONDS",
    ),
    Writer(
        "deconfound attribute",
        f"deconfound attribute {SCREEN} -o out/b.safetensors --json out/r.json --report out/p.html",
    ),
)
MODEL = """
import numpy as np

class Squeeze:
    def jvp(self, z, v):
        return v * [2.0, 0.8, 1.0]

decoder = Squeeze()

def net():
    from torch import manual_seed, nn

    def count(*_):
        with open("work", "a") as file:
            file.write(".")

    manual_seed(0)
    made = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).eval()
    made.register_forward_hook(count)
    return made
"""


def make_inputs(folder: Path) -> None:
    """The tables that the commands read, and an empty OUT."""
    (folder / OUT).mkdir(parents=True, exist_ok=True)
    (folder / "shards").mkdir(exist_ok=True)
    (folder / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    S = rng.gamma([1.0, 2.0, 3.0], size=(400, 3))
    a, b = S @ rng.standard_normal((3, 3)), S @ rng.standard_normal((3, 3)) + 0.01 * rng.standard_normal((400, 3))
    tall = (rng.gamma([1.0, 2.0, 3.0], size=(20_000, 3)) @ rng.standard_normal((3, 3))).astype(np.float32)
    tables: dict[str, Any] = {
        "a": a,
        "b": b,
        "few": a[:20],
        "tall": tall,
        "shards/1": tall[:4000],
        "shards/2": tall[4000:9000],
    }
    for name, table in {**tables, **{f"h{k}": rng.standard_normal((30, 3)) for k in (1, 2)}}.items():
        np.save(folder / f"{name}.npy", table)
    np.savez(folder / "stack.npz", **{f"{m}_{i}": tables[m] ** (i + 1) for m in "ab" for i in (0, 1)})
    lines = [f"{x},{y}\n" for x, y in (2 * S[:, :2]).astype(int)]
    (folder / "factors.csv").write_text("x,y\n" + "".join(lines))
    for call in (
        "simulate cells --preset tiny -o cells.parquet",
        "resolve tall.npy --stability 0 --restarts 1 -o basis.safetensors --json result.json",
        "align a.npy b.npy --no-curve --holdout 100 -o map.safetensors",
    ):
        code, said = called(shlex.split(call), folder)
        if code != 0:
            raise RuntimeError(f"{call}: {said}")


def called(words: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and stderr of a command that is called in this process, in `folder`."""
    from identifiable.cli import main

    said = io.StringIO()
    with chdir(folder), redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            return main(words), said.getvalue()
        except SystemExit as end:  # of argparse
            return int(end.code or 0), said.getvalue()


def warm(words: list[str], folder: Path) -> None:
    """Call a command once in this process: what is loaded and compiled at first use is then in every fork."""
    called(words, folder)
    clear(folder / OUT)


# -- what they have written

OWN = (  # of one run, in place of which nothing is compared
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z| UTC)?"), b"<time>"),
    (re.compile(rb'"sha256": "[0-9a-f]{64}"'), b"<sha256>"),  # of a basis, whose metadata hold the time
    (re.compile(rb'="part-time">.*?</section>', re.DOTALL), b"<seconds>"),  # a section of a page: how long parts took
)
SECONDS = "times"  # the same in a result


def content(path: Path) -> Any:
    """What is in a file without what differs between equal runs: when it was written, and how long that took."""
    if path.is_dir():
        return {str(each.relative_to(path)): content(each) for each in sorted(path.rglob("*")) if each.is_file()}
    if zipfile.is_zipfile(path):  # an archive holds the time of each member
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    text = path.read_bytes()
    if path.suffix == ".json" and text.startswith(b"{"):
        fields = json.loads(text)
        fields.pop(SECONDS, None)
        text = json.dumps(fields).encode()
    for pattern, blank in OWN:
        text = pattern.sub(blank, text)
    return text


def contents(out: Path, but: str | None = None) -> dict[str, Any]:
    """The content of everything in a folder."""
    return {path.name: content(path) for path in sorted(out.iterdir()) if path.name != but}


def clear(folder: Path) -> None:
    """Delete all that is in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
