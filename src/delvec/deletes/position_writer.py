"""``PositionDeleteWriter``: writes positions of deleted rows, as a vector of one data file or as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from delvec import location
from delvec.bitmap import Bitmap
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.model import GLOBAL, DeleteContent, DeleteFile, DeleteScope
from delvec.deletes.position_rows import position_file
from delvec.deletes.write_result import DeleteWriteResult
from delvec.errors import InvalidOperationError
from delvec.puffin import PuffinWriter
from delvec.row_delta import new_file_id
from delvec.storage import Storage


@dataclass(slots=True)
class PositionDeleteWriter:
    """Collects positions, and writes them when it is closed.

    data_file   the only data file, as the metadata names it; None: the positions are of several data files of
                the partition ``scope``
    """

    storage: Storage
    data_file: str | None
    as_vector: bool
    scope: DeleteScope = GLOBAL
    folder: str = "data"
    _positions: dict[str, list[Bitmap]] = field(default_factory=lambda: defaultdict(list))
    _rows: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def write(self, position: int, data_file: str | None = None) -> None:
        """One position."""
        self._rows[self._verified(data_file)].append(position)

    def write_positions(self, positions: Bitmap | Iterable[int], data_file: str | None = None) -> None:
        """Positions of one data file."""
        bitmap = positions if isinstance(positions, Bitmap) else Bitmap.from_iterable(positions)
        self._positions[self._verified(data_file)].append(bitmap)

    def close(self) -> DeleteWriteResult:
        """Write the file; none without a position."""
        for name, rows in self._rows.items():
            self._positions[name].append(Bitmap.from_iterable(rows))
        united = {name: Bitmap().union(*parts) for name, parts in self._positions.items()}
        united = {name: bitmap for name, bitmap in sorted(united.items()) if bitmap}
        if not united:
            return DeleteWriteResult()
        file = self._vector(*united.popitem()) if self.as_vector else self._position_file(united)
        return DeleteWriteResult((file,))

    def _verified(self, data_file: str | None) -> str:
        name = data_file or self.data_file
        if name is None or (self.data_file is not None and name != self.data_file):
            raise InvalidOperationError(
                f"position is of data file {name!r}, expected {self.data_file or 'a data file'!r}"
            )
        return name

    def _vector(self, name: str, bitmap: Bitmap) -> DeleteFile:
        writer = PuffinWriter()
        placed = writer.add_vector(bitmap, name)
        data = writer.finish()
        return DeleteFile(
            DeleteContent.POSITION_DELETES,
            self._put(data, "puffin"),
            "puffin",
            len(bitmap),
            len(data),
            DeleteEncoding.DELETION_VECTOR,
            referenced_file=name,
            offset=placed.offset,
            length=placed.length,
            scope=self.scope,
        )

    def _position_file(self, positions: dict[str, Bitmap]) -> DeleteFile:
        data = position_file(positions)
        return DeleteFile(
            DeleteContent.POSITION_DELETES,
            self._put(data, "parquet"),
            "parquet",
            sum(map(len, positions.values())),
            len(data),
            DeleteEncoding.FULL_ROW,
            referenced_file=self.data_file,
            scope=self.scope,
        )

    def _put(self, data: bytes, suffix: str) -> str:
        path = f"{self.folder}/deletes-{new_file_id()}.{suffix}".lstrip("/")
        self.storage.put(path, data)
        return location.join(self.storage.root, path)
