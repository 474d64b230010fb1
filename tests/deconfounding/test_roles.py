"""Which column is what: presets, names in common use, the plate that is a number, controls; and what is said of bad tables."""

from __future__ import annotations

import numpy as np
import pytest

from deconfounding.short_calls import assign_roles, says
from identifiable import DataError, UsageError
from identifiable.deconfounding.design import Design, address_name, labels_of, summarise
from identifiable.deconfounding.presets import PRESETS, is_about_wells
from identifiable.deconfounding.roles import NOT_A_CONTROL, Assigned, well_place

PLATES = np.repeat(["P1", "P2", "P3"], 4)
WELLS = np.tile(["A01", "A02", "B01", "B02"], 3)
DRUGS = np.tile(["DMSO", "DMSO", "taxol", "nocodazole"], 3)


def table(**columns) -> dict[str, np.ndarray]:
    plain = {"plate": PLATES, "well": WELLS, "compound": DRUGS}
    return {name: np.asarray(values) for name, values in {**plain, **columns}.items() if values is not None}


def changed(values: np.ndarray, row: int, cell) -> np.ndarray:
    copy = values.astype(object if not isinstance(cell, str) else "U32")
    copy[row] = cell
    return copy


def rxrx3(**columns) -> dict[str, np.ndarray]:
    """Two gene experiments and a compound experiment, two plates each, numbered from 1 in each."""
    plain = {
        "well_id": np.array([f"w{k}" for k in range(18)]),
        "experiment_name": np.repeat(["gene-001", "gene-002", "compound-001"], 6),
        "plate": np.tile(np.repeat([1, 2], 3), 3),
        "address": np.tile(["A01", "Z43", "AF48"], 6),
        "gene": np.array(["", "MTOR", "PLK1"] * 4 + ["", "", ""] * 2),
        "treatment": np.array(
            ["EMPTY_control", "MTOR_guide_1", "PLK1_guide_2"] * 4 + ["EMPTY_control", "CRISPR_control", "aspirin"] * 2
        ),
    }
    return {**plain, **{name: np.asarray(values) for name, values in columns.items()}}


def codes(assigned: Assigned) -> list[str]:
    return [alert.code for alert in assigned.alerts]


def controls(design: Design) -> list[str]:
    return sorted(set(design.perturbation.text()[design.control].tolist()))


# Presets and names


def test_rxrx3_core_is_recognised_and_its_plate_is_experiment_and_number():
    found = assign_roles(rxrx3())
    assert found.design.plate.names[:2] == ("compound-001_1", "compound-001_2")
    assert found.design.plate.size == 6
    assert found.design.roles["plate"] == "experiment_name,plate"
    assert "plate_joined" in codes(found)
    assert (found.design.row.max(), found.design.column.max()) == (31, 47)


def test_rxrx3_core_takes_empty_wells_of_gene_experiments_as_controls_and_others_if_asked():
    found = assign_roles(rxrx3())
    batch = found.design.batch.text()[found.design.control]
    assert controls(found.design) == ["EMPTY_control"]
    assert set(batch) == {"gene-001", "gene-002"}
    assert f"EMPTY_control{NOT_A_CONTROL}" in found.design.perturbation.names
    assert "control_name_shared" in codes(found)
    every = assign_roles(rxrx3(), control="*_control")
    assert controls(every.design) == ["CRISPR_control", "EMPTY_control"]
    assert every.design.control.sum() == 8
    assert "control_name_shared" not in codes(every)


def test_rxrx3_core_without_gene_experiments_says_how_to_take_the_other_controls():
    compounds = {name: values[12:] for name, values in rxrx3().items()}
    with pytest.raises(UsageError, match=r"gene-\*.*--control EMPTY_control"):
        assign_roles(compounds)
    assert assign_roles(compounds, control="EMPTY_control").design.control.sum() == 2


