"""For every test: the garbage collector passes over what is there before the first one.

Nine thousand tests and the libraries they import are a million objects, none of which goes before the end. Each pass over all of them
takes a quarter of a second, and one in a fork copies them.
"""

from __future__ import annotations

import gc

import pytest

gc.disable()  # while tests are collected


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
