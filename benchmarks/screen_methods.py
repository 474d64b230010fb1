"""Corrections of real screens, ours beside pycytominer, scanpy and harmonypy: python benchmarks/screen_methods.py --data DIR --peers PYTHON

DIR has the two tables named in `SCREENS` (others are left out with a word). PYTHON is an interpreter with the peers installed (`pip
install pycytominer scanpy harmonypy copairs`); without it, or where one of them fails, its methods are skipped with the reason.

Every method gets the table with z-scored columns and the same roles, and is fitted to all rows; `recommend` and `clean` are what these
commands write of the table as it is, z-scored. Scored are, on wells that have
an answer (`deconfounding.metrics.retrieval`): bar and bar, cosine (1-NN of single wells across batches; for BBBC021 of the mechanism, of
another compound), NSC and NSCB (1-NN of the mechanism on medians), LWO (ridge on all other batches, macro accuracy), mAP (replicates
on other plates against controls of the batch; `copairs` is the same by that library), and batch (1-NN of the batch of a control
among those of other plates, lower is better). Intervals leave the queries of whole batches out in turn (Tukey's jackknife;
neighbours stay and the ridge is not refitted); differences to the input are paired.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, warnings_of
from sklearn.linear_model import RidgeClassifierCV

from identifiable import deconfound
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CorrectionOptions, fit_correction
from identifiable.deconfounding.metrics.retrieval import Found, Retrieval

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "screen_methods.json"
INPUT = "as it is, z-scored"
SCREENS: dict[str, tuple[str, dict[str, str]]] = {
    "bb": (
        "bbbc021_per_well_mean_raw.parquet",
        {"perturbation": "Metadata_Compound,Metadata_Concentration", "control": "Metadata_Compound=DMSO"},
    ),
    "re, clones": (
        "resistance_cellpainting_2760wells.parquet",
        {"perturbation": "clone_number", "control": "WT_parental"},
    ),
    "re, treatments": ("resistance_cellpainting_2760wells.parquet", {"control": "0.1% DMSO"}),
}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "control-z by plate": ("control-z", {}),
    "control-mad by plate": ("control-mad", {}),
    "control-z by batch": ("control-z", {"level": "batch"}),
    "sphering 0.01": ("sphering", {}),
    "sphering 0.1": ("sphering", {"epsilon": 0.1}),
    "sphering 1": ("sphering", {"epsilon": 1.0}),
    "tvn": ("tvn", {}),
    "tvn, efaar 1.0": ("tvn", {"tvn": "efaar-1.0"}),
    "combat": ("combat", {}),
    "harmony": ("harmony", {}),
    "pca-cs": ("pca-cs", {}),
}
SHOWN = {
    "bar": "nn_euclidean",
    "bar, cosine": "nn_cosine",
    "NSC": "consensus",
    "NSCB": "consensus_batch",
    "LWO": "leave_batch_out",
    "mAP": "replicate_map",
    "batch": "batch_readable",
}
ALPHAS = np.logspace(-1, 5, 7)


def leave_batch_out(X: np.ndarray, design: Any, groups: Any) -> Found:
    """Whether ridge regression on the other batches finds the label of each treated well; classes weigh alike."""
    label = design.perturbation if design.target is None else design.target
    wells = np.flatnonzero(~design.control)
    batch = design.batch.codes
    elsewhere = np.array([np.any((label.codes[wells] == label.codes[k]) & (batch[wells] != batch[k])) for k in wells])
    asks = wells[elsewhere]
    right = np.full(len(X), np.nan)
    scale = X[wells].std(axis=0)
    Z = (X - X[wells].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    for value in np.unique(batch[asks]):
        train, test = wells[batch[wells] != value], asks[batch[asks] == value]
        found = RidgeClassifierCV(ALPHAS).fit(Z[train], label.codes[train]).predict(Z[test])
        right[test] = found == label.codes[test]
    hits, own = right[asks], groups.codes[asks]
    without = np.where(own[:, None] == np.arange(groups.size), np.nan, hits[:, None])
    names = label.codes[asks]
    return Found(hits, without, 1.0 / np.bincount(names)[names], own)


def recommended(screen: deconfound.Screen) -> tuple[np.ndarray, str]:
    """What `deconfound recommend` writes."""
    found = deconfound.recommend(screen)
    return found.corrected[: screen.blocks.n], f"recommend ({found.result.verdict}: {found.result.written})"


def cleaned(screen: deconfound.Screen) -> tuple[np.ndarray, str]:
    """What `deconfound clean` writes, or with --force would."""
    found = deconfound.clean(screen)
    forced = "" if found.result.harmless else ", not written"
    return found.basis.map(screen.blocks[: screen.blocks.n]), f"clean ({found.result.verdict}{forced})"


WRITTEN: tuple[Callable[[deconfound.Screen], tuple[np.ndarray, str]], ...] = (recommended, cleaned)


def z_scored(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1; constant ones are left out."""
    X = np.asarray(X, dtype=np.float64)
    spread = X.std(axis=0)
    varies = spread > 1e-12 * np.abs(X).max(axis=0)
    return (X - X.mean(axis=0))[:, varies] / spread[varies]


