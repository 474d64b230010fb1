"""For every test: which come first, and what the garbage collector passes over.

Nine thousand tests and the libraries they import are a million objects, none of which goes before the end. Each pass over all of them
takes a quarter of a second, and one in a fork copies them.
"""

from __future__ import annotations

import gc

import pytest

FORKING = ("test_hardening.py",)  # hundreds of forks of this process, which are cheaper while it is small
YOUNG = 5_000  # objects until the collector looks: at 700, as Python has it, a tenth of the time goes into what stays

gc.disable()  # while tests are collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in FORKING)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
    gc.enable()
