"""Joint mode: which components every model has, and what the others lack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import make_component
from identifiable.ica import resolve_jointly
from identifiable.ica.joint import _missing
from identifiable.options import ResolveOptions
from identifiable.results import Component, ComponentMatch, JointResolution, Reason, from_json, to_json

QUICK = ResolveOptions(stability=2, restarts=1)


def jointly(sources: Any, *widths: int, options: ResolveOptions = QUICK) -> JointResolution:
    """Models of the same sources, each of the first `width` of them in a mixing of its own."""
    rng = np.random.default_rng(len(sources))
    tables = [sources[:, :width] @ rng.standard_normal((width, width)) for width in widths]
    return resolve_jointly(tables, options).result


def test_a_component_whose_only_doubt_is_its_sign_is_shared_and_says_so() -> None:
    rng = np.random.default_rng(0)
    sources = np.column_stack([rng.laplace(size=(2000, 2)), rng.exponential(size=2000)])
    tied = np.array(
        [[1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.3, 2.0]]
    )  # no largest loading fixes the sign of the first
    result = resolve_jointly([sources @ tied, sources @ rng.standard_normal((3, 3))], QUICK).result
    assert [match.shared for match in result.matches] == [True] * 3
    signed = [match for match in result.matches if match.identifiable]
    doubtful = [match for match in result.matches if not match.identifiable]
    assert len(signed) >= 1
    assert len(doubtful) >= 1
    for match in doubtful:
        assert match.reason is not None
        assert match.reason.code == "sign_uncertain"
        own = zip(result.models, match.partners, strict=True)
        doubts = {model.inputs[0].name for model, at in own if not model.components[at or 0].identifiable}
        assert set(match.reason.values["models"]) == doubts
    assert {match.reason for match in signed} == {None}
    assert from_json(to_json(result)).matches[0].reason == result.matches[0].reason


def test_directions_of_noise_match_on_the_same_rows_and_are_not_shared() -> None:
    rng = np.random.default_rng(2)
    result = jointly(np.column_stack([rng.exponential(size=(2000, 2)), rng.standard_normal((2000, 2))]), 4, 4)
    assert sum(match.shared for match in result.matches) == 2
    found = {match.reason.code for match in result.matches if match.reason is not None}
    assert found <= {"weak_match", "not_reproducible"}
    assert found


def test_a_component_that_one_model_has_no_column_for_has_no_partner_and_without_refits_nothing_is_shared() -> None:
    sources = np.random.default_rng(3).exponential(size=(1500, 3))
    narrow = jointly(sources, 3, 2)
    assert sorted(m.reason.code for m in narrow.matches if m.reason is not None) == ["no_partner"]
    assert [m.reason.values["models"] for m in narrow.matches if m.reason is not None] == [[narrow.inputs[1].name]]
    alone = jointly(sources, 3, 3, options=ResolveOptions(stability=0, restarts=1))
    assert [m.shared for m in alone.matches] == [False] * 3
    assert {m.reason.code for m in alone.matches if m.reason is not None} == {"not_refitted"}


GOOD, POOR = make_component(0, 4, good=True), make_component(0, 4, good=False)
UNSIGNED = replace(POOR, reason=Reason("sign_uncertain"))
UNTESTED = replace(POOR, reason=Reason("not_refitted"))
MATCH = ComponentMatch((0, 0), (1, 1), 0.95, 0.005, False, False)


@pytest.mark.parametrize(
    ("changed", "other", "code"),
    [
        ({}, GOOD, None),
        ({}, UNSIGNED, None),
        ({}, None, "no_partner"),
        ({"correlation": 0.79}, GOOD, "weak_match"),
        ({"correlation": 0.8}, GOOD, None),  # the level itself is enough, as where shared components are counted
        ({"p": 0.01}, GOOD, "match_by_chance"),
        ({}, POOR, "not_reproducible"),
        ({}, UNTESTED, "not_refitted"),
    ],
)
def test_what_a_component_lacks_has_a_code(
    changed: dict[str, float], other: Component | None, code: str | None
) -> None:
    found = _missing(replace(MATCH, **changed), [GOOD, other], ["a", "b"], 0.8)
    assert (found and found.code) == code
    if found is not None and "models" in found.values:
        assert found.values["models"] == ["b"]
    assert _missing(MATCH, [UNTESTED, POOR], ["a", "b"], 0.8) == Reason("not_reproducible", {"models": ["a", "b"]})
