"""Metadata of version 4: expressions instead of transforms in partition specs, root manifests, the mark."""

from __future__ import annotations

import json

import pytest

from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.metadata import parse_metadata
from delvec.iceberg.metadata_change import verified_properties
from delvec.iceberg.tree.mark import MARK, SINCE
from delvec.iceberg.tree.measured_columns import of_metadata
from delvec.iceberg.updated_metadata import apply_updates, metadata_bytes, new_metadata, parsed
from delvec.schema import Primitive

PATH = "t/metadata/v1.metadata.json"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "ts", "required": False, "type": "timestamp"},
        {"id": 3, "name": "name", "required": False, "type": "string"},
    ],
}


def field(source_id, transform, name, field_id):
    return {"source-id": source_id, "transform": transform, "name": name, "field-id": field_id}


DAY, BUCKET = field(2, "day", "ts_day", 1000), field(1, "bucket[16]", "id_bucket", 1001)
NAME = field(3, "identity", "name", 1002)


def created(version=4, *fields):
    """The first metadata of a table with this partitioning."""
    return new_metadata(
        [
            updates.assign_uuid("u"),
            updates.upgrade_format_version(version),
            updates.add_schema(SCHEMA, 3),
            updates.set_current_schema(),
            updates.add_spec({"spec-id": 0, "fields": list(fields)}),
            updates.set_default_spec(),
            updates.add_sort_order({"order-id": 0, "fields": []}),
            updates.set_default_sort_order(),
            updates.set_location("/t"),
            updates.set_properties({"a": "b"}),
        ],
        now_ms=5,
    )


def after(members, *changes):
    return apply_updates(parsed(members, PATH), list(changes), now_ms=9, file=PATH)


def snapshot(number, sequence, **members):
    return {
        "snapshot-id": number,
        "sequence-number": sequence,
        "timestamp-ms": 5,
        "summary": {"operation": "append"},
        "schema-id": 0,
        "first-row-id": 0,
        "added-rows": 0,
        **members,
    }


ROOT, LIST = {"root-manifest": "/t/metadata/root.parquet"}, {"manifest-list": "/t/metadata/list.avro"}


def test_a_new_table_has_expressions_with_ids_of_their_own():
    members = created(4, DAY, NAME)
    assert members["expressions"] == [
        {
            "expr-id": 4,
            "expr": {"source-id": 2, "transform": "day", "name": "ts_day"},
            "partition-field-id": 1000,
        },
        {
            "expr-id": 3,
            "expr": {"source-id": 3, "transform": "identity", "name": "name"},
            "partition-field-id": 1002,
        },
    ]
    assert members["partition-specs"] == [{"spec-id": 0, "fields": [{"expr-id": 4}, {"expr-id": 3}]}]
    assert (members["last-column-id"], members["last-partition-id"]) == (4, 1002)
    assert members["properties"] == {MARK: "seed-1", SINCE: "0", "a": "b"}


def test_it_is_read_as_the_same_specs_as_those_of_version_3():
    tree, plain = (parsed(created(version, DAY, BUCKET, NAME), PATH) for version in (4, 3))
    assert tree.specs == plain.specs
    assert tree.spec_json(0) == plain.spec_json(0)
    assert tree.spec_json(0)["fields"] == [
        {"field-id": 1000, "source-id": 2, "name": "ts_day", "transform": "day"},
        {"field-id": 1001, "source-id": 1, "name": "id_bucket", "transform": "bucket[16]"},
        {"field-id": 1002, "source-id": 3, "name": "name", "transform": "identity"},
    ]
    assert [part.expr_id for part in tree.raw_specs[0].fields] == [4, 5, 3]
    assert sorted(tree.expressions) == [3, 4, 5]


def test_measured_columns_of_a_table():
    columns = of_metadata(parsed(created(4, DAY, BUCKET), PATH))
    assert list(columns.types) == [4, 5, 1, 2, 3]
    assert {part.expr_id: part.field.type for part in columns.expressions[0]} == {
        4: Primitive("date"),
        5: Primitive("integer"),
    }


def test_new_columns_have_ids_above_those_of_expressions():
    members = created(4, DAY, BUCKET)
    assert members["last-column-id"] == 5
    wider = {
        **SCHEMA,
        "schema-id": 1,
        "fields": [*SCHEMA["fields"], {**SCHEMA["fields"][0], "id": 6, "name": "x"}],
    }
    assert after(members, updates.add_schema(wider, 6))["last-column-id"] == 6


