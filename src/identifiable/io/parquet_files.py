"""`.parquet`: Arrow columns that pyarrow unpacks from groups of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from identifiable.io.arrow_files import ArrowColumns
from identifiable.io.containers import damage_named
from identifiable.io.remote import RemotePath

BUFFER_BYTES = 65_536  # read ahead in each column; without a limit a column of a group is read whole


class ParquetTable(ArrowColumns):
    """Columns of numbers, text and the like in a `.parquet`; of a remote one only the wanted columns are fetched."""

    form = ".parquet"

    def _look(self) -> tuple[Any, int]:
        with self._opened() as file:
            return file.schema_arrow, int(file.metadata.num_rows)

    def _column(self, name: str) -> Any:
        with self._opened() as file:
            return file.read(columns=[name], use_threads=False).column(name)

    def _batches(self, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        with self._opened() as file:
            with damage_named(self._damaged):
                batches = file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False)
            while True:
                with damage_named(self._damaged):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        source = self._path.stream() if isinstance(self._path, RemotePath) else self._path
        with damage_named(self._damaged):
            file = ParquetFile(source, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
        with file:
            yield file
