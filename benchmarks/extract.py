"""Extracting: batches sorted by length against the order of the file, and memory over the number of inputs.

    python benchmarks/extract.py                       # three CPU minutes; needs transformers and a model directory
    python benchmarks/extract.py --lines 96 --rounds 1 --output /tmp/try.json

`sorted` and `naive` extract layers 4 and last of the same lines of text, in batches of 32, in turns; both do all else alike.
`tokens` counts what the model is shown, padding included. Memory: peak resident memory of a process that extracts from a small
network (256 -> 64 -> 32, batches of 32), with 1,000 and with 20,000 inputs in a file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import interleaved, machine, ratios, seconds, warnings_of

from identifiable.api.extracting import extracted
from identifiable.options import ExtractOptions

MODEL = Path("/work/shared/data/models/rxnmapper_albert")
MEMORY = """
import sys
from torch import nn
from machine import peak_memory_mb
from identifiable import extract
file = sys.argv[1]
before = peak_memory_mb()
net = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 32))
extract(net, file, output=f"{file}.safetensors", layers=["0", "last"])
print(before, peak_memory_mb())
"""


def speed(model: Path, lines: int, rounds: int, folder: Path) -> dict[str, Any]:
    texts = (model / "reactions.txt").read_text().splitlines()
    step = max(len(texts) // lines, 1)
    (folder / "texts.txt").write_text("\n".join(texts[::step][:lines]) + "\n")
    shown: dict[str, int] = {}

    def run(name: str, by_length: bool) -> None:
        options = ExtractOptions(output=str(folder / f"{name}.safetensors"), layers=(4, "last"))
        found = extracted(str(model), str(folder / "texts.txt"), options, by_length=by_length)
        found.deliver()
        shown[name] = (found.result.tokens or 0) + (found.result.padding or 0)

    run("sorted", True)  # what is imported and cached once is nobody's
    taken = interleaved({"sorted": lambda: run("sorted", True), "naive": lambda: run("naive", False)}, rounds)
    return {
        "model": model.name,
        "lines": min(lines, len(texts)),
        "tokens": shown,
        **{name: seconds(runs) for name, runs in taken.items()},
        "naive_over_sorted": ratios(taken["naive"], taken["sorted"]),
    }


def memory(counts: tuple[int, ...], folder: Path) -> dict[str, Any]:
    found = {}
    for n in counts:
        np.save(folder / f"{n}.npy", np.random.default_rng(0).standard_normal((n, 256), np.float32))
        words = [sys.executable, "-c", MEMORY, str(folder / f"{n}.npy")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True, cwd=Path(__file__).parent)
        before, peak = map(float, done.stdout.split())
        found[str(n)] = {"imports_mb": before, "peak_mb": peak}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--lines", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "extract.json")
    options = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "speed": speed(options.model, options.lines, options.rounds, folder),
            "memory": memory((1000, 20_000), folder),
        }
    whole = {"machine": about, "warnings": warnings_of(about), **found}
    options.output.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(found["speed"]["naive_over_sorted"]), json.dumps(found["memory"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