def test_a_perturbation_without_a_target_is_its_own():
    found = assign_roles(rxrx3())
    assert found.design.target.text()[17] == "aspirin"
    assert found.design.target.text()[1] == "MTOR"
    assert "target_missing" in codes(found)
    assert "target_missing" not in codes(assign_roles(rxrx3(gene=["g"] * 18)))


@pytest.mark.parametrize("with_types", [True, False])
def test_jump_finds_its_negative_controls_with_and_without_a_column_of_types(with_types):
    columns = {
        "Metadata_Source": np.repeat("source_4", 12),
        "Metadata_Batch": np.repeat("b", 12),
        "Metadata_Plate": PLATES,
        "Metadata_Well": WELLS,
        "Metadata_JCP2022": np.tile(["JCP2022_033924", "JCP2022_800002", "JCP2022_1", "JCP2022_2"], 3),
    }
    if with_types:
        columns["Metadata_pert_type"] = np.tile(["negcon", "trt", "poscon", "trt"], 3)
    found = assign_roles(columns)
    assert found.design.roles["perturbation"] == "Metadata_JCP2022"
    assert controls(found.design) == (["JCP2022_033924"] if with_types else ["JCP2022_033924", "JCP2022_800002"])


def test_pycytominer_controls_without_a_name_are_called_control():
    columns = {
        "Metadata_Plate": PLATES,
        "Metadata_Well": WELLS,
        "Metadata_broad_sample": np.where(DRUGS == "DMSO", "", DRUGS),
        "Metadata_control_type": np.where(DRUGS == "DMSO", "negcon", ""),
    }
    found = assign_roles(columns)
    assert found.design.roles["control"] == "Metadata_control_type=negcon"
    assert controls(found.design) == ["control"]


def test_anndata_takes_a_column_of_truth_and_places_in_two_columns():
    columns = {
        "plate_id": PLATES,
        "is_control": DRUGS == "DMSO",
        "guide": DRUGS,
        "well_row": np.tile([0, 0, 1, 1], 3),
        "well_col": np.tile([0, 1, 0, 1], 3),
    }
    found = assign_roles(columns, preset="anndata")
    assert found.design.address.text()[:4].tolist() == ["A01", "A02", "B01", "B02"]
    assert found.design.control.sum() == 6
    letters = {**columns, "well_row": np.tile(["A", "A", "B", "B"], 3), "well_col": np.tile([1, 2, 1, 2], 3)}
    assert assign_roles(letters).design.address.text()[:4].tolist() == ["A01", "A02", "B01", "B02"]


@pytest.mark.parametrize(
    "columns",
    [
        {"Plate": PLATES, "Well": WELLS, "treatment": DRUGS},
        {"Metadata_Plate": PLATES, "Metadata_Well": WELLS, "Metadata_Compound": DRUGS, "Metadata_week": PLATES},
        {"plate_barcode": PLATES, "ADDRESS": WELLS, "Drug": DRUGS},
    ],
)
def test_names_in_common_use_are_understood(columns):
    design = assign_roles(columns).design
    assert (design.plate.size, int(design.control.sum()), design.row is None) == (3, 6, False)
    assert (design.batch is not None) == ("Metadata_week" in columns)


def test_what_cannot_be_told_is_asked_for_with_all_columns_listed():
    columns = {"a": PLATES, "b": DRUGS, "c": np.arange(12)}
    with pytest.raises(UsageError, match=r"--plate .*a \(3 .*b \(3 .*c \(12 "):
        assign_roles(columns)
    with pytest.raises(UsageError, match="--perturbation"):
        assign_roles(columns, plate="a")
    assert assign_roles(columns, plate="a", perturbation="b").design.control.sum() == 6


def test_an_option_goes_before_a_preset_and_none_leaves_a_role_out():
    found = assign_roles(rxrx3(), target="treatment", perturbation="treatment", well="none")
    assert found.design.row is None
    assert "no_wells" in codes(found)
    assert found.design.roles["target"] == "treatment"
    with pytest.raises(UsageError, match=r"plate .*'none'"):
        assign_roles(rxrx3(), plate="none")


