"""The manifests of a new snapshot: those of its parent, rewritten where an entry is removed, and new ones.

    kept        manifests of the parent in which nothing is removed; those without a live file are left out
    rewritten   their other entries become EXISTING, with explicit sequence numbers; removed ones DELETED
    new         entries that the commit adds
    merged      small manifests of one spec, as the table's ``commit.manifest.*`` properties ask

Nothing is stored here: a `NewManifest` has the bytes that the commit stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows
from delvec.errors import FormatError
from delvec.iceberg.delete_properties import may_have_vectors_of_keys
from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.manifest import DELETED, EXISTING, POSITION
from delvec.iceberg.manifest_list import DATA, DELETES, MANIFESTS_SCHEMA
from delvec.iceberg.manifest_properties import ManifestProperties
from delvec.iceberg.manifest_writer import manifest_row, write_manifest
from delvec.iceberg.metadata import TableMetadata
from delvec.partition_spec import PartitionSpec

_COUNTS = (
    "length",
    "added_files",
    "existing_files",
    "deleted_files",
    "added_rows",
    "existing_rows",
    "deleted_rows",
)
_NOTHING: Rows = np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class Removals:
    """Entries of the parent's manifests to remove: rows of the manifests in ``LiveEntries.manifests``, and
    positions in these manifests.
    """

    manifests: Rows
    positions: Rows

    @classmethod
    def of_files(cls, file_ids: Rows) -> Removals:
        """Data files by their ids."""
        return cls(file_ids >> 32, file_ids & 0xFFFFFFFF)

    @classmethod
    def of_entries(cls, live: LiveEntries, entries: pa.StructArray) -> Removals:
        """Deletes by the recorded path of their manifest and their position (``plan.entry``)."""
        return cls(live.delete_rows(entries).to_numpy(), entries.field("position").to_numpy())

    def and_others(self, others: Removals) -> Removals:
        pairs = np.unique(
            np.stack(
                [
                    np.concatenate([self.manifests, others.manifests]),
                    np.concatenate([self.positions, others.positions]),
                ]
            ),
            axis=1,
        )
        return Removals(pairs[0], pairs[1])

    def by_manifest(self) -> Iterator[tuple[int, Rows]]:
        for number in np.unique(self.manifests).tolist():
            yield number, self.positions[self.manifests == number]


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that the commit writes: its entries, and its bytes."""

    entries: pa.Table
    spec_id: int
    content: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """The manifests of the new snapshot. ``kept``: rows of ``LiveEntries.manifests``, in their order.

    ``replaced``: how many manifests of the parent are rewritten or merged.
    """

    new: tuple[NewManifest, ...]
    kept: Rows
    replaced: int

    @property
    def processed_entries(self) -> int:
        return sum(len(manifest.entries) for manifest in self.new)


