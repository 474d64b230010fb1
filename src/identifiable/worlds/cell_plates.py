"""The wells of a simulated screen: which plate, address and treatment each one has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.worlds.cell_settings import CellSettings, Stream

Codes = NDArray[np.intp]

EMPTY, CRISPR_CONTROL = "EMPTY_control", "CRISPR_control"
# Genes on every plate and how many guides each has: those of Table 3.
ON_PLATE = {"CYP11B1": 1, "EIF3H": 1, "HCK": 1, "SRC": 1, "MTOR": 6, "PLK1": 6}
UNEXPRESSED = ("CYP11B1", "HCK")  # of them: no effect here, so that calibration has guides with many wells
DOSES = (0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)  # micromolar
HOME_SHARE = 4  # a confounded treatment is at home in one of so many experiments
ATOMS = "CNOS"
CELL_TYPE = "HUVEC"


@dataclass(frozen=True, eq=False)
class Treatments:
    """Everything a well can be given: two controls, guides on every plate, guides of query genes, compounds."""

    names: NDArray[np.str_]
    gene: NDArray[np.str_]
    on_plate: Codes
    query: Codes
    compounds: Codes

    @classmethod
    def of(cls, settings: CellSettings) -> Treatments:
        on_plate = [(gene, f"{gene}_guide_{k + 1}") for gene, guides in ON_PLATE.items() for k in range(guides)]
        genes = [f"GENE{k + 1:03d}" for k in range(settings.query_genes)]
        query = [(gene, f"{gene}_guide_{k + 1}") for gene in genes for k in range(settings.guides_per_gene)]
        compounds = [("", f"compound_{k + 1:04d}") for k in range(settings.compounds)]
        pairs = [(EMPTY, EMPTY), (CRISPR_CONTROL, CRISPR_CONTROL), *on_plate, *query, *compounds]
        ends = np.cumsum([2, len(on_plate), len(query), len(compounds)])
        ranges = [np.arange(a, b) for a, b in pairwise(ends.tolist())]
        return cls(np.array([name for _, name in pairs]), np.array([gene for gene, _ in pairs]), *ranges)

    @property
    def genes(self) -> list[str]:
        """Those with guides, the ones on every plate first."""
        return list(dict.fromkeys(self.gene[self.guides].tolist()))

    @property
    def guides(self) -> Codes:
        return np.concatenate([self.on_plate, self.query])


@dataclass(frozen=True, eq=False)
class Plates:
    """One entry for each plate: its experiment and its number there, which starts at 1 in every experiment."""

    experiments: NDArray[np.str_]
    experiment: Codes
    number: Codes
    is_compound: NDArray[np.bool_]

    @classmethod
    def of(cls, settings: CellSettings) -> Plates:
        sizes = [settings.plates] * settings.experiments + list(settings.compound_plates)
        names = [f"gene-{k + 1:03d}" for k in range(settings.experiments)]
        names += [f"compound-{k + 1:03d}" for k in range(len(settings.compound_plates))]
        experiment = np.repeat(np.arange(len(sizes)), sizes)
        number = np.concatenate([np.arange(1, size + 1) for size in sizes])
        return cls(np.array(names), experiment, number, experiment >= settings.experiments)

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Wells:
    """One entry for each well that was kept, plate by plate, in the order of addresses.

    `slot` is the place of the well in its plate's list of treatments: random numbers belong to slots, so neither the
    layout nor lost wells change them. Wells of plate p are those from `starts[p]` to `starts[p + 1]`.
    """

    plate: Codes
    slot: Codes
    treatment: Codes
    concentration: NDArray[np.float64]
    row: Codes
    column: Codes
    starts: Codes

    def __len__(self) -> int:
        return len(self.plate)


def lay_out(settings: CellSettings, plates: Plates, treatments: Treatments, seed: int) -> Wells:
    """Give every plate its treatments and every treatment its address; then lose some wells."""
    rng = np.random.default_rng([seed, Stream.DESIGN])
    homes = _homes(settings, len(treatments.names), len(plates.experiments), rng)
    queries = _cycled(treatments.query, int((~plates.is_compound).sum()), settings.query, rng)
    doses = _cycled(
        np.arange(len(treatments.compounds) * len(DOSES)), int(plates.is_compound.sum()), settings.compound_wells, rng
    )
    fixed = {
        is_compound: rng.permutation(settings.grid_rows * settings.grid_columns)[: settings.wells(is_compound)]
        for is_compound in (False, True)
    }
    parts: list[tuple[NDArray[Any], ...]] = []
    for p, is_compound in enumerate(plates.is_compound.tolist()):
        own = np.random.default_rng([seed, Stream.DESIGN, p])
        if is_compound:
            first = int(plates.is_compound.argmax())
            dose = doses[p - first]
            given = np.concatenate(
                [
                    np.zeros(settings.compound_empty, np.intp),
                    np.ones(settings.crispr_controls, np.intp),
                    treatments.compounds[dose // len(DOSES)] if dose.size else dose,
                ]
            )
            controls = np.full(settings.compound_empty + settings.crispr_controls, np.nan)
            concentration = np.concatenate([controls, np.array(DOSES)[dose % len(DOSES)]])
        else:
            given = np.concatenate([np.zeros(settings.empty, np.intp), treatments.on_plate, queries[p]])
            given = _sent_home(given, homes[:, plates.experiment[p]], treatments, settings.confounding, own)
            concentration = np.full(len(given), np.nan)
        address = _addresses(fixed[is_compound], settings, own)
        kept = np.flatnonzero(own.random(len(given)) >= settings.dropout)
        order = kept[np.argsort(address[kept])]
        parts.append((np.full(len(order), p), order, given[order], concentration[order], address[order]))
    plate, slot, given, concentration, address = (np.concatenate(column) for column in zip(*parts, strict=True))
    starts = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])])
    return Wells(
        plate, slot, given, concentration, address // settings.grid_columns, address % settings.grid_columns, starts
    )


def _homes(settings: CellSettings, treatments: int, experiments: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Where each treatment is at home: some of the experiments, each with as many treatments as any other."""
    each = max(settings.experiments // HOME_SHARE, 1)
    homes = np.zeros((treatments, experiments), bool)
    first = (rng.permutation(treatments) * each) % settings.experiments
    for k in range(each):
        homes[np.arange(treatments), (first + k) % settings.experiments] = True
    return homes


def _sent_home(
    given: Codes, at_home: NDArray[np.bool_], treatments: Treatments, confounding: float, rng: np.random.Generator
) -> Codes:
    """With this probability a treatment away from home gives its well to one that is at home on the plate."""
    moved = rng.random(len(given)) < confounding
    lots = rng.random(len(given))
    result = given.copy()
    for group in (treatments.on_plate, treatments.query):
        locals_ = group[at_home[group]]
        if not len(locals_):
            continue
        away = moved & np.isin(given, group) & ~at_home[given]
        result[away] = locals_[(lots[away] * len(locals_)).astype(np.intp)]
    return result


def _cycled(items: Codes, plates: int, per_plate: int, rng: np.random.Generator) -> Codes:
    """Rows of items, one row for each plate: all items once in random order, then again, …"""
    if not len(items) or not plates:
        return np.empty((plates, 0), np.intp)
    rounds = -(-plates * per_plate // len(items))
    order = np.concatenate([rng.permutation(items) for _ in range(rounds)]) if rounds else np.empty(0, np.intp)
    return order[: plates * per_plate].reshape(plates, per_plate)


def _addresses(fixed: Codes, settings: CellSettings, rng: np.random.Generator) -> Codes:
    """An address for each slot: its own one with the probability that `layout` says, else any that is free."""
    share = settings.locked_share
    anywhere = rng.permutation(settings.grid_rows * settings.grid_columns)
    locked = rng.random(len(fixed)) < share
    address = fixed.copy()
    free = anywhere[~np.isin(anywhere, fixed[locked])]
    address[~locked] = free[: int((~locked).sum())]
    return address


def describe(
    wells: Wells, plates: Plates, treatments: Treatments, cell_count: NDArray[np.int64]
) -> Mapping[str, NDArray[Any]]:
    """The columns of RxRx3-core's metadata, and the number of cells.

    As there, `plate` is the number in the experiment: the physical plate is `experiment_name` and `plate` together.
    """
    experiment = plates.experiments[plates.experiment[wells.plate]]
    number = plates.number[wells.plate].astype(np.int64)
    text = np.array([str(k) for k in range(int(number.max()) + 1)])[number]
    address = address_names(wells.row, wells.column)
    is_compound = plates.is_compound[wells.plate]
    smiles = np.array([""] * (len(treatments.names) - len(treatments.compounds)) + _smiles(len(treatments.compounds)))
    return {
        "well_id": _joined(experiment, "_", text, "_", address),
        "experiment_name": experiment,
        "plate": number,
        "address": address,
        "gene": treatments.gene[wells.treatment],
        "treatment": treatments.names[wells.treatment],
        "SMILES": smiles[wells.treatment],
        "concentration": wells.concentration,
        "perturbation_type": np.where(is_compound, "COMPOUND", "CRISPR"),
        "cell_type": np.full(len(wells), CELL_TYPE),
        "cell_count": cell_count,
    }


def _joined(*parts: NDArray[Any] | str) -> NDArray[np.str_]:
    text: Any = parts[0]
    for part in parts[1:]:
        text = np.char.add(text, part)
    result: NDArray[np.str_] = text
    return result


def address_names(row: Codes, column: Codes) -> NDArray[np.str_]:
    """Wells as they are written on plates, from places that start at 0.

    >>> address_names(np.array([0, 31]), np.array([0, 47])).tolist()
    ['A01', 'AF48']
    """
    letters = np.array([_letters(k) for k in range(int(row.max(initial=0)) + 1)])
    numbers = np.array([f"{k + 1:02d}" for k in range(int(column.max(initial=0)) + 1)])
    return _joined(letters[row], numbers[column])


def _letters(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else _letters(place // 26 - 1) + chr(ord("A") + place % 26)


def _smiles(count: int) -> list[str]:
    """Chains of atoms, all different: what a molecule is plays no part here."""
    length = max(math.ceil(math.log(max(count, 2), len(ATOMS))), 1)
    return [
        "C" + "".join(ATOMS[k // len(ATOMS) ** place % len(ATOMS)] for place in range(length)) for k in range(count)
    ]


def grid_profile(values: Sequence[float], axis: int, shape: tuple[int, int]) -> NDArray[np.float64]:
    """One value for each row (axis 0) or column (axis 1), spread over the wells of a plate, flat."""
    line = np.asarray(values, np.float64)
    spread = line[:, None] if axis == 0 else line[None, :]
    result: NDArray[np.float64] = np.broadcast_to(spread, shape).reshape(-1)
    return result