# Labels


def test_whole_floats_and_text_are_the_same_label_and_blanks_do_not_count():
    assert labels_of(np.array([1.0, 2.0, np.nan])).names == ("", "1", "2")
    assert labels_of(np.array(["1.0", "1", "2"])).names == ("1", "2")
    assert labels_of(np.array(["1.0", "1", "x"])).names == ("1", "1.0", "x")
    assert labels_of(np.array(["DMSO ", "DMSO", "nan"])).names == ("", "DMSO")
    assert labels_of(np.array([0.3, 10.0])).names == ("0.3", "10")


def test_several_columns_make_one_perturbation_and_controls_are_found_by_any_of_them():
    dose = np.where(DRUGS == "DMSO", np.nan, 0.3)
    found = assign_roles(table(dose=dose), perturbation="compound,dose")
    assert found.design.perturbation.names == ("DMSO", "nocodazole_0.3", "taxol_0.3")
    assert found.design.control.sum() == 6


def test_joined_labels_that_read_alike_stay_apart():
    first, second = np.tile(["a_b", "a", "x", "DMSO"], 3), np.tile(["c", "b_c", "y", ""], 3)
    found = assign_roles(table(compound=first, other=second), perturbation="compound,other")
    assert found.design.perturbation.size == 4


def test_doses_that_are_pooled_are_mentioned():
    found = assign_roles(table(concentration=np.tile([0.0, 0.0, 1.0, 2.0], 3) * np.repeat([1, 2, 3], 4)))
    assert "doses_pooled" in codes(found)
    assert "doses_pooled" not in codes(assign_roles(table(concentration=np.tile([0.0, 0.0, 1.0, 2.0], 3))))


# Controls


@pytest.mark.parametrize(
    ("control", "count"),
    [
        ("DMSO", 6),
        ("*MS*", 6),
        ("compound=DMSO", 6),
        ("compound=DMSO,taxol", 9),
        ("DMSO,taxol", 9),
        ("flag", 3),
        ("kind=0", 3),
        ("kind=0.0", 3),
    ],
)
def test_controls_are_a_value_a_pattern_a_condition_or_a_column_of_truth(control, count):
    columns = table(flag=np.tile([1, 0, 0, 0], 3), kind=np.tile([0.0, 1.0, 2.0, 3.0], 3))
    assert assign_roles(columns, control=control).design.control.sum() == count


@pytest.mark.parametrize(
    "name", ["DMSO", "0.1% DMSO", "negcon", "EMPTY_control", "vehicle", "non-targeting 3", "untreated"]
)
def test_likely_controls_are_found_by_name(name):
    found = assign_roles(table(compound=np.where(DRUGS == "DMSO", name, DRUGS)))
    assert controls(found.design) == [name]
    assert found.design.roles["control"] == f"compound={name}"


def test_controls_spelt_otherwise_are_named_with_their_rows():
    names = np.array(["DMSO", "DMSO", "dmso", "DM-SO", "a", "b"] * 2)
    found = assign_roles(table(treatment=names), control="DMSO")
    told = next(a.message for a in found.alerts if a.code == "control_like")
    assert says(told, "'DM-SO' (2 rows) like 'DMSO'", "'dmso' (2 rows) like 'DMSO'")
    assert found.design.control.sum() == 4
    both = assign_roles(table(treatment=names), control="DMSO,dmso,DM-SO")
    assert "control_like" not in codes(both)
    assert both.design.control.sum() == 8


# The plate


def numbered(**columns) -> dict[str, np.ndarray]:
    return table(plate=np.repeat([1, 1, 2, 2], 4)[:12], **columns)


