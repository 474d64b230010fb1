"""A screen of cells with known truth: embeddings of wells on plates, where biology and technique are mixed.

Ours, after the tables of RxRx3-core. Wells are made plate by plate, every plate with seeds of its own, so a world depends
on neither threads nor block sizes, and need not be in memory: rows can be made when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.blocks import in_threads, one_blas_thread
from identifiable.groups import AffineMap, haar_rotation
from identifiable.moments import Array
from identifiable.run import Progress, Run, Stage
from identifiable.worlds.cell_latents import Latents, Role, cell_counts, draw_latents
from identifiable.worlds.cell_plates import (
    CRISPR_CONTROL,
    ON_PLATE,
    UNEXPRESSED,
    Plates,
    Treatments,
    Wells,
    describe,
    lay_out,
)
from identifiable.worlds.cell_settings import CellSettings, Stream, checked_settings
from identifiable.worlds.mixtures import recovery


@dataclass(frozen=True, eq=False)
class CellMixing:
    """``x = (f(s * amplitude) @ turn * spread + noise) @ frame + offset``.

    f is `layers` times ``z + delta * tanh(z @ V) @ U`` with orthogonal U, V: each layer stretches lengths by
    factors from 1 - delta to 1 + delta. `frame` has orthonormal rows, as many as there are latents.
    """

    amplitude: Array
    delta: float
    layers: tuple[tuple[Array, Array], ...]
    turn: Array
    spread: Array
    frame: Array
    offset: Array
    noise: float

    @classmethod
    def of(cls, settings: CellSettings, seed: int) -> CellMixing:
        rng = np.random.default_rng([seed, Stream.MIXING])
        k, d = settings.latents, settings.width
        nuisance = k - settings.biology - settings.technical
        levels = 1.0, settings.loudness, 1 / settings.loudness
        amplitude = np.repeat(levels, (settings.biology, settings.technical, nuisance))
        turn, frame = haar_rotation(k, rng), haar_rotation(d, rng)[:k]
        offset = rng.standard_normal(d)
        spread = np.logspace(0, -np.log10(settings.kappa), k)
        layers = tuple((haar_rotation(k, rng), haar_rotation(k, rng)) for _ in range(settings.layers))
        return cls(
            amplitude, settings.delta, layers if settings.delta else (), turn, spread, frame, offset,
            settings.noise * float(spread[-1]),
        )  # fmt: skip

    def __call__(self, latents: Single, noise: Single | None = None) -> Single:
        """Rows of the table. `noise`, standard normal and of the latents' shape, lies in the space they span: no new rank."""
        amplitude, linear, frame, offset = self._single
        z: Single = latents * amplitude
        for U, V in self._single_layers:
            z = z + (np.float32(self.delta) * np.tanh(z @ V)) @ U
        mixed: Single = z @ linear + offset
        if noise is not None and self.noise:
            mixed += (np.float32(self.noise) * noise) @ frame
        return mixed

    @cached_property
    def _single(self) -> tuple[Single, ...]:
        parts = self.amplitude, self.turn * self.spread @ self.frame, self.frame, self.offset
        return tuple(part.astype(np.float32) for part in parts)

    @cached_property
    def _single_layers(self) -> list[tuple[Single, Single]]:
        return [(U.astype(np.float32), V.astype(np.float32)) for U, V in self.layers]

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which factors the curved part stretches lengths, everywhere."""
        return (1 - self.delta) ** len(self.layers), (1 + self.delta) ** len(self.layers)

    def stretches(self, latents: Single) -> tuple[float, float]:
        """The smallest and largest factor by which the curved part stretches lengths near these points."""
        low, high = np.inf, 0.0
        for point in np.asarray(latents, np.float64) * self.amplitude:
            z, jacobian = point, np.eye(len(point))
            for U, V in self.layers:
                t = np.tanh(z @ V)
                jacobian = jacobian + self.delta * (jacobian @ V * (1 - t**2)) @ U
                z = z + self.delta * t @ U
            singular = np.linalg.svd(jacobian, compute_uv=False)
            low, high = min(low, float(singular[-1])), max(high, float(singular[0]))
        return low, high


PATHWAY_GENES = 4
ON_PLATE_PATHWAYS = (("EIF3H", "MTOR"), ("SRC", "PLK1"))
ON_PLATE_AXES = 2
MAX_AXES = 5
ON_PLATE_EFFICACY, QUERY_EFFICACY = (20, 2), (4, 2)  # Beta laws: guides used on every plate are good ones
QUERY_EFFECT = (0.3, 1.0)  # of a query gene, relative to one on every plate
SPREAD = 0.1  # how far genes of one pathway differ on its latents
ACTIVE_COMPOUNDS = 0.5
HALF_DOSES = (0.1, 2.5)  # micromolar at which a compound has half its effect

Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Effects:
    """`sizes`: the shift of every latent by every treatment, of a compound at unlimited dose, where it shows at all.

    `half_dose` is the concentration that gives half of it; 0 for guides. `pathways` are groups of genes that move the
    same latents; `targets` names the gene a compound acts like, empty if it does nothing.
    """

    sizes: NDArray[np.float32]
    half_dose: Double
    pathways: Mapping[str, tuple[str, ...]]
    null_genes: tuple[str, ...]
    targets: Mapping[str, str]

    @property
    def relations(self) -> tuple[tuple[str, str], ...]:
        """Pairs of genes of one pathway."""
        return tuple(pair for genes in self.pathways.values() for pair in combinations(genes, 2))

    def at(self, treatment: NDArray[np.intp], concentration: Double) -> NDArray[np.float32]:
        """The shift of every latent in wells with these treatments."""
        half = self.half_dose[treatment]
        dose = np.where(half > 0, concentration, 1.0)
        shifts: NDArray[np.float32] = self.sizes[treatment] * (dose / (dose + half)).astype(np.float32)[:, None]
        return shifts


def draw_effects(settings: CellSettings, treatments: Treatments, factors: tuple[str, ...], seed: int) -> Effects:
    """Pathways with latents of their own, genes that take them over, guides of unequal efficacy, compounds like genes."""
    rng = np.random.default_rng([seed, Stream.EFFECTS])
    axes = np.flatnonzero([factor in ("state", "cycle", "viability") for factor in factors])
    query = [gene for gene in treatments.genes if gene not in ON_PLATE]
    null_query = set(rng.permutation(query)[: round(settings.null_share * len(query))].tolist())
    pathways, of_gene = _pathways([gene for gene in query if gene not in null_query], axes, factors, rng)
    genes = {gene: np.zeros(len(factors)) for gene in treatments.genes}
    for gene, direction in of_gene.items():
        strength = 1.0 if gene in ON_PLATE else rng.uniform(*QUERY_EFFECT)
        genes[gene] = settings.effect * strength * direction * (1 + SPREAD * rng.uniform(-1, 1, len(factors)))
    sizes = np.zeros((len(treatments.names), len(factors)))
    for code in treatments.guides.tolist():
        gene = str(treatments.gene[code])
        sizes[code] = genes[gene] * rng.beta(*(ON_PLATE_EFFICACY if gene in ON_PLATE else QUERY_EFFICACY))
    cut = factors.index("cut")
    sizes[treatments.guides, cut] += settings.cut
    sizes[treatments.names == CRISPR_CONTROL, cut] += settings.cut
    active = {gene: genes[gene] for gene in sorted(of_gene)}
    targets, half_dose = _compounds(treatments, active, sizes, rng)
    null = {*UNEXPRESSED, *null_query}
    if settings.no_biology:
        sizes[:] = 0
        pathways, targets, null = {}, dict.fromkeys(targets, ""), set(treatments.genes)
    return Effects(sizes.astype(np.float32), half_dose, pathways, tuple(sorted(null)), targets)


def _compounds(
    treatments: Treatments, genes: Mapping[str, Double], sizes: Double, rng: np.random.Generator
) -> tuple[dict[str, str], Double]:
    """Fill in the effects of compounds, some of which do what the loss of a gene does; their targets and half doses."""
    half_dose = np.zeros(len(sizes))
    targets = {}
    for code in treatments.compounds.tolist():
        is_active = rng.random() < ACTIVE_COMPOUNDS
        target = str(rng.choice(list(genes)))
        targets[str(treatments.names[code])] = target if is_active else ""
        half_dose[code] = np.exp(rng.uniform(*np.log(HALF_DOSES)))
        if is_active:
            sizes[code] = genes[target]
    return targets, half_dose


def _pathways(
    query: list[str], axes: NDArray[np.intp], factors: tuple[str, ...], rng: np.random.Generator
) -> tuple[dict[str, tuple[str, ...]], dict[str, Double]]:
    """Genes in groups, and the direction in the space of latents that each group shares."""
    groups: list[tuple[str, ...]] = [*ON_PLATE_PATHWAYS]
    groups += [tuple(query[a : a + PATHWAY_GENES]) for a in range(0, len(query), PATHWAY_GENES)]
    states = np.array([axis for axis in axes.tolist() if factors[axis] == "state"])
    own = rng.permutation(states[::2])  # the ones of the more peaked law
    directions: dict[str, Double] = {}
    for place, group in enumerate(groups):
        if place < len(ON_PLATE_PATHWAYS):  # latents of their own: the guides of Table 3 are equally hard to tell
            chosen = own[place * ON_PLATE_AXES : (place + 1) * ON_PLATE_AXES]
        else:
            chosen = rng.choice(axes, min(int(rng.integers(1, MAX_AXES + 1)), len(axes)), replace=False)
        direction = np.zeros(len(factors))
        direction[chosen] = rng.choice((-1.0, 1.0), len(chosen))
        directions.update(dict.fromkeys(group, direction))
    return {f"pathway_{k + 1:03d}": group for k, group in enumerate(groups)}, directions


STRETCHED_POINTS = 32
Single = NDArray[np.float32]
Table = Literal["X", "S", "patches"]
TABLES: tuple[Table, ...] = get_args(Table)
Allocate = Callable[[str, tuple[int, int]], Single]


@dataclass(frozen=True, eq=False)
class CellWorld:
    """Wells of a screen, their embeddings, and the truth about them. Made by `cells`.

    X          (n, width) embeddings: one patch of each well, or the mean over its patches if `settings.pooled`
    S          (n, latents) true latents of the same rows
    patches    (n * settings.patches, width) embeddings of all patches, well after well; None unless asked for
    metadata   the columns of RxRx3-core: well_id, experiment_name, plate, address, gene, treatment, …, and cell_count

    X, S and patches are float32 arrays or, if `lazy`, tables of which a slice of rows is made when it is read.
    """

    settings: CellSettings
    seed: int
    X: Any
    S: Any
    patches: Any
    metadata: Mapping[str, NDArray[Any]]
    latents: Latents
    biology: Effects
    treatments: NDArray[np.str_]
    mixing: CellMixing
    unseen: NDArray[np.str_]

    @property
    def n(self) -> int:
        return len(self.metadata["well_id"])

    @property
    def roles(self) -> tuple[Role, ...]:
        """Of each latent: biology, technical or nuisance."""
        return self.latents.roles

    @property
    def factors(self) -> tuple[str, ...]:
        """What drives each latent: experiment, plate, row, column, edge, stain, focus or drift; state, cycle, viability
        or cut, of biology; noise."""
        return self.latents.factors

    @property
    def effects(self) -> Single:
        """(treatments, latents): the shift of every latent by each of `treatments` where it shows, at unlimited dose."""
        return self.biology.sizes

    @property
    def pathways(self) -> Mapping[str, tuple[str, ...]]:
        """Genes that move the same latents."""
        return self.biology.pathways

    @property
    def relations(self) -> tuple[tuple[str, str], ...]:
        """Pairs of genes of one pathway."""
        return self.biology.relations

    @property
    def null_genes(self) -> tuple[str, ...]:
        return self.biology.null_genes

    @property
    def patch_well(self) -> NDArray[np.intp]:
        """The row of X that each row of `patches` is of."""
        return np.repeat(np.arange(self.n), self.settings.patches)

    def of_role(self, *roles: Role) -> NDArray[np.intp]:
        """The latents of these roles."""
        return np.flatnonzero([role in roles for role in self.roles])

    def recovery(self, to_components: AffineMap) -> Array:
        """For each latent |correlation| with the component it is matched to (Hungarian); 0 if there is none left."""
        return recovery(self.S, self.X, to_components)

    def stretches(self, points: int = STRETCHED_POINTS) -> tuple[float, float]:
        """The factors between which the curved map stretches lengths near some wells; `mixing.bounds` holds everywhere."""
        rows = np.linspace(0, self.n - 1, min(points, self.n)).astype(np.intp)
        return self.mixing.stretches(self.S[rows])


def cells(
    preset: str = "small",
    *,
    seed: int = 0,
    keep_patches: bool = False,
    lazy: bool = False,
    out: Allocate | None = None,
    rows_per_block: int = 8192,
    workers: int | None = None,
    progress: Progress | None = None,
    **knobs: Any,
) -> CellWorld:
    """A simulated screen: tiny (500 wells x 24), small (6k x 48), medium (40k x 128) or rxrx3core (222k x 384). Ours.

    By default latents are independent and not Gaussian, mixed linearly, on a random layout: what ICA assumes. The knobs
    are the fields of `CellSettings`; the last group of them breaks one assumption each.

    Parameters
    ----------
    keep_patches
        Fill `patches`, one row for each patch.
    lazy
        Keep nothing: rows are made when they are read, for a world larger than memory. `progress` says how far they have
        been read.
    out
        ``out(name, shape)`` gives the float32 array to fill for "X", "S" and "patches", such as a memory map.
    rows_per_block
        Rows one thread makes at a time. Changes no value.

    >>> world = cells("tiny", seed=1, layout="fixed")
    >>> world.X.shape[1], world.roles.count("technical"), world.metadata["address"].dtype.kind
    (24, 8, 'U')
    """
    settings = checked_settings(preset, knobs)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"cells: seed: expected a whole number of at least 0, got {seed!r}.")
    if rows_per_block < 1:
        raise UsageError(f"cells: rows_per_block: expected at least 1, got {rows_per_block}.")
    maker = _Maker.of(settings, int(seed))
    tables: dict[Table, Any] = {}
    for name in TABLES if keep_patches else TABLES[:2]:
        rows = _Rows(maker, name, progress)
        tables[name] = rows if lazy else _allocated(out, name, rows.shape)
    if not lazy:
        _fill(tables, maker, rows_per_block, workers, progress)
    wells, plates, treatments = maker.wells, maker.plates, maker.treatments
    return CellWorld(
        settings=settings,
        seed=int(seed),
        X=tables["X"],
        S=tables["S"],
        patches=tables.get("patches"),
        metadata=describe(wells, plates, treatments, cell_counts(maker.latents, plates, wells)),
        latents=maker.latents,
        biology=maker.effects,
        treatments=treatments.names,
        mixing=maker.mixing,
        unseen=np.unique(plates.experiments[plates.experiment[maker.latents.unseen]]),
    )


class _PlateRows(NamedTuple):
    X: Single
    S: Single
    patches: Single | None


@dataclass(frozen=True, eq=False)
class _Maker:
    """All that is needed to make the wells of any plate."""

    settings: CellSettings
    seed: int
    plates: Plates
    treatments: Treatments
    wells: Wells
    latents: Latents
    effects: Effects
    mixing: CellMixing

    @classmethod
    def of(cls, settings: CellSettings, seed: int) -> _Maker:
        plates, treatments = Plates.of(settings), Treatments.of(settings)
        wells = lay_out(settings, plates, treatments, seed)
        if not len(wells):
            raise UsageError("cells: no well is left; lower dropout or ask for more plates.")
        latents = draw_latents(settings, plates, seed)
        effects = draw_effects(settings, treatments, latents.factors, seed)
        mixing = CellMixing.of(settings, seed)
        return cls(settings, seed, plates, treatments, wells, latents, effects, mixing)

    def make(self, plate: int, *, with_patches: bool) -> _PlateRows:
        """The wells of one plate, whole: products of other shapes would round differently."""
        settings, wells = self.settings, self.wells
        rows = slice(int(wells.starts[plate]), int(wells.starts[plate + 1]))
        slots = settings.wells(bool(self.plates.is_compound[plate]))
        shifts = self.effects.at(wells.treatment[rows], wells.concentration[rows])
        rng = np.random.default_rng([self.seed, Stream.NOISE, plate])
        needed = settings.patches if settings.pooled or with_patches else 1
        kept: list[Single] = []
        X = S = np.zeros((0, 0), np.float32)
        for m, latents in zip(range(needed), self.latents.patches(plate, wells, shifts, slots), strict=False):
            noise = rng.standard_normal((slots, settings.latents), np.float32)[wells.slot[rows]]
            mixed = self.mixing(latents, noise)
            if with_patches:
                kept.append(mixed)
            if m == 0:
                X, S = mixed.copy(), latents
            elif settings.pooled:
                X += mixed
                S = S + latents
        if settings.pooled:
            X, S = X / np.float32(needed), S / np.float32(needed)
        patches = np.stack(kept, axis=1).reshape(-1, settings.width) if with_patches else None
        return _PlateRows(X, S, patches)


class _Rows:
    """One of the tables, made as it is read. A `blocks.Rows`."""

    dtype = np.dtype(np.float32)

    def __init__(self, maker: _Maker, table: Table, progress: Progress | None = None):
        self.maker, self.table, self.progress = maker, table, progress
        settings = maker.settings
        self.per_well = settings.patches if table == "patches" else 1
        self.shape = (len(maker.wells) * self.per_well, settings.latents if table == "S" else settings.width)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> Single:
        index = np.arange(self.shape[0])[rows]
        result = np.empty((len(index), self.shape[1]), np.float32)
        starts = self.maker.wells.starts * self.per_well
        plate = np.searchsorted(starts, index, side="right") - 1
        with one_blas_thread():
            for p in np.unique(plate).tolist():
                mine = plate == p
                made = self.maker.make(p, with_patches=self.table == "patches")
                result[mine] = getattr(made, self.table)[index[mine] - starts[p]]
        if self.progress is not None and isinstance(rows, slice) and len(index):
            self.progress(Stage("simulating", self.table), int(index[-1]) + 1, len(self))
        return result


def _allocated(out: Allocate | None, name: str, shape: tuple[int, int]) -> Single:
    array = np.empty(shape, np.float32) if out is None else out(name, shape)
    if array.shape != shape or array.dtype != np.float32:
        raise UsageError(
            f"cells: the array given for {name} must be float32 of shape {shape}, got {array.dtype} of shape {array.shape}."
        )
    return array


def _fill(
    tables: Mapping[Table, Single], maker: _Maker, rows: int, workers: int | None, progress: Progress | None
) -> None:
    starts = maker.wells.starts
    per_well = maker.settings.patches

    def run(group: Sequence[int]) -> None:
        for p in group:
            made = maker.make(p, with_patches="patches" in tables)
            for name, table in tables.items():
                times = per_well if name == "patches" else 1
                table[starts[p] * times : starts[p + 1] * times] = getattr(made, name)

    groups: list[list[int]] = [[]]
    for p in range(len(maker.plates)):
        if groups[-1] and starts[p + 1] - starts[groups[-1][0]] > rows:
            groups.append([])
        groups[-1].append(p)
    in_threads(run, groups, Run(workers=workers, progress=progress), Stage("simulating"))
