"""Table 1 of Nelson et al. (2026): how far apart pairs of models are after a permutation, a similarity, a linear map and ICA.

The paper compares pretrained models that do not fit here. At scale paper their representations are read from files; at scale small
pairs that are at hand (two releases of a model, two fine-tunings) and GPTs trained from several seeds stand in for them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.api.extracting import extract
from identifiable.blocks import Blocks
from identifiable.experiments.changing import changed
from identifiable.experiments.gpt_seeds import GPT_SMOKE, GptSettings, gpt_seeds
from identifiable.experiments.recording import choices, with_torch
from identifiable.identifiability import compare
from identifiable.identifiability.judgement import efficiency
from identifiable.intake import blocks_of, default_provenance, inputs_of
from identifiable.io import open_representation
from identifiable.io.layer_files import open_layers
from identifiable.moments import Array, jackknife_spread
from identifiable.options import CompareOptions, IcaOptions, ReproduceOptions
from identifiable.representation import Representation, pair
from identifiable.results import Alert, Bounded, Comparison, Input, PairResult, Table1
from identifiable.results.roeder import Found
from identifiable.results.table1 import ORDER, MapError, ModelPairs, OrderStep

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

GPT = "gpt"
ROUNDED = 0.0005  # what rounding may have taken from a published number
GROUPS = len(ORDER)
# A refit of the jackknife: one start, and not to the last digit. In rxnfp it takes a tenth of the time of a whole fit, and its error is
# 0.002 above it, with the same spread; both ends of an interval would move alike.
REFIT = IcaOptions(restarts=1, tol=0.03)


@dataclass(frozen=True)
class FilePair:
    """Two representations of the same rows in a file of the folder that `--data` names, and what relates their models."""

    name: str
    kind: Literal["releases", "shared_pretraining"]
    file: str
    parts: tuple[str, str]


FILES: Mapping[str, FilePair] = {
    "spacy": FilePair("spaCy 3.6 / 3.8", "releases", "spacy_en_core_web_sm_36_vs_38.npz", ("tok2vec_36", "tok2vec_38")),
    "magika": FilePair("magika 0.6.1 / 1.0.3", "releases", "magika_061_vs_103.npz", ("a", "b")),
    "rxnfp": FilePair(
        "rxnfp, layer 12",
        "shared_pretraining",
        "rxnfp_three_encoders.npz",
        ("ft_mean_12", "ft_10k_mean_12"),
    ),
}
PUBLISHED = ("pythia-160m", "mae", "chexpert", "resnet-18")


@dataclass(frozen=True)
class Settings(GptSettings):
    """Which pairs of models, and how intervals and chance are measured; then the size of the GPTs."""

    pairs: tuple[str, ...] = PUBLISHED
    left_out: int = 10  # groups of rows that a jackknife leaves out in turn, where there are two models only
    null_draws: int = 19

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (*FILES, GPT, *PUBLISHED)
        if not self.pairs or not set(self.pairs) <= set(known) or len(set(self.pairs)) < len(self.pairs):
            raise UsageError(f"pairs {', '.join(self.pairs)}: expected different ones of {', '.join(known)}.")
        if self.left_out < 3 or self.null_draws < 1:
            raise UsageError(
                f"expected left_out of at least 3 and null_draws of at least 1, got {self.left_out}, {self.null_draws}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {"pairs": (*FILES, GPT), "left_out": 5},
    "smoke": {"pairs": (GPT,), **GPT_SMOKE},
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


def run(experiment: Experiment, chosen: Settings, options: ReproduceOptions) -> Table1:
    """Compare every pair by the paper's protocol, and on held-out rows."""
    found: list[ModelPairs] = []
    inputs: list[Input] = []
    trained = False
    for name in chosen.pairs:
        trained = trained or name == GPT
        line, read = _gpts(chosen, options) if name == GPT else _two(name, chosen, options, experiment.published)
        found.append(line)
        inputs += read
        if options.say is not None:
            errors = ", ".join(f"{error.map} {error.in_sample.value:.3f}" for error in line.errors)
            options.say(f"{len(found)}/{len(chosen.pairs)}: {line.name}: {errors}")
    provenance = default_provenance(options.seed, options.command or "identifiable.experiments.reproduce('table1')")
    return Table1(
        inputs=tuple(inputs),
        settings={"experiment": "table1", "scale": options.scale, "seed": options.seed, **asdict(chosen)},
        alerts=tuple(_alerts(found, options)),
        provenance=with_torch(provenance) if trained else provenance,
        scale=options.scale,
        choices=choices(chosen, experiment.settings),
        published=experiment.published,
        lines=tuple(found),
    )


