"""A delete that delvec does not apply is refused by name, wherever a plan is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from delvec import detect, verify
from delvec.connector import tasks
from delvec.deletes.applied import verify_applied
from delvec.deletes.loader import load_vectors
from delvec.errors import UnsupportedFeatureError
from delvec.plan import ScanPlan


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
    return replace(plan, deletes=with_value(plan.deletes, "kind", 2, "equality"))


def with_encoding(plan: ScanPlan) -> ScanPlan:
    return replace(plan, deletes=with_value(plan.deletes, "encoding", 2, "parquet-positions"))


def with_format(plan: ScanPlan) -> ScanPlan:
    return replace(plan, files=with_value(plan.files, "file_format", 2, "orc"))


def with_group(plan: ScanPlan) -> ScanPlan:
    """A file to which a group of deletes applies, each of a kind that is applied where it is a file's own."""
    return replace(plan, files=with_value(plan.files, "delete_group", 2, 0), delete_groups=((0, 1),))


ALTERED = [
    (with_kind, "equality", "delete of {file} has the kind 'equality', expected 'position-vector'"),
    (with_encoding, "parquet-positions", "delete of {file} has the encoding 'parquet-positions', expected"),
    (with_format, "orc", "data file has the format 'orc': {file}, expected 'parquet'"),
    (with_group, "position-vector", "a group of deletes of the kind 'position-vector' applies to {file}"),
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
        verify.verify_plan(altered(plan), storage)
    with pytest.raises(UnsupportedFeatureError):
        list(tasks.file_parts(altered(plan), ["order_id"]))


@pytest.mark.parametrize("altered", [with_kind, with_encoding])
def test_by_the_loader(plan: ScanPlan, altered: Callable[[ScanPlan], ScanPlan]) -> None:
    storage = detect.open_table(plan.location).storage
    with pytest.raises(UnsupportedFeatureError):
        load_vectors(storage, altered(plan).deletes)
