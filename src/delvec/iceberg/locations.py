"""Where the files of a table are: locations as the metadata records them, and where they are now.

Iceberg records absolute locations, in which nothing is percent-encoded: ``%2F`` in a partition's folder is
part of its name. If a table was copied, the recorded locations are those of the original. A table that is
opened with ``relocate`` takes the files below the recorded location of the table from where the table is now.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.chunked import one_chunk
from delvec.errors import FormatError

_UNUSUAL = r"//|/\.|/$|\x00"  # below the table's location: a path with parts that normalizing drops


@dataclass(frozen=True, slots=True)
class Locations:
    """Finds the files that the metadata of one table names.

    recorded   the table's location as the metadata records it
    root       where the table is now, if its files are to be taken from there; None: where recorded
    """

    recorded: str
    root: str | None = None

    def resolve(self, raw: str) -> str:
        """The location of a file by its recorded location. Errors name the table."""
        try:
            found = location.unencoded(raw)
        except FormatError as error:
            raise error.at(self.recorded) from None
        if self.root is None:
            return found
        inside = location.relative(self._base(), found)
        return found if inside is None else location.join(self.root, inside)

    def resolve_many(self, raw: pa.Array | pa.ChunkedArray) -> pa.Array:
        """``resolve`` for a column; nulls stay null."""
        column = one_chunk(raw)
        prefix = self.recorded.rstrip("/") + "/"
        if not len(column):
            return column
        if pc.all(pc.starts_with(column, prefix)).as_py():
            rest = pc.utf8_slice_codeunits(column, len(prefix) - 1)
            if not pc.any(pc.match_substring_regex(rest, _UNUSUAL)).as_py():
                base = (self.root or self._base()).rstrip("/")
                return pc.binary_join_element_wise(pa.scalar(base, rest.type), rest, pa.scalar("", rest.type))
        try:
            found = location.unencoded_many(column)
        except FormatError as error:
            raise error.at(self.recorded) from None
        return found if self.root is None else self._moved(found, self.root)

    def _base(self) -> str:
        """The recorded location in the form that delvec uses."""
        try:
            return location.unencoded(self.recorded)
        except FormatError as error:
            raise FormatError(f"location of the table: {error}") from None

    def _moved(self, found: pa.Array, root: str) -> pa.Array:
        old, new = self._base().rstrip("/") + "/", root.rstrip("/") + "/"
        moved = pc.binary_replace_slice(found, 0, len(old.encode()), new).cast(found.type)
        return pc.if_else(pc.starts_with(found, old), moved, found)