# -- measuring


def _compared(
    tables: Sequence[Representation], options: ReproduceOptions, ica: IcaOptions | None = None, **more: Any
) -> Comparison:
    """A comparison with nothing measured that is not asked for."""
    bare: dict[str, Any] = {"intervals": False, "axes": False, "neighbours": 0, "nulls": ()}
    return compare(
        tables, CompareOptions(**{**bare, "seed": options.seed, "progress": options.progress, **more}), ica=ica
    )


def _errors(found: PairResult, diameter: float | None = None) -> Array:
    """In-sample errors of the four maps, then held-out ones, over the diameter."""
    size = found.scale.rms / (diameter or found.scale.diameter)
    rungs = [found.rung(name) for name in ORDER]
    return size * np.array([r.in_sample.mean for r in rungs] + [r.held_out.mean for r in rungs])


def _shuffled(found: PairResult) -> Array:
    nulls = [found.rung(name).null["shuffle"] for name in ORDER]
    size = found.scale.rms / found.scale.diameter
    return np.array([math.nan if null is None else size * null.mean for null in nulls])


def _derived(errors: Array) -> Array:
    """What a line has of its errors: themselves, the steps of their order, and the efficiency in sample."""
    steps = np.concatenate([-np.diff(errors[:GROUPS]), -np.diff(errors[GROUPS:])])
    share = efficiency(*map(float, errors[:3]))
    return np.concatenate([errors, steps, [math.nan if share is None else share]])


def _bounded(whole: Array, without: Array) -> list[Bounded]:
    """Every number with its jackknife interval."""
    reach = jackknife_spread(without) if len(without) > 2 else np.full(whole.shape, math.nan)
    return [
        Bounded(float(value), (float(value - r), float(value + r)) if math.isfinite(r) else None)
        for value, r in zip(whole, reach, strict=True)
    ]


def _two(
    name: str, chosen: Settings, options: ReproduceOptions, published: Mapping[str, Any]
) -> tuple[ModelPairs, tuple[Input, ...]]:
    """Two models: intervals leave out groups of rows, with every map and ICA fitted again. The yardstick stays that of all rows."""
    title, kind, tables = _opened(name, options)
    whole = _compared(tables, options, protocol="paper", nulls=("shuffle",), null_draws=chosen.null_draws).pairs[0]
    group = np.random.default_rng([options.seed, 8]).permutation(whole.n) % chosen.left_out
    without = []
    for k in range(chosen.left_out):
        kept = [_rows(table, np.flatnonzero(group != k)) for table in tables]
        less = _compared(kept, options, REFIT, protocol="paper").pairs[0]
        without.append(_derived(_errors(less, whole.scale.diameter)))
        if options.say is not None:
            options.say(f"{title}: {k + 1} of {chosen.left_out} groups of rows left out")
    apart = _compared(tables, options, axes=True).pairs[0].ica_efficiency
    line = _line(
        _bounded(_derived(_errors(whole)), np.array(without)),
        _shuffled(whole),
        None if apart is None or apart.held_out is None else Bounded(apart.held_out, apart.ci95),
        published=published.get("rows", {}).get(name),
        name=title,
        kind=kind,
        models=tuple(table.name for table in tables),
        n=whole.n,
        width=whole.width,
        pairs=1,
        intervals_over="rows",
    )
    return line, inputs_of(tables)


