"""Tables 3, 4 and 7 of Nelson et al. (2026): does ICA help to tell perturbations from controls on plates held out?

At scale paper on RxRx3-core, whose metadata and embeddings the user has on disk; at the other scales on the simulated screen of
`worlds.cells`, which has the same design, smaller, and says nothing about the paper's figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.api.screening import Screen, evaluate, screen
from identifiable.blocks import Blocks
from identifiable.experiments.changing import changed
from identifiable.experiments.recording import choices
from identifiable.intake import default_provenance
from identifiable.options import ReproduceOptions
from identifiable.representation import Representation
from identifiable.results import Alert, FoldScore, GeneConcentration, GeneScore, ScreenEvaluation, Table3
from identifiable.worlds import cells

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

METADATA = "metadata_rxrx3_core.csv"
EMBEDDINGS = (".parquet", ".npy", ".npz", ".safetensors", ".h5ad")
WELL_ID = "well_id"
REPRESENTATIONS = ("base", "pca", "ica", "rand")
TREES = "lightgbm"


@dataclass(frozen=True)
class Settings:
    """The settings at the paper's scale; where they are not known, ours (spec of the evaluation: deconfounding, 1.3)."""

    preset: str = ""  # of the simulated screen; none: files
    genes: tuple[str, ...] = ("CYP11B1", "EIF3H", "HCK", "SRC", "MTOR", "PLK1")
    folds: int = 5
    seeds: int = 5
    rotations: int = 20
    percents: tuple[float, ...] = (25.0, 10.0, 50.0)
    null_guides: int = 4
    bootstrap: int = 1000
    stricter: int = 1  # 0: do not hold out experiments as well

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("seeds", 1), ("rotations", 1), ("null_guides", 0), ("bootstrap", 2)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)}: expected a whole number of at least {least}.")
        if not self.genes:
            raise UsageError("genes: expected at least one.")


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {"preset": "medium", "seeds": 2, "rotations": 5},
    "smoke": {
        "preset": "small",
        "genes": ("HCK", "SRC", "EIF3H"),
        "seeds": 1,
        "rotations": 2,
        "percents": (25.0,),
        "null_guides": 1,
        "bootstrap": 200,
        "stricter": 0,
    },
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


def run(
    experiment: Experiment,
    chosen: Settings,
    options: ReproduceOptions,
) -> Table3:
    """Evaluate the screen by the paper's protocol, then by the stricter one, and read the tables off."""
    scale, data, seed = options.scale, options.data, options.seed
    checkpoint, progress, say = options.checkpoint, options.progress, options.say
    opened = _simulated(chosen, seed) if chosen.preset and data is None else _from_folder(data)
    guides = _guides(opened, chosen.genes)
    shared: dict[str, Any] = {
        "representations": REPRESENTATIONS,
        "targets": [name for names in guides.values() for name in names],
        "folds": chosen.folds,
        "seeds": chosen.seeds,
        "rotations": chosen.rotations,
        "null_guides": chosen.null_guides,
        "bootstrap": chosen.bootstrap,
        "seed": seed,
        "progress": progress,
    }
    _tell(say, f"evaluating {opened!r}, {len(shared['targets'])} guides of {len(guides)} genes")
    found = evaluate(
        opened,
        protocol="paper",
        fit=("all",),
        concentration=chosen.percents,
        checkpoint=_inside(checkpoint, "paper"),
        **shared,
    )
    _tell(say, f"paper's protocol: {found.headline}")
    stricter = None
    if chosen.stricter:
        stricter = evaluate(
            opened,
            hold_out=("batch",),
            fit=("train",),
            checkpoint=_inside(checkpoint, "stricter"),
            **{**shared, "seeds": 1, "rotations": 1},
        )
        _tell(say, f"experiments held out: {stricter.headline}")
    gain = found.difference("ica", "pca")
    record = default_provenance(seed, options.command or "identifiable.experiments.reproduce('table3')")
    return Table3(
        inputs=found.inputs,
        settings={"experiment": "table3", "scale": scale, "seed": seed, **asdict(chosen)},
        alerts=(*_simulation_alert(data, chosen), *found.alerts),
        provenance=replace(record, libraries={**record.libraries, **found.provenance.libraries}),
        scale=scale,
        simulated=data is None,
        choices=choices(chosen, experiment.settings),
        published=experiment.published,
        genes=tuple(_gene_scores(found, guides)),
        concentration=tuple(_concentrations(found)),
        gain=math.nan if gain is None else gain.difference,
        gain_ci95=(math.nan, math.nan) if gain is None else gain.ci95,
        evaluation=found,
        stricter=stricter,
    )


