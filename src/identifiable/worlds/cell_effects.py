"""Which latents a treatment moves, and by how much: the ground truth of a simulated screen's biology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from identifiable.worlds.cell_plates import CRISPR_CONTROL, ON_PLATE, UNEXPRESSED, Treatments
from identifiable.worlds.cell_settings import CellSettings, Stream

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