def test_specs_share_expressions():
    members = after(
        created(4, DAY),
        updates.add_spec({"spec-id": 1, "fields": [BUCKET, DAY]}),
        updates.set_default_spec(),
        updates.add_spec({"spec-id": 7, "fields": [DAY]}),  # an equal one exists
        updates.set_default_spec(),
    )
    assert [item["expr-id"] for item in members["expressions"]] == [4, 5]
    assert members["partition-specs"] == [
        {"spec-id": 0, "fields": [{"expr-id": 4}]},
        {"spec-id": 1, "fields": [{"expr-id": 5}, {"expr-id": 4}]},
    ]
    assert (members["default-spec-id"], members["last-partition-id"]) == (0, 1001)


def test_expressions_that_no_spec_uses_are_kept():
    members = created(4, DAY)
    lower = {"expr-id": 40, "expr": {"source-id": 3, "transform": "lower", "name": "l"}, "more": 1}
    members["expressions"].append(lower)
    changed = after(members, updates.add_spec({"spec-id": 1, "fields": [BUCKET]}), updates.set_default_spec())
    assert changed["expressions"][1] == lower
    assert changed["partition-specs"][1] == {"spec-id": 1, "fields": [{"expr-id": 41}]}
    assert parsed(changed, PATH).expressions[40].partition_field_id is None


# Upgrade


def version_3(*specs):
    """Metadata of version 3 with these specs and one snapshot."""
    members = created(3, *specs[0])
    for number, fields in enumerate(specs[1:], 1):
        members = after(
            members, updates.add_spec({"spec-id": number, "fields": list(fields)}), updates.set_default_spec()
        )
    return after(members, updates.add_snapshot(snapshot(7, 3, **LIST)), updates.set_snapshot_ref("main", 7))


def test_an_upgrade_converts_all_specs_and_keeps_the_rest():
    old = version_3([DAY], [BUCKET, DAY], [NAME])
    members = after(old, updates.upgrade_format_version(4))
    assert members["partition-specs"] == [
        {"spec-id": 0, "fields": [{"expr-id": 4}]},
        {"spec-id": 1, "fields": [{"expr-id": 5}, {"expr-id": 4}]},
        {"spec-id": 2, "fields": [{"expr-id": 3}]},
    ]
    assert members["last-column-id"] == 5
    assert members["properties"] == {MARK: "seed-1", SINCE: "3", "a": "b"}
    metadata, before = parsed(members, PATH), parsed(old, PATH)
    assert metadata.specs == before.specs
    assert metadata.snapshots == before.snapshots
    assert metadata.snapshots[7].root_manifest is None
    changed = {"format-version", "expressions", "partition-specs", "last-column-id", "properties"}
    changed |= {"last-updated-ms", "metadata-log"}
    assert {key: value for key, value in members.items() if key not in changed} == {
        key: value for key, value in old.items() if key not in changed
    }


def test_a_field_keeps_its_own_name_and_id_if_its_expression_has_others():
    """As tables that were once of version 1 have them."""
    other = field(2, "day", "day_of_ts", 1005)
    members = after(version_3([DAY], [other]), updates.upgrade_format_version(4))
    assert members["partition-specs"][1]["fields"] == [
        {"expr-id": 4, "name": "day_of_ts", "partition-field-id": 1005}
    ]
    assert parsed(members, PATH).specs == parsed(version_3([DAY], [other]), PATH).specs


def test_a_transform_with_several_arguments_round_trips_and_is_unknown():
    several = {"source-ids": [1, 3], "transform": "zorder[4]", "name": "b2", "field-id": 1003}
    members = created(3, DAY)
    members["partition-specs"].append({"spec-id": 1, "fields": [several]})
    members = after(members, updates.upgrade_format_version(4))
    assert members["expressions"][1]["expr"] == {"source-ids": [1, 3], "transform": "zorder[4]", "name": "b2"}
    # Several arguments for a transform that has one, as the proposal's example has it.
    members["expressions"][1]["expr"]["transform"] = "bucket[16]"
    metadata = parsed(members, PATH)
    part = metadata.specs[1].fields[0]
    assert (part.source, part.transform.is_known, str(part.transform)) == ((), False, "bucket[16]")
    assert metadata.spec_json(1)["fields"] == [{**several, "transform": "bucket[16]"}]
    assert after(members, updates.set_properties({"x": "y"}))["expressions"] == members["expressions"]


def test_the_partition_field_id_may_stand_inside_of_the_expression():
    members = created(4, DAY)
    inside = members["expressions"][0]
    inside["expr"]["partition-field-id"] = inside.pop("partition-field-id")
    assert parsed(members, PATH).spec_json(0)["fields"][0]["field-id"] == 1000


# Snapshots


