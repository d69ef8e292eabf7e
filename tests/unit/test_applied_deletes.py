"""A delete that delvec does not apply is refused by name, wherever a plan is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from delvec import detect, verify
from delvec.bitmap import Bitmap
from delvec.cli.dv import list_vectors
from delvec.cli.files import list_plan
from delvec.conflicts import rebased
from delvec.connector import tasks
from delvec.deletes.new_vectors import new_vector
from delvec.deletes.sets import DeleteSets
from delvec.deletes.supported_kinds import verify_applied
from delvec.errors import UnsupportedFeatureError
from delvec.plan import ScanPlan
from delvec.row_delta import VECTORS_SCHEMA, Operation, Read, Request, RowDelta, Verb, Won


@pytest.fixture
def plan(tmp_path) -> ScanPlan:
    """Of a table whose four files have vectors."""
    detect.write_sample_table(str(tmp_path / "orders"))
    return detect.open_table(str(tmp_path / "orders")).snapshot().plan()


def with_value(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    values = table.column(name).to_pylist()
    values[row] = value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def with_kind(plan: ScanPlan) -> ScanPlan:
    """As the vector of a file: equality files are only in groups."""
    return replace(plan, deletes=with_value(plan.deletes, "kind", 2, "equality-file"))


def with_unknown_kind(plan: ScanPlan) -> ScanPlan:
    return replace(plan, deletes=with_value(plan.deletes, "kind", 2, "bloom"))


def with_position_file(plan: ScanPlan) -> ScanPlan:
    """As the vector of a file: position files are only in groups."""
    return replace(plan, deletes=with_value(plan.deletes, "kind", 2, "position-file"))


def with_encoding(plan: ScanPlan) -> ScanPlan:
    return replace(plan, deletes=with_value(plan.deletes, "encoding", 2, "parquet-positions"))


def with_format(plan: ScanPlan) -> ScanPlan:
    return replace(plan, files=with_value(plan.files, "file_format", 2, "orc"))


def with_file_format(plan: ScanPlan) -> ScanPlan:
    """A position file in Avro, in the group of a file."""
    deletes = plan.deletes
    for name, value in (("kind", "position-file"), ("encoding", "full-row"), ("file_format", "avro")):
        deletes = with_value(deletes, name, 3, value)
    files = with_value(plan.files, "delete_group", 2, 0)
    (row,) = [row for row, v in enumerate(plan.files.column("vector").to_pylist()) if v == 3]
    files = with_value(files, "vector", row, None)
    return replace(plan, files=files, deletes=deletes, delete_groups=((3,),))


def with_group(plan: ScanPlan) -> ScanPlan:
    """A file with a group of vectors: a vector must be the file's own."""
    return replace(plan, files=with_value(plan.files, "delete_group", 2, 0), delete_groups=((0, 1),))


def with_unknown_group(plan: ScanPlan) -> ScanPlan:
    return replace(plan, files=with_value(plan.files, "delete_group", 2, 7))


ALTERED = [
    (
        with_kind,
        "equality-file",
        "delete of {file} has the kind 'equality-file', expected 'position-vector'",
    ),
    (with_unknown_kind, "bloom", "delete of {file} has the kind 'bloom', expected"),
    (
        with_position_file,
        "position-file",
        "delete of {file} has the kind 'position-file', expected 'position-vector'",
    ),
    (with_encoding, "parquet-positions", "delete of {file} has the encoding 'parquet-positions', expected"),
    (with_file_format, "avro", "has the file format 'avro', expected 'parquet'"),
    (with_format, "orc", "data file has the format 'orc': {file}, expected 'parquet'"),
    (with_group, "position-vector", "a group of deletes of the kind 'position-vector' applies to {file}"),
    (with_unknown_group, "unknown", "a group of deletes of the kind 'unknown' applies to {file}"),
]


@pytest.mark.parametrize(("altered", "feature", "message"), ALTERED)
def test_what_is_not_applied_is_named(
    plan: ScanPlan, altered: Callable[[ScanPlan], ScanPlan], feature: str, message: str
) -> None:
    verify_applied(plan)
    changed = altered(plan)
    (row,) = [row for row, v in enumerate(plan.files.column("vector").to_pylist()) if v == 2]
    at = row if changed.files is plan.files else 2
    with pytest.raises(UnsupportedFeatureError) as refused:
        verify_applied(changed)
    assert message.format(file=plan.files.column("location")[at].as_py()) in str(refused.value)
    assert refused.value.feature == feature


@pytest.mark.parametrize("altered", [case[0] for case in ALTERED])
def test_by_checks_and_by_the_connector(plan: ScanPlan, altered: Callable[[ScanPlan], ScanPlan]) -> None:
    storage = detect.open_table(plan.location).storage
    with pytest.raises(UnsupportedFeatureError):
        DeleteSets.of(altered(plan))
    with pytest.raises(UnsupportedFeatureError):
        verify.verify_plan(altered(plan), storage)
    with pytest.raises(UnsupportedFeatureError):
        list(tasks.file_parts(altered(plan), ["order_id"]))
    with pytest.raises(UnsupportedFeatureError):
        list_vectors(altered(plan), storage, ranges=1, limit=0)


@pytest.mark.parametrize("altered", [with_kind, with_unknown_kind, with_encoding])
def test_by_executors(plan: ScanPlan, altered: Callable[[ScanPlan], ScanPlan]) -> None:
    """They get a description, not a plan."""
    with pytest.raises(UnsupportedFeatureError):
        DeleteSets.of_vectors(altered(plan).deletes)


def test_by_conflicts(plan: ScanPlan, monkeypatch) -> None:
    """A writer that lost to a commit with such a delete."""
    table = detect.open_table(plan.location)
    base = table.snapshot()
    planned = type(base).plan

    def plan_with_group(self: object, **given: object) -> ScanPlan:
        found = planned(self, **given)
        return replace(found, files=with_value(found.files, "delete_group", 0, 0), delete_groups=((0,),))

    monkeypatch.setattr(type(base), "plan", plan_with_group)
    vectors = pa.Table.from_pylist([new_vector(2, Bitmap.of(0), None)], schema=VECTORS_SCHEMA)
    delta = RowDelta(base.base, Request(Operation.DELETE), Read("x"), Verb.DELETE, vectors=vectors)
    won = [Won(base.version + 1, "DELETE", Verb.DELETE)]
    with pytest.raises(UnsupportedFeatureError, match="a group of deletes"):
        rebased(delta, base, base, won, storage=table.storage, probe=None)


def test_metadata_of_such_a_table_is_still_shown(plan: ScanPlan) -> None:
    """Files are listed without reading deletes; their deleted rows are not known."""
    files = list_plan(with_group(plan), None, 0).files
    assert [file["deleted"] is None for file in files] == [False, False, True, False]
    assert files[2]["live"] is None
