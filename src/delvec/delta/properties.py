"""Table properties: their names, their allowed values, and reading them.

A name that starts with ``delta.`` must be listed here to be set: other engines may give an unlisted one a
meaning that delvec does not follow. ``delvec.rewriteDeletedShare`` and the isolation levels of verbs are
delvec's own. Users may set any other name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from delvec.delta.features import Protocol
from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.row_delta import Isolation, Verb

PREFIX = "delta."
CONSTRAINT_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."

ENABLE_VECTORS = "delta.enableDeletionVectors"
ENABLE_CHANGE_FEED = "delta.enableChangeDataFeed"
ENABLE_TIMESTAMPS = "delta.enableInCommitTimestamps"
TIMESTAMPS_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
TIMESTAMPS_SINCE = "delta.inCommitTimestampEnablementTimestamp"
ENABLE_ROW_TRACKING = "delta.enableRowTracking"
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
ENABLE_TYPE_WIDENING = "delta.enableTypeWidening"
ENABLE_MATERIALIZED_PARTITIONS = "delta.enableMaterializePartitionColumnsFeature"
APPEND_ONLY_PROPERTY = "delta.appendOnly"
MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
CHECKPOINT_POLICY = "delta.checkpointPolicy"
CHECKPOINT_INTERVAL = "delta.checkpointInterval"
SYMLINK_MANIFEST = "delta.compatibility.symlinkFormatManifest.enabled"
TARGET_FILE_SIZE = "delta.targetFileSize"
RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
RANDOM_PREFIX_LENGTH = "delta.randomPrefixLength"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
FILE_RETENTION_DEFAULT = "interval 1 week"
LOG_RETENTION = "delta.logRetentionDuration"
LOG_RETENTION_DEFAULT = "interval 30 days"
TRUNCATED_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"
TRUNCATED_RETENTION_DEFAULT = "interval 24 hours"
LOG_CLEANUP = "delta.enableExpiredLogCleanup"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
REWRITE_SHARE = "delvec.rewriteDeletedShare"
ISOLATION_LEVEL = "delta.isolationLevel"
VERB_ISOLATION = {verb: f"write.{verb}.isolation-level" for verb in (Verb.DELETE, Verb.UPDATE, Verb.MERGE)}
"""Iceberg's names. Delta has one level for all verbs and allows only Serializable."""

DEFAULT_CHECKPOINT_INTERVAL = 10

_QUANTITY = r"[0-9]{1,19}\s+(?:(?:nano|micro|milli)?second|minute|hour|day|week)s?"
_INTERVAL = re.compile(rf"(?:interval\s+)?{_QUANTITY}(?:\s+{_QUANTITY})*", re.IGNORECASE | re.ASCII)
_MAX_DURATION_MS = (1 << 63) // 1000  # Spark's intervals have 64-bit microseconds
_NANOSECONDS = {
    "nanosecond": 1,
    "microsecond": 1000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60 * 1_000_000_000,
    "hour": 3600 * 1_000_000_000,
    "day": 86_400 * 1_000_000_000,
    "week": 604_800 * 1_000_000_000,
}
_NUMBER = re.compile(r"[0-9]{1,19}")
_SIZE = re.compile(r"([0-9]{1,19})\s*([kmgt]?)b?", re.IGNORECASE | re.ASCII)
_SHARE = re.compile(r"0?\.[0-9]+")
_SIZE_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

Check = Callable[[str], bool]


def _one_of(*values: str) -> Check:
    return lambda text: text.lower() in {value.lower() for value in values}


