"""Worlds with a known answer, written to files with the truth beside them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import __version__
from identifiable._checks import OutputError, UsageError
from identifiable.blocks import Blocks
from identifiable.io.saving import save_array
from identifiable.results.writing import new_folder, together, whole_file, write_text
from identifiable.run import Progress
from identifiable.worlds import CellWorld, Kind, cells, sources

TRUTH = "truth"
FEATURE = "feature_"
CELL_SUFFIXES = (".parquet", ".csv", ".h5ad")
SOURCE_SUFFIXES = (".npy",)
CSV_ROWS = 4096
# Of the truth, what an `.h5ad` repeats in `uns`: effects would be thousands of small arrays there.
IN_ANNDATA = ("world", "preset", "seed", "settings", "roles", "factors", "laws", "null_genes", "unseen_experiments")


@dataclass(frozen=True)
class Simulation:
    """Which files hold a simulated world: its table, the true latents (None inside an `.h5ad`), and the truth as JSON."""

    n: int
    d: int
    table: Path
    truth: Path
    latents: Path | None = None
    metadata: Path | None = None
    patches: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        found = (self.table, self.metadata, self.latents, self.patches, self.truth)
        return tuple(path for path in found if path is not None)


def simulate_cells(
    output: str | os.PathLike[str],
    preset: str = "small",
    *,
    seed: int = 0,
    keep_patches: bool = False,
    progress: Progress | None = None,
    **knobs: Any,
) -> Simulation:
    """Write a simulated screen of cells (`worlds.cells`), in blocks of rows and all files or none.

    Ours. `output` is a `.parquet` or `.csv` with metadata and features as columns, an `.h5ad` with the latents in
    ``obsm["S_true"]``, or a folder with `X.npy` and `metadata.csv`. Beside it: the latents (`truth.npy`; `NAME.truth.npy`)
    and roles, effects, relations, settings and bi-Lipschitz constants (`truth.json`; `NAME.truth.json`).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = simulate_cells(folder, "tiny", layout="fixed")
    ...     sorted(path.name for path in made.files)
    ['X.npy', 'metadata.csv', 'truth.json', 'truth.npy']
    """
    place = _Place.of(output, CELL_SUFFIXES)
    world = cells(preset, seed=seed, keep_patches=keep_patches, lazy=True, progress=progress, **knobs)
    X, S = Blocks(world.X, name="X"), Blocks(world.S, name="S")
    truth = _cell_truth(world, preset)
    is_anndata = place.suffix == ".h5ad"
    with place.ready(), together():
        table = _save_cells(place, world, X, S, truth)
        latents = None if is_anndata else save_array(place.beside(TRUTH, ".npy"), S)
        patches = save_array(place.beside("patches", ".npy"), Blocks(world.patches)) if keep_patches else None
        metadata = None if place.suffix else _save_metadata(place.beside("metadata", ".csv"), world.metadata)
        written = write_text(place.beside(TRUTH, ".json"), _json(truth))
    return Simulation(X.n, X.d, table, written, latents, metadata, patches)


def simulate_sources(
    output: str | os.PathLike[str],
    n: int,
    d: int,
    *,
    seed: int = 0,
    kinds: Kind | Sequence[Kind] | Mapping[Kind, float] | None = None,
    nonlinearity: float = 0.0,
    decades: float = 4.0,
    workers: int | None = None,
) -> Simulation:
    """Write mixed independent sources (`worlds.sources`), in blocks of rows and all files or none.

    Ours. `output` is a `.npy`, with `NAME.truth.npy` (the sources) and `NAME.truth.json` beside it, or a folder, with
    `X.npy`, `truth.npy` and `truth.json`.
    """
    place = _Place.of(output, SOURCE_SUFFIXES)
    if not isinstance(n, int) or not isinstance(d, int) or n < 1 or d < 1:
        raise UsageError(f"sources: expected at least one row and one column, got {n!r} and {d!r}.")
    if not isinstance(seed, int) or seed < 0:
        raise UsageError(f"sources: seed: expected a whole number of at least 0, got {seed!r}.")
    table, latents = place.table("X", ".npy"), place.beside(TRUTH, ".npy")
    with place.ready(), together():
        with whole_file(table) as X_path, whole_file(latents) as S_path:
            X, S = (_new_table(path, (n, d)) for path in (X_path, S_path))
            world = sources(
                n,
                d,
                rng=np.random.default_rng(seed),
                kinds=kinds,
                nonlinearity=nonlinearity,
                decades=decades,
                out=(S, X),
                workers=workers,
            )
            for array in (X, S):
                array.flush()
        truth = {
            **_header("sources", seed, n, d),
            "settings": {"nonlinearity": nonlinearity, "decades": decades},
            "kinds": list(world.kinds),
            "families": [law.family for law in world.laws],
            "shapes": [None if np.isnan(law.shape) else law.shape for law in world.laws],
            "mixing": {"matrix": world.mixing.matrix.tolist(), "offset": world.mixing.offset.tolist()},
        }
        written = write_text(place.beside(TRUTH, ".json"), _json(truth))
    return Simulation(n, d, table, written, latents)


def _new_table(path: Path, shape: tuple[int, int]) -> np.memmap[Any, np.dtype[np.float32]]:
    """A `.npy` to write into as an array. It takes its room now: on a full disk, writing into a map ends the process (SIGBUS)."""
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return table


@dataclass(frozen=True)
class _Place:
    """Where the files of a world go: into a folder, or beside a file with the suffix of its format."""

    path: Path
    suffix: str

    @classmethod
    def of(cls, output: str | os.PathLike[str], suffixes: Sequence[str]) -> _Place:
        path = Path(output)
        suffix = "" if path.is_dir() or str(output).endswith(os.sep) else path.suffix.lower()
        if suffix and suffix not in suffixes:
            raise OutputError(f"{path}: cannot write {suffix}; choose {', '.join(suffixes)} or a folder.")
        folder = path.parent
        if not folder.is_dir():
            raise OutputError(
                f"{path}: cannot write there (there is no folder {folder}); make it or choose another path."
            )
        if not suffix and path.exists() and not path.is_dir():
            raise OutputError(
                f"{path}: cannot write there (it is a file); choose a folder, or add a suffix to the name."
            )
        return cls(path, suffix)

    def table(self, name: str, suffix: str) -> Path:
        return self.path if self.suffix else self.path / f"{name}{suffix}"

    def beside(self, name: str, suffix: str) -> Path:
        return self.path.with_suffix(f".{name}{suffix}") if self.suffix else self.path / f"{name}{suffix}"

    def ready(self) -> AbstractContextManager[None]:
        """The folder is there."""
        return nullcontext() if self.suffix else new_folder(self.path)


def _save_cells(place: _Place, world: CellWorld, X: Blocks, S: Blocks, truth: Mapping[str, Any]) -> Path:
    metadata = world.metadata
    names = [f"{FEATURE}{k}" for k in range(X.d)]
    if place.suffix == ".h5ad":
        from identifiable.io.anndata_writing import save_anndata

        uns = {"simulation": {key: truth[key] for key in IN_ANNDATA}}
        obs = {name: column for name, column in metadata.items() if name != "well_id"}
        return save_anndata(
            place.path, X, obs, ids=metadata["well_id"], feature_names=names, obsm={"S_true": S}, uns=uns
        )
    if place.suffix:
        from identifiable.io.saving import save_table

        return save_table(place.path, X, metadata, ids=metadata["well_id"], feature_names=names)
    return save_array(place.table("X", ".npy"), X)


def _save_metadata(path: Path, metadata: Mapping[str, NDArray[Any]]) -> Path:
    """A `.csv` in which a missing number is an empty cell."""
    columns = list(metadata.values())
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(metadata)
        for start in range(0, len(columns[0]), CSV_ROWS):
            cells = [column[start : start + CSV_ROWS].tolist() for column in columns]
            rows.writerows(zip(*(_without_nan(column) for column in cells), strict=True))
    return path


def _without_nan(column: list[Any]) -> list[Any]:
    return ["" if value != value else value for value in column]


def _cell_truth(world: CellWorld, preset: str) -> dict[str, Any]:
    """All that is known of a screen but its latents, as plain data. Effects are those that are not 0."""
    effects = {
        str(name): {str(k): float(f"{shift[k]:.6g}") for k in np.flatnonzero(shift).tolist()}
        for name, shift in zip(world.treatments, world.effects, strict=True)
        if shift.any()
    }
    low, high = world.mixing.bounds
    smallest, largest = world.stretches()
    return {
        **_header("cells", world.seed, world.n, world.settings.width),
        "preset": preset,
        "settings": asdict(world.settings),
        "roles": list(world.roles),
        "factors": list(world.factors),
        "laws": list(world.latents.laws),
        "effects": effects,
        "pathways": {name: list(genes) for name, genes in world.pathways.items()},
        "relations": [list(pair) for pair in world.relations],
        "null_genes": list(world.null_genes),
        "targets": dict(world.biology.targets),
        "unseen_experiments": world.unseen.tolist(),
        "stretches": {"bounds": [low, high], "found": [smallest, largest]},
    }


def _header(world: str, seed: int, n: int, d: int) -> dict[str, Any]:
    return {
        "schema": "identifiable/simulate/1",
        "world": world,
        "n": n,
        "d": d,
        "seed": seed,
        "provenance": {"version": __version__},
    }


def _json(truth: Mapping[str, Any]) -> str:
    return json.dumps(truth, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
