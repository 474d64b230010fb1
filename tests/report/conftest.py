"""A result of every kind, with known numbers, built without running anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from builders import (
    about,
    make_attribution,
    make_audit,
    make_cleaning,
    make_comparison,
    make_disentanglement,
    make_distortion,
    make_evaluation,
    make_joint_resolution,
    make_reproduction,
    make_resolution,
    make_table2,
)
from identifiable.results import Choice, GeneConcentration, GeneScore, Table3


def make_table3() -> Table3:
    return Table3(
        **{key: value for key, value in about("wells", "reproduce table3").items() if key != "design"},
        scale="smoke",
        simulated=True,
        choices=(Choice("folds", 5, "paper", 5), Choice("genes", ("SRC",), "ours")),
        published={},
        genes=tuple(GeneScore("SRC", 2, name, 0.713, 0.011, 0.42, 0.01, 0.3, 40.0) for name in ("base", "pca", "ica")),
        concentration=(GeneConcentration("ica", 25.0, 0.71, 0.52, 0.73, 0.19, 0.365, 0.38, 0.1),),
        gain=0.0213,
        gain_ci95=(0.0113, 0.0317),
        evaluation=make_evaluation(),
    )


EXAMPLES: Mapping[str, Callable[[], Any]] = {
    "two models": make_comparison,
    "two models, paper": lambda: make_comparison(protocol="paper"),
    "four models": lambda: make_comparison(4),
    "resolution": make_resolution,
    "joint resolution": make_joint_resolution,
    "distortion": make_distortion,
    "reproduction": make_reproduction,
    "disentanglement": make_disentanglement,
    "table2": make_table2,
    "table3": make_table3,
    "audit": make_audit,
    "evaluation": make_evaluation,
    "attribution": lambda: make_attribution(size=8, grid=(8, 12)),
    "cleaning": lambda: make_cleaning(attribution=make_attribution(size=8, grid=(8, 12))),
}
BUILT: dict[str, Any] = {}


@pytest.fixture
def examples() -> Mapping[str, Callable[[], Any]]:
    """How to build an example of each kind."""
    return EXAMPLES


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Any:
    """A result of each kind in turn; results are frozen, so each is built once."""
    if request.param not in BUILT:
        BUILT[request.param] = EXAMPLES[request.param]()
    return BUILT[request.param]