def test_plate_numbers_that_occur_in_several_batches_are_joined_and_nested_ones_are_not():
    batch = np.repeat(["b1", "b2", "b1"], 4)
    found = assign_roles(numbered(batch=batch))
    assert found.design.plate.names == ("b1_1", "b1_2", "b2_1")
    assert codes(found).count("plate_joined") == 1
    nested = assign_roles(table(plate=np.repeat([7, 8, 9], 4), batch=batch))
    assert nested.design.plate.names == ("7", "8", "9")
    assert "plate_joined" not in codes(nested)


def test_batch_key_plate_takes_plate_labels_as_they_stand():
    found = assign_roles(numbered(batch=np.repeat(["b1", "b2", "b1"], 4)), batch_key="plate")
    assert found.design.plate.names == ("1", "2")
    assert "plate_spans_batches" in codes(found)
    with pytest.raises(UsageError, match=r"batch_key: .*'experiment'"):
        assign_roles(numbered(), batch_key="experiment")


def test_plate_numbers_that_repeat_wells_are_refused_without_a_batch():
    with pytest.raises(UsageError, match=r"8 rows \(from 0: 0, 1, 2, 3, 4, …\).*--batch "):
        assign_roles(numbered())
    assert "duplicate_wells" in codes(assign_roles(numbered(), batch_key="plate"))
    assert assign_roles(table(plate=np.repeat([1, 2, 3], 4))).design.plate.size == 3


def test_named_plates_in_several_batches_are_joined_only_if_wells_say_so():
    names = np.repeat(["left", "left", "right"], 4)
    batch = np.repeat(["b1", "b2", "b1"], 4)
    assert assign_roles(table(plate=names, batch=batch)).design.plate.size == 3
    other_wells = np.concatenate([WELLS[:4], ["C01", "C02", "D01", "D02"], WELLS[:4]])
    found = assign_roles(table(plate=names, batch=batch, well=other_wells))
    assert found.design.plate.size == 2
    assert "plate_spans_batches" in codes(found)


def test_numbers_without_batch_or_well_are_called_unchecked():
    assert "plate_numbers_unchecked" in codes(assign_roles(table(plate=np.repeat([1, 2, 3], 4)), well="none"))
    assert "plate_numbers_unchecked" not in codes(assign_roles(table(), well="none"))


def test_plates_of_one_class_are_named():
    drugs = np.concatenate([np.repeat("DMSO", 4), np.repeat("taxol", 4), DRUGS[:4]])
    alerts = assign_roles(table(compound=drugs)).alerts
    assert [alert.code for alert in alerts] == ["plates_of_one_class"] * 2
    assert [alert.values["names"] for alert in alerts] == [["P2"], ["P1"]]
    assert not assign_roles(table()).alerts


def test_wells_that_occur_twice_on_a_plate_are_named():
    found = assign_roles(table(well=changed(WELLS, 1, "A01")))
    told = next(alert.message for alert in found.alerts if alert.code == "duplicate_wells")
    assert says(told, "2 rows ", "from 0: 0, 1", "plate P1, well A01")


# Wells


def test_wells_are_read_as_they_are_written_and_what_is_no_well_is_not():
    for row in range(32):
        for column in range(48):
            assert well_place(address_name(row, column)) == (row, column)
            assert well_place(address_name(row, column).lower()) == (row, column)
    spelt = {"A1": (0, 0), "r01c02": (0, 1), "R2C11": (1, 10), "3-4": (2, 3)}
    assert {text: well_place(text) for text in spelt} == spelt
    none = ["A0", "A00", "01", "17", "AAA1", "A100", "A99", "ZZ01", "", "gene-088_9_Z43", "r0c1"]
    assert {well_place(text) for text in none} == {None}


# What is refused, with its rows

