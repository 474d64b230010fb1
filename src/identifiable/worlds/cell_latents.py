"""The latents of a simulated screen: biology, technique and nuisance, one plate of wells at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable.worlds.cell_plates import Plates, Wells, grid_profile
from identifiable.worlds.cell_settings import CellSettings, Stream

Role = Literal["biology", "technical", "nuisance"]
Single = NDArray[np.float32]
Double = NDArray[np.float64]
Codes = NDArray[np.intp]

TECHNICAL = ("experiment", "plate", "row", "column", "edge", "stain", "focus", "drift")
# How technical latents beyond one of each are shared out. There is one edge, one time and few profiles of rows and
# columns that are not nearly alike, so large worlds get more of what plates and experiments differ in.
MORE = ("plate", "row", "column", "focus", "experiment", "stain")
MOST = {"row": 4, "column": 4, "edge": 1, "drift": 2}
CYCLES = 8  # one biological latent in so many is of the cell cycle
CYCLE_WIDTH = 0.35  # of each of its two modes, whose distance from 0 makes the variance 1
SIGNED_GAMMA_SHAPE = 0.7
STAIN_LOG_VARIANCE = 0.4
GRADIENT = 3.0  # of rows and columns, which levels off towards the border: steeper, and it would predict the edge
DENSITY_SHARE = 0.2  # of the variance of viability: what the number of cells in the well explains
CELLS, DENSITY, EDGE_LOSS = 200.0, 0.2, 0.1  # mean count; log standard deviation; log loss in wells at the edge
UNSEEN_SHARE = 4  # one gene experiment in so many, the last ones, is shifted by `unseen_shift`


def _signed_gamma(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    a = SIGNED_GAMMA_SHAPE
    return _either_sign(rng.standard_gamma(a, shape, dtype=np.float32) / np.float32(math.sqrt(a * (a + 1))), rng)


def _laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return _either_sign(rng.standard_exponential(shape, np.float32) / np.float32(math.sqrt(2)), rng)


def _cycle(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    modes = _either_sign(np.full(shape, math.sqrt(1 - CYCLE_WIDTH**2), np.float32), rng)
    return modes + np.float32(CYCLE_WIDTH) * rng.standard_normal(shape, np.float32)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return (2 * rng.random(shape, np.float32) - 1) * np.float32(math.sqrt(3))


def _exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return rng.standard_exponential(shape, np.float32) - np.float32(1)


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return rng.standard_normal(shape, np.float32)


def _either_sign(sizes: Single, rng: np.random.Generator) -> Single:
    return np.where(rng.random(sizes.shape, np.float32) < 0.5, -sizes, sizes)


# Laws of mean 0 and variance 1.
LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Single]] = {
    "signed_gamma": _signed_gamma,
    "laplace": _laplace,
    "cycle": _cycle,
    "uniform": _uniform,
    "exponential": _exponential,
    "gaussian": _gaussian,
    "stain": _gaussian,  # of the log of a factor
}
FACTOR_LAWS: dict[str, tuple[str, ...]] = {
    "viability": ("laplace",),
    "cut": ("laplace",),
    "cycle": ("cycle",),
    "state": ("signed_gamma", "laplace"),
    "row": ("uniform", "signed_gamma"),
    "column": ("uniform", "signed_gamma"),
    "stain": ("stain",),
    "focus": ("exponential",),
    "noise": ("laplace", "uniform", "exponential", "signed_gamma"),
}


@dataclass(frozen=True, eq=False)
class Latents:
    """What is settled about the latents before any well is made.

    Every latent has a role, a factor (what drives it: "state", "cycle", "viability" or "cut" of biology; one of
    `TECHNICAL`; "noise") and the law of what differs between patches of one well. `plate_part` (plates, latents) and
    `place_part` (addresses, latents) are what the plate and the address add to technical latents; `scale` is that of the
    other latents on each plate. The last quarter of the gene experiments are `unseen`.
    """

    settings: CellSettings
    seed: int
    roles: tuple[Role, ...]
    factors: tuple[str, ...]
    laws: tuple[str, ...]
    plate_part: Double
    place_part: Double
    scale: Double
    unseen: NDArray[np.bool_]

    def of_role(self, role: Role) -> Codes:
        return np.flatnonzero([each == role for each in self.roles])

    def of_factor(self, factor: str) -> Codes:
        return np.flatnonzero([each == factor for each in self.factors])

    @cached_property
    def shared(self) -> Double:
        """Of each latent's variance: what all patches of a well have in common."""
        share = np.zeros(len(self.roles))
        share[self.of_role("biology")] = self.settings.well_share
        share[self.of_role("technical")] = self.settings.batch_share
        share[self.of_factor("viability")] = DENSITY_SHARE
        return share

    @cached_property
    def _columns(self) -> dict[str, Codes]:
        """Of each law."""
        return {law: np.flatnonzero([each == law for each in self.laws]) for law in LAWS if law in self.laws}

    @cached_property
    def _stains(self) -> Codes:
        """Multiplicative latents, unless they were made Gaussian."""
        return np.array([k for k in self.of_factor("stain") if self.laws[k] == "stain"], np.intp)

    def patches(self, plate: int, wells: Wells, shifts: Single, slots: int) -> Iterator[Single]:
        """The latents of a plate's wells in one patch after another, given how its treatments shift them.

        Random numbers are drawn for all `slots` of the plate, those of lost wells too.
        """
        settings = self.settings
        rows = slice(int(wells.starts[plate]), int(wells.starts[plate + 1]))
        slot = wells.slot[rows]
        biology, technical = self.of_role("biology"), self.of_role("technical")
        rng = np.random.default_rng([self.seed, Stream.WELLS, plate])
        common = np.zeros((len(slot), len(self.roles)))
        common[:, biology] = rng.standard_normal((slots, len(biology)))[slot]
        common[:, self.of_factor("viability")] = self.density(plate, slots)[slot][:, None]
        common += self.plate_part[plate]
        common += self.place_part[wells.row[rows] * settings.grid_columns + wells.column[rows]]
        scale = np.full(len(self.roles), self.scale[plate])
        scale[technical] = 1  # technique is alike everywhere
        steady = (scale * np.sqrt(self.shared) * common).astype(np.float32)
        varying = (scale * np.sqrt(1 - self.shared)).astype(np.float32)
        for _ in range(settings.patches):
            latents = steady + varying * self._local(rng, slots)[slot]
            if self._stains.size:
                latents[:, self._stains] = _multiplied(latents[:, self._stains])
            if settings.rho:
                partner = latents[:, np.resize(technical, len(biology))]
                latents[:, biology] *= np.float32(math.sqrt(1 - settings.rho**2))
                latents[:, biology] += np.float32(settings.rho) * partner
            shown = rng.random(slots, np.float32)[slot] < settings.penetrance
            latents[shown] += shifts[shown]
            yield latents

    def density(self, plate: int, slots: int) -> Double:
        """How many cells a well has, as a standard normal number."""
        return np.random.default_rng([self.seed, Stream.DENSITIES, plate]).standard_normal(slots)

    def _local(self, rng: np.random.Generator, slots: int) -> Single:
        """What is a patch's own."""
        values = np.empty((slots, len(self.laws)), np.float32)
        for law, columns in self._columns.items():
            values[:, columns] = LAWS[law](rng, (slots, len(columns)))
        return values