def _gpts(chosen: Settings, options: ReproduceOptions) -> tuple[ModelPairs, tuple[Input, ...]]:
    """All ordered pairs of GPTs, by the last layer: intervals leave out one model at a time."""
    seeds = gpt_seeds(chosen, options)
    null: dict[str, Any] = {"nulls": ("shuffle",), "null_draws": chosen.null_draws}
    how: dict[str, Any] = {"protocol": "paper", "group_by": seeds.window, **null}

    def tables(states: Any) -> list[Representation]:
        return [
            Representation(Blocks(s[-1], name=f"seed {k}"), name=f"seed {k}")
            for k, s in zip(seeds.seeds, states, strict=True)
        ]

    trained = _compared(tables(seeds.trained), options, **how)
    untrained = _compared(tables(seeds.untrained), options, **how)
    apart = _compared(tables(seeds.trained), options, group_by=seeds.window, axes=True)
    names = [table.name for table in trained.inputs]

    def over_models(pairs: Sequence[PairResult], values: Sequence[Array]) -> list[Bounded]:
        """Means over ordered pairs, and over those without each model."""

        def mean(model: str | None = None) -> Array:
            kept = [v for p, v in zip(pairs, values, strict=True) if model not in (p.source, p.target)]
            return _derived(np.mean(kept, axis=0)) if kept else np.zeros(0)

        return _bounded(mean(), np.array([mean(model) for model in names]) if len(names) > 2 else np.zeros((0, 0)))

    found, before = (over_models(c.pairs, [_errors(p) for p in c.pairs]) for c in (trained, untrained))
    line = _line(
        found,
        np.mean([_shuffled(p) for p in trained.pairs], axis=0),
        _efficiency_over(apart.pairs, names),
        untrained=(before, np.mean([_shuffled(p) for p in untrained.pairs], axis=0)),
        name="small GPT seeds",
        kind="seeds",
        models=tuple(names),
        n=trained.pairs[0].n,
        width=chosen.width,
        pairs=len(trained.pairs),
        intervals_over="models",
    )
    return line, (seeds.text,)


def _efficiency_over(pairs: Sequence[PairResult], names: Sequence[str]) -> Bounded | None:
    """The mean held-out efficiency, over pairs of which it is known."""
    shares = {
        (p.source, p.target): e.held_out
        for p in pairs
        if (e := p.ica_efficiency) is not None and e.held_out is not None
    }
    if not shares:
        return None
    kept = [[v for both, v in shares.items() if name not in both] for name in names]
    without = np.array([[np.mean(values)] for values in kept if values])
    return _bounded(np.array([np.mean(list(shares.values()))]), without)[0]


def _line(
    found: Sequence[Bounded],
    shuffled: Array,
    apart: Bounded | None,
    *,
    untrained: tuple[Sequence[Bounded], Array] | None = None,
    published: Mapping[str, float] | None = None,
    **about: Any,
) -> ModelPairs:
    """A line of the table, from what `_derived` gives of its errors and the efficiency on disjoint rows."""
    steps, share = found[2 * GROUPS : -1], found[-1]
    order = tuple(
        OrderStep(larger, smaller, inside, outside, _found(inside), _found(outside))
        for (larger, smaller), inside, outside in zip(
            pairwise(ORDER), steps[: GROUPS - 1], steps[GROUPS - 1 :], strict=True
        )
    )
    return ModelPairs(
        **about,
        errors=tuple(_map_errors(found, shuffled, untrained, published)),
        order=order,
        efficiency=share if math.isfinite(share.value) else None,
        efficiency_held_out=apart,
        found=_all_of([step.found for step in order]),
        found_held_out=_all_of([step.found_held_out for step in order]),
    )


def _map_errors(
    found: Sequence[Bounded],
    shuffled: Array,
    untrained: tuple[Sequence[Bounded], Array] | None,
    published: Mapping[str, float] | None,
) -> Iterator[MapError]:
    for k, name in enumerate(ORDER):
        more: dict[str, Any] = {}
        if untrained is not None:
            before, chance = untrained
            more = {
                "untrained": before[k],
                "untrained_held_out": before[GROUPS + k],
                "untrained_shuffled": float(chance[k]),
            }
        if published is not None:
            more |= {"published": published[name], "agreement": _near(found[k], published[name])}
        yield MapError(name, found[k], found[GROUPS + k], float(shuffled[k]), **more)


