"""Derives ``WriteRules`` from an Iceberg table's metadata and properties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg import write_properties
from delvec.iceberg.data_folders import data_folder, file_folders
from delvec.iceberg.mapping_update import can_have_ids, covering_mapping
from delvec.iceberg.metadata import TAG
from delvec.iceberg.new_columns import LINEAGE_VERSION, verify_lineage_names_free
from delvec.iceberg.read_schema import LINEAGE
from delvec.iceberg.stats_writer import measured_columns
from delvec.iceberg.swaps import BaseFile
from delvec.iceberg.vector_file import DATA_FOLDER, store_vectors
from delvec.iceberg.version_features import verify_writable_version
from delvec.iceberg.write_defaults import write_defaults
from delvec.partition_spec import PartitionSpec
from delvec.row_delta import DeleteForm, KeyRules, Verb, WriteRules
from delvec.schema import Array, DataType, Fixed, Map, Primitive, Schema, Struct
from delvec.transforms import VOID

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_WITHOUT_ROWS = (Verb.ALTER, Verb.DELETE, Verb.DELETE_KEYS, Verb.REWRITE_DELETES)
"""Verbs that write no rows; a DELETE does if it rewrites files."""

_NOT_STORED = frozenset({"uuid", "time", "timestamp_ns", "timestamp_ntz_ns", "variant"})
"""Types that Spark's Parquet writer lacks, or stores in another form than Iceberg's."""

_STORE_VECTORS = partial(store_vectors, folder=DATA_FOLDER)


def write_rules(snapshot: Snapshot, verb: Verb) -> WriteRules:
    """The rules that the table sets for a statement of this kind.

    A table that delvec cannot write correctly is refused by the name of the feature. A statement that writes
    no rows needs less: rows can be deleted where none can be added.
    """
    _verify_writable(snapshot)
    schema, spec, properties = snapshot.schema, snapshot.spec, snapshot.properties
    deletes = _delete_form(snapshot, verb)
    rewrites = verb in (Verb.DELETE, Verb.DELETE_KEYS) and deletes is DeleteForm.REWRITE
    if verb not in _WITHOUT_ROWS or rewrites:
        verify_rows_writable(snapshot)
    has_lineage = snapshot.format_version >= LINEAGE_VERSION
    file_size = write_properties.target_file_size(properties)
    return WriteRules(
        schema=schema,
        spec=spec,
        folders=partial(file_folders, spec, dict(properties), snapshot.location),
        deletes=deletes,
        keys=None if deletes is DeleteForm.REWRITE else _key_rules(snapshot, verb),
        store_vectors=_STORE_VECTORS if deletes is DeleteForm.VECTOR else None,
        measured=measured_columns(schema, properties),
        with_ids=can_have_ids(schema),
        store_partitions=True,
        defaults=write_defaults(schema),
        row_id=LINEAGE[0] if has_lineage else None,
        row_version=LINEAGE[1] if has_lineage else None,
        target_file_size=file_size,
        compacted_file_size=file_size,
        vectors_since=None if has_lineage else LINEAGE_VERSION,
        rewrite_share=_rewrite_share(snapshot),
    )


def verify_rows_writable(snapshot: Snapshot) -> None:
    """Refuse a table whose rows delvec cannot write, by the name of the type, transform or property."""
    _verify_types_stored(snapshot.schema, snapshot.location)
    _verify_partitioning(snapshot.spec, snapshot.location)
    verify_lineage_names_free(snapshot.schema, snapshot.format_version)
    data_folder(snapshot.properties, snapshot.location)
    if not can_have_ids(snapshot.schema):
        has_lineage = snapshot.format_version >= LINEAGE_VERSION
        covering_mapping(snapshot.properties, snapshot.schema, lineage=has_lineage)


def _verify_writable(snapshot: Snapshot) -> None:
    verify_writable_version(snapshot.format_version, snapshot.location)
    if not snapshot.is_at_home:
        raise UnsupportedFeatureError(
            f"the metadata records the location {snapshot.metadata.location}, expected "
            f"{snapshot.location}: a copied table can only be read",
            feature="writing to a copied table",
        )
    opened = snapshot.opened
    if opened.pointer is not None:
        opened.pointer.verify_writable(snapshot.storage, BaseFile(opened.metadata_path, snapshot.metadata))
    name = opened.ref
    ref = None if name is None else snapshot.metadata.refs.get(name)
    if ref is not None and ref.kind == TAG:
        raise InvalidOperationError(f"{name!r} is a tag, expected a branch: {snapshot.location}")


def _delete_form(snapshot: Snapshot, verb: Verb) -> DeleteForm:
    # Rewriting deletes is a request for delete files, also where statements rewrite data files.
    if verb is not Verb.REWRITE_DELETES and not write_properties.merges_on_read(snapshot.properties, verb):
        return DeleteForm.REWRITE
    return DeleteForm.VECTOR if snapshot.format_version >= LINEAGE_VERSION else DeleteForm.POSITION_FILE


def _key_rules(snapshot: Snapshot, verb: Verb) -> KeyRules | None:
    """None for verbs that delete no keys."""
    options = snapshot.delete_options
    automatic = verb is Verb.DELETE and options.vectors_of_keys
    if verb not in (Verb.DELETE_KEYS, Verb.UPSERT) and not automatic:
        return None
    live = snapshot.files.live
    specs = live.manifests.take(pa.array(live.data_manifests)).column("spec_id").unique().to_pylist()
    return KeyRules(by_partition=set(specs) <= {snapshot.spec.spec_id}, automatic=automatic)


def _rewrite_share(snapshot: Snapshot) -> float | None:
    """The table's rewrite share; None if it is not set, or if rows can be deleted but not written."""
    share = write_properties.rewrite_share(snapshot.properties)
    if share is None:
        return None
    try:
        verify_rows_writable(snapshot)
    except UnsupportedFeatureError:
        return None
    return share


def _verify_types_stored(schema: Schema, location: str) -> None:
    for path, data_type in _leaves(schema, ()):
        if not _is_stored(data_type, path):
            raise UnsupportedFeatureError(
                f"column {'.'.join(path)} is of type {data_type}, which delvec cannot write to Iceberg "
                f"tables; rows can only be deleted, with {write_properties.DELETE_MODE} = "
                f"{write_properties.MERGE_ON_READ}: {location}",
                feature=f"type {data_type}",
            )


def _is_stored(data_type: DataType, path: tuple[str, ...]) -> bool:
    match data_type:
        case Fixed() | Primitive("geometry" | "geography"):
            return False
        case Primitive("void"):
            return len(path) == 1  # no file has such a column
        case Primitive(name):
            return name not in _NOT_STORED
    return True


def _leaves(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DataType]]:
    match data_type:
        case Struct(fields):
            for field in fields:
                yield from _leaves(field.type, (*path, field.name))
        case Array(element):
            yield from _leaves(element, (*path, "element"))
        case Map(key, value):
            yield from _leaves(key, (*path, "key"))
            yield from _leaves(value, (*path, "value"))
        case _:
            yield path, data_type


def _verify_partitioning(spec: PartitionSpec, location: str) -> None:
    for field in spec.fields:
        if not field.transform.is_known:
            raise UnsupportedFeatureError(
                f"partition field {field.name} has the transform {field.transform}, which delvec does not "
                f"know: {location}",
                feature=f"partition transform {field.transform}",
            )
        if not field.source and field.transform != VOID:
            raise UnsupportedFeatureError(
                f"the source column of partition field {field.name} was dropped, expected one: {location}",
                feature=f"partition field {field.name}",
            )
