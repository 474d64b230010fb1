"""What the commands about representations, latents and decoders can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from identifiable._checks import UsageError
from identifiable.options.declaring import Option, Options, with_commas
from identifiable.options.running import (
    CHECKPOINT,
    SCHEDULER,
    UNMOVED,
    Clustered,
    Identified,
    Named,
    Seeded,
    Tables,
    Threaded,
)

Rung = Literal["signed_permutation", "rigid", "similarity", "linear", "ica"]
RUNGS: tuple[Rung, ...] = ("signed_permutation", "rigid", "similarity", "linear", "ica")
Null = Literal["shuffle", "rotation"]
NULLS: tuple[Null, ...] = ("shuffle", "rotation")
Protocol = Literal["default", "paper"]
Contrast = Literal["logcosh", "exp", "cube"]
Order = Literal["negentropy", "variance", "kurtosis"]
Precision = Literal["single", "double"]
Auto = Literal["auto"]
Layout = Literal["auto", "rows", "columns"]

GROUP_BY = "FILE:COLUMN"
LABELS = "one label for each row, a label file, or the name of a column of the first table"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Tables):
    """Are these the same representation, and up to what?"""

    groups: Annotated[
        Sequence[Rung],
        Option("maps to fit", metavar="LIST", shown="the four groups; with protocol paper ica too"),
    ] = RUNGS[:-1]
    folds: Annotated[int, Option("number of cross-validation folds", least=2, metavar="K")] = 5
    group_by: Annotated[
        Any,
        Option(
            f"{LABELS}: rows with the same label stay together in folds, intervals and nulls",
            metavar=GROUP_BY,
        ),
    ] = None
    labels: Annotated[
        Any,
        Option(
            f"{LABELS}: labels whose rows have larger errors than chance gives are listed",
            metavar=GROUP_BY,
        ),
    ] = None
    intervals: Annotated[bool, Option("95 % intervals, by a jackknife", negative="--no-intervals")] = True
    axes: Annotated[bool, Option("match the components that ICA finds on either side", negative="--no-axes")] = True
    neighbours: Annotated[
        int, Option("nearest neighbours of each row to look for on the other side, 0 for none", least=0, metavar="K")
    ] = 10
    nulls: Annotated[
        Sequence[Null], Option("how rows are paired by chance, or none to draw no null", metavar="LIST", shown="both")
    ] = NULLS
    null_draws: Annotated[int, Option("draws of each null", least=1, metavar="N")] = 19
    epsilon: Annotated[
        float, Option("error below which verdict.below_epsilon names a group, for gates", above=0, metavar="E")
    ] = 0.1
    protocol: Annotated[
        Protocol,
        Option("paper: in-sample errors divided by the diameter are the headline", shown="R² on held-out rows"),
    ] = "default"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.groups:
            raise UsageError(f"groups: expected at least one of {', '.join(RUNGS)}, got none.")
        asked = RUNGS if self.protocol == "paper" and tuple(self.groups) == RUNGS[:-1] else self.groups
        object.__setattr__(self, "groups", tuple(rung for rung in RUNGS if rung in asked))


@dataclass(frozen=True, kw_only=True)
class IcaOptions(Options):
    """What a fit of ICA depends on besides the data."""

    rank: Annotated[
        int | Auto,
        Option(
            "principal directions to keep; auto keeps all that are neither constant nor collinear",
            least=1,
            metavar="auto|K",
        ),
    ] = "auto"
    contrast: Annotated[Contrast, Option("contrast function")] = "logcosh"
    order: Annotated[Order, Option("what components are ordered by")] = "negentropy"
    restarts: Annotated[
        int | Auto,
        Option(
            "starts of the solver, the best of which is kept; auto makes as many as cost little, and more where they disagree",
            least=1,
            metavar="auto|R",
        ),
    ] = "auto"
    stability: Annotated[
        int,
        Option(
            "refits on halves of the rows, an even number; 0 for none, then no component is called reproducible",
            least=0,
            metavar="N",
        ),
    ] = 6
    tol: Annotated[
        float, Option("relative gain in contrast at which the solver stops", above=0, below=1, metavar="T")
    ] = 2e-8
    precision: Annotated[Precision, Option("precision of the products in each pass")] = "single"
    seed: Annotated[int, Option("seed of starts, refits and row choices", least=0, metavar="N")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stability % 2:
            raise UsageError(
                f"stability {self.stability}: refits come in pairs on disjoint halves; pass an even number."
            )


@dataclass(frozen=True, kw_only=True)
class ResolveOptions(IcaOptions, Tables):
    """Find components that mean the same thing in every run: whitening and ICA, saved as a basis."""

    group_by: Annotated[
        Any,
        Option(
            f"{LABELS}: rows with the same label stay together in the refits",
            metavar=GROUP_BY,
        ),
    ] = None
    shared_above: Annotated[
        float | None,
        Option(
            "with several tables: the absolute correlation above which a component counts as shared",
            above=0,
            most=1,
            metavar="R",
            shown="0.8",
        ),
    ] = None
    checkpoint: Annotated[Any, CHECKPOINT] = None


Metric = Literal[
    "infomec", "dci", "mig", "mig_sup", "jemmig", "dcimig", "modularity", "explicitness", "sap", "irs", "mcc", "mcc_spearman",
    "mcc_linear", "r2", "r2_kernel", "betavae", "factorvae", "unsupervised",
]  # fmt: skip
Profile = Literal["hsu-standalone", "hsu-training", "tripod", "factorqvae"]
IcaMode = Literal["centred", "literal", "whitened"]
FactorKind = Literal["auto", "discrete", "continuous"]
ELSEWHERE = {  # metrics that do not take one table of latents and its factors
    "udr": "it compares runs of a model without factors; in Python identifiable.metrics.udr([run1, run2])",
    "sis": "it takes slots of latents and of factors; in Python identifiable.metrics.sis(latents, factors, slots_latents, slots_factors)",
}


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Threaded):
    """What is scored, by which metrics, and with what beside it."""

    metrics: Annotated[Sequence[Metric | Literal["all"]], Option("metrics, or all", metavar="LIST", shown="the fast ones")] = (
        "infomec", "dci", "mig", "sap", "modularity", "irs", "mcc", "r2",
    )  # fmt: skip
    profile: Annotated[Profile, Option("version of InfoMEC; scores of two versions are not comparable")] = (
        "hsu-standalone"
    )
    resolve: Annotated[
        Sequence[IcaMode], Option("score again after ICA in these modes", bare="centred", metavar="MODES", shown="none")
    ] = ()
    noise_sweep: Annotated[bool, Option("InfoMEC with noise added: separates a small leak from a mixture")] = False
    null: Annotated[int, Option("shuffles of the factors, for the scores that chance gives", least=0, metavar="N")] = 0
    bootstrap: Annotated[int, Option("random splits of the rows, for 95 % intervals", least=0, metavar="N")] = 0

    def __post_init__(self) -> None:
        asked = (self.metrics,) if isinstance(self.metrics, str) else self.metrics
        for name in asked if isinstance(asked, Sequence) else ():
            if (other := str(name).lower()) in ELSEWHERE:
                raise UsageError(f"metrics {name!r}: {ELSEWHERE[other]}.")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DisentangleOptions(ScoreOptions, Identified, Clustered):
    """Which latent contains information about which factor, by InfoMEC and its peers?"""

    kinds: Annotated[
        Sequence[FactorKind],
        Option("kinds of the factors, one for all or one for each", read=with_commas, metavar="LIST"),
    ] = ("auto",)
    discrete: Annotated[
        bool | None,
        Option(
            "whether latents are discrete codes",
            negative="--continuous",
            shown="they are if they are whole numbers by their type",
        ),
    ] = None
    factor_names: Annotated[
        Sequence[str] | None, Option("names of the factors, in place of the file's", metavar="LIST")
    ] = None
    drop_missing: Annotated[
        bool, Option("leave out rows with a missing value, in both tables, instead of refusing them")
    ] = False


@dataclass(frozen=True, kw_only=True)
class BilipschitzOptions(Seeded):
    """How much does a decoder stretch and shrink, point by point, and what does that bound?"""

    shape: Annotated[
        Sequence[int] | None, Option("shape of one point, for a torch decoder that does not take rows", metavar="A,B,…")
    ] = None
    directions: Annotated[
        int, Option("random directions of the paper's estimate, 0 for none", least=0, metavar="N")
    ] = 10
    ids: Annotated[str | None, Option("the column or key with sample ids, which is no value", metavar="NAME")] = None
    name: Annotated[str | None, Option("name of the decoder, for tables and pages", flag=None, moves=False)] = None
    memory: Annotated[
        int | None, Option("bytes of Jacobian to hold at once; affects rounding only", least=1, flag=None, moves=False)
    ] = None


@dataclass(frozen=True, kw_only=True)
class DecoderOptions(BilipschitzOptions):
    """The same on the command line, where the decoder is named."""

    decoder: Annotated[
        str,
        Option(
            "a torch.nn.Module in eval mode, an object with a jvp method, g(z) for torch or jvp(z, v) for numpy, of a module that "
            "can be imported from here (importing it runs its code); or an exported program (.pt2)",
            metavar="module:attribute|FILE.pt2",
            required=True,
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class MechanismsOptions(Seeded):
    """Which latent factors act on which outputs of a decoder, read off its Jacobians?"""

    shape: Annotated[
        Sequence[int] | None, Option("shape of one point, for a torch decoder that does not take rows", metavar="A,B,…")
    ] = None
    blocks: Annotated[
        Sequence[int] | None,
        Option("sizes of blocks of latents, one after the other, to score as they are", metavar="A,B,…"),
    ] = None
    picture: Annotated[
        Sequence[int] | None, Option("height and width of the outputs, for the maps of the page", metavar="H,W")
    ] = None
    ids: Annotated[str | None, Option("the column or key with sample ids, which is no value", metavar="NAME")] = None
    name: Annotated[str | None, Option("name of the decoder, for tables and pages", flag=None, moves=False)] = None


@dataclass(frozen=True, kw_only=True)
class MechanismsCommandOptions(MechanismsOptions):
    """The same on the command line, where the decoder or the file of Jacobians is named."""

    decoder: Annotated[
        str | None,
        Option(
            "as for bilipschitz: an object of a module that can be imported from here, or an exported program",
            metavar="module:attribute|FILE.pt2",
        ),
    ] = None
    jacobians: Annotated[
        str | None, Option("in place of a decoder: Jacobians (points, outputs, latents)", metavar="J.npy")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.decoder is None) == (self.jacobians is None):
            raise UsageError("mechanisms: expected --decoder or --jacobians, one of the two.")


@dataclass(frozen=True, kw_only=True)
class MapOptions(Options):
    """What a map from one representation into another depends on besides the rows."""

    group: Annotated[
        Literal["auto", "signed_permutation", "rigid", "similarity", "linear"],
        Option("kind of map; auto chooses by recall on held-out rows"),
    ] = "auto"
    ridge: Annotated[
        float | Auto,
        Option(
            "penalty of a linear map, as a share of the mean variance; auto chooses it", least=0, metavar="auto|VALUE"
        ),
    ] = "auto"
    rank: Annotated[
        int | None, Option("dimensions of the target that the map predicts", least=1, metavar="K", shown="all")
    ] = None
    normalize: Annotated[bool, Option("divide rows by their length on both sides, before and after the map")] = False


@dataclass(frozen=True, kw_only=True)
class AlignOptions(Tables, MapOptions):
    """What map carries one representation into another, and what does it cost?"""

    holdout: Annotated[
        int | None,
        Option(
            "rows to evaluate on, which the map does not see", least=50, metavar="ROWS", shown="a fifth, at most 2,000"
        ),
    ] = None
    index: Annotated[Literal["all", "held_out"], Option("rows to search among: all rows, or only those held out")] = (
        "all"
    )
    group_by: Annotated[
        Any, Option(f"{LABELS}: rows with the same label stay together in folds and intervals", metavar=GROUP_BY)
    ] = None
    labels: Annotated[Any, Option(f"{LABELS}: labels whose rows map worst are listed", metavar=GROUP_BY)] = None
    curve: Annotated[bool, Option("how recall grows with the number of pairs", negative="--no-curve")] = True


@dataclass(frozen=True, kw_only=True)
class TransformOptions(Options):
    """Components of new rows in a saved basis, or rows carried into another representation by a saved map; or back."""

    inverse: Annotated[
        bool, Option("go back: from components to the space of the data, or from B to A of align A B")
    ] = False
    only_identifiable: Annotated[
        bool, Option("write only the components that the result of resolve calls reproducible")
    ] = False
    ids: Annotated[
        str | None, Option("column, key or sidecar file with sample ids, to write beside the values", metavar="NAME")
    ] = None
    blocks: Annotated[int | None, Option(f"rows to read from storage at once; {UNMOVED}", least=1, metavar="ROWS")] = (
        None
    )
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Option("type of the values written", shown="float32 if X is not finer, else float64"),
    ] = None
    flags: Annotated[
        str | None,
        Option(
            "for a map of align: a .csv or .parquet to write, which rows are unlike those of the fit", metavar="PATH"
        ),
    ] = None
    scheduler: Annotated[Any, SCHEDULER] = None


@dataclass(frozen=True, kw_only=True)
class HeadsOptions(Tables):
    """What do two output layers fix of the representation, and does the map that they imply hold?"""

    features: Annotated[
        Any,
        Option(
            "what either head reads, one row for each sample: the features of both models on the same samples",
            values=2,
            setting=False,
            metavar="F",
        ),
    ] = None
    bias: Annotated[
        Any,
        Option(
            "the bias of either head, a file or a name in the file of the head, or none",
            values=2,
            setting=False,
            metavar="B",
            shown="the one stored beside the head",
        ),
    ] = None
    labels: Annotated[
        Any,
        Option(
            "names of the labels to join the heads on: a file, or a name in the file of the head; once for both heads, or once for each",
            repeat=True,
            setting=False,
            metavar="NAME",
            shown="those in config.json, else by position",
        ),
    ] = None
    frequencies: Annotated[
        Any,
        Option(
            "how frequent each label is, for the weighted diversity: a file of counts or shares",
            setting=False,
            metavar="FILE",
            shown="mean predicted probabilities",
        ),
    ] = None
    layout: Annotated[
        Layout,
        Option("whether labels are rows (PyTorch) or columns (Keras, Flax) of a head; auto asks bias and features"),
    ] = "auto"
    folds: Annotated[int, Option("number of cross-validation folds", least=2, metavar="K")] = 5
    null_draws: Annotated[int, Option("shuffles of the labels of one head", least=1, metavar="N")] = 19

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("features", "bias"):
            given = getattr(self, name)
            if not _is_pair(given):
                raise UsageError(f"{name}: expected two, one for each head.")


@dataclass(frozen=True, kw_only=True)
class MatchOptions(Named, Threaded):
    """Which features of two or more dictionaries are the same, one to one?"""

    features: Annotated[
        Sequence[Literal["rows", "columns"]],
        Option(
            "where the features of a matrix are: rows (W_dec) or columns (decoder.weight of torch); one for all, or one for each",
            metavar="LIST",
            shown="rows",
        ),
    ] = ("rows",)
    signed: Annotated[
        bool | None,
        Option(
            "match by cosine; --unsigned: by its absolute value",
            negative="--unsigned",
            shown="signed; unsigned for bases of resolve",
        ),
    ] = None
    threshold: Annotated[
        float, Option("cosine above which a match counts as a partner", least=0, below=1, metavar="COSINE")
    ] = 0.7
    null_draws: Annotated[int, Option("draws of each of three kinds of null dictionaries", least=1, metavar="N")] = 19
    ids: Annotated[
        Any,
        Option(
            "the column, key or sidecar file with the names of the features (rows), which is no dimension; one for all, or one for each",
            repeat=True,
            setting=False,
            metavar="NAME",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LayersOptions(Tables):
    """Which layers of two models are alike?"""

    layers: Annotated[
        Sequence[str | int],
        Option(
            "layers to compare, of every file: numbers (the layer whose name ends so, else its place from 0), last, or patterns",
            metavar="LIST",
            shown="all",
        ),
    ] = ()
    untrained: Annotated[
        Any,
        Option(
            "the same layers of both models before training, as a baseline",
            values=2,
            setting=False,
            metavar="FILE",
        ),
    ] = None
    components: Annotated[
        int | None,
        Option(
            "principal components of each layer that SVCCA and R² use, at most",
            least=1,
            metavar="K",
            shown="256; SVCCA at most a tenth of the rows",
        ),
    ] = None
    folds: Annotated[int, Option("number of cross-validation folds", least=2, metavar="K")] = 5
    neighbours: Annotated[
        int, Option("nearest neighbours of each row to look for on the other side", least=1, metavar="K")
    ] = 10
    null_draws: Annotated[int, Option("shuffles of the rows", least=1, metavar="N")] = 19

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_pair(self.untrained):
            raise UsageError("untrained: expected two, one for each model.")


def _is_pair(given: Any) -> bool:
    """Whether it is one for each of two, or nothing."""
    try:
        return given is None or (not isinstance(given, str) and len(given) == 2)
    except TypeError:  # it has no length
        return False
