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
from delvec.errors import FormatError, UnsupportedFeatureError

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
        if self.root is not None and raw.startswith(self._prefix):
            return location.unencoded(location.join(self.root, raw[len(self._prefix) :]))
        found = self._absolute(raw)
        if self.root is None or self.home is None:
            return found
        inside = location.relative(self.home, found)
        return found if inside is None else location.join(self.root, inside)

    def resolve_many(self, raw: pa.Array | pa.ChunkedArray) -> pa.Array:
        """``resolve`` for a column; nulls stay null."""
        column = one_chunk(raw)
        if not len(column):
            return column
        base = self.home if self.root is None else self.root
        if base is not None and pc.all(pc.starts_with(column, self._prefix)).as_py():
            rest = pc.utf8_slice_codeunits(column, len(self._prefix) - 1)
            if not pc.any(pc.match_substring_regex(rest, _UNUSUAL)).as_py():
                texts = pa.scalar(base.rstrip("/"), rest.type), rest, pa.scalar("", rest.type)
                return pc.binary_join_element_wise(*texts)
        if self.root is None and self.home is not None:
            try:
                return location.unencoded_many(column)
            except FormatError as error:
                raise error.at(self.recorded) from None
        # A few tables were copied, and of those few have files elsewhere or unusual names.
        places = [None if text is None else self.resolve(text) for text in column.to_pylist()]
        return pa.array(places, column.type)

    @property
    def home(self) -> str | None:
        """The recorded location of the table in the form that delvec uses; None if it is a relative path, or
        in a store that delvec does not know.
        """
        try:
            return location.unencoded(self.recorded)
        except (FormatError, UnsupportedFeatureError):
            return None

    @property
    def _prefix(self) -> str:
        return self.recorded.rstrip("/") + "/"

    def _absolute(self, raw: str) -> str:
        try:
            return location.unencoded(raw)
        except FormatError as error:
            hint = "; the table's own location is relative: open it with relocate=True"
            is_relative = not location.is_absolute(self.recorded)
            raise FormatError(error.message + hint * is_relative, path=self.recorded) from None
