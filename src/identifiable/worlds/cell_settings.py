"""What a simulated screen of cells is made of, and the presets."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Literal, get_args

from identifiable._checks import UsageError

Layout = Literal["random", "fixed"] | float
ON_PLATE_GUIDES = 16


class Stream(IntEnum):
    """Random numbers of their own, so that a knob of one thing leaves the draws of the others as they are."""

    DESIGN = 1
    WELLS = 2
    EFFECTS = 3
    LATENTS = 4
    DENSITIES = 5
    MIXING = 6
    NOISE = 7


@dataclass(frozen=True)
class CellSettings:
    """A simulated screen. The first three groups say what there is; the last says which assumption is broken, and how much.

    Design
    ------
    experiments, plates   gene experiments and plates in each
    empty, query          wells of a gene plate without reagent and with query guides; 16 more have the guides of Table 3
    query_genes, guides_per_gene
    compound_plates       plates of each compound experiment
    compound_empty, crispr_controls, compound_wells   wells of a compound plate
    compounds             each at 8 doses
    grid_rows, grid_columns
    dropout               share of the wells that is lost

    Latents
    -------
    width                 columns of the table; there are ``width - rank_deficit`` latents
    biology, technical    how many of them; the others are nuisance
    effect                typical shift of a latent by an effective guide, in standard deviations of the latent
    penetrance            probability that a patch shows the effect at all
    null_share            of the query genes: no effect. CYP11B1 and HCK, on every plate, have none either
    cut                   shift of one latent by every guide and CRISPR control, whatever its gene
    batch_share           of a technical latent's variance: what plate, place or time explains
    well_share            of a biological latent's variance: Gaussian, and the same in all patches of a well
    patches               in each well; the first of them is the row of X, unless `pooled`

    Mixing
    ------
    loudness              how many times larger than biology technical latents are in the table, and nuisance smaller
    kappa                 ratio of the largest to the smallest singular value of the linear map
    noise                 standard deviation, relative to the smallest singular value

    Broken assumptions
    ------------------
    gaussian_fraction     of the latents is Gaussian
    rho                   correlation of each biological latent with a technical one
    pooled                rows are means over the patches of a well
    delta, layers         ``z + delta U tanh(V' z)``, so many times, before the linear map
    confounding           probability that a guide's well outside the guide's own experiments goes to another guide
    heteroscedastic       standard deviation over plates of the log of the scale of what is not technical
    unseen_shift          of the technical latents in the last quarter of the gene experiments, in standard deviations
    layout                "random", "fixed" (a treatment has one address on all plates), or the share of fixed wells
    no_biology            no guide and no compound has any effect
    rank_deficit          columns of the table beyond the latents
    """

    experiments: int = 8
    plates: int = 9
    empty: int = 16
    query: int = 48
    query_genes: int = 48
    guides_per_gene: int = 6
    compound_plates: tuple[int, ...] = (4,)
    compound_empty: int = 8
    crispr_controls: int = 8
    compound_wells: int = 48
    compounds: int = 8
    grid_rows: int = 32
    grid_columns: int = 48
    dropout: float = 0.02

    width: int = 48
    biology: int = 16
    technical: int = 12
    effect: float = 1.3
    penetrance: float = 0.75
    null_share: float = 0.2
    cut: float = 0.0
    batch_share: float = 0.6
    well_share: float = 0.2
    patches: int = 1

    loudness: float = 2.0
    kappa: float = 10.0
    noise: float = 0.1

    gaussian_fraction: float = 0.0
    rho: float = 0.0
    pooled: bool = False
    delta: float = 0.0
    layers: int = 3
    confounding: float = 0.0
    heteroscedastic: float = 0.0
    unseen_shift: float = 0.0
    layout: Layout = "random"
    no_biology: bool = False
    rank_deficit: int = 0

    @property
    def latents(self) -> int:
        return self.width - self.rank_deficit

    @property
    def locked_share(self) -> float:
        """Share of the wells whose address their treatment decides."""
        return {"random": 0.0, "fixed": 1.0}[self.layout] if isinstance(self.layout, str) else float(self.layout)

    def wells(self, is_compound: bool) -> int:
        """Wells of a plate before any is lost."""
        if is_compound:
            return self.compound_empty + self.crispr_controls + self.compound_wells
        return self.empty + ON_PLATE_GUIDES + self.query


# What a setting may be, in words and as lowest and highest number.
_Range = tuple[str, float, float]
_SHARE: _Range = ("a share from 0 to 1", 0, 1)
_SIZE: _Range = ("a number of at least 0", 0, sys.float_info.max)
_RATIO: _Range = ("a number of at least 1", 1, sys.float_info.max)
NUMBERS: dict[str, _Range] = {
    **dict.fromkeys(("penetrance", "null_share", "batch_share", "well_share"), _SHARE),
    **dict.fromkeys(("gaussian_fraction", "rho", "confounding"), _SHARE),
    **dict.fromkeys(("effect", "noise", "heteroscedastic"), _SIZE),
    **dict.fromkeys(("kappa", "loudness"), _RATIO),
    "cut": ("a number", -sys.float_info.max, sys.float_info.max),
    "unseen_shift": ("a number", -sys.float_info.max, sys.float_info.max),
    "dropout": ("a share from 0 to 0.9", 0, 0.9),
    "delta": ("a number from 0 to below 1, where the map folds", 0, math.nextafter(1, 0)),
}
COUNTS = {
    **dict.fromkeys(("experiments", "plates", "grid_rows", "grid_columns", "patches", "layers", "width"), 1),
    **dict.fromkeys(("empty", "query", "query_genes", "guides_per_gene", "technical", "rank_deficit"), 0),
    **dict.fromkeys(("compound_empty", "crispr_controls", "compound_wells", "compounds"), 0),
}
MIN_BIOLOGY = 3 + 7  # viability, cut, one of the cycle; every other state for two pathways of two latents

CELL_PRESETS: dict[str, CellSettings] = {
    "tiny": CellSettings(
        experiments=4, plates=3, empty=8, query=8, query_genes=8, guides_per_gene=2, compound_plates=(2,),
        compound_empty=4, crispr_controls=4, compound_wells=16, compounds=2, width=24, biology=10, technical=8,
    ),
    "small": CellSettings(),
    "medium": CellSettings(
        experiments=50, query_genes=240, compound_plates=(8, 8), compound_empty=30, crispr_controls=60,
        compound_wells=160, compounds=64, width=128, biology=32, technical=24,
    ),
    # Compound plates have as many wells as bring the total to that of RxRx3-core, 222,601.
    "rxrx3core": CellSettings(
        experiments=176, query_genes=735, compound_plates=(10, 26, 48, 48), compound_empty=80, crispr_controls=172,
        compound_wells=492, compounds=1674, width=384, biology=96, technical=64, dropout=0.01,
    ),
}  # fmt: skip


def checked_settings(preset: str, knobs: dict[str, Any]) -> CellSettings:
    """A preset with some settings changed, if they make sense."""
    if preset not in CELL_PRESETS:
        raise UsageError(f"cells: unknown preset {preset!r}; choose from {', '.join(CELL_PRESETS)}.")
    known = {field.name for field in fields(CellSettings)}
    if unknown := sorted(set(knobs) - known):
        raise UsageError(f"cells: unknown setting {unknown[0]!r}; choose from {', '.join(sorted(known))}.")
    settings = replace(CELL_PRESETS[preset], **knobs)
    _check(settings)
    return settings


def _check(settings: CellSettings) -> None:
    def need(holds: bool, name: str, expected: str) -> None:
        if not holds:
            raise UsageError(f"cells: {name}: expected {expected}, got {getattr(settings, name)!r}.")

    for name, (expected, low, high) in NUMBERS.items():
        need(_is_number(getattr(settings, name), low, high), name, expected)
    for name, least in {**COUNTS, "biology": MIN_BIOLOGY}.items():
        need(_is_count(getattr(settings, name), least), name, f"a whole number of at least {least}")
    for name in ("pooled", "no_biology"):
        need(isinstance(getattr(settings, name), bool), name, "True or False")
    each = settings.compound_plates
    all_counts = isinstance(each, tuple) and all(_is_count(plates, 1) for plates in each)
    need(all_counts, "compound_plates", "a tuple with the plates of each compound experiment")
    layouts = get_args(get_args(Layout)[0])
    known = settings.layout in layouts or _is_number(settings.layout, 0, 1)
    need(known, "layout", f"{' or '.join(layouts)}, or a share from 0 to 1")
    least = settings.biology + settings.technical + settings.rank_deficit
    need(settings.width >= least, "width", f"at least biology + technical + rank_deficit = {least} columns")
    guides = settings.query_genes * settings.guides_per_gene
    need(not settings.query or guides > 0, "query", "no query wells where there are no guides for them")
    need(not settings.compound_wells or settings.compounds > 0, "compound_wells", "none where there are no compounds")
    need(not settings.rho or settings.technical > 0, "rho", "0 where there are no technical latents")
    need(not settings.pooled or settings.patches > 1, "patches", "at least 2 in each well whose mean `pooled` asks for")
    room = settings.grid_rows * settings.grid_columns
    most = max(settings.wells(False), settings.wells(True))
    need(room >= most, "grid_rows", f"enough rows of {settings.grid_columns} addresses for {most} wells")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and low <= value <= high
