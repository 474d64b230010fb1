"""What the commands about screens of cells can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from identifiable.options.declaring import Option, Options
from identifiable.options.running import CHECKPOINT, Clustered, Threaded

ROLES = "roles of the columns (looked for by their usual names where not given)"
Auto = Literal["auto"]
Representation = Literal["base", "pca", "ica", "rand"]
Correction = Literal[
    "control-z", "control-mad", "sphering", "tvn", "combat", "harmony", "pca-cs", "ica-cs", "rand-cs", "position-subtracted",
    "count-regressed",
]  # fmt: skip
Level = Literal["perturbation", "compound", "target"]
Against = Literal["auto", "controls", "others"]
HoldOut = Literal["plate", "batch"]
FitOn = Literal["train", "all"]
ScreenProtocol = Literal["default", "paper", "single-batch"]


RecommendMetric = Literal[
    "auto", "nn_euclidean", "nn_cosine", "consensus", "consensus_batch", "replicate_map", "batch_readable",
]  # fmt: skip
CandidateFamily = Literal[
    "auto", "control-z", "control-mad", "sphering", "control-z+sphering", "tvn", "combat", "harmony", "pca", "ica-clean",
]  # fmt: skip


def _column(what: str, metavar: str = "COLUMN") -> Option:
    return Option(what, group=ROLES, metavar=metavar, setting=False)


@dataclass(frozen=True, kw_only=True)
class ScreenOptions(Options):
    """A table of wells with the role of every row."""

    preset: Annotated[
        str | None, _column("roles by the conventions of a data set", "rxrx3-core|jump|pycytominer|anndata")
    ] = None
    batch: Annotated[str | None, _column("what plates belong to: an experiment, a week")] = None
    plate: Annotated[
        str | None,
        _column("plates; several columns with commas are joined, and numbers that repeat in batches are told apart"),
    ] = None
    well: Annotated[str | None, _column("addresses such as B02 or AF48")] = None
    perturbation: Annotated[str | None, _column("guide, or compound and dose (with commas)")] = None
    target: Annotated[str | None, _column("what perturbations share: a gene, a mechanism")] = None
    control: Annotated[
        str | None,
        _column(
            "negative controls: a perturbation or pattern ('*DMSO*'), COLUMN=VALUE, a column of 0 and 1, or none",
            "WHICH",
        ),
    ] = None
    cell_count: Annotated[str | None, _column("number of cells in the well")] = None
    batch_key: Annotated[
        str | None, _column("plate: equal plate numbers in several batches are one plate", "plate")
    ] = None
    metadata: Annotated[
        Any, _column("a table of the same wells, joined on ids (.csv, .csv.gz, .tsv, .parquet, or a DataFrame)", "FILE")
    ] = None
    ids: Annotated[str | None, _column("the column of ids in both tables")] = None
    features: Annotated[Sequence[str] | None, _column("names or patterns of the columns of the embedding", "LIST")] = (
        None
    )
    unnamed: Annotated[
        Literal["drop", "control"],
        _column("wells whose perturbation is empty: left out, or negative controls", "drop|control"),
    ] = "drop"
    drop_nan: Annotated[
        Literal["columns", "rows"] | None,
        _column("leave out the columns, or the rows, that have missing values among the features", "columns|rows"),
    ] = None
    impute: Annotated[
        Literal["median"] | None, _column("replace missing values of a feature by its median", "median")
    ] = None
    use_rep: Annotated[
        str | None,
        Option("of an AnnData object: X, a key of obsm, or layers/NAME", flag=None, setting=False, shown="X"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RecommendOptions(ScreenOptions, Clustered):
    """Which correction helps, chosen with whole batches held out; or to keep the table as it is."""

    metrics: Annotated[
        Sequence[RecommendMetric],
        Option("metrics to choose by; auto takes all that the design allows", flag="--metric", metavar="LIST"),
    ] = ("auto",)
    candidates: Annotated[
        Sequence[CandidateFamily], Option("families of corrections to try; auto tries all", metavar="LIST")
    ] = ("auto",)
    margin: Annotated[
        float, Option("how far below the input a biological metric may be at most", least=0, below=1, metavar="SHARE")
    ] = 0.03
    folds: Annotated[
        int | None, Option("parts of the batches, each held out in turn", least=3, metavar="K", shown="up to 10")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ScreenOptions, Clustered):
    """What the design allows one to conclude, before any fit."""

    folds: Annotated[int, Option("parts of the plates, each predicted from the others", least=2, metavar="K")] = 5
    permutations: Annotated[int, Option("shuffles for the nulls of mutual information", least=1, metavar="N")] = 200
    min_wells: Annotated[
        int | Auto,
        Option(
            "perturbations with fewer wells are named and left out; auto: 20, fewer on small screens",
            least=2,
            metavar="auto|N",
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ScreenOptions, Clustered):
    """Do Base, PCA, ICA and other representations separate perturbations from controls on plates held out?"""

    representations: Annotated[Sequence[Representation], Option("representations to compare", metavar="LIST")] = (
        "base", "pca", "ica", "rand",
    )  # fmt: skip
    corrections: Annotated[
        Sequence[Correction],
        Option("corrections to compare with, or all", flag="--baselines", metavar="LIST"),
    ] = ()
    classifiers: Annotated[
        Sequence[Any],
        Option("lightgbm, ridge, logistic, l1, 1-nn; in Python also scikit-learn classifiers", metavar="LIST"),
    ] = ("lightgbm", "ridge")
    quick: Annotated[bool, Option("Base and PCA by a linear probe and by 1-NN only: seconds")] = False
    targets: Annotated[
        Sequence[str] | None, Option("perturbations to score", metavar="LIST", shown="those on most plates")
    ] = None
    max_targets: Annotated[int, Option("at most this many of them", least=1, metavar="N")] = 16
    min_wells: Annotated[
        int | Auto,
        Option(
            "perturbations with fewer wells are left out; auto: 20, fewer on small screens", least=1, metavar="auto|N"
        ),
    ] = "auto"
    level: Annotated[Level, Option("what is compared with controls; compound joins the doses of a compound")] = (
        "perturbation"
    )
    against: Annotated[
        Against,
        Option(
            "compare with controls, or with other perturbations on the same plates; auto: controls if there are any"
        ),
    ] = "auto"
    folds: Annotated[int, Option("parts of the plates", least=2, metavar="K")] = 5
    hold_out: Annotated[Sequence[HoldOut], Option("what test rows share with no training row", metavar="LIST")] = (
        "plate",
    )
    fit: Annotated[
        Sequence[FitOn], Option("rows that transforms are fitted on; the gap of both estimates leakage", metavar="LIST")
    ] = ("train",)
    rank: Annotated[int | Auto, Option("principal directions to keep; auto keeps all", least=1, metavar="auto|K")] = (
        "auto"
    )
    basis: Annotated[
        Any,
        Option(
            "a basis fitted elsewhere, on patches for example, scored as the representation 'given'", metavar="FILE"
        ),
    ] = None
    seeds: Annotated[int, Option("seeds of the classifier", least=1, metavar="N")] = 1
    rotations: Annotated[int, Option("random rotations", least=1, metavar="N")] = 20
    null_guides: Annotated[
        int, Option("sets of control wells scored as if they were a perturbation", least=0, metavar="N")
    ] = 4
    concentration: Annotated[
        Sequence[float],
        Option("top per cents of features to refit on, for example 25,10,50", above=0, below=100, metavar="LIST"),
    ] = ()
    bootstrap: Annotated[int, Option("draws of plates for intervals", least=0, metavar="N")] = 1000
    protocol: Annotated[ScreenProtocol, Option("whose choices: ours, the paper's, or one batch at a time")] = "default"
    checkpoint: Annotated[Any, CHECKPOINT] = None


@dataclass(frozen=True, kw_only=True)
class AttributeOptions(ScreenOptions, Clustered):
    """What every component contains information about: plate, position, cell count, or perturbations."""

    basis: Annotated[
        Any,
        Option(
            "attribute the components of this basis, fitted on patches for example, instead of a new one",
            metavar="FILE",
        ),
    ] = None
    rank: Annotated[
        int | Auto,
        Option(
            "principal axes of the scaled features to unmix; auto keeps as many as the rows can carry",
            least=1,
            metavar="auto|K",
        ),
    ] = "auto"
    stability: Annotated[int, Option("refits on halves of the plates, an even number", least=0, metavar="N")] = 6
    permutations: Annotated[int, Option("shuffles for p-values", least=20, metavar="N")] = 200
    fdr: Annotated[float, Option("false discovery rate", above=0, below=1, metavar="Q")] = 0.05
    top: Annotated[int, Option("perturbations to name for each component", least=0, metavar="N")] = 10


@dataclass(frozen=True, kw_only=True)
class CleanOptions(AttributeOptions):
    """Drop or shrink technical components, and show what that costs."""

    method: Annotated[
        Literal["drop", "shrink"], Option("drop components, or shrink each by the share of biology in it")
    ] = "drop"
    budget: Annotated[
        float, Option("share of the biological score that may be lost", least=0, most=1, metavar="SHARE")
    ] = 0.1
    margin: Annotated[
        float,
        Option(
            "how far a metric of biology may fall below the input's before cleaning counts as harm",
            least=0,
            most=1,
            metavar="M",
        ),
    ] = 0.03
    metrics: Annotated[
        Sequence[str] | None, Option("metrics of spaces to give; None for all, () for none", flag=None, setting=False)
    ] = None
    relations: Annotated[
        Any,
        Option(
            "known pairs of perturbations or targets: a table with a pair in its first two columns, or the pairs",
            metavar="PAIRS",
        ),
    ] = ()


# -- corrections of AnnData objects (`identifiable.pp`)


@dataclass(frozen=True, kw_only=True)
class Placed(ScreenOptions):
    """A call that puts rows into an AnnData object."""

    key_added: Annotated[
        str,
        Option(
            "where the corrected rows go: a key of obsm, or layers/NAME; replaced if it exists",
            flag=None,
            setting=False,
        ),
    ] = "X_corrected"
    copy: Annotated[
        bool, Option("return a corrected copy; otherwise the object is changed", flag=None, setting=False)
    ] = False


@dataclass(frozen=True, kw_only=True)
class PlacedRecommendOptions(Placed, RecommendOptions):
    """`recommend` of an AnnData object."""


@dataclass(frozen=True, kw_only=True)
class PlacedCleanOptions(Placed, CleanOptions):
    """`clean` of an AnnData object."""

    force: Annotated[
        bool, Option("add the cleaned rows even if they are worse than the input", flag=None, setting=False)
    ] = False


@dataclass(frozen=True, kw_only=True)
class CorrectOptions(Placed, Threaded):
    """A correction that acts on every row alike."""


@dataclass(frozen=True, kw_only=True)
class GroupedOptions(CorrectOptions):
    """A correction that acts on plates or batches one by one."""

    level: Annotated[
        Literal["auto", "plate", "batch"],
        Option("what is corrected one by one; auto: plates for control z-score and MAD, otherwise batches"),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class SpheringOptions(CorrectOptions):
    """Sphering."""

    epsilon: Annotated[float | None, Option("ridge, in standard deviations", least=0, shown="0.01")] = None
    sphering: Annotated[Literal["ZCA-cor", "ZCA"], Option("of scaled columns, or of columns as they are")] = "ZCA-cor"


@dataclass(frozen=True, kw_only=True)
class TvnOptions(GroupedOptions):
    """TVN."""

    epsilon: Annotated[float | None, Option("ridge of the covariances", above=0, shown="0.5")] = None
    tvn: Annotated[
        Literal["batch", "efaar-1.0"], Option("controls are centred in each batch, or only all together")
    ] = "batch"


@dataclass(frozen=True, kw_only=True)
class HarmonyOptions(GroupedOptions):
    """Harmony."""

    dimensions: Annotated[int, Option("principal components to work in, at most", least=1)] = 50


@dataclass(frozen=True, kw_only=True)
class PositionOptions(CorrectOptions):
    """Means of well positions."""

    position_of: Annotated[Literal["all", "controls"], Option("the wells whose means are subtracted")] = "all"


@dataclass(frozen=True, kw_only=True)
class CountOptions(CorrectOptions):
    """Effect of the cell count."""

    count_scale: Annotated[Literal["log", "linear"], Option("the effect is linear in this")] = "log"
