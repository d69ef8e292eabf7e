"""What every table format offers: how the command line, the checks and the engine see a table.

A format knows nothing of these names: it fits them by having the attributes. ``detect.open_table`` finds
which format is at a location.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from delvec.errors import FormatError
    from delvec.partition_spec import PartitionField, PartitionSpec
    from delvec.plan import ScanPlan
    from delvec.predicate import Condition
    from delvec.row_delta import Isolation, MetadataChange, Outcome, RowDelta, Verb, Won, WriteRules
    from delvec.schema import Schema
    from delvec.storage import Storage


class Snapshot(Protocol):
    """One version of a table. It never changes, and no plan made from it differs from another."""

    @property
    def format(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def location(self) -> str: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def properties(self) -> Mapping[str, str]:
        """What users set on the table, by name."""
        ...

    @property
    def spec(self) -> PartitionSpec:
        """The partitioning of files that are written now."""
        ...

    def plan(
        self,
        where: Condition | None = None,
        *,
        time_zone: str = ...,
        among: pa.Array | None = None,
    ) -> ScanPlan:
        """The files that may have a row for which ``where`` is true; all files without it.

        ``where`` is bound to the columns of this snapshot (`predicate.parse`).
        ``time_zone``: the zone of recorded timestamps that name none; UTC if it is not given.
        ``among``: only files of these names (``raw_location``). Names of files that are not live are ignored.
        """
        ...

    def names(self, file_ids: pa.Array) -> pa.Array:
        """The names (``raw_location``) of files by their ids."""
        ...

    def isolation(self, verb: Verb) -> Isolation:
        """What the table asks of writers."""
        ...

    @property
    def txns(self) -> Mapping[str, int]:
        """The last version that each idempotent writer has written."""
        ...

    def rules(self, change: MetadataChange | None = None, *, new_rows: bool = True) -> WriteRules:
        """How rows are to be written, after ``change`` where it is given.

        The schema of the rules is then the one to commit. ``new_rows`` false: rows will only be removed.
        A table that cannot be written right is refused by the name of the feature.
        """
        ...

    @property
    def passed_over(self) -> Sequence[FormatError]:
        """Damaged files of the metadata that the version could be read without."""
        ...

    def details(self) -> Mapping[str, Any]:
        """What is told of the version in the format's own words: numbers, texts and lists of texts."""
        ...


class Table(Protocol):
    """A table at a location."""

    @property
    def format(self) -> str: ...

    @property
    def location(self) -> str: ...

    @property
    def storage(self) -> Storage: ...

    def snapshot(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Snapshot:
        """The newest version, or the one asked for by number or by the time it was the newest."""
        ...

    def draft(
        self,
        schema: Schema,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """The snapshot before the first commit of a new table. The first commit is made on top of it.

        A partitioning that the format does not have is refused by the name of the transform.
        """
        ...

    def commit(self, snapshot: Any, delta: RowDelta) -> Outcome:
        """Put ``delta``, made from ``snapshot``, on top of it, unless another commit is there already.

        ``snapshot`` is one of this table's.
        """
        ...

    def won(self, since: Any, until: Any) -> Sequence[Won]:
        """The commits after the snapshot ``since`` up to the snapshot ``until``, in order."""
        ...

    def committed_at(self, version: int) -> dt.datetime | None:
        """When the version was committed; None where that is no longer recorded."""
        ...

    def history(self, limit: int | None = None) -> pa.Table:
        """The recorded commits, newest first.

        Columns: version, timestamp, operation, parameters, metrics, read_version, isolation_level,
        is_blind_append, user_name, engine.
        """
        ...


OptionsFor = Callable[[str], Mapping[str, str]]
"""The storage options for a location."""


@runtime_checkable
class Catalog(Protocol):
    """Finds tables by name."""

    def open_table(self, identifier: Sequence[str], options_for: OptionsFor) -> Table:
        """The table with this identifier, such as ``("db", "orders")``; TableNotFoundError if none has it."""
        ...
