"""`.parquet`: Arrow columns that pyarrow unpacks from groups of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from identifiable.io.arrow_files import LONGEST_TEXT, ArrowColumns
from identifiable.io.containers import damage_named
from identifiable.io.remote import RemotePath
from identifiable.io.stored_rows import FileBytes

BUFFER_BYTES = 65_536  # read ahead in each column; without a limit a column of a group is read whole
# Files up to this size are read without that buffer, which a damaged page can make as large as it says: 2 GB of 5 kB.
WITHOUT_BUFFER = 2**27
FOOTER_BYTES = 8  # at the end of the file: how long the footer is, and PAR1
LEAST_TEXT = 2**24  # bytes of a group of rows that are allowed in any file
NUMBER_BYTES = 16  # of a number, with what a page says of it
LEAST_THRIFT = 2**16  # bytes, or members, of a part of a header that are allowed in any file


class ParquetTable(ArrowColumns):
    """Columns of numbers, text and the like in a `.parquet`; of a remote one only the wanted columns are fetched."""

    form = ".parquet"

    def _look(self) -> tuple[Any, int]:
        self._bytes = FileBytes.open(self._path, self.label)
        with self._opened() as file:
            return file.schema_arrow, int(file.metadata.num_rows)

    def _column(self, name: str) -> Any:
        with self._opened() as file:
            self._check_texts(file.metadata)
            return file.read(columns=[name], use_threads=False).column(name)

    def _check_texts(self, metadata: Any) -> None:
        """Refuse very long texts before they are unpacked: 300 MB of equal letters are some kilobytes in the file.

        By groups of rows: pyarrow ends the process where it is asked about one column of a group and its statistics are damaged.
        """
        wide = sum(kind not in ("float", "whole") for kind in self._kinds.values())
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            most = LEAST_TEXT + group.num_rows * (LONGEST_TEXT * wide + NUMBER_BYTES * group.num_columns)
            if group.total_byte_size > most:
                raise self._damaged(f"{group.num_rows:,} rows are said to have {group.total_byte_size:,} bytes")

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
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        size = self._bytes.size
        # Nothing in a header has more members, or is longer, than the footer.
        footer = int.from_bytes(self._bytes.read(max(size - FOOTER_BYTES, 0), 4), "little")
        most = max(min(footer, size), LEAST_THRIFT)
        with damage_named(self._damaged):
            if isinstance(self._path, RemotePath):
                source: Any = self._path.stream()
            else:  # by its bytes: of a name as text pyarrow wants UTF-8
                source = pa.OSFile(os.fsencode(self._path))
            file = ParquetFile(
                source,
                buffer_size=BUFFER_BYTES if size > WITHOUT_BUFFER else 0,
                pre_buffer=False,
                page_checksum_verification=True,
                thrift_string_size_limit=most,
                thrift_container_size_limit=most,
            )
        with source, file:
            yield file
