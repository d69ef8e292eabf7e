"""The rules of a whole tree, for ``verify``: what a reader of some leaves does not see.

counts       manifest_stats are those of the leaf's entries, by status; min_sequence_number is the least one
live         a manifest vector masks only entries that are not DELETED
statistics   bounds and counts of a leaf contain those of its entries
files        each data file is live once, and has at most one live vector, in the root and in all leaves
affinity     the vectors of an affiliated delete manifest are of files that are, or were, in its data manifest
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.iceberg.tree.content_stats import (
    LOWER,
    NANS,
    NULLS,
    UPPER,
    VALUES,
    bound_types,
    promoted,
    statistic,
)
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_STATS,
    DATA,
    DELETED,
    EXISTING,
    POSITION_DELETES,
    is_live,
    is_of,
    united,
)
from delvec.iceberg.tree.live import inherited, live_leaf, root_files
from delvec.iceberg.tree.manifest_files import LeafReader
from delvec.iceberg.tree.root import FILES, Leaf, Root

Problem = tuple[str, str]
"""The recorded location of the manifest, and what is wrong."""

_STATUSES = (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))


def tree_problems(root: Root, reader: LeafReader, stats: pa.StructType, root_place: str) -> Iterator[Problem]:
    """All problems of a tree whose root and leaves follow the rules of single manifests."""
    for leaf in root.leaves:
        entries = reader.entries(leaf.location, leaf.size, leaf.content_type)
        for problem in (
            *_counts(root, leaf, entries),
            *_masked_deleted(root, leaf, entries, reader),
            *_statistics(root, leaf, entries),
        ):
            yield leaf.location, problem
    live = {leaf.location: live_leaf(root, leaf, reader) for leaf in root.leaves}
    tables = [root_files(root, FILES), *live.values()]
    files = united([table.select([*table.column_names[:-1]]) for table in tables], stats)
    for problem in _each_once(files):
        yield root_place, problem
    yield from _affinity(root, reader, live)


def _counts(root: Root, leaf: Leaf, entries: pa.Table) -> Iterator[str]:
    recorded = root.entries.drop_columns([CONTENT_STATS]).slice(leaf.row, 1).to_pylist()[0]
    if leaf.record_count != len(entries):
        yield f"root says record_count {leaf.record_count}, expected {len(entries)}, as the leaf has"
    for name, status in _STATUSES:
        records = entries.filter(pc.equal(entries.column("status"), status)).column("record_count")
        for what, count in (("files", len(records)), ("rows", pc.sum(records, min_count=0).as_py())):
            found = recorded[f"{name}_{what}_count"]
            if found != count:
                yield f"root says {name}_{what}_count {found}, expected {count}, as the leaf has"
    sequences = inherited(entries, leaf).column("sequence_number")
    least = pc.min(sequences).as_py()
    if least is not None and recorded["min_sequence_number"] > least:
        yield f"root says min_sequence_number {recorded['min_sequence_number']}, expected at most {least}"


def _masked_deleted(root: Root, leaf: Leaf, entries: pa.Table, reader: LeafReader) -> Iterator[str]:
    masked = root.mask(leaf, reader).to_numpy().astype(np.int64)
    wrong = masked[~is_live(entries)[masked]]
    if len(wrong):
        yield f"manifest vector masks position {wrong[0]}, which is DELETED, expected live entries"


def _statistics(root: Root, leaf: Leaf, entries: pa.Table) -> Iterator[str]:
    own = one_chunk(root.entries.slice(leaf.row, 1).column(CONTENT_STATS))
    parts = entries.filter(pa.array(is_live(entries))).column(CONTENT_STATS)
    for field_id, kind in bound_types(own.type).items():
        for name in (VALUES, NULLS, NANS):
            of_leaf, of_entries = statistic(own, field_id, name), statistic(parts, field_id, name)
            if of_leaf is None or not of_leaf[0].is_valid:
                continue
            total = (
                None
                if of_entries is None or of_entries.null_count
                else pc.sum(of_entries, min_count=0).as_py()
            )
            if total != of_leaf[0].as_py():
                yield f"{name} of field {field_id} is {of_leaf[0]}, expected {total}, the sum of the entries"
        if pt.is_null(kind):
            continue
        for name, is_outside in ((LOWER, pc.less), (UPPER, pc.greater)):
            of_leaf, of_entries = statistic(own, field_id, name), statistic(parts, field_id, name)
            if of_leaf is None or of_entries is None or not of_leaf[0].is_valid:
                continue
            values = promoted(of_entries, kind)
            if pc.any(pc.fill_null(is_outside(values, of_leaf[0]), False)).as_py():  # noqa: FBT003
                yield f"{name} of field {field_id} does not contain those of all entries of the leaf"


def _each_once(files: pa.Table) -> Iterator[str]:
    for content_type, name, what in (
        (DATA, "location", "live entries"),
        (POSITION_DELETES, "referenced_file", "live vectors"),
    ):
        chosen = files.filter(pa.array(is_of(files, [content_type])))
        if content_type == POSITION_DELETES:
            chosen = chosen.filter(pc.is_valid(chosen.column("dv_offset")))
        counts = one_chunk(chosen.column(name)).value_counts()
        for place in counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist():
            yield f"{place} has several {what} in the tree, expected one"


def _affinity(root: Root, reader: LeafReader, live: dict[str, pa.Table]) -> Iterator[Problem]:
    for leaf in root.leaves:
        owner = root.leaf_at.get(leaf.referenced_file or "")
        if owner is None:
            continue
        known = one_chunk(reader.entries(owner.location, owner.size, owner.content_type).column("location"))
        named = live[leaf.location].column("referenced_file")
        lost = named.filter(pc.invert(pc.is_in(named, value_set=known)))
        if len(lost):
            yield (
                leaf.location,
                f"{lost[0]} is not in {owner.location}, with which the vectors are affiliated",
            )
