"""Rewriting full rows of keys to vectors of keys. Data files are not read.

    merged      deletes of one sequence number and scope become one vector, which keeps both
    superseded  a key goes where a later delete of the same scope, or of all data files, has it too
    refused     deletes of which no key can be in a vector stay as they are

A delete applies to the rows before its sequence number, so a vector with another number would delete other
rows, such as those that were inserted again later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.chunked import Mask, Rows, one_chunk
from delvec.deletes.codecs import DeletionVectorCodec
from delvec.deletes.equality import KeyColumn
from delvec.deletes.model import DeleteFile, DeleteScope
from delvec.deletes.stored_keys import stored_keys
from delvec.deletes.write_result import REASONS
from delvec.deletes.writers import DeleteWriterFactory
from delvec.errors import FormatError, InvalidOperationError
from delvec.storage import in_parallel

Report = Callable[[int], None]
"""Called with the number of delete files that were read."""


@dataclass(frozen=True, slots=True)
class RewrittenKeys:
    """What became of the deletes of one column.

    added       the new deletes
    removed     the deletes that they replace, as rows of the given table
    keys        how many keys the new vectors have
    superseded  how many keys later deletes have too
    refused     how many deletes stay, by reason
    """

    added: tuple[DeleteFile, ...] = ()
    removed: tuple[int, ...] = ()
    keys: int = 0
    superseded: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)


def rewrite_keys(
    factory: DeleteWriterFactory,
    column: KeyColumn,
    deletes: pa.Table,
    chosen: Mask,
    report: Report,
) -> RewrittenKeys:
    """Rewrite the ``chosen`` ones of the ``deletes``: all live deletes by ``column``, as rows of
    ``ScanPlan.deletes``, whatever their encoding.
    """
    codec, _ = factory.codec([column.field_id])
    if codec is None:
        raise InvalidOperationError(
            f"column {column.path[0]!r} has no codec, expected one for vectors of keys"
        )
    rewriter = _Rewriter(factory, codec, column, deletes, chosen, report)
    for rows in _by_sequence(deletes):
        rewriter.rewrite(rows)
    return rewriter.result()


def _by_sequence(deletes: pa.Table) -> list[Rows]:
    """The rows of each sequence number, the newest first."""
    if deletes.column("sequence").null_count:
        at = deletes.column("sequence").is_null().index(True).as_py()
        place = deletes.column("location")[at].as_py()
        raise FormatError("equality delete has no sequence number, expected one", path=place)
    sequences = one_chunk(deletes.column("sequence")).to_numpy()
    return [np.flatnonzero(sequences == number) for number in np.unique(sequences)[::-1]]


@dataclass(slots=True)
class _Rewriter:
    """``later``: the numbers of keys of later deletes by scope; None is the scope of all data files."""

    factory: DeleteWriterFactory
    codec: DeletionVectorCodec
    column: KeyColumn
    deletes: pa.Table
    chosen: Mask
    report: Report
    later: dict[int | None, Bitmap] = field(default_factory=dict)
    added: list[DeleteFile] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    keys: int = 0
    superseded: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def rewrite(self, rows: Rows) -> None:
        """Rewrite deletes of one sequence number."""
        scopes = self.deletes.column("scope").take(pa.array(rows)).to_pylist()
        by_scope: dict[int | None, list[int]] = {}
        for row, scope in zip(rows.tolist(), scopes, strict=True):
            by_scope.setdefault(scope, []).append(row)
        own: dict[int | None, Bitmap] = {}
        for scope, members in by_scope.items():
            keys = self._keys(members)
            own[scope] = self._numbers(keys.values())
            replaced = {row: keys[row] for row in members if self.chosen[row]}
            if replaced:
                self._replace(replaced, scope)
        for scope, numbers in own.items():
            self.later[scope] = self.later.get(scope, Bitmap()) | numbers

    def _keys(self, rows: Sequence[int]) -> dict[int, pa.Array]:
        storage = self.factory.storage
        files = self.deletes.take(pa.array(rows)).to_pylist()

        def read(file: Mapping[str, object]) -> pa.Array:
            return one_chunk(stored_keys(storage, file, [self.column])[0])

        found = dict(zip(rows, in_parallel(read, files), strict=True))
        self.report(len(rows))
        return found

    def _numbers(self, keys: Iterable[pa.Array]) -> Bitmap:
        """The numbers of those keys that can be in a vector."""
        united = Bitmap()
        for values in keys:
            numbers = pc.drop_null(self.codec.encode(values)).to_numpy(zero_copy_only=False)
            united |= Bitmap.from_numpy(numbers[(numbers >= 0) & (numbers <= MAX_POSITION)])
        return united

    def _replace(self, keys: Mapping[int, pa.Array], scope: int | None) -> None:
        values = pa.concat_arrays(list(keys.values())).unique()
        left = values.filter(pa.array(~self._is_superseded(values, scope)))
        first = next(iter(keys))
        (file,) = self.deletes.slice(first, 1).to_pylist()
        spec_id = None if scope is None else file["spec_id"]
        writer = self.factory.create_equality_writer(
            [self.column.field_id],
            scope=DeleteScope(beside=(file["location"], file["offset"]), beside_spec=spec_id),
            sequence=file["sequence"],
        )
        writer.write_batch(pa.table({writer.fields[0].name: left}))
        written = writer.close(needs_vector=True)
        if len(left) and not written.files:
            reason = max(written.fallbacks, key=lambda fallback: written.fallbacks[fallback])
            self.refused[REASONS[reason]] += len(keys)
            return
        self.added += written.files
        self.removed += list(keys)
        self.keys += written.metrics["numKeysInVectors"]
        self.superseded += len(values) - len(left)

    def _is_superseded(self, values: pa.Array, scope: int | None) -> Mask:
        encoded = self.codec.encode(values)
        numbers = pc.fill_null(encoded, -1).to_numpy(zero_copy_only=False)
        fits = (numbers >= 0) & (numbers <= MAX_POSITION)
        later = self.later.get(None, Bitmap()) | self.later.get(scope, Bitmap())
        superseded = np.zeros(len(numbers), np.bool_)
        superseded[fits] = later.contains_many(numbers[fits])
        return superseded

    def result(self) -> RewrittenKeys:
        return RewrittenKeys(
            tuple(self.added), tuple(self.removed), self.keys, self.superseded, dict(self.refused)
        )
