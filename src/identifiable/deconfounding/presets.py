"""Presets: how data sets name their columns and their controls, and the names in common use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """How a source names its columns: for each role those that may play it, the first that is there is taken.

    Names with commas between them are columns that are joined. A table is recognised by the columns in `needed`. `controls` are
    tried in order, each as `control=` takes it; only batches whose name fits `control_batches` count.
    """

    needed: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    controls: tuple[str, ...]
    control_batches: str = "*"


PRESETS: Mapping[str, Preset] = {
    "rxrx3-core": Preset(
        needed=("experiment_name", "plate", "address", "treatment"),
        columns={
            "batch": ("experiment_name",),
            "plate": ("plate",),
            "well": ("address",),
            "perturbation": ("treatment",),
            "target": ("gene",),
        },
        controls=("EMPTY_control",),
        control_batches="gene-*",
    ),
    "jump": Preset(
        needed=("Metadata_Plate", "Metadata_Well", "Metadata_JCP2022"),
        columns={
            "batch": ("Metadata_Batch", "Metadata_Source"),
            "plate": ("Metadata_Plate",),
            "well": ("Metadata_Well",),
            "perturbation": ("Metadata_JCP2022",),
        },
        # DMSO, no guide, non-targeting, and the four ORF controls: public profiles often lack Metadata_pert_type.
        controls=(
            "Metadata_pert_type=negcon",
            "JCP2022_033924,JCP2022_800001,JCP2022_800002,JCP2022_915128,JCP2022_915129,JCP2022_915130,JCP2022_915131",
        ),
    ),
    "pycytominer": Preset(
        needed=("Metadata_Plate", "Metadata_Well"),
        columns={
            "batch": ("Metadata_Batch", "Metadata_batch"),
            "plate": ("Metadata_Plate",),
            "well": ("Metadata_Well",),
            "perturbation": ("Metadata_broad_sample", "Metadata_pert_iname", "Metadata_treatment"),
            "target": ("Metadata_gene_name", "Metadata_target", "Metadata_moa"),
            "cell_count": ("Metadata_Count_Cells", "Metadata_cell_count", "Metadata_Object_Count"),
        },
        controls=("Metadata_control_type=negcon", "Metadata_pert_type=negcon", "Metadata_pert_type=control", "DMSO"),
    ),
    "anndata": Preset(
        needed=("plate_id", "is_control"),
        columns={
            "batch": ("batch", "experiment_name"),
            "plate": ("plate_id", "plate"),
            "well": ("well", "address", "well_row,well_col"),
            "perturbation": ("guide", "perturbation", "treatment", "condition"),
            "target": ("gene", "target"),
            "cell_count": ("cell_count", "n_cells"),
        },
        controls=("is_control", "control"),
    ),
}
# Names in use for a role, most telling first; compared in lower case, without "Metadata_" and without signs between words.
COMMON: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch", "batchid", "experimentname", "experiment", "week", "run", "replicate"),
    "plate": ("plate", "plateid", "platebarcode", "assayplatebarcode", "barcode", "platename"),
    "well": ("well", "address", "wellposition", "wellname", "wellcoordinate"),
    "perturbation": (
        *(
            "perturbation",
            "guide",
            "sgrna",
            "treatment",
            "compound",
            "compoundname",
            "drug",
            "pertiname",
            "broadsample",
        ),
        *("jcp2022", "pert", "pertname", "gene", "genesymbol", "condition"),
    ),
    "target": ("target", "gene", "genesymbol", "genename", "moa", "mechanism", "mechanismofaction", "pathway"),
    "cell_count": ("cellcount", "cellcounts", "countcells", "ncells", "numcells", "objectcount"),
}
CONTROL_COLUMNS = ("iscontrol", "control", "negcon", "isnegcon", "negativecontrol", "isnegativecontrol")
CONTROL_TYPES = ("perttype", "controltype", "welltype", "welltypelabel")
CONTROL_TYPE_VALUES = re.compile(r"neg(ative)?[ _-]?(con|ctrl|control)s?|control|vehicle", re.IGNORECASE)
CONTROL_NAMES = tuple(  # of these the first that fits any perturbation: a vehicle says more than an empty well
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"empty_control",
        r"([\d.]+ ?%? ?)?dmso([ _-]*[\d.]*( ?%)?)",
        r"neg(ative)?[ _-]?(con|ctrl|control)s?",
        r"vehicle|mock",
        r"non-?_?targeting.*|scrambled?|ntc|safe-?_?harbou?r",
        r"control|ctrl|untreated",
    )
)
DOSES = ("concentration", "dose", "pertdose", "concentrationum", "mmolesperliter", "doseum")
# Words of columns that say something of a well and are no measurement of it, and words that may stand beside them.
ABOUT_WELLS = re.compile(
    r"batch|col(umn)?|conc(entration)?|days?|doses?|experiment|field|hours?|index|passages?|plate|rep(eat|licate)?s?|row|run|seed|site|"
    r"time(point)?|week|well"
)
BESIDE = re.compile(
    r"cells?|compound|drug|final|hr?s?|id|in|log|(micro|nano)?molar|mins?|m|m[lm]|[nuµ]|n[gm]|no|nr|num(ber)?|of|pert|point|sample|"
    r"sec|treatment|u[gm]|value|µm"
)
WORDS = re.compile(r"[A-Z]+(?![a-zµ])|[A-Zµ]?[a-zµ]+|\d+")


def plain_name(column: str) -> str:
    """A name in lower case, without "Metadata_" and without signs between words."""
    return re.sub(r"[^a-z0-9]", "", column.lower().removeprefix("metadata_"))


def is_about_wells(column: str) -> bool:
    """Whether a number of that name is about the well and no feature: a dose, a replicate, a passage, a time, a role.

    Ours: all words of the name, units and words such as "number" aside, are such words.

    >>> [is_about_wells(name) for name in ("dose_uM", "PassageNumber", "time (h)", "Cells_Neighbors_Number", "mean_time")]
    [True, True, True, False, False]
    """
    known = {*COMMON["batch"], *COMMON["plate"], *COMMON["well"], *COMMON["cell_count"], *CONTROL_COLUMNS, *DOSES}
    words = [word for found in WORDS.findall(column.removeprefix("Metadata_")) if not (word := found.lower()).isdigit()]
    telling = [word for word in words if not BESIDE.fullmatch(word)]
    return plain_name(column) in known or (bool(telling) and all(map(ABOUT_WELLS.fullmatch, telling)))