@dataclass(frozen=True, slots=True)
class ManifestPlanner:
    """Finds the manifests of a new snapshot on top of ``live``, in ``metadata`` as it will be then."""

    live: LiveEntries
    metadata: TableMetadata
    specs: Mapping[int, PartitionSpec]
    snapshot_id: int
    properties: ManifestProperties

    def changes(self, added: Sequence[pa.Table], removals: Removals) -> ManifestChanges:
        """The manifests after ``added`` entries, a table for each spec and content, and ``removals``."""
        new = [part for table in added if len(table) for part in self._written(table)]
        rewritten = dict(removals.by_manifest())
        rewritten |= {number: _NOTHING for number in self._uncounted() if number not in rewritten}
        for number, positions in rewritten.items():
            new += self._written(self._without(number, positions))
        kept = np.array([n for n in self._with_live_files() if n not in rewritten], np.int64)
        merged, kept_rows = self._merged(new, kept)
        replaced = len(rewritten) + len(kept) - len(kept_rows)
        return ManifestChanges(tuple(merged), kept_rows, replaced)

    def _with_live_files(self) -> list[int]:
        """The parent's manifests that have a live file, or do not say."""
        manifests = self.live.manifests
        live = pc.add(manifests.column("added_files"), manifests.column("existing_files"))
        has_files: list[bool] = pc.fill_null(pc.greater(live, 0), True).to_pylist()  # noqa: FBT003
        return [number for number, has_file in enumerate(has_files) if has_file]

    def _uncounted(self) -> list[int]:
        """The parent's manifests whose numbers of files and rows are not recorded, as version 1 allows. They
        are written anew: later versions must record them.
        """
        manifests = self.live.manifests
        known = np.ones(len(manifests), np.bool_)
        for name in _COUNTS:
            known &= manifests.column(name).is_valid().to_numpy()
        return [int(number) for number in np.flatnonzero(~known)]

    def _without(self, number: int, positions: Rows) -> pa.Table:
        """The live entries of a manifest, of which those at these positions are now deleted."""
        entries = self.live.entries(np.array([number], np.int64))
        removed = pc.is_in(entries.column(POSITION), value_set=pa.array(positions, pa.int64()))
        found = pc.sum(removed).as_py() or 0
        if found != len(positions):
            raise FormatError(
                f"manifest has {found} of {len(positions)} entries that are removed",
                path=self.live.manifests.column("path")[number].as_py(),
            )
        status = pc.if_else(removed, DELETED, EXISTING).cast(pa.int32())
        snapshots = pc.if_else(removed, self.snapshot_id, entries.column("snapshot_id"))
        return _with(_with(entries, "status", status), "snapshot_id", snapshots)

    def _written(self, entries: pa.Table) -> list[NewManifest]:
        """The entries, all of one spec and content, as manifests of about the target size."""
        if not len(entries):
            return []
        manifest = self._encoded(entries)
        pieces = -(-len(manifest.data) // self.properties.target_bytes)
        if pieces < 2 or len(entries) < pieces:
            return [manifest]
        step = -(-len(entries) // pieces)
        return [self._encoded(entries.slice(start, step)) for start in range(0, len(entries), step)]

    def _encoded(self, entries: pa.Table) -> NewManifest:
        spec_id = entries.column("spec_id")[0].as_py()
        content = DATA if entries.column("content")[0].as_py() == DATA else DELETES
        data = write_manifest(
            entries,
            spec=self.specs[spec_id],
            schema_json=self.metadata.schema_json,
            spec_json=self.metadata.spec_json(spec_id),
            format_version=self.metadata.format_version,
            content=content,
            with_encoding=content == DELETES and self._records_encoding,
        )
        return NewManifest(entries, spec_id, content, data)

    @property
    def _records_encoding(self) -> bool:
        """Whether delete files say how they store their deletes: on tables that may have vectors of keys."""
        return may_have_vectors_of_keys(self.metadata.properties, self.metadata.format_version)

    def _merged(self, new: Sequence[NewManifest], kept: Rows) -> tuple[list[NewManifest], Rows]:
        """With small manifests of one spec and content merged, as Iceberg's own library merges them:
        the newest ones only if there are enough of them.
        """
        if not self.properties.merges:
            return list(new), kept
        result: list[NewManifest] = []
        kept_rows: list[int] = []
        manifests = self.live.manifests
        columns = {name: manifests.column(name).to_pylist() for name in ("spec_id", "content", "length")}
        keys = {(part.spec_id, part.content) for part in new}
        keys |= {(columns["spec_id"][n], columns["content"][n]) for n in kept.tolist()}
        for key in sorted(keys):
            parts: list[NewManifest | int] = [part for part in new if (part.spec_id, part.content) == key]
            parts += [n for n in kept.tolist() if (columns["spec_id"][n], columns["content"][n]) == key]
            sizes = [columns["length"][p] or 0 if isinstance(p, int) else len(p.data) for p in parts]
            for group in _bins(parts, sizes, self.properties.target_bytes):
                is_newest = group[0] is parts[0]
                if len(group) > 1 and (len(group) >= self.properties.min_count or not is_newest):
                    result += self._written(self._united(group))
                else:
                    kept_rows += [p for p in group if isinstance(p, int)]
                    result += [p for p in group if not isinstance(p, int)]
        return result, np.array(sorted(kept_rows), np.int64)

    def _united(self, group: Sequence[NewManifest | int]) -> pa.Table:
        """The entries of several manifests. Those of older snapshots are EXISTING."""
        tables = []
        for part in group:
            if isinstance(part, int):
                entries = self.live.entries(np.array([part], np.int64))
                status = pa.repeat(pa.scalar(EXISTING, pa.int32()), len(entries))
                tables.append(_with(entries, "status", status))
            else:
                tables.append(part.entries)
        return pa.concat_tables(tables)


def _bins(
    parts: Sequence[NewManifest | int], sizes: Sequence[int], target: int
) -> Iterator[list[NewManifest | int]]:
    """Neighbours of at most ``target`` bytes together, packed from the oldest on, newest bin last."""
    group: list[NewManifest | int] = []
    size = 0
    for part, length in reversed(list(zip(parts, sizes, strict=True))):
        if group and size + length > target:
            yield group[::-1]
            group, size = [], 0
        group.append(part)
        size += length
    if group:
        yield group[::-1]


def manifests_table(
    changes: ManifestChanges,
    live: LiveEntries,
    specs: Mapping[int, PartitionSpec],
    paths: Sequence[str],
    *,
    snapshot_id: int,
    sequence_number: int,
) -> pa.Table:
    """The rows of the manifest list: new manifests at ``paths``, then those that are kept."""
    rows = [
        manifest_row(
            manifest.entries,
            path=path,
            length=len(manifest.data),
            spec=specs[manifest.spec_id],
            content=manifest.content,
            sequence_number=sequence_number,
            snapshot_id=snapshot_id,
            first_row_id=None,
        )
        for manifest, path in zip(changes.new, paths, strict=True)
    ]
    new = pa.Table.from_pylist(rows, schema=MANIFESTS_SCHEMA)
    table = pa.concat_tables([new, live.manifests.take(pa.array(changes.kept))])
    order = np.argsort(table.column("content").to_numpy(), kind="stable")  # data manifests first
    return table.take(pa.array(order))


def _with(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(position), column)