def test_a_snapshot_has_a_root_manifest():
    members = after(
        created(4), updates.add_snapshot(snapshot(7, 1, **ROOT)), updates.set_snapshot_ref("main", 7)
    )
    record = parsed(members, PATH).snapshots[7]
    assert (record.root_manifest, record.manifest_list, record.manifests) == (ROOT["root-manifest"], None, ())
    assert json.loads(metadata_bytes(members))["snapshots"][0]["root-manifest"] == ROOT["root-manifest"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "snapshot 7 has no root-manifest and manifest-list, expected a root-manifest"),
        (ROOT | LIST, "snapshot 7 has both a root-manifest and manifest-list, expected a root-manifest"),
    ],
)
def test_a_snapshot_has_either_a_root_or_a_list(members, message):
    broken = created(4) | {"snapshots": [snapshot(7, 1, **members)], "last-sequence-number": 1}
    with pytest.raises(FormatError, match=f"{message}.*: {PATH}"):
        parsed(broken, PATH)


def test_a_manifest_list_that_is_newer_than_the_upgrade_is_refused_by_name():
    """As a writer commits it that takes the table for one of version 3."""
    upgraded = after(
        version_3([DAY]),
        updates.upgrade_format_version(4),
        updates.add_snapshot(snapshot(8, 4, **ROOT)),
        updates.set_snapshot_ref("main", 8),
    )
    assert [record.root_manifest for record in parsed(upgraded, PATH).snapshots.values()] == [
        None,
        ROOT["root-manifest"],
    ]
    for base in (upgraded, created(4)):
        foreign = {**base, "snapshots": [*base["snapshots"], snapshot(9, 5, **LIST)]}
        with pytest.raises(
            UnsupportedFeatureError, match=f"snapshot 9 has a manifest list, but is newer .*{PATH}"
        ):
            parsed(foreign, PATH)


# The mark


def without(members, name):
    return {**members, "properties": {k: v for k, v in members["properties"].items() if k != name}}


def test_a_table_of_another_writer_is_refused_by_name():
    with pytest.raises(
        UnsupportedFeatureError, match=f"version is 4 without the property .*: {PATH}"
    ) as caught:
        parsed(without(created(4), MARK), PATH)
    assert caught.value.feature == "format version 4 with manifest lists"
    other = created(4)
    other["properties"][MARK] = "upstream-1"
    with pytest.raises(UnsupportedFeatureError, match=f"property {MARK} is 'upstream-1', expected seed-1"):
        parsed(other, PATH)
    with pytest.raises(FormatError, match=f"property {SINCE} is '', expected a sequence number: {PATH}"):
        parsed(without(created(4), SINCE), PATH)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", [MARK, SINCE])
def test_the_mark_cannot_be_changed(version, name):
    members = created(version)
    value = members["properties"].get(name)
    for change in (updates.set_properties({name: "9"}), updates.remove_properties([name])):
        if version == 3 and change["action"] == "remove-properties":
            continue
        with pytest.raises(InvalidOperationError, match=f"property {name} is reserved"):
            after(members, change)
    for requested in ("x", None, value):
        with pytest.raises(InvalidOperationError, match=f"property {name} is reserved"):
            verified_properties({name: requested})
    if value is not None:
        assert after(members, updates.set_properties({name: value}))["properties"] == members["properties"]


def test_version_5_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="format version is 5, expected 1, 2"):
        parse_metadata(metadata_bytes(created(4) | {"format-version": 5}), PATH)
    with pytest.raises(InvalidOperationError, match="format version is 5, expected 2, 3 or 4"):
        after(created(4), updates.upgrade_format_version(5))
    with pytest.raises(InvalidOperationError, match="format version is 3, expected at least the table's, 4"):
        after(created(4), updates.upgrade_format_version(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m["partition-specs"][0]["fields"][0].update({"expr-id": 9}),
            "partition spec 0 is 9, expected one of 3, 4",
        ),
        (
            lambda m: m["expressions"].append(m["expressions"][0]),
            "expression 4 is listed twice, expected once",
        ),
        (
            lambda m: m["expressions"][0].pop("partition-field-id"),
            "expression 4 of partition spec 0 has no partition",
        ),
        (lambda m: m["expressions"][1].update({"expr-id": 8}), "identity of column 3 is 8, expected its id"),
        (lambda m: m["expressions"][0].pop("expr"), "expr of expression 4 is None, expected an object"),
        (
            lambda m: m["expressions"][0]["expr"].pop("transform"),
            "transform of expr of expression 4 is missing",
        ),
        (
            lambda m: m["expressions"][0]["expr"].pop("source-id"),
            "source-id of expr of expression 4 is missing",
        ),
        (lambda m: m["partition-specs"][0].pop("spec-id"), "spec-id of .* is missing"),
        (
            lambda m: m["expressions"][1]["expr"].update({"name": "ts_day"}),
            "has fields 'ts_day', 'ts_day', expected different",
        ),
    ],
)
def test_broken_expressions_are_refused_with_the_file(change, message):
    members = json.loads(json.dumps(created(4, DAY, NAME)))
    change(members)
    with pytest.raises(FormatError, match=f"{message}.*: {PATH}"):
        parsed(members, PATH)
