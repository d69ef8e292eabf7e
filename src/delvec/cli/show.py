"""`delvec show`: version, schema, properties, files and row counts of a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from delvec.cli.arguments import (
    Catalog,
    Json,
    Path,
    Ref,
    Relocate,
    Rows,
    StorageOptions,
    Timestamp,
    Version,
    open_source,
    storage_options,
)
from delvec.cli.output import cell, counted, number, pairs, size, table, time_text
from delvec.cli.spark import read_rows

if TYPE_CHECKING:
    from delvec.advice import Advice
    from delvec.formats import Snapshot, Table
    from delvec.partition_spec import PartitionSpec
    from delvec.plan import ScanPlan
    from delvec.schema import Schema


def show(
    path: Path,
    *,
    version: Version = None,
    timestamp: Timestamp = None,
    rows: Rows = 0,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> TableSummary:
    """Show version, schema, properties, files and row counts."""
    del json
    options = storage_options(option)
    source = open_source(path, options, catalog=catalog, ref=ref, relocate=relocate)
    snapshot = source.snapshot(version, timestamp)
    summary = summarize(source, snapshot)
    if not rows:
        return summary
    columns, values = read_rows(source, snapshot, rows)
    return replace(summary, sample=RowSample(tuple(columns), values))


@dataclass(frozen=True, slots=True)
class RowSample:
    """Some live rows, in no particular order."""

    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]

    def render(self) -> RenderableType:
        grid = table(*map(cell, self.columns), fold=self.columns)
        for row in self.rows:
            grid.add_row(*(cell(row[name]) for name in self.columns))
        return grid


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows in data files, deleted rows, and the difference; None if the metadata has no count."""

    physical: int | None
    deleted: int | None
    live: int | None