IN_DMSO = np.where(DRUGS == "DMSO", "taxol in DMSO", DRUGS)
NAMED = {"plate": "plate", "perturbation": "compound"}
REFUSED = {
    "unknown preset": (UsageError, ", ".join(PRESETS), {}, {"preset": "rxrx"}),
    "unknown column": (UsageError, r"'Compund' .* perturbation; .* compound\?", {}, {"perturbation": "Compund"}),
    "no name at all": (DataError, r"compound .* 12 rows; .*--perturbation", {"compound": np.repeat("", 12)}, {}),
    "no such control": (UsageError, r"'dmso' .*'DMSO'\?.*'DMSO' \(6 .*'nocodazole' \(3 ", {}, {"control": "dmso"}),
    "a column without a value": (UsageError, "--control well=VALUE", {}, {"control": "well"}),
    "all rows controls": (DataError, r"all 12 rows .*'DMSO' \(6 ", {}, {"control": "*"}),
    "one plate": (
        DataError,
        "'P1' in plate",
        {"plate": np.repeat("P1", 12), "well": [f"A{k + 1}" for k in range(12)]},
        {},
    ),
    "no wells": (
        DataError,
        r"'A00', 'left' .*2 rows \(.*: 3, 7\)",
        {"well": changed(changed(WELLS, 3, "A00"), 7, "left")},
        {},
    ),
    "three columns for a well": (
        UsageError,
        "well: .* well,plate,compound",
        {},
        NAMED | {"well": "well,plate,compound"},
    ),
    **{
        f"empty {name}": (DataError, r" \(\w+\) .*1 row \(from 0: 6\)", {name: changed(cells, 6, "")}, {})
        for name, cells in table().items()
        if name != "compound"
    },
    "missing number": (DataError, r"batch .*2 rows \(.*: 0, 11\)", {"batch": np.r_[np.nan, np.ones(10), np.nan]}, {}),
    "mixed types": (DataError, "row 0: 'P1'.*row 5: 7; 1 of 12", {"plate": changed(PLATES, 5, 7)}, {}),
    "unequal lengths": (DataError, "well .* 4 rows .* 12", {"well": WELLS[:4]}, {}),
    "dates": (DataError, "batch .*, got datetime64", {"batch": np.repeat(np.datetime64("2020-07-02"), 12)}, {}),
}


def told(assigned: Assigned) -> dict[str, dict]:
    return {alert.code: dict(alert.values) for alert in assigned.alerts}


def test_without_controls_a_screen_has_none_and_an_alert_unless_that_was_said():
    found = assign_roles(table(compound=IN_DMSO))
    assert not found.design.control.any()
    assert "'taxol in DMSO' (6 rows)" in told(found)["no_controls"]["frequent"]
    said = assign_roles(table(), control="none")
    assert not said.design.control.any()
    assert {"no_controls", "plates_of_one_class"}.isdisjoint(told(said))
    assert assign_roles(table()).design.control.sum() == 6
    assert "control" not in {role.role for role in summarise(said.design, 3).roles}


def test_wells_without_a_perturbation_are_left_out_or_are_controls():
    columns = table(compound=changed(changed(DRUGS, 6, ""), 7, ""))
    left = assign_roles(columns)
    assert left.rows is not None
    assert left.rows.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    assert left.design.n == 10
    assert (told(left)["unnamed_dropped"]["rows"], told(left)["unnamed_dropped"]["first"]) == (2, [6, 7])
    taken = assign_roles(columns, unnamed="control")
    assert (taken.rows, taken.design.n) == (None, 12)
    assert taken.design.control[[6, 7]].all()
    assert told(taken)["unnamed_controls"]["rows"] == 2
    assert assign_roles(table()).rows is None


