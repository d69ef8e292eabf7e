"""Protocol upgrades: which features a table's metadata needs, and the protocol that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delvec.delta import properties
from delvec.delta.features import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CHECK_CONSTRAINTS,
    COLUMN_MAPPING,
    COLUMN_MAPPING_READER_VERSION,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    IN_COMMIT_TIMESTAMP,
    INVARIANTS,
    MATERIALIZED_PARTITIONS,
    READABLE,
    ROW_TRACKING,
    SINCE_WRITER_VERSION,
    TIMESTAMP_NTZ,
    TYPE_WIDENING,
    V2_CHECKPOINT,
    VARIANT_TYPE,
    Protocol,
)
from delvec.delta.schema import MAPPING_ID, MAPPING_NAME
from delvec.delta.writer_features import WRITABLE, fields_of
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import Array, DataType, Map, Primitive, Schema

INITIAL = Protocol(min_reader_version=1, min_writer_version=2)
SUPPORTED = "supported"

_SWITCHED_ON_BY = {
    properties.ENABLE_VECTORS: DELETION_VECTORS,
    properties.ENABLE_CHANGE_FEED: CHANGE_DATA_FEED,
    properties.APPEND_ONLY_PROPERTY: APPEND_ONLY,
    properties.ENABLE_TIMESTAMPS: IN_COMMIT_TIMESTAMP,
    properties.ENABLE_ROW_TRACKING: ROW_TRACKING,
    properties.ENABLE_TYPE_WIDENING: TYPE_WIDENING,
    properties.ENABLE_MATERIALIZED_PARTITIONS: MATERIALIZED_PARTITIONS,
}
_NEEDED_BY_TYPE = {"timestamp_ntz": TIMESTAMP_NTZ, "variant": VARIANT_TYPE}
_REQUIRES = {ROW_TRACKING: {DOMAIN_METADATA}, "clustering": {DOMAIN_METADATA}}
# A protocol that lists the preview name has the feature already.
_PREVIEWS = {TYPE_WIDENING: "typeWidening-preview", VARIANT_TYPE: "variantType-preview"}


def features_needed(schema: Schema, configuration: Mapping[str, str]) -> frozenset[str]:
    """The features that columns and properties need."""
    needed = {feature for name, feature in _SWITCHED_ON_BY.items() if properties.is_on(configuration, name)}
    if configuration.get(properties.MAPPING_MODE) in (MAPPING_NAME, MAPPING_ID):
        needed.add(COLUMN_MAPPING)
    if configuration.get(properties.CHECKPOINT_POLICY, "").lower() == "v2":
        needed.add(V2_CHECKPOINT)
    if any(name.lower().startswith(properties.CONSTRAINT_PREFIX) for name in configuration):
        needed.add(CHECK_CONSTRAINTS)
    for _, field in fields_of(schema):
        needed |= {_NEEDED_BY_TYPE[name] for name in _names(field.type) if name in _NEEDED_BY_TYPE}
        if not field.nullable:
            needed.add(INVARIANTS)
    return frozenset(needed)


def features_asked(requested: Mapping[str, str | None]) -> frozenset[str]:
    """The features of properties such as ``delta.feature.v2Checkpoint = supported``, by name."""
    return frozenset(_requested_feature(name, value) for name, value in requested.items())


def _requested_feature(name: str, value: str | None) -> str:
    feature = name[len(properties.FEATURE_PREFIX) :]
    if value is None or value.lower() not in (SUPPORTED, "enabled"):
        raise InvalidOperationError(f"property {name} is {value!r}, expected {SUPPORTED!r}")
    if feature not in WRITABLE:
        raise UnsupportedFeatureError(
            f"table feature {feature} is not implemented, expected one of {', '.join(sorted(WRITABLE))}",
            feature=feature,
        )
    return feature


def upgraded(protocol: Protocol, needed: Iterable[str]) -> Protocol:
    """The protocol with the features that are needed; the same protocol if it has them all.

    A protocol that did not list its features then lists those that its versions imply.
    """
    features = set(needed)
    for feature in tuple(features):
        features |= _REQUIRES.get(feature, set())
    new = {f for f in features - protocol.features_to_write if _preview(f) not in protocol.features_to_write}
    if not new:
        return protocol
    for_readers = {feature for feature in new if feature in READABLE}
    return Protocol(
        min_reader_version=FEATURES_READER_VERSION if for_readers else protocol.min_reader_version,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=protocol.features_to_read | for_readers if for_readers else protocol.reader_features,
        writer_features=protocol.features_to_write | new,
    )


def lowered(protocol: Protocol, dropped: str, added: Iterable[str] = ()) -> Protocol:
    """The protocol without the feature ``dropped`` and with those ``added``, in the lowest versions that can
    express it. Features are listed only if no version numbers imply exactly them.
    """
    features = frozenset({*protocol.features_to_write, *added} - {dropped})
    for_readers = protocol.features_to_read - {dropped}
    if for_readers - {COLUMN_MAPPING}:
        reader_version = FEATURES_READER_VERSION
    else:
        reader_version = COLUMN_MAPPING_READER_VERSION if for_readers else 1
    writer_version = max(
        (SINCE_WRITER_VERSION.get(name, FEATURES_WRITER_VERSION) for name in features), default=1
    )
    plain = Protocol(reader_version, writer_version)
    if reader_version < FEATURES_READER_VERSION and plain.features_to_write == features:
        return plain
    listed = for_readers if reader_version == FEATURES_READER_VERSION else frozenset[str]()
    return Protocol(reader_version, FEATURES_WRITER_VERSION, listed, features)


def _preview(feature: str) -> str | None:
    return _PREVIEWS.get(feature)


def _names(data_type: DataType) -> set[str]:
    """The names of the primitive types in a column, except in fields of structs."""
    match data_type:
        case Primitive(name):
            return {name}
        case Array(element):
            return _names(element)
        case Map(key, value):
            return _names(key) | _names(value)
    return set()
