"""A result of every kind, with known numbers, built without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from builders import EXAMPLES

BUILT: dict[str, Any] = {}


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Any:
    """A result of each kind in turn; results are frozen, so each is built once."""
    if request.param not in BUILT:
        BUILT[request.param] = EXAMPLES[request.param]()
    return BUILT[request.param]