def spaces_of(screen: deconfound.Screen, Z: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
    """Our corrections of a table with z-scored columns, and what each took."""
    yield INPUT, Z, 0.0
    for title, (name, settings) in OURS.items():
        begun = time.process_time()
        found = fit_correction(name, Blocks(Z, name=title), screen.design, CorrectionOptions(**settings))
        yield f"ours, {title}", found.apply(Z, np.arange(len(Z))), time.process_time() - begun
    for write in WRITTEN:
        begun = time.process_time()
        table, title = write(screen)
        yield f"ours, {title}", z_scored(table), time.process_time() - begun


def by_peers(python: str | None, screen: deconfound.Screen, spaces: dict[str, np.ndarray]) -> tuple[dict, dict]:
    """The tables of the peers and what they said, from their own interpreter."""
    if python is None:
        return {}, {"skipped": "no --peers"}
    design = screen.design
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "screen.npz", Path(folder) / "corrected.npz"
        labels = {name: getattr(design, name).text() for name in ("plate", "batch", "perturbation")}
        kept = {f"space {name}": table for name, table in spaces.items()}
        np.savez(source, X=spaces[INPUT], control=design.control, **labels, **kept)
        command = [python, str(HERE / "screen_peers.py"), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
        if done.returncode:
            return {}, {"skipped": done.stderr.strip().splitlines()[-1]}
        with np.load(target) as found:
            return {n: found[n] for n in found if n != "record"}, json.loads(str(found["record"]))


def measured(path: Path, roles: dict[str, str], python: str | None) -> dict[str, Any]:
    """Every method on one screen."""
    screen = deconfound.screen(path, **roles)
    design = screen.design
    Z = z_scored(screen.blocks[: screen.blocks.n])
    ours = list(spaces_of(screen, Z))
    spaces = {name: table for name, table, _ in ours}
    theirs, said = by_peers(python, screen, spaces)
    asked = Retrieval.of(design)

    def scores(table: np.ndarray) -> dict[str, Found]:
        found = dict(asked.scores(table[asked.rows]).found)
        found["leave_batch_out"] = leave_batch_out(table[asked.rows], asked.design, asked.groups)
        return found

    base = scores(Z)
    seconds = {name: taken for name, _, taken in ours} | {name: said[name].get("cpu_s") for name in theirs}
    lines = []
    for name, table in {**spaces, **theirs}.items():
        found = scores(table)
        metrics = {
            short: {
                "value": found[key].mean,
                "ci95": found[key].interval()[1],
                "minus_input": found[key].minus(base[key])[0],
                "minus_input_ci95": found[key].minus(base[key])[1],
            }
            for short, key in SHOWN.items()
            if key in found
        }
        line = {"method": name, "width": table.shape[1], "cpu_s": seconds[name], "metrics": metrics}
        if "copairs_map" in said.get(name, {}):
            line["copairs_map"] = said[name]["copairs_map"]
        lines.append(line)
        print(f"  {name:52}" + "  ".join(f"{k} {m['value']:.3f}" for k, m in metrics.items()), file=sys.stderr)
    skipped = {name: entry["skipped"] for name, entry in said.items() if isinstance(entry, dict) and "skipped" in entry}
    coverage = {short: vars(asked.coverage[key]) for short, key in SHOWN.items() if key in asked.coverage}
    return {
        "wells": design.n,
        "columns": Z.shape[1],
        "batches": design.batch.size,
        "controls": int(design.control.sum()),
        "roles": roles,
        "coverage": coverage,
        "methods": lines,
        "skipped": skipped if "skipped" not in said else {"all peers": said["skipped"]},
        "versions": said.get("versions"),
    }


def table_of(screen: dict[str, Any]) -> str:
    """The table in the README: values, bold where better and italic where worse than the input by the paired interval."""
    names = [short for short in SHOWN if short in screen["methods"][0]["metrics"]]
    lines = [f"| method | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for line in screen["methods"]:
        cells = []
        for name in names:
            found = line["metrics"][name]
            low, high = found["minus_input_ci95"]
            better = (low > 0) - (high < 0) if name != "batch" else (high < 0) - (low > 0)
            mark = {1: "**", -1: "*", 0: ""}[better]
            cells.append(f"{mark}{found['value']:.3f}{mark}")
        lines.append(f"| {line['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the two tables")
    parser.add_argument(
        "--peers", metavar="PYTHON", help="an interpreter with pycytominer, scanpy, harmonypy and copairs"
    )
    parser.add_argument("--screens", default=",".join(sorted({name.split(",")[0] for name in SCREENS})))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    about, begun = machine(), time.process_time()
    record: dict[str, Any] = {"benchmark": "screen_methods", "machine": about, "screens": {}}
    for name, (file, roles) in SCREENS.items():
        path = options.data / file
        if name.split(",")[0] not in options.screens.split(","):
            continue
        if not path.exists():
            record["screens"][name] = {"skipped": f"{file} is not there"}
            continue
        print(name, file=sys.stderr)
        record["screens"][name] = measured(path, roles, options.peers)
        print(f"\n{name}\n\n{table_of(record['screens'][name])}")
    record |= {"warnings": warnings_of(about), "cpu_s": round(time.process_time() - begun, 1)}
    options.output.write_text(json.dumps(_rounded(record), indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Six digits after the point; a number that is not finite is None."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if np.isfinite(value) else None
    return value


if __name__ == "__main__":
    main()
