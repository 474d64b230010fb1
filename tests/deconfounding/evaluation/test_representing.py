"""Maps of rows: what a checkpoint gives back, and that no sentence decides what is said of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import identifiable.deconfounding
from identifiable._checks import UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.checkpoint import Checkpoint
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.evaluation.representing import FEW_ROWS, RowMap, Transforms, only_transductive
from identifiable.groups import AffineMap
from identifiable.results import Alert, Note
from identifiable.run import Run

ROOM = Path(identifiable.deconfounding.__file__).parent


def test_a_map_comes_back_from_a_checkpoint_with_its_alerts_whatever_its_note_says() -> None:
    alert, note = Alert("few_rows", {"rows": 3}), Note("rows", {"rows": 3})
    made = RowMap.of(AffineMap.identity(3), notes=(note,), converged=False, identifiable=2, gaussian=1, alerts=(alert,))
    back = RowMap.of_arrays(made.arrays)
    assert (back.width, back.notes, back.converged, back.identifiable, back.gaussian) == (3, (note,), False, 2, 1)
    assert back.alerts == (alert,)
    assert back.affine is not None
    X = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(back.apply(X, np.arange(2)), X)
    assert RowMap.of_arrays(RowMap.of(AffineMap.identity(3), notes=(note,)).arrays).alerts == ()


@pytest.mark.parametrize(("rows", "codes"), [(FEW_ROWS * 4 - 8, ["few_rows"]), (FEW_ROWS * 4, [])])
def test_few_rows_for_each_component_are_an_alert(rows: int, codes: list[str]) -> None:
    X = np.random.default_rng(0).laplace(size=(rows, 4))
    plates = Labels.of(np.arange(rows) % 4)
    design = Design(plates, Labels.of(np.arange(rows) % 2), np.arange(rows) % 2 == 0)
    transforms = Transforms(
        Blocks(X), design, Run(workers=1), rank="auto", given={}, by_fold=None, checkpoint=Checkpoint()
    )
    assert [alert.code for alert in transforms.ica(None, None).alerts] == codes


def test_a_map_fitted_elsewhere_and_one_fitted_to_test_plates_say_so() -> None:
    plate = np.repeat(np.arange(4), 20)
    X = np.random.default_rng(1).laplace(size=(80, 3)) + plate[:, None]
    control = np.arange(80) % 2 == 0
    design = Design(Labels.of(plate), Labels.of(np.where(control, "control", "drug")), control)
    given = {"mine": AffineMap.identity(3)}
    transforms = Transforms(
        Blocks(X), design, Run(workers=1), rank="auto", given=given, by_fold=None, checkpoint=Checkpoint()
    )
    caveats = {"fitted_elsewhere", "fitted_to_test"}
    found = {}
    for name in ("mine", "pca", "rand", "control-z", "sphering", "combat"):
        made = transforms.row_map(name, 0, None, None)  # type: ignore[arg-type]
        assert made is not None
        found[name] = caveats & {note.code for note in made.notes}
        assert only_transductive(name) == (name == "combat")
    assert {name: notes for name, notes in found.items() if notes} == {
        "mine": {"fitted_elsewhere"},
        "combat": {"fitted_to_test"},
    }


def test_a_seed_is_a_whole_number_from_0() -> None:
    for seed in (-1, 0.5, True):
        with pytest.raises(UsageError, match=f"seed {seed!r}"):
            Run(seed=seed)  # type: ignore[arg-type]


def branches_on_prose(source: str) -> list[str]:
    """Comparisons with a text of several words."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            texts = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
            found += [text for text in texts if isinstance(text, str) and " " in text.strip()]
    return found


def test_nothing_in_the_room_is_decided_by_a_sentence() -> None:
    found = {path.name: branches_on_prose(path.read_text(encoding="utf-8")) for path in ROOM.rglob("*.py")}
    assert len(found) > 20
    assert branches_on_prose('alerts = (few,) if "fits noise" in note else ()') == ["fits noise"]
    assert {name: texts for name, texts in found.items() if texts} == {}