def draw_latents(settings: CellSettings, plates: Plates, seed: int) -> Latents:
    """Roles, factors and laws of all latents, and what plates and places add to them."""
    rng = np.random.default_rng([seed, Stream.LATENTS])
    nuisance = settings.latents - settings.biology - settings.technical
    counts: dict[Role, int] = {"biology": settings.biology, "technical": settings.technical, "nuisance": nuisance}
    roles = tuple(role for role, count in counts.items() for _ in range(count))
    factors = (*_biological(settings.biology), *_technical(settings.technical), *(("noise",) * nuisance))
    gaussian = np.zeros(len(roles), bool)
    gaussian[rng.permutation(len(roles))[: round(settings.gaussian_fraction * len(roles))]] = True
    laws = tuple(
        "gaussian" if is_gaussian else law for is_gaussian, law in zip(gaussian.tolist(), _laws(factors), strict=True)
    )
    unseen = plates.experiment >= settings.experiments - max(settings.experiments // UNSEEN_SHARE, 1)
    unseen &= ~plates.is_compound
    plate_part = np.zeros((len(plates), len(roles)))
    place_part = np.zeros((settings.grid_rows * settings.grid_columns, len(roles)))
    for k in np.flatnonzero([role == "technical" for role in roles]).tolist():
        own = np.random.default_rng([seed, Stream.LATENTS, k])
        factor = factors[k]
        if factor in ("row", "column", "edge"):
            first = k == factors.index(factor)
            place_part[:, k] = _standard(_place(factor, first, bool(gaussian[k]), settings, own))
        else:
            plate_part[:, k] = _standard(_by_plate(factor, bool(gaussian[k]), plates, own))
            plate_part[unseen, k] += settings.unseen_shift * own.choice((-1.0, 1.0))
    h = settings.heteroscedastic
    scale = np.exp(h * rng.standard_normal(len(plates)) - h**2)  # its square is 1 in the mean
    return Latents(settings, seed, roles, factors, laws, plate_part, place_part, scale, unseen)


def cell_counts(latents: Latents, plates: Plates, wells: Wells) -> NDArray[np.int64]:
    """Cells in every well: those of a dense well, fewer at the edge."""
    settings = latents.settings
    counts = np.empty(len(wells), np.int64)
    edge = _edge(settings)[wells.row * settings.grid_columns + wells.column]
    for p in range(len(plates)):
        rows = slice(int(wells.starts[p]), int(wells.starts[p + 1]))
        slots = settings.wells(bool(plates.is_compound[p]))
        level = DENSITY * latents.density(p, slots)[wells.slot[rows]] - EDGE_LOSS * edge[rows]
        rng = np.random.default_rng([latents.seed, Stream.DENSITIES, p, 1])
        counts[rows] = rng.poisson(CELLS * np.exp(level))
    return counts


def _biological(count: int) -> tuple[str, ...]:
    cycles = max(count // CYCLES, 1)
    return ("viability", "cut", *(("cycle",) * cycles), *(("state",) * (count - 2 - cycles)))


def _technical(count: int) -> tuple[str, ...]:
    """One latent of every factor, then more of those that can have more."""
    counts = dict.fromkeys(TECHNICAL[:count], 1)
    turn = 0
    while sum(counts.values()) < count:
        factor = MORE[turn % len(MORE)]
        turn += 1
        if counts[factor] < MOST.get(factor, count):
            counts[factor] += 1
    return tuple(factor for factor, times in counts.items() for _ in range(times))


def _laws(factors: tuple[str, ...]) -> list[str]:
    """The law of what patches of one well differ in: of a factor's first latent, its second, …

    Against the two-sided gradients of the first rows and columns a heavy-tailed law would add up to a Gaussian one.
    """
    seen = dict.fromkeys(factors, 0)
    laws = []
    for factor in factors:
        law = FACTOR_LAWS.get(factor, ("signed_gamma",))
        laws.append(law[min(seen[factor], len(law) - 1)] if factor in TECHNICAL else law[seen[factor] % len(law)])
        seen[factor] += 1
    return laws


def _by_plate(factor: str, gaussian: bool, plates: Plates, rng: np.random.Generator) -> Double:
    """What every plate adds to a latent of this factor."""
    experiments = len(plates.experiments)
    if factor == "drift":
        slope = rng.choice((-1.0, 1.0), experiments) if gaussian else rng.standard_normal(experiments)
        last = np.array([plates.number[plates.experiment == e].max() for e in range(experiments)])
        time = (plates.number - 0.5) / last[plates.experiment] - 0.5
        result: Double = slope[plates.experiment] * (_normal_scores(time) if gaussian else time)
        return result
    size = experiments if factor == "experiment" else len(plates)
    if gaussian or factor == "stain":
        offsets = rng.standard_normal(size)
    else:
        offsets = rng.standard_exponential(size) if factor == "focus" else rng.standard_t(3, size)
    return offsets[plates.experiment] if factor == "experiment" else offsets


def _place(factor: str, first: bool, gaussian: bool, settings: CellSettings, rng: np.random.Generator) -> Double:
    """What every address adds: the first row and column latents are gradients, further ones differ from line to line."""
    shape = settings.grid_rows, settings.grid_columns
    if factor == "edge":
        return _normal_scores(_to_border(settings)) if gaussian else _edge(settings).astype(np.float64)
    axis = ("row", "column").index(factor)
    lines = shape[axis]
    across = (2 * np.arange(lines) + 1) / lines - 1
    if first:
        line = _normal_scores(across) if gaussian else np.tanh(GRADIENT * across)
    else:
        line = rng.standard_normal(lines) if gaussian else rng.standard_t(3, lines)
    return grid_profile(line.tolist(), axis, shape)


def _to_border(settings: CellSettings) -> Double:
    """How many wells away the border of the plate is, by address."""
    row, column = np.divmod(np.arange(settings.grid_rows * settings.grid_columns), settings.grid_columns)
    sides = row, settings.grid_rows - 1 - row, column, settings.grid_columns - 1 - column
    result: Double = np.min(sides, axis=0).astype(np.float64)
    return result


def _edge(settings: CellSettings) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = _to_border(settings) == 0
    return result


def _normal_scores(values: Double) -> Double:
    """Gaussian numbers in the same order; equal ones stay equal."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    result: Double = ndtri((rankdata(values) - 0.5) / len(values))
    return result


def _standard(values: Double) -> Double:
    deviation = values.std()
    result: Double = (values - values.mean()) / (deviation if deviation > 0 else 1.0)
    return result


def _multiplied(log_level: Single) -> Single:
    """A log-normal factor of mean 0 and variance 1, from standard normal numbers."""
    v = STAIN_LOG_VARIANCE
    spread = math.sqrt(math.expm1(v)) * math.exp(v / 2)
    result: Single = (np.exp(np.float32(math.sqrt(v)) * log_level) - np.float32(math.exp(v / 2))) / np.float32(spread)
    return result