def _tell(say: Callable[[str], None] | None, line: str) -> None:
    if say is not None:
        say(line)


def _inside(checkpoint: str | None, name: str) -> str | None:
    return None if checkpoint is None else str(Path(checkpoint) / name)


def _simulated(chosen: Settings, seed: int) -> Screen:
    world = cells(chosen.preset, seed=seed)
    table = Representation(Blocks(world.X, name="simulated screen"), name="simulated screen")
    return screen(table, metadata=world.metadata, preset="rxrx3-core")


def _from_folder(data: str | None) -> Screen:
    """RxRx3-core as it is published: metadata and one table of embeddings, joined on the id of the well."""
    folder = None if data is None else Path(data)
    if folder is None or not folder.is_dir():
        raise UsageError(
            f"table3 at scale paper needs --data, a folder with {METADATA} and the embeddings of its wells; the files are "
            "RxRx3-core's. Scales smoke and small simulate a screen."
        )
    tables = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in EMBEDDINGS]
    metadata = folder / METADATA
    if not metadata.is_file() or len(tables) != 1:
        held = ", ".join(path.name for path in sorted(folder.iterdir())[:8]) or "nothing"
        raise DataError(
            f"{folder}: expected {METADATA} and exactly one table of embeddings ({', '.join(EMBEDDINGS)}), found {held}."
        )
    return screen(tables[0], metadata=metadata, ids=WELL_ID, preset="rxrx3-core")


def _guides(opened: Screen, genes: tuple[str, ...]) -> dict[str, list[str]]:
    """The guides of each gene, by the gene that the design gives as their target."""
    design = opened.design
    if design.target is None:
        raise DataError(f"{opened.representation.name}: expected a column of genes, which tells guides of one gene.")
    target, treatment = design.target.text(), design.perturbation.text()
    found = {gene: sorted(set(treatment[(target == gene) & ~design.control].tolist())) for gene in genes}
    missing = [gene for gene, names in found.items() if not names]
    if missing:
        raise DataError(
            f"{opened.representation.name}: no well has a guide of {', '.join(missing)}; set genes to others."
        )
    return found


def _gene_scores(found: ScreenEvaluation, guides: Mapping[str, list[str]]) -> list[GeneScore]:
    lines = []
    for gene, names in guides.items():
        for representation in REPRESENTATIONS:
            rows = [
                s
                for s in found.scores
                if (s.representation, s.classifier, s.rotation) == (representation, TREES, 0) and s.target in names
            ]
            if not rows:
                continue
            auroc, auroc_se = _over_folds(rows, "auroc")
            hoyer, hoyer_se = _over_folds(rows, "hoyer")
            lines.append(
                GeneScore(
                    gene,
                    len(names),
                    representation,
                    auroc,
                    auroc_se,
                    hoyer,
                    hoyer_se,
                    _over_folds(rows, "hoyer_null")[0],
                    _over_folds(rows, "n_splits")[0],
                )
            )
    return lines


def _over_folds(rows: list[FoldScore], name: str) -> tuple[float, float]:
    """Mean and standard error over folds and guides; a fold's seeds are averaged first, for they are one sample."""
    folds: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        folds.setdefault((row.target, row.fold), []).append(getattr(row, name))
    values = np.array([np.mean(v) for v in folds.values()])
    values = values[~np.isnan(values)]
    if not len(values):
        return math.nan, math.nan
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def _concentrations(found: ScreenEvaluation) -> list[GeneConcentration]:
    lines = []
    for representation in REPRESENTATIONS:
        condition = found.condition(representation, TREES)
        for c in () if condition is None else condition.concentration:
            lines.append(
                GeneConcentration(
                    representation, c.percent, c.top, c.rest, c.whole, c.difference, c.ratio, c.gini, c.above_chance
                )
            )
    return lines


def _simulation_alert(data: str | None, chosen: Settings) -> list[Alert]:
    if data is not None:
        return []
    return [Alert("simulated", {"preset": chosen.preset})]