def _found(step: Bounded) -> Found:
    if step.ci95 is None:
        return "cannot_tell"
    return "agrees" if step.ci95[0] > 0 else "does_not" if step.ci95[1] < 0 else "cannot_tell"


def _near(ours: Bounded, paper: float) -> Found:
    if ours.ci95 is None:
        return "cannot_tell"
    return "agrees" if ours.ci95[0] - ROUNDED <= paper <= ours.ci95[1] + ROUNDED else "does_not"


def _all_of(found: Sequence[Found]) -> Found:
    return "does_not" if "does_not" in found else "cannot_tell" if "cannot_tell" in found else "agrees"


# -- files


def _opened(name: str, options: ReproduceOptions) -> tuple[str, str, list[Representation]]:
    """The title of a line, what relates its models, and their tables on the rows that both have."""
    folder = None if options.data is None else Path(options.data)
    if folder is None or not folder.is_dir():
        raise UsageError(
            f"{name} needs --data, a folder: for {', '.join(FILES)} with {', '.join(f.file for f in FILES.values())}; for "
            f"{', '.join(PUBLISHED)} with {name}/a.safetensors and {name}/b.safetensors, as identifiable extract writes them. "
            f"Or choose other pairs (--set pairs={GPT})."
        )
    if name in FILES:
        known = FILES[name]
        opened = [open_representation(f"{folder / known.file}:{part}") for part in known.parts]
        return known.name, known.kind, _joined(opened, known.parts)
    return name, "published", _joined([_side(folder / name, side, options) for side in "ab"], ("a", "b"))


def _side(folder: Path, side: str, options: ReproduceOptions) -> Representation:
    """One model of a pair: a table (the last layer of a file with layers), or a model directory, run on the inputs beside it."""
    if (folder / side).is_dir():
        table = _extracted(folder, side, options)
    else:
        found = sorted(folder.glob(f"{side}.*")) if folder.is_dir() else []
        if len(found) != 1:
            raise DataError(
                f"{folder}: expected one table {side}.safetensors (or .npz, .npy) or a model directory {side}, found {len(found)}."
            )
        table = found[0]
    several = table.suffix in (".safetensors", ".npz")
    return open_layers(table)[0].layers[-1] if several else open_representation(table)


def _extracted(folder: Path, side: str, options: ReproduceOptions) -> Path:
    """What a model makes of the inputs of its pair: made once, and kept under a name that says of which files."""
    inputs = sorted(folder.glob("inputs*"))
    if len(inputs) != 1:
        raise DataError(f"{folder}: expected what to run the models on, inputs.txt (or .npz, …), found {len(inputs)}.")
    if options.checkpoint is None:
        raise UsageError(f"{folder / side}: a model directory needs --checkpoint, a folder that keeps its vectors.")
    read = [inputs[0], *sorted(path for path in (folder / side).rglob("*") if path.is_file())]
    known = hashlib.sha256(repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in read]).encode())
    table = Path(options.checkpoint) / f"{folder.name}-{side}-{known.hexdigest()[:12]}.safetensors"
    if not table.is_file():
        table.parent.mkdir(parents=True, exist_ok=True)
        extract(folder / side, inputs[0], output=table, progress=options.progress)
    return table


def _joined(tables: Sequence[Representation], names: Sequence[str]) -> list[Representation]:
    pairing = pair(*tables)
    return [
        Representation(b if rows is None else b.select(rows), name=name)
        for b, rows, name in zip(map(blocks_of, tables), pairing.rows, names, strict=True)
    ]


def _rows(table: Representation, rows: Any) -> Representation:
    return Representation(blocks_of(table).select(rows), name=table.name)


def _alerts(lines: Sequence[ModelPairs], options: ReproduceOptions) -> Iterator[Alert]:
    if options.scale != "paper":
        yield Alert("stand_in", {"scale": options.scale})
    if shared := [line.name for line in lines if line.kind == "shared_pretraining"]:
        yield Alert("shared_pretraining", {"names": shared})