def _is_count(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and 0 < int(text) <= 0x7FFFFFFF


def _is_column_count(text: str) -> bool:
    return text == "-1" or (_NUMBER.fullmatch(text) is not None and int(text) <= 0x7FFFFFFF)


def _is_interval(text: str) -> bool:
    return interval_ms(text) is not None


def _is_size(text: str) -> bool:
    return _SIZE.fullmatch(text.strip()) is not None


def _is_share(text: str) -> bool:
    return _SHARE.fullmatch(text.strip()) is not None and 0 < float(text) < 1


def _is_text(text: str) -> bool:
    return bool(text)


_FLAG = (_one_of("true", "false"), "true or false")
_COUNT = (_is_count, "a number above 0")
_DURATION = (_is_interval, "an interval such as 'interval 7 days'")
_BYTES = (_is_size, "a size such as 128mb")
_PART = (_is_share, "a number above 0 and below 1, such as 0.8")
_LEVELS = "serializable or snapshot"
_COLUMN_COUNT = (_is_column_count, "a number of columns, or -1 for all")

SETTABLE: Mapping[str, tuple[Check, str]] = MappingProxyType(
    {
        APPEND_ONLY_PROPERTY: _FLAG,
        "delta.autoOptimize": _FLAG,
        "delta.autoOptimize.autoCompact": (_one_of("true", "false", "auto", "legacy"), "true, false or auto"),
        "delta.autoOptimize.optimizeWrite": _FLAG,
        "delta.checkpoint.writeStatsAsJson": _FLAG,
        "delta.checkpoint.writeStatsAsStruct": _FLAG,
        CHECKPOINT_INTERVAL: _COUNT,
        CHECKPOINT_POLICY: (_one_of("classic", "v2"), "classic or v2"),
        "delta.checkpointRetentionDuration": _DURATION,
        MAPPING_MODE: (_one_of("none", "name", "id"), "none, name or id"),
        SYMLINK_MANIFEST: _FLAG,
        "delta.dataSkippingNumIndexedCols": _COLUMN_COUNT,
        "delta.dataSkippingStatsColumns": (_is_text, "a list of columns"),
        FILE_RETENTION: _DURATION,
        ENABLE_CHANGE_FEED: _FLAG,
        ENABLE_VECTORS: _FLAG,
        LOG_CLEANUP: _FLAG,
        "delta.enableFullRetentionRollback": _FLAG,
        ENABLE_TIMESTAMPS: _FLAG,
        ENABLE_MATERIALIZED_PARTITIONS: _FLAG,
        ENABLE_ROW_TRACKING: _FLAG,
        ENABLE_TYPE_WIDENING: _FLAG,
        # Other engines refuse a table with another level. If one has set another level, delvec follows it.
        ISOLATION_LEVEL: (_one_of("Serializable"), "Serializable"),
        **dict.fromkeys(VERB_ISOLATION.values(), (_one_of("serializable", "snapshot"), _LEVELS)),
        LOG_RETENTION: _DURATION,
        TRUNCATED_RETENTION: _DURATION,
        RANDOM_PREFIXES: _FLAG,
        RANDOM_PREFIX_LENGTH: _COUNT,
        ROW_TRACKING_SUSPENDED: _FLAG,
        "delta.sampleRetentionDuration": _DURATION,
        "delta.setTransactionRetentionDuration": _DURATION,
        TARGET_FILE_SIZE: _BYTES,
        "delta.tuneFileSizesForRewrites": _FLAG,
        REWRITE_SHARE: _PART,
    }
)

_BY_LOWER_CASE = {name.lower(): name for name in SETTABLE}


COMMENT = "comment"
"""Set like a property, as in Spark, but stored as the table's description."""


def verify_texts(properties: Mapping[str, object]) -> None:
    for name, value in properties.items():
        if value is not None and not isinstance(value, str):
            raise InvalidOperationError(f"property {name} is {value!r}, expected a string")


def verified(name: str, value: str | None) -> str:
    """The property's name in its canonical spelling. Refuses a value that must not be set; None unsets."""
    if name.lower().startswith(CONSTRAINT_PREFIX):
        return CONSTRAINT_PREFIX + name[len(CONSTRAINT_PREFIX) :].lower()
    canonical = _BY_LOWER_CASE.get(name.lower())
    if canonical is None and not name.lower().startswith(PREFIX):
        return name
    if canonical is None:
        raise UnsupportedFeatureError(
            f"property {name} cannot be set, expected a name without {PREFIX} or one of: "
            f"{', '.join(sorted(SETTABLE))}",
            feature=name,
        )
    check, expected = SETTABLE[canonical]
    if value is not None and not check(value):
        raise InvalidOperationError(f"property {canonical} is {value!r}, expected {expected}")
    return canonical


def is_on(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").lower() == "true"


def is_active(protocol: Protocol, properties: Mapping[str, str], feature: str, name: str) -> bool:
    """Whether the property is on and the protocol has the feature, without which it has no effect."""
    return feature in protocol.features_to_write and is_on(properties, name)


def count(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a number above 0."""
    text = properties.get(name)
    if text is None:
        return default
    if not _is_count(text):
        raise FormatError(f"property {name} is {text!r}, expected a number above 0")
    return int(text)


def size(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a number of bytes, plain or with a unit: ``134217728``, ``128mb``."""
    text = properties.get(name)
    if text is None:
        return default
    parsed = _SIZE.fullmatch(text.strip())
    if parsed is None:
        raise FormatError(f"property {name} is {text!r}, expected a size such as 128mb")
    return max(1, int(parsed[1]) << _SIZE_UNITS[parsed[2].lower()])


def interval_ms(text: str) -> int | None:
    """Milliseconds of ``interval 1 week`` or ``2 days 3 hours``; None if the text is not an interval."""
    if _INTERVAL.fullmatch(text.strip()) is None:
        return None
    words = text.lower().split()[text.strip().lower().startswith("interval") :]
    pairs = zip(words[::2], words[1::2], strict=True)
    duration = sum(int(number) * _NANOSECONDS[unit.removesuffix("s")] for number, unit in pairs) // 1_000_000
    return duration if duration < _MAX_DURATION_MS else None


def duration_ms(properties: Mapping[str, str], name: str, default: str) -> int:
    """A property that is an interval, in milliseconds."""
    text = properties.get(name, default)
    duration = interval_ms(text)
    if duration is None:
        raise FormatError(f"property {name} is {text!r}, expected {_DURATION[1]}")
    return duration


def isolation(properties: Mapping[str, str], verb: Verb) -> Isolation:
    """The isolation level of a verb on this table."""
    name = VERB_ISOLATION.get(verb)
    level = properties.get(name) if name is not None else None
    if level is not None:
        if level.lower() not in ("serializable", "snapshot"):
            raise FormatError(f"property {name} is {level!r}, expected {_LEVELS}")
        return Isolation(level.lower())
    snapshot = properties.get(ISOLATION_LEVEL, "").lower() == "snapshotisolation"
    return Isolation.SNAPSHOT if snapshot else Isolation.SERIALIZABLE


def share(properties: Mapping[str, str], name: str) -> float | None:
    """A property that is a number above 0 and below 1; None if it is not set."""
    text = properties.get(name)
    if text is None:
        return None
    if not _is_share(text):
        raise FormatError(f"property {name} is {text!r}, expected {_PART[1]}")
    return float(text)
