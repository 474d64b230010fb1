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
