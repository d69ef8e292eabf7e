"""The values between vacuum and a format: what may be removed, what may not, and what the history records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

STAGING = "_delvec_staging"
"""The folder below a table's location for files that delvec has not moved to their places yet."""


@dataclass(frozen=True, slots=True)
class HiddenNames:
    """Names of files and folders that vacuum passes over: those that start with one of ``prefixes``, unless
    they start with one of ``visible``.
    """

    prefixes: tuple[str, ...]
    visible: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        return name.startswith(self.prefixes) and not name.startswith(self.visible)

    def mask(self, names: pa.Array) -> pa.Array:
        """``has`` for each name of a column."""
        return pc.and_not(_starts_with(names, self.prefixes), _starts_with(names, self.visible))


def _starts_with(names: pa.Array, prefixes: tuple[str, ...]) -> pa.Array:
    mask = pa.repeat(pa.scalar(False), len(names))  # noqa: FBT003
    for prefix in prefixes:
        mask = pc.or_(mask, pc.starts_with(names, prefix))
    return mask


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How vacuum treats a table.

    default_ms     how long the table keeps files that no live version needs
    property       the property that sets it, for messages
    hidden         names that vacuum passes over
    table_folders  names of folders that only a table has. A folder below this table that holds one of them is
                   another table, and vacuum leaves it alone
    records        the history has an entry for the start and the end of a run
    """

    default_ms: int
    property: str
    hidden: HiddenNames
    table_folders: frozenset[str]
    records: bool = True


@dataclass(frozen=True, slots=True)
class Protected:
    """The files that the table at ``version`` and the versions that it retains need.

    locations   absolute and decoded, as text, in parts; each part is read when it is taken, once. Files
                outside of the table may be among them
    state       of the format: what the answer was made from
    """

    version: int
    locations: Iterable[pa.ChunkedArray]
    state: object = None


EXPIRED_SCHEMA = pa.schema(
    [
        pa.field("location", pa.large_string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
    ]
)
"""Columns of ``Expired.files``. ``location`` is absolute and decoded. ``metric``: the name under which the
result of vacuum counts the file.
"""


@dataclass(frozen=True, slots=True)
class Expired:
    """The versions that a vacuum removes from the metadata.

    versions        how many
    refs            the names of branches and tags that go with them
    files           the files that these versions need; versions that are kept may need some of them too
    metrics         further counts for the result
    orphan_metric   the name under which the result counts files that no version has
    state           of the format: what ``Vacuumable.protected`` must know about a dry run
    """

    versions: int
    refs: tuple[str, ...]
    files: pa.Table
    metrics: Mapping[str, int] = field(default_factory=dict)
    orphan_metric: str = ""
    state: object = None


@dataclass(frozen=True, slots=True)
class VacuumRecord:
    """A run of vacuum, for the history: before it deletes files (``completed`` None), and after it.

    default_ms    how long the table keeps files
    retain_ms     how long this run keeps them, if the user said
    checked       a shorter time than the table's was not allowed
    files, bytes  how much the run is going to delete, or has deleted; empty folders count as files
    folders       how many folders were listed
    """

    default_ms: int
    retain_ms: int | None
    checked: bool
    files: int
    bytes: int
    folders: int
    completed: bool | None = None


@dataclass(frozen=True, slots=True)
class Unneeded:
    """Files that the metadata still records though no live version needs them. ``expired``: those that
    vacuum may remove now. ``expired_versions``: versions that vacuum would remove from the metadata.
    """

    files: int = 0
    bytes: int = 0
    expired_files: int = 0
    expired_bytes: int = 0
    expired_versions: int = 0
