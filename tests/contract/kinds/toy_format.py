"""A toy table format: the smallest complete one, as the example for people who add a format.

    manifests/00000007.json   version 7 of the table. Of two writers of a version, put-if-absent lets one win
    data/…                    data files
    deletes/…                 delete files: vectors as framed blobs, or Parquet files of (file_path, pos)

The property ``toy.deletes`` is the form of deletes: ``vector`` (the default), ``position file``, ``rewrite``.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delvec import blob, location, plan
from delvec import row_delta as rd
from delvec.errors import TableNotFoundError, UnsupportedFeatureError
from delvec.file_facts import ConstantColumn
from delvec.formats import HISTORY_SCHEMA
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import Field, Primitive, Schema, Struct, arrow_type
from delvec.storage import Storage
from delvec.transforms import parse_transform

MANIFESTS, DELETES = "manifests", "toy.deletes"


@dataclass(frozen=True)
class Manifest:
    """One version of the table: the members of its JSON document."""

    version: int
    columns: list[list[Any]]
    partition: list[list[str]]
    properties: dict[str, str]
    txns: dict[str, int] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    commit: dict[str, Any] = field(default_factory=dict)

    def schema(self) -> Schema:
        return Struct(tuple(Field(name, Primitive(kind), nullable) for name, kind, nullable in self.columns))

    def spec(self) -> PartitionSpec:
        types = {column.name: column.type for column in self.schema()}
        parsed = [(name, source, parse_transform(text)) for name, source, text in self.partition]
        fields = [PartitionField(n, (s,), t, t.result_type(types[s])) for n, s, t in parsed]
        return PartitionSpec(0, tuple(fields))

    @property
    def delete_form(self) -> rd.DeleteForm:
        return rd.DeleteForm(self.properties.get(DELETES, rd.DeleteForm.VECTOR.value))


class ToyFacts:
    """Facts about files. A manifest has the partition values, and no statistics."""

    def __init__(self, files: pa.Table, columns: Sequence[str]) -> None:
        self._files, self._columns, self.count = files, columns, len(files)
        self.record_count = files.column("record_count").combine_chunks()
        self.tight = pa.array([False] * self.count, pa.bool_())

    def column(self, path: tuple[str, ...]) -> ConstantColumn | None:
        if len(path) == 1 and path[0] in self._columns:
            return ConstantColumn(self._files.column("partition").combine_chunks().field(path[0]))
        return None

    def at(self, rows: Any) -> ToyFacts:
        return ToyFacts(self._files.take(pa.array(rows)), self._columns)


class ToySnapshot:
    format = "toy"
    format_version = None
    passed_over = ()

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self.storage, self.location, self.manifest = storage, storage.root, manifest
        self.source = storage.root
        self.version, self.is_draft = manifest.version, manifest.version < 0
        self.base = plan.Base(self.version)
        self.schema, self.spec = manifest.schema(), manifest.spec()
        self.properties, self.txns = manifest.properties, manifest.txns

    def plan(self, where: Any = None, *, time_zone: str = "UTC", among: Any = None) -> plan.ScanPlan:
        ids = np.arange(len(self.manifest.files)) if among is None else among.to_numpy()
        files, deletes, groups = self._files(ids)
        facts = ToyFacts(files, self.spec.identity_columns)
        rows = np.arange(len(ids))
        if where is not None:
            matches = where.match(facts)
            rows = np.flatnonzero(matches.may)
            match = pa.array(np.where(matches.only, plan.MATCH_ALL, plan.MATCH_SOME), pa.string())
            files = files.set_column(files.column_names.index("match"), "match", match)
        read = plan.ReadSchema(self.schema, by_id=False, constants=self.spec.identity_columns)
        whole = plan.ScanPlan(
            *(self.location, self.base, self.schema, {0: self.spec}, (read,), where, files, facts),
            *(deletes, groups),
            carry=pa.table({}),
            skipped=len(ids) - len(rows),
        )
        return whole.at(rows)

    def _files(self, ids: Any) -> tuple[pa.Table, pa.Table, tuple[tuple[int, ...], ...]]:
        """The files, their deletes, and the groups of deletes that are not vectors."""
        chosen = [self.manifest.files[file_id] for file_id in ids]
        rows, deletes, groups = [], [], []
        for file_id, file in zip(ids.tolist(), chosen, strict=True):
            place = location.join(self.location, file["path"])
            row = {"file_id": file_id, "location": place, "raw_location": file["path"], "spec_id": 0}
            row |= {"file_format": "parquet", "read_schema": 0, "match": plan.MATCH_SOME}
            row |= {"size": file["size"], "record_count": file["rows"]}
            if (delete := file["delete"]) is not None:
                if delete["kind"] == plan.POSITION_VECTOR:
                    row["vector"] = len(deletes)
                else:
                    row["delete_group"] = len(groups)
                    groups.append((len(deletes),))
                deletes.append({**delete, "referenced_file": place})
            rows.append(row)
        partition = _partition([file["partition"] for file in chosen], self.spec)
        files = pa.Table.from_pylist(rows, schema=plan.FILES_SCHEMA).append_column("partition", partition)
        return files, pa.Table.from_pylist(deletes, schema=plan.DELETES_SCHEMA), tuple(groups)

    def names(self, file_ids: pa.Array) -> pa.Array:
        return pa.array([self.manifest.files[i]["path"] for i in file_ids.to_pylist()], pa.string())

    def file_ids(self, names: pa.Array) -> pa.Array:
        ids = {file["path"]: file_id for file_id, file in enumerate(self.manifest.files)}
        return pa.array(map(ids.get, names.to_pylist()), pa.int64())

    def isolation(self, verb: rd.Verb) -> rd.Isolation:
        return rd.Isolation.SERIALIZABLE

    def rules(self, verb: rd.Verb, change: rd.MetadataChange | None = None) -> rd.WriteRules:
        schema = change.schema if change and change.schema else self.schema
        _columns(schema)
        folders, deletes = (lambda values: ["data"] * len(values)), self.manifest.delete_form
        return rd.WriteRules(schema=schema, spec=self.spec, folders=folders, deletes=deletes, change=change)

    def details(self) -> Mapping[str, Any]:
        return {}


class ToyTable:
    format = "toy"

    def __init__(self, storage: Storage) -> None:
        self.storage, self.location = storage, storage.root

    def snapshot(self, version: int | None = None, timestamp: Any = None) -> ToySnapshot:
        versions = _versions(self.storage)
        if timestamp is not None:
            version = max(number for number in versions if self.committed_at(number) <= timestamp)
        version = max(versions) if version is None else version
        if version not in versions:
            raise TableNotFoundError(f"version {version} does not exist: {self.location}")
        return ToySnapshot(self.storage, self._manifest(version))

    def snapshot_at(self, base: plan.Base) -> ToySnapshot:
        return self.snapshot(base.version)

    def draft(
        self, schema: Schema, *, partition_by: Any = (), properties: Any = None, format_version: Any = None
    ) -> ToySnapshot:
        del format_version
        partition = [[f.name, f.source[0], str(f.transform)] for f in partition_by]
        return ToySnapshot(self.storage, Manifest(-1, _columns(schema), partition, dict(properties or {})))

    def commit(self, snapshot: ToySnapshot, delta: rd.RowDelta) -> rd.Outcome:
        old, change, gone = snapshot.manifest, delta.metadata, set(delta.removed.to_pylist())
        deletes = _stored_deletes(snapshot, delta)
        files = [file | {"delete": deletes.get(at, file["delete"])} for at, file in enumerate(old.files)]
        kept = [file for at, file in enumerate(files) if at not in gone]
        properties = {**old.properties, **(change.properties if change else {})}
        time, name = dt.datetime.now(dt.UTC).isoformat(), self.operation_name(delta.request)
        new = Manifest(
            version=snapshot.version + 1,
            columns=_columns(change.schema) if change and change.schema else old.columns,
            partition=old.partition,
            properties={name: value for name, value in properties.items() if value is not None},
            txns=old.txns | ({delta.txn.app_id: delta.txn.version} if delta.txn else {}),
            files=kept + _added(snapshot, delta.added),
            commit={"time": time, "operation": name, "verb": delta.verb, "blind": delta.read.blind},
        )
        if not self.storage.put_if_absent(_path(new.version), json.dumps(vars(new)).encode()):
            return rd.VersionTaken(new.version)
        return rd.Committed(new.version, self.metrics(delta.request, delta.counts))

    def won(self, since: ToySnapshot, until: ToySnapshot) -> Sequence[rd.Won]:
        manifests = [self._manifest(version) for version in range(since.version, until.version + 1)]
        return [_won(before, after) for before, after in pairwise(manifests)]

    def operation_name(self, request: rd.Request) -> str:
        return request.operation.value

    def metrics(self, request: rd.Request, counts: rd.RowCounts, execution: Any = None) -> Mapping[str, int]:
        name = "numTargetRows{}" if request.operation == rd.Operation.MERGE else "num{}Rows"
        changes = {name.format(f.title()): getattr(counts, f) for f in ("inserted", "updated", "deleted")}
        return {k: v for k, v in (changes | {"numOutputRows": counts.new}).items() if v is not None}

    def total_metrics(self, metrics: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
        return sum(map(Counter, metrics), Counter())

    def created_at(self) -> dt.datetime | None:
        return self.committed_at(0)

    def committed_at(self, version: int) -> dt.datetime:
        return dt.datetime.fromisoformat(self._manifest(version).commit["time"])

    def history(self, limit: int | None = None) -> pa.Table:
        found = [self._manifest(v) for v in sorted(_versions(self.storage), reverse=True)[:limit]]
        rows = [{"version": m.version, "timestamp": self.committed_at(m.version), **m.commit} for m in found]
        return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)

    def _manifest(self, version: int) -> Manifest:
        return Manifest(**json.loads(self.storage.read(_path(version))))


def _versions(storage: Storage) -> list[int]:
    return [int(entry.path.split("/")[-1].split(".")[0]) for entry in storage.list(MANIFESTS)]


def _path(version: int) -> str:
    return f"{MANIFESTS}/{version:08d}.json"


def _columns(schema: Schema) -> list[list[Any]]:
    for column in schema:
        if type(column.type) is not Primitive:
            raise UnsupportedFeatureError(f"column {column.name} is nested", feature=str(column.type))
    return [[column.name, str(column.type), column.nullable] for column in schema]


def _partition(texts: list[list[str | None]], spec: PartitionSpec) -> pa.StructArray:
    """Partition values in the types of the spec, from the texts of the manifest."""
    if not spec.fields:
        return pa.StructArray.from_buffers(spec.value_type, len(texts), [None])
    columns = [pa.array([row[at] for row in texts], pa.string()) for at in range(len(spec.fields))]
    typed = [column.cast(arrow_type(f.type)) for column, f in zip(columns, spec.fields, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=list(spec.value_type))


def _added(snapshot: ToySnapshot, added: pa.Table) -> list[dict[str, Any]]:
    values = added.column("partition").combine_chunks()
    texts = [values.field(at).cast(pa.string()).to_pylist() for at in range(values.type.num_fields)]
    rows = added.select(["location", "size", "record_count"]).to_pylist()
    return [
        {"path": row["location"].removeprefix(f"{snapshot.location}/"), "size": row["size"]}
        | {"rows": row["record_count"], "partition": [text[at] for text in texts], "delete": None}
        for at, row in enumerate(rows)
    ]


def _stored_deletes(snapshot: ToySnapshot, delta: rd.RowDelta) -> dict[int, dict[str, Any]]:
    """Store the deletes of each file that loses rows, in the form that the table asks for."""
    if len(delta.added_deletes) or len(delta.removed_deletes):
        raise UnsupportedFeatureError("the toy format stores deletes of rows only", feature="delete files")
    store = _vector if snapshot.manifest.delete_form == rd.DeleteForm.VECTOR else _position_file
    paths = snapshot.names(delta.vectors.column("file_id")).to_pylist()
    rows = delta.vectors.select(["file_id", "rows", "cardinality"]).to_pylist()
    return {
        row["file_id"]: store(snapshot, path, row["rows"]) | {"cardinality": row["cardinality"]}
        for path, row in zip(paths, rows, strict=True)
    }


def _vector(snapshot: ToySnapshot, path: str, rows: bytes) -> dict[str, Any]:
    stored = _put(snapshot, "bin", rows) | {"offset": 0}
    return stored | {"kind": plan.POSITION_VECTOR, "encoding": plan.DELETION_VECTOR}


def _position_file(snapshot: ToySnapshot, path: str, rows: bytes) -> dict[str, Any]:
    positions, sink = blob.decode(rows).to_numpy(), pa.BufferOutputStream()
    pq.write_table(pa.table({"file_path": [path] * len(positions), "pos": positions}), sink)
    stored = _put(snapshot, "parquet", sink.getvalue().to_pybytes())
    return stored | {"kind": plan.POSITION_FILE, "encoding": plan.FULL_ROW}


def _put(snapshot: ToySnapshot, suffix: str, data: bytes) -> dict[str, Any]:
    snapshot.storage.put(name := f"deletes/{uuid.uuid4()}.{suffix}", data)
    return {"location": location.join(snapshot.location, name), "length": len(data)}


def _won(before: Manifest, after: Manifest) -> rd.Won:
    old, new = ({file["path"]: file["delete"] for file in side.files} for side in (before, after))
    same_metadata = (before.columns, before.properties) == (after.columns, after.properties)
    return rd.Won(
        after.version,
        after.commit["operation"],
        rd.Verb(after.commit["verb"]),
        changed=None if same_metadata else "columns or properties",
        blind=after.commit["blind"],
        app_ids=frozenset(dict(after.txns.items() - before.txns.items())),
        added=pa.array(new.keys() - old.keys(), pa.string()),
        removed=pa.array(old.keys() - new.keys(), pa.string()),
        vectors=pa.array([path for path in new.keys() & old.keys() if new[path] != old[path]], pa.string()),
    )
