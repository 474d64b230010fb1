"""Rows in blocks, and the one loop over them: on threads (`folding`), or on the workers of a Dask cluster (`cluster`)."""

from __future__ import annotations

from identifiable.blocks.folding import READING, STRIPS, Statistic, ahead, fold, in_tasks, strips
from identifiable.blocks.logging import PassLog
from identifiable.blocks.tables import MAX_CHUNK_ROWS, Blocks, Rows, chunk_rows
from identifiable.blocks.threads import (
    FITTING,
    available_workers,
    in_threads,
    one_blas_thread,
    physical_memory,
    silent,
)

__all__ = [
    "FITTING",
    "MAX_CHUNK_ROWS",
    "READING",
    "STRIPS",
    "Blocks",
    "PassLog",
    "Rows",
    "Statistic",
    "ahead",
    "available_workers",
    "chunk_rows",
    "fold",
    "in_tasks",
    "in_threads",
    "one_blas_thread",
    "physical_memory",
    "silent",
    "strips",
]
