"""What `deconfound attribute` and `deconfound clean` found: what each component is about, and a screen without its technical ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from identifiable.results.record import Answer, Interval, Note, Shown, joined
from identifiable.results.screen import ScreenDesign

ComponentRole = Literal["technical", "biological", "both", "neither"]


@dataclass(frozen=True)
class Share:
    """Cross-validated share of a component's variance that a factor explains; at most 1, negative where it explains nothing.

    Of plates and batches: on control wells only, the other half of each plate's controls predicted from one half. "plate" holds
    "batch" and "plate_in_batch". "spread" is no part of the component's variance: it is the share of plates in how far apart (on a
    log scale) control wells of a plate are. `p` from permutations within plate (position, cell count, perturbation), of wells over
    plates (plate) or of plates over batches; `q` over all components (Benjamini-Hochberg).
    """

    factor: str
    share: float
    p: float
    q: float


@dataclass(frozen=True)
class TopPerturbation:
    """A perturbation that moves a component: its mean less that of the controls of the same plates, in standard deviations."""

    name: str
    effect: float
    wells: int
    p: float
    q: float


@dataclass(frozen=True)
class ComponentCard:
    """One component: what it depends on, what moves it, how it lies on a plate.

    `technical` is its share of variance explained on controls by plate, batch, position, edge and cell count together; `biological`
    the share explained by perturbations within plate that replicates on plates held out; `technical_q` and `biological_q` are
    their q-values over components, by permutation. `plate_map` is the mean over plates of
    each well (rows of the grid, NaN where a well is not in use), plate means taken out. `stability` as in `Component`.
    """

    index: int
    role: ComponentRole
    technical: float
    technical_ci95: Interval
    biological: float
    biological_ci95: Interval
    shares: tuple[Share, ...]
    top: tuple[TopPerturbation, ...]
    kurtosis: float
    negentropy: float
    stability: float | None
    identifiable: bool
    plate_map: tuple[tuple[float, ...], ...] = ()
    density: tuple[float, ...] = ()
    technical_q: float = float("nan")
    biological_q: float = float("nan")

    def share(self, factor: str) -> float:
        """What a factor explains by itself; 0 where it was not measured."""
        return next((s.share for s in self.shares if s.factor == factor), 0.0)


@dataclass(frozen=True, repr=False)
class Attribution(Shown):
    """For every component of the ICA of a screen: how much of it is technical, how much is biology.

    `biology` is the sum of all biological scores, which no rotation of the components would change: if its interval reaches 0,
    the screen shows no replicated effect at all. `refused` are components that refits do not find again: they have scores, which
    `clean` needs, and no card (perturbations, plate map), because another sample would give others. `reproducible_rank` is a lower
    rank that was tried, at which `reproducible_there` components are reproducible; None where none was tried or none has any.
    """

    design: ScreenDesign
    components: tuple[ComponentCard, ...]
    density_edges: tuple[float, ...]
    grid_rows: tuple[str, ...]
    grid_columns: tuple[str, ...]
    converged: bool
    told: Answer = field(compare=False, metadata={"json": "text"})
    biology: float = float("nan")
    biology_ci95: Interval = (float("nan"), float("nan"))
    refused: tuple[int, ...] = ()
    reproducible_rank: int | None = None
    reproducible_there: int = 0
    schema: Literal["identifiable/deconfound-attribute/1"] = "identifiable/deconfound-attribute/1"
    rows_in: ClassVar[str] = "components"

    def of_role(self, *roles: ComponentRole) -> tuple[ComponentCard, ...]:
        """The components of these roles."""
        return tuple(c for c in self.components if c.role in roles)

    @property
    def text(self) -> str:
        return self.told.message


@dataclass(frozen=True)
class CleanPoint:
    """A space with `removed` axes taken out, of ICA, of PCA or of a random rotation, chosen by the same technical score.

    `plate_auroc` says how well plates (of many: batches) can still be told apart on held-out control wells, 0.5 is not at all;
    `replicate_map` the mean average precision of replicates on other plates; `biology_lost` the share of the biological score of
    all axes that went with those removed, NaN where no axis has one above 0.
    """

    space: Literal["ica", "pca", "rand"]
    removed: int
    plate_auroc: float
    replicate_map: float
    biology_lost: float
    replicate_map_ci95: Interval = (float("nan"), float("nan"))


@dataclass(frozen=True)
class CleanDifference:
    """Replicate mAP of ICA with the chosen axes removed, less that of another space, on the same wells.

    `against` is "pca" or "rand" with as many axes removed, or "whole" with none. The interval comes from leaving plates out.
    """

    against: Literal["pca", "rand", "whole"]
    removed: int
    difference: float
    ci95: Interval


@dataclass(frozen=True)
class CleanCheck:
    """A metric of the cleaned table beside that of the table as it came, on the same wells; the interval leaves batches out in turn.

    In both tables every feature is in its own standard deviations, or, if not `scaled`, in the units it came in. `held_out`: wells as
    the components chosen without their batch (or plate) would leave them; otherwise the table as it would be written.
    """

    metric: str
    held_out: bool
    input: float
    cleaned: float
    difference: float
    ci95: Interval
    better: Literal["high", "low"]
    scaled: bool = True


@dataclass(frozen=True)
class SpaceMetric:
    """A metric of a space. Rotation-invariant ones cannot tell PCA, ICA and random rotations apart: they are given once, as `whole`."""

    metric: str
    space: str
    value: float
    ci95: Interval
    rotation_invariant: bool
    better: Literal["high", "low"]
    notes: tuple[Note, ...] = field(default=(), compare=False, metadata={"json": "note"})

    @property
    def note(self) -> str:
        return joined(self.notes)


@dataclass(frozen=True, repr=False)
class Cleaning(Shown):
    """A screen without its technical components, and what that costs, beside dropping as many axes of PCA or at random.

    `weights` has one factor for each component: 0 dropped, 1 kept, between them shrunk. `budget` is the share of biology one was
    willing to lose. `verdict` compares held-out replicate mAP of the cleaned features with that of the others ("ica-cleaning-helps",
    "no-gain"). Where `checks` show less biology than the input has, it is "harms", or "keep-as-is" if that may be chance. It is
    "keep-as-is" with nothing removed where no biology shows.
    """

    design: ScreenDesign
    method: Literal["drop", "shrink"]
    budget: float
    weights: tuple[float, ...]
    removed: tuple[int, ...]
    biology_lost: float
    curve: tuple[CleanPoint, ...]
    metrics: tuple[SpaceMetric, ...]
    verdict: Literal["ica-cleaning-helps", "no-gain", "nothing-to-remove", "keep-as-is", "harms"]
    told: Answer = field(compare=False, metadata={"json": "text"})
    attribution: Attribution
    outputs: tuple[str, ...] = ()
    differences: tuple[CleanDifference, ...] = ()
    checks: tuple[CleanCheck, ...] = ()
    schema: Literal["identifiable/deconfound-clean/1"] = "identifiable/deconfound-clean/1"
    rows_in: ClassVar[str] = "metrics"

    @property
    def harmless(self) -> bool:
        """Whether the cleaned table may be used in place of the input: no verdict against it, or nothing was removed."""
        return not self.removed or self.verdict not in ("harms", "keep-as-is")

    @property
    def text(self) -> str:
        return self.told.message
