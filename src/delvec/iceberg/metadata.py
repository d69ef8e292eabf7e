"""A table's metadata file as values: schemas, partition specs, snapshots, refs.

Versions 1 to 4 of the format become one form. Version 1 may have one ``schema`` and one ``partition-spec``
instead of lists, and snapshots that list their manifests; -1 as ``current-snapshot-id`` means none. In
version 4 the fields of partition specs are expressions, and snapshots have root manifests (`tree`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.partitions import Spec, bind_specs, parse_spec, parse_spec_fields
from delvec.iceberg.schema import identifier_ids, parse_schema
from delvec.iceberg.tree.expressions import Expression, parse_expressions, parse_tree_spec, spec_json
from delvec.iceberg.tree.mark import TREE_VERSION, verify_mark, verify_only_trees
from delvec.partition_spec import PartitionSpec
from delvec.schema import Schema

KNOWN_VERSIONS = (1, 2, 3, TREE_VERSION)
MAIN = "main"
BRANCH, TAG = "branch", "tag"

_ENCRYPTION_PROPERTY = "encryption.key-id"


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot as the metadata lists it.

    manifest_list      location of the list of its manifests; None: ``manifests`` lists them (version 1)
    root_manifest      location of the root manifest, instead of a list; None before version 4
    sequence_number    0 in version 1
    schema_id          the table's schema when the snapshot was made; None: not recorded
    first_row_id, added_rows   row ids that the snapshot assigned; None before version 3
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    manifest_list: str | None
    manifests: tuple[str, ...]
    summary: Mapping[str, str]
    schema_id: int | None
    first_row_id: int | None
    added_rows: int | None
    root_manifest: str | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag: a name for a snapshot.

    kind             ``branch`` or ``tag``
    max_ref_age_ms   the ref itself expires when its snapshot is older
    max_snapshot_age_ms, min_snapshots   which snapshots of the branch are kept; None: as the table says
    """

    name: str
    snapshot_id: int
    kind: str
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots: int | None = None


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A metadata file. ``raw`` is its JSON object, with members that delvec does not know.

    schemas, identifier_ids   by schema id
    raw_specs          the partition specs before they are bound to a schema (`specs_in`)
    specs              bound to the current schema
    expressions        by id, in version 4
    snapshot_log       when a snapshot became the current one, in the order of the changes: (milliseconds,
                       snapshot id). Clocks of writers differ, so the times may not ascend
    metadata_log       older metadata files: (milliseconds, location)
    next_row_id        None before version 3
    """

    format_version: int
    table_uuid: str | None
    location: str
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    schemas: Mapping[int, Schema]
    current_schema_id: int
    identifier_ids: Mapping[int, frozenset[int]]
    raw_specs: Mapping[int, Spec]
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    properties: Mapping[str, str]
    current_snapshot_id: int | None
    snapshots: Mapping[int, SnapshotRecord]
    snapshot_log: tuple[tuple[int, int], ...]
    metadata_log: tuple[tuple[int, str], ...]
    refs: Mapping[str, Ref]
    next_row_id: int | None
    raw: Mapping[str, Any]
    expressions: Mapping[int, Expression] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def schema_json(self) -> Mapping[str, Any]:
        """The current schema as the metadata has it."""
        return next(
            item for item in self.raw["schemas"] if item.get("schema-id", 0) == self.current_schema_id
        )

    def spec_json(self, spec_id: int) -> Mapping[str, Any]:
        """A partition spec as the metadata has it, or had it before version 4."""
        if self.format_version >= TREE_VERSION:
            return spec_json(self.raw_specs[spec_id])
        return next(item for item in self.raw["partition-specs"] if item["spec-id"] == spec_id)

    def specs_in(self, schema: Schema) -> Mapping[int, PartitionSpec]:
        """All partition specs, with the source columns as ``schema`` has them."""
        if schema is self.schema:
            return self.specs
        return _bound(self.raw_specs, self.default_spec_id, self.schemas, schema)

    def changed_to(
        self, *, format_version: int, schema: Schema, properties: Mapping[str, str]
    ) -> TableMetadata:
        """The metadata as a writer sees it after a change that is not committed yet: ``raw`` stays as it
        is.
        """
        schema_id = max(self.schemas) + 1
        schemas = {**self.schemas, schema_id: schema}
        return replace(
            self,
            format_version=format_version,
            schemas=schemas,
            current_schema_id=schema_id,
            specs=_bound(self.raw_specs, self.default_spec_id, schemas, schema),
            properties=properties,
        )


def parse_metadata(data: bytes, path: str) -> TableMetadata:
    """The metadata in the file at ``path``. Errors name the file.

    A format version that delvec does not know, and an encrypted table, are refused by name.
    """
    try:
        return _parse(JsonObject.parse(data, "table metadata"))
    except FormatError as error:
        raise error.at(path) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {path}", feature=error.feature) from None


def _parse(root: JsonObject) -> TableMetadata:
    version = _verified_version(root)
    properties = root.text_map("properties")
    if version >= TREE_VERSION:
        verify_mark(properties)
    _verify_not_encrypted(root, properties)
    schemas, identifiers, schema_id = _schemas(root)
    expressions = parse_expressions(root) if version >= TREE_VERSION else {}
    specs, spec_id = _specs(root, version, expressions)
    snapshots = _snapshots(root, version)
    if version >= TREE_VERSION:
        verify_only_trees(properties, snapshots.values())
    current = _current_snapshot_id(root, snapshots)
    return TableMetadata(
        format_version=version,
        table_uuid=root.text_or_none("table-uuid"),
        location=root.text("location"),
        last_sequence_number=root.number("last-sequence-number", 0),
        last_updated_ms=root.number("last-updated-ms"),
        last_column_id=root.number("last-column-id"),
        schemas=schemas,
        current_schema_id=schema_id,
        identifier_ids=identifiers,
        raw_specs=specs,
        specs=_bound(specs, spec_id, schemas, schemas[schema_id]),
        default_spec_id=spec_id,
        properties=properties,
        current_snapshot_id=current,
        snapshots=snapshots,
        snapshot_log=_snapshot_log(root),
        metadata_log=tuple(
            (item.number("timestamp-ms"), item.text("metadata-file"))
            for item in root.children("metadata-log")
        ),
        refs=_refs(root, current, snapshots),
        next_row_id=root.number_or_none("next-row-id"),
        raw=root.members,
        expressions=expressions,
    )


def _verified_version(root: JsonObject) -> int:
    version = root.number("format-version")
    if version not in KNOWN_VERSIONS:
        raise UnsupportedFeatureError(
            f"Iceberg format version is {version}, expected 1, 2, 3 or 4", feature=f"format version {version}"
        )
    return version


def _verify_not_encrypted(root: JsonObject, properties: Mapping[str, str]) -> None:
    encrypted = root.children("encryption-keys") or properties.get(_ENCRYPTION_PROPERTY)
    if encrypted or any(snapshot.has("key-id") for snapshot in root.children("snapshots")):
        raise UnsupportedFeatureError(
            "the table is encrypted, expected one without encryption keys", feature="encryption"
        )


def _schemas(root: JsonObject) -> tuple[dict[int, Schema], dict[int, frozenset[int]], int]:
    """The schemas and their identifier columns by schema id, and the id of the current schema."""
    trees = root.children("schemas")
    if not trees:
        trees = [root.child("schema")]
        current = trees[0].number("schema-id", 0)
    else:
        current = root.number("current-schema-id")
    schemas: dict[int, Schema] = {}
    identifiers: dict[int, frozenset[int]] = {}
    for tree in trees:
        schema_id = tree.number("schema-id", 0)
        schemas[schema_id] = parse_schema(tree.members, f"schema {schema_id}")
        identifiers[schema_id] = identifier_ids(tree.members)
    if current not in schemas:
        raise FormatError(f"current-schema-id is {current}, expected one of {_listed(schemas)}")
    return schemas, identifiers, current


def _specs(
    root: JsonObject, version: int, expressions: Mapping[int, Expression]
) -> tuple[dict[int, Spec], int]:
    """The partition specs by id, and the id of the default one."""
    items = root.children("partition-specs")
    if version >= TREE_VERSION:
        parsed = [parse_tree_spec(item, expressions) for item in items]
    else:
        parsed = [parse_spec(item) for item in items]
    specs = {spec.spec_id: spec for spec in parsed}
    if not specs:
        specs = {0: Spec(0, parse_spec_fields(root, "partition-spec", "the partition spec"))}
        return specs, 0
    default = root.number("default-spec-id")
    if default not in specs:
        raise FormatError(f"default-spec-id is {default}, expected one of {_listed(specs)}")
    return specs, default


def _bound(
    specs: Mapping[int, Spec], default_id: int, schemas: Mapping[int, Schema], schema: Schema
) -> dict[int, PartitionSpec]:
    newest_first = [schemas[schema_id] for schema_id in sorted(schemas, reverse=True)]
    return bind_specs(specs.values(), default_id, schema, newest_first)


def _snapshots(root: JsonObject, version: int) -> dict[int, SnapshotRecord]:
    snapshots: dict[int, SnapshotRecord] = {}
    for item in root.children("snapshots"):
        record = _snapshot(item, version)
        if record.snapshot_id in snapshots:
            raise FormatError(f"snapshot {record.snapshot_id} is listed twice, expected once")
        snapshots[record.snapshot_id] = record
    return snapshots


def _snapshot(item: JsonObject, version: int) -> SnapshotRecord:
    snapshot_id = item.number("snapshot-id")
    item = JsonObject(item.members, f"snapshot {snapshot_id}")
    manifest_list, root_manifest = item.text_or_none("manifest-list"), None
    if version >= TREE_VERSION:
        root_manifest = _root_manifest(item, manifest_list)
    elif manifest_list is None and "manifests" not in item.members:
        raise FormatError(f"snapshot {snapshot_id} has no manifest-list, expected its location")
    return SnapshotRecord(
        snapshot_id=snapshot_id,
        parent_id=item.number_or_none("parent-snapshot-id"),
        sequence_number=item.number("sequence-number", 0),
        timestamp_ms=item.number("timestamp-ms"),
        manifest_list=manifest_list,
        manifests=tuple(item.texts("manifests")),
        summary=item.text_map("summary"),
        schema_id=item.number_or_none("schema-id"),
        first_row_id=item.number_or_none("first-row-id"),
        added_rows=item.number_or_none("added-rows"),
        root_manifest=root_manifest,
    )


def _root_manifest(item: JsonObject, manifest_list: str | None) -> str | None:
    """The root manifest of a snapshot of version 4; None for one from before the upgrade."""
    found = item.text_or_none("root-manifest")
    if (found is None) == (manifest_list is None):
        number = "no" if found is None else "both a"
        raise FormatError(
            f"{item.where} has {number} root-manifest and manifest-list, expected a root-manifest, or a "
            "manifest-list from before the upgrade to version 4"
        )
    return found


def _current_snapshot_id(root: JsonObject, snapshots: Mapping[int, SnapshotRecord]) -> int | None:
    current = root.number("current-snapshot-id", -1)
    if current == -1:
        return None
    if current not in snapshots:
        raise FormatError(f"current-snapshot-id is {current}, expected a snapshot of the table")
    return current


def _snapshot_log(root: JsonObject) -> tuple[tuple[int, int], ...]:
    return tuple(
        (item.number("timestamp-ms"), item.number("snapshot-id")) for item in root.children("snapshot-log")
    )


def _refs(root: JsonObject, current: int | None, snapshots: Mapping[int, SnapshotRecord]) -> dict[str, Ref]:
    refs: dict[str, Ref] = {}
    if root.has("refs"):
        listed = root.child("refs")
        refs = {name: _ref(listed.child(name), name, snapshots) for name in listed.members}
    main = refs.get(MAIN)
    if main is not None and main.snapshot_id != current:
        raise FormatError(
            f"branch main is at snapshot {main.snapshot_id}, expected the current one, {current}"
        )
    if main is None and current is not None:
        refs[MAIN] = Ref(MAIN, current, BRANCH)
    return refs


def _ref(item: JsonObject, name: str, snapshots: Mapping[int, SnapshotRecord]) -> Ref:
    snapshot_id, kind = item.number("snapshot-id"), item.text("type").lower()
    if kind not in (BRANCH, TAG):
        raise FormatError(f"type of ref {name!r} is {kind!r}, expected branch or tag")
    if snapshot_id not in snapshots:
        raise FormatError(f"ref {name!r} is at snapshot {snapshot_id}, expected a snapshot of the table")
    return Ref(
        name,
        snapshot_id,
        kind,
        max_ref_age_ms=item.number_or_none("max-ref-age-ms"),
        max_snapshot_age_ms=item.number_or_none("max-snapshot-age-ms"),
        min_snapshots=item.number_or_none("min-snapshots-to-keep"),
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
