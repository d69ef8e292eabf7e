"""The connector: ``spark.read.format("delvec")``, a data source in Python.

Spark runs it in three places, each in its own process, and sends the objects between them:

    load()       ``schema``: opens the table and chooses the version, once
    planning     ``reader``, ``pushFilters``, ``partitions``: chooses files and cuts them into tasks
    executors    ``read``: returns rows as Arrow batches

Spark imports this module when it looks for any data source, so large modules are imported only where they are
used.

Such a process sends an error to the user as text. For errors of delvec that is their message alone
(`_plain_errors`). Other errors keep their traceback.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from delvec.errors import DelvecError, InvalidOperationError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from delvec.connector.batches import BatchScan
    from delvec.connector.pushdown import FilterTest
    from delvec.connector.tasks import FilePart
    from delvec.formats import Snapshot
    from delvec.plan import Base
    from delvec.schema import Schema, Struct
    from delvec.storage import Storage

_PUSHDOWN_WORKER = "data_source_pushdown_filters"
_WORKER_SETTING = "PYTHON_WORKER_FACTORY_"  # prefix of environment variables that Spark sets for its workers


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of delvec reach the user without a traceback of Spark's Python process.

    The process ends after an error, so the settings made here affect nothing else.
    """
    try:
        yield
    except DelvecError:
        if any(name.startswith(_WORKER_SETTING) for name in os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            sys.tracebacklimit = 0  # for a PySpark that does not know that setting
        raise


class _Shipped:
    """Objects that Spark sends to executors. If delvec is not installed there, the error says so."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilder(), (type(self).__name__, pickle.dumps(self._state()))

    def _state(self) -> dict[str, Any]:
        return self.__dict__


def _rebuilder() -> Callable[[str, bytes], Any]:
    def rebuild(name: str, state: bytes) -> Any:  # pickled by value: needs no delvec
        import importlib  # noqa: PLC0415
        import pickle  # noqa: PLC0415
        import sys  # noqa: PLC0415

        try:
            module = importlib.import_module("delvec.connector.source")
            loaded = pickle.loads(state)
        except ImportError as error:
            raise ImportError(
                f"delvec must be installed on the executors, with its dependencies: {error} "
                f"(Python at {sys.executable})"
            ) from error
        instance = object.__new__(getattr(module, name))
        instance.__dict__.update(loaded)
        return instance

    return rebuild


@dataclass(frozen=True)
class Relation:
    """One version of a table, as it was loaded. ``source`` is where another process opens it."""

    source: str
    options: Mapping[str, str]
    relocate: bool
    base: Base
    schema: Schema
    columns: tuple[str, ...]
    time_zone: str

    @property
    def chosen(self) -> Struct:
        """The requested columns, in the requested order."""
        from delvec.schema import Struct  # noqa: PLC0415

        by_name = {field.name: field for field in self.schema}
        return Struct(tuple(by_name[name] for name in self.columns))

    def open(self) -> tuple[Storage, Snapshot]:
        """The storage and the snapshot; refused if another table has replaced the table."""
        from delvec.detect import open_table  # noqa: PLC0415

        table = open_table(self.source, self.options, relocate=self.relocate)
        snapshot = table.snapshot_at(self.base)
        if snapshot.schema != self.schema:
            raise InvalidOperationError(
                f"the columns of version {self.base.version} have changed, because another table replaced "
                f"the one that was loaded: call load() again: {self.source}"
            )
        return table.storage, snapshot


class DelvecSource(_Shipped, DataSource):
    """The data source; its options are those of ``spark.options``."""

    _relation: Relation | None = None

    @classmethod
    def name(cls) -> str:
        return "delvec"

    @_plain_errors()
    def schema(self) -> StructType:
        from delvec.spark.types import logical, verify_readable  # noqa: PLC0415

        self._relation = load(self.options)
        for column in self._relation.chosen:
            verify_readable(column)
        return logical(self._relation.chosen)

    @_plain_errors()
    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the result of ``schema``
        if self._relation is None:
            raise InvalidOperationError(
                "the schema cannot be set, the table has one: select columns with the option `columns`"
            )
        return PushdownReader(self._relation) if _filters_are_pushed() else Reader(self._relation)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        return _NoStream()

    @_plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001 - Spark's signature
        raise UnsupportedFeatureError(
            'df.write.format("delvec") cannot write, expected Table.append(df), Table.overwrite(df) or '
            "Table.create(spark, path, df)",
            feature="write",
        )

    @_plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001, N802
        raise UnsupportedFeatureError(
            "delvec has no streaming write, expected Table.append(df) in foreachBatch", feature="writeStream"
        )


class _NoStream(DataSourceStreamReader):
    """Refuses a streaming read when it starts: ``load`` cannot know that it is one.

    If ``streamReader`` itself fails, Spark replaces the error by its own.
    """

    @_plain_errors()
    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise UnsupportedFeatureError(
            'delvec has no streaming read, expected spark.read.format("delvec") or Table.to_df()',
            feature="readStream",
        )

    initialOffset = latestOffset  # noqa: N815 - Spark may call either first

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - never called
        return iter(())


@dataclass
class Task(InputPartition):
    """The parts that one task reads."""

    parts: tuple[FilePart, ...]


class Reader(_Shipped, DataSourceReader):
    """Plans and reads one relation. Only the part that all tasks share is sent to executors, not the plan."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._tests: list[FilterTest] = []

    @cached_property
    @_plain_errors()
    def _planned(self) -> tuple[BatchScan, list[InputPartition]]:
        from delvec.connector import pushdown, tasks  # noqa: PLC0415
        from delvec.connector.batches import BatchScan  # noqa: PLC0415
        from delvec.connector.deleted_keys import KeyTests  # noqa: PLC0415
        from delvec.deletes.equality_skipping import needed_deletes  # noqa: PLC0415
        from delvec.predicate import SqlSettings, parse  # noqa: PLC0415

        relation = self._relation
        storage, snapshot = relation.open()
        text = pushdown.condition_text(self._tests)
        settings = SqlSettings(case_sensitive=True, time_zone=relation.time_zone)
        condition = None if text is None else parse(text, snapshot.schema, settings)
        plan = snapshot.plan(condition, time_zone=relation.time_zone)
        equality = needed_deletes(plan, condition)
        parts = tasks.packed(tasks.file_parts(plan, relation.columns, equality))
        shapes, keys = tasks.shapes(plan, relation.columns), KeyTests.of(plan, equality)
        scan = BatchScan(storage, shapes, tuple(self._tests), keys)
        return scan, [Task(together) for together in parts]

    @cached_property
    def scan(self) -> BatchScan:
        return self._planned[0]

    def _state(self) -> dict[str, Any]:
        return {"scan": self.scan}

    def partitions(self) -> list[InputPartition]:
        return self._planned[1]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        from delvec.connector.batches import read_parts  # noqa: PLC0415

        if isinstance(partition, Task):  # Spark passes None if there are no partitions
            with _plain_errors():
                yield from read_parts(self.scan, partition.parts)


class PushdownReader(Reader):
    """A reader that accepts filters. Spark refuses such a reader if filter push-down is off."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Keeps the filters that delvec evaluates exactly as Spark does; returns the others."""
        from delvec.connector.pushdown import read_filter  # noqa: PLC0415

        remaining = []
        for pushed in filters:
            test = read_filter(pushed, self._relation.chosen)
            if test is None:
                remaining.append(pushed)
            else:
                self._tests.append(test)
        return remaining


def load(options: Mapping[str, str]) -> Relation:
    """The relation for the options of ``spark.read``."""
    from delvec.connector.options import read_options  # noqa: PLC0415
    from delvec.formats import snapshot_of  # noqa: PLC0415
    from delvec.name_resolver import open_table, reference_to  # noqa: PLC0415
    from delvec.schema import bare  # noqa: PLC0415

    request = read_options(options)
    reference = reference_to(request.path, catalog=request.catalog, relocate=request.relocate)
    table = open_table(reference, lambda _: request.storage)
    snapshot = snapshot_of(table, request.version, request.timestamp, request.ref)
    return Relation(
        snapshot.source,
        table.storage.options,
        request.relocate,
        snapshot.base,
        bare(snapshot.schema),
        request.choose(snapshot.schema),
        request.time_zone,
    )


def _filters_are_pushed() -> bool:
    """Whether Spark creates the reader in order to push filters to it.

    The reader has no session to look this up. But Spark pushes filters in a separate worker process.
    """
    frame = sys._getframe()
    while frame is not None:
        if PurePath(frame.f_code.co_filename).stem == _PUSHDOWN_WORKER:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