def crossed(**more) -> dict:
    """Twelve plates of a drug or its solvent by four clones, each drug and clone on every plate."""
    plate, k = np.repeat([f"p{i:02d}" for i in range(12)], 8), np.tile(np.arange(8), 12)
    wells = [f"{letter}{column}" for letter in "AB" for column in range(1, 5)]
    rng = np.random.default_rng(0)
    return {
        "plate": plate,
        "well": np.concatenate([rng.permutation(wells) for _ in range(12)]),
        "treatment": np.where(k % 2, "drug", "DMSO"),
        "clone": np.char.add("c", (k // 2).astype(str)),
        **{name: make(plate, k) for name, make in more.items()},
    }


NO_CANDIDATES = {
    "operator": lambda plate, k: np.where(plate < "p06", "ann", "bob"),  # one for a plate
    "class": lambda plate, k: np.where(k % 2, "active", "inert"),  # the perturbation determines it
    "barcode_text": lambda plate, k: np.char.add("w", np.arange(96).astype(str)),  # names rows
    "passage_number": lambda plate, k: k % 3,  # by its name
    "constant": lambda plate, k: np.repeat("x", 96),
}


def test_columns_without_a_role_are_listed_and_what_could_be_the_perturbation_is_said():
    found = assign_roles(crossed(**NO_CANDIDATES))
    listed = {each.column: each.candidate for each in summarise(found.design, 3).unused}
    assert listed == {"clone": True, **dict.fromkeys(NO_CANDIDATES, False)}
    assert next(iter(listed)) == "clone"
    said = told(found)["unused_columns"]
    assert (said["candidates"], said["used"]) == (["clone"], "treatment")
    named = assign_roles(crossed(**NO_CANDIDATES), perturbation="treatment,clone")
    assert "unused_columns" not in told(named)
    assert not [each for each in named.design.unused if each.candidate]


def test_what_is_proposed_for_another_perturbation_works_with_the_same_controls():
    proposed = told(assign_roles(crossed(), control="DMSO"))["unused_columns"]
    again = assign_roles(crossed(), perturbation=proposed["example"], control=proposed["control"])
    assert again.design.control.tolist() == (crossed()["treatment"] == "DMSO").tolist()
    assert "control" not in told(assign_roles(crossed(), control="none"))["unused_columns"]


def test_controls_that_another_column_names_are_found_there_and_those_of_none_are_not():
    with pytest.raises(UsageError, match=r"value of treatment .*--control treatment=DMSO"):
        assign_roles(crossed(), perturbation="clone", control="DMSO")
    with pytest.raises(UsageError, match="'water' is no value of clone") as none:
        assign_roles(crossed(), perturbation="clone", control="water")
    assert "treatment=" not in str(none.value)


def test_doses_that_are_part_of_the_perturbation_can_be_joined():
    def dose(plate, k):
        return np.where(k % 2, 1.0 + k // 4, 0.0)

    apart = assign_roles(crossed(dose=dose), perturbation="treatment,dose", control="DMSO").design
    assert apart.compound is not None
    assert set(apart.compound.take(~apart.control).names) == {"drug"}
    assert set(apart.perturbation.take(~apart.control).names) == {"drug_1", "drug_2"}
    assert assign_roles(crossed(dose=dose)).design.compound is None


@pytest.mark.parametrize(
    ("names", "about"),
    [
        (
            (
                "dose",
                "Concentration_uM",
                "conc (nM)",
                "replicate",
                "passage_number",
                "time_h",
                "seed",
                "row",
                "cell_count",
            ),
            True,
        ),
        (("intensity", "Cells_Number", "mean_time", "f0", "area", "Nuclei_Texture_Index", "repulsion"), False),
    ],
)
def test_names_that_are_about_wells_are_told_from_features(names, about):
    assert {name: is_about_wells(name) for name in names} == dict.fromkeys(names, about)


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_make_no_design_are_refused(case):
    error, parts, columns, options = REFUSED[case]
    with pytest.raises(error, match=parts):
        assign_roles(table(**columns), **options)


def test_no_columns_are_refused_and_python_text_is_not():
    with pytest.raises(DataError, match="expected columns"):
        assign_roles({})
    assert assign_roles(table(plate=PLATES.astype(object))).design.plate.size == 3


# Bad cells


def test_cell_counts_stored_as_text_are_read_and_what_is_no_number_is_named():
    counts = np.array([str(100 + k) for k in range(12)])
    assert assign_roles(table(cell_count=counts)).design.cell_count.tolist() == list(range(100, 112))
    with pytest.raises(DataError, match=r"cell_count .* 'many' .*1 row \(.*: 2\)"):
        assign_roles(table(cell_count=changed(counts, 2, "many")))
    with pytest.raises(DataError, match=r"'inf' in 1 row \(.*: 4\)"):
        assign_roles(table(cell_count=changed(np.arange(12.0), 4, np.inf).astype(float)))
    with pytest.raises(UsageError, match=r"cell_count: .* plate,well"):
        assign_roles(table(), plate="plate", well="well", cell_count="plate,well")


def test_missing_cell_counts_are_left_out_unless_they_were_asked_for():
    columns = table(cell_count=np.r_[np.nan, np.ones(11)])
    found = assign_roles(columns)
    assert found.design.cell_count is None
    assert "cell_count" not in found.design.roles
    assert "cell_count_left_out" in codes(found)
    with pytest.raises(DataError, match=r"1 row \(from 0: 0\).*--cell-count"):
        assign_roles(columns, cell_count="cell_count")


# Summary


def test_the_summary_counts_roles_plates_and_wells():
    design = assign_roles(
        table(batch=np.repeat(["x", "y", "y"], 4), moa=np.where(DRUGS == "taxol", "tubulin", DRUGS))
    ).design
    found = summarise(design, 5)
    assert (found.n, found.d, found.batches, found.plates, found.perturbations, found.targets) == (12, 5, 2, 3, 2, 2)
    assert (found.controls, found.grid) == (6, (2, 2))
    assert found.wells_per_plate == (4, 4.0, 4)
    assert found.controls_per_plate == (2, 2.0, 2)
    assert found.wells_per_perturbation == (3, 3.0, 3)
    roles = {role.role: role for role in found.roles}
    assert set(roles) == {"batch", "plate", "well", "perturbation", "target", "control"}
    assert (roles["batch"].values, roles["batch"].examples) == (2, ("y", "x"))
    assert (roles["control"].column, roles["control"].values) == ("compound=DMSO", 1)
    bare = summarise(assign_roles(table(), well="none").design, 3)
    assert (bare.batches, bare.targets, bare.grid) == (None, None, None)
    assert {role.role for role in bare.roles} == {"plate", "perturbation", "control"}


# -- doses


def dosed(plates, doses, **options):
    """Two drugs at some doses on each plate, and controls."""
    drug = np.tile(np.repeat(["a", "b", "DMSO"], len(doses)), plates)
    dose = np.where(drug == "DMSO", 0.0, np.tile(np.tile(doses, 3), plates))
    plate = np.repeat(np.arange(plates).astype(str), 3 * len(doses))
    return assign_roles(
        {"plate": plate, "compound": drug, "concentration": dose}, control="DMSO", well="none", **options
    )


def test_doses_are_told_apart_where_they_are_replicated():
    design = dosed(3, [1.0, 2.0]).design
    assert design.perturbation.size == 3
    apart = design.doses_apart
    assert set(apart.perturbation.names) == {"DMSO", "a_1", "a_2", "b_1", "b_2"}
    assert apart.compounds.names == design.perturbation.names
    assert apart.doses_apart is apart
    assert np.array_equal(apart.control, design.control)
    assert dosed(3, [1.0]).design.dose is None  # one dose each: there is nothing to tell apart
    assert dosed(3, [1.0, 2.0], perturbation="compound,concentration").design.dose is None


def test_doses_that_never_repeat_stay_pooled():
    drug = np.tile(["a", "a", "DMSO"], 6)
    dose = np.where(drug == "DMSO", 0.0, np.arange(18) + 0.5)
    table = {"plate": np.repeat(np.arange(6).astype(str), 3), "compound": drug, "concentration": dose}
    design = assign_roles(table, control="DMSO", well="none").design
    assert design.dose is not None
    assert design.doses_apart is design