@dataclass(frozen=True, slots=True)
class VectorCounts:
    count: int
    inline: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DeleteFileCounts:
    """Delete files other than vectors of positions: of rows by their position, and of rows by their values.
    ``key_vectors``: those of ``equality`` that are vectors of keys.
    """

    position: int
    equality: int
    key_vectors: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableSummary:
    format: str
    location: str
    version: int
    timestamp: dt.datetime | None
    schema: Schema
    spec: PartitionSpec
    files: int
    bytes: int
    rows: RowCounts
    vectors: VectorCounts
    delete_files: DeleteFileCounts
    details: Mapping[str, Any]
    properties: Mapping[str, str]
    advice: Sequence[Advice] = ()
    sample: RowSample | None = None

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        sampled = {} if self.sample is None else {"sample": self.sample.rows}
        return {
            "format": self.format,
            "location": self.location,
            "version": self.version,
            "timestamp": self.timestamp,
            "schema": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in self.schema],
            "partition_columns": [str(field) for field in self.spec.fields],
            "files": {"count": self.files, "bytes": self.bytes},
            "rows": {name: getattr(self.rows, name) for name in RowCounts.__slots__},
            "vectors": {name: getattr(self.vectors, name) for name in VectorCounts.__slots__},
            "delete_files": {name: getattr(self.delete_files, name) for name in DeleteFileCounts.__slots__},
            "details": self.details,
            "properties": self.properties,
            "advice": [{"verb": a.verb, "reason": a.reason, **a.numbers} for a in self.advice],
            **sampled,
        }

    def render(self) -> Iterable[RenderableType]:
        yield pairs(self._facts())
        yield ""
        yield _schema_table(self.schema, self.spec)
        if self.sample is not None:
            yield ""
            yield self.sample.render()

    def _facts(self) -> Iterator[tuple[str, RenderableType]]:
        rows = self.rows
        yield "location", cell(self.location)
        yield "format", self.format
        yield (
            "version",
            f"{self.version}, committed {time_text(self.timestamp)}" if self.timestamp else str(self.version),
        )
        yield "files", f"{number(self.files)}, {size(self.bytes)}"
        yield (
            "rows",
            f"{number(rows.live)} live, {number(rows.deleted)} deleted, {number(rows.physical)} in files",
        )
        yield "vectors", _vector_line(self.vectors)
        if self.delete_files.position or self.delete_files.equality:
            yield "delete files", _delete_file_line(self.delete_files)
        for advice in self.advice:
            yield "advice", f"{advice.verb}: {advice.reason}"
        for name, value in self.details.items():
            yield name, cell(", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in sorted(self.properties.items()):
            yield name, cell(value)


def summarize(source: Table, snapshot: Snapshot) -> TableSummary:
    """The summary of a snapshot, from its metadata alone."""
    from delvec.advice import advice

    plan = snapshot.plan()
    return TableSummary(
        format=snapshot.format,
        location=snapshot.location,
        version=snapshot.version,
        timestamp=source.committed_at(snapshot.version),
        schema=snapshot.schema,
        spec=snapshot.spec,
        files=len(plan.files),
        bytes=_sum(plan.files.column("size")),
        rows=_count_rows(plan),
        vectors=_count_vectors(plan),
        delete_files=_count_delete_files(plan),
        details=snapshot.details(),
        properties=snapshot.properties,
        advice=advice(source, snapshot, plan),
    )


def _count_rows(plan: ScanPlan) -> RowCounts:
    physical, deleted = (
        None if counts.null_count else _sum(counts)
        for counts in (plan.files.column("record_count"), plan.deleted_rows)
    )
    live = None if physical is None or deleted is None else physical - deleted
    return RowCounts(physical, deleted, live)


def _count_vectors(plan: ScanPlan) -> VectorCounts:
    import pyarrow.compute as pc

    from delvec.plan import POSITION_VECTOR

    vectors = plan.deletes.filter(pc.equal(plan.deletes.column("kind"), POSITION_VECTOR))
    locations = vectors.column("location")
    return VectorCounts(
        count=len(vectors),
        inline=locations.null_count,
        files=len(locations.drop_null().unique()),
        bytes=_sum(vectors.column("length")),
    )


def _count_delete_files(plan: ScanPlan) -> DeleteFileCounts:
    import pyarrow.compute as pc

    from delvec.plan import DELETION_VECTOR, EQUALITY_FILE, POSITION_FILE

    kinds = plan.deletes.column("kind")
    of_kind = [plan.deletes.filter(pc.equal(kinds, kind)) for kind in (POSITION_FILE, EQUALITY_FILE)]
    return DeleteFileCounts(
        position=len(of_kind[0]),
        equality=len(of_kind[1]),
        key_vectors=_sum(pc.equal(of_kind[1].column("encoding"), DELETION_VECTOR)),
        rows=sum(_sum(files.column("cardinality")) for files in of_kind),
        bytes=sum(_sum(files.column("length")) for files in of_kind),
    )


def _sum(column: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(column).as_py() or 0


def _vector_line(vectors: VectorCounts) -> str:
    if not vectors.count:
        return "none"
    places = [counted(vectors.files, "file")] if vectors.files else []
    if vectors.inline:
        places.append(f"the log ({vectors.inline:,} inline)")
    return f"{vectors.count:,}, {size(vectors.bytes)}, in {' and '.join(places)}"


def _delete_file_line(files: DeleteFileCounts) -> str:
    """The number of rows is that in the delete files: more or fewer rows of the table may be deleted."""
    kinds = [
        counted(count, f"{kind} file")
        for kind, count in (("position", files.position), ("equality", files.equality))
        if count
    ]
    if files.key_vectors:
        kinds[-1] += f" ({counted(files.key_vectors, 'vector')} of keys)"
    return f"{', '.join(kinds)}, {counted(files.rows, 'row')}, {size(files.bytes)}"


def _schema_table(schema: Schema, spec: PartitionSpec) -> RenderableType:
    """The columns, each with the positions of its partition fields, and their transforms if they have any."""
    columns = table("column", "type", "nullable", "partition", fold=("column", "type"))
    for field in schema:
        partition = [
            str(position) if part.is_identity else f"{position} {part.transform}"
            for position, part in enumerate(spec.fields, start=1)
            if part.source[:1] == (field.name,)  # a dropped column has no source
        ]
        nullable = "yes" if field.nullable else "no"
        columns.add_row(cell(field.name), cell(field.type), nullable, cell(", ".join(partition) or None))
    return columns
