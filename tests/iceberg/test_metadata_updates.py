"""Updates of metadata, compared with those of pyiceberg, and what is refused."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg import metadata_updates as updates
from delvec.iceberg.metadata import parse_metadata
from delvec.iceberg.updated_metadata import apply_updates, new_metadata, parsed
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
FILE = "/lake/t/metadata/v7.metadata.json"
LATER = 4_000_000_000_000


def document_of(tmp_path, version=3, **options):
    table = IcebergWriter(tmp_path / f"v{version}", COLUMNS, format_version=version, **options)
    table.append([{"id": 1, "name": "a"}])
    table.set_tag("first", table.head.id)
    table.append([{"id": 2, "name": "b"}])
    return table.metadata()


def applied(document, *changes, now_ms=LATER, file=FILE):
    metadata = parse_metadata(json.dumps(document).encode(), FILE)
    before = json.dumps(metadata.raw)
    members = apply_updates(metadata, changes, now_ms=now_ms, file=file)
    assert json.dumps(metadata.raw) == before
    parsed(members, FILE)
    return members


def snapshot(document, snapshot_id, **members):
    found = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": document["current-snapshot-id"],
        "sequence-number": document["last-sequence-number"] + 1,
        "timestamp-ms": document["last-updated-ms"] + 10,
        "manifest-list": f"/lake/t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if document["format-version"] > 2:
        found |= {"first-row-id": document["next-row-id"], "added-rows": 3}
    return {**found, **members}


def new_table(*more, version=3):
    return [
        updates.assign_uuid("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        updates.upgrade_format_version(version),
        updates.add_schema(SCHEMA, 1),
        updates.set_current_schema(),
        updates.add_spec({"spec-id": 0, "fields": []}),
        updates.set_default_spec(),
        updates.add_sort_order({"order-id": 0, "fields": []}),
        updates.set_default_sort_order(),
        updates.set_location("/lake/t"),
        *more,
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_a_new_table_as_pyiceberg_reads_it(version):
    from pyiceberg.table.metadata import TableMetadataUtil

    members = new_metadata(new_table(updates.set_properties({"a": "b"}), version=version), now_ms=5)
    theirs = TableMetadataUtil.parse_obj(members)
    assert theirs.format_version == version
    assert (theirs.location, theirs.properties, theirs.last_updated_ms) == ("/lake/t", {"a": "b"}, 5)
    assert theirs.current_snapshot_id is None
    assert members["current-snapshot-id"] is None
    assert members.get("next-row-id") == (0 if version == 3 else None)
    assert theirs.schema().fields[0].name == "id"
    assert members["last-partition-id"] == 999
    assert parsed(members, FILE).format_version == version


def test_the_first_snapshot_of_a_new_table():
    members = new_metadata(
        new_table(
            updates.add_snapshot(
                snapshot(
                    {
                        "format-version": 3,
                        "current-snapshot-id": None,
                        "last-sequence-number": 0,
                        "last-updated-ms": 5,
                        "next-row-id": 0,
                    },
                    7,
                )
            ),
            updates.set_snapshot_ref("main", 7),
        ),
        now_ms=5,
    )
    assert (members["current-snapshot-id"], members["next-row-id"]) == (7, 3)
    assert members["snapshot-log"] == [{"timestamp-ms": 15, "snapshot-id": 7}]
    assert members["last-updated-ms"] == 15


@pytest.mark.parametrize("version", [2, 3])
def test_a_commit(tmp_path, version):
    document = {**document_of(tmp_path, version), "something-new": {"a": [1]}}
    new = snapshot(document, 77)
    members = applied(
        document, updates.add_snapshot(new), updates.set_snapshot_ref("main", 77), now_ms=new["timestamp-ms"]
    )
    assert members["snapshots"] == [*document["snapshots"], new]
    assert members["current-snapshot-id"] == 77
    assert members["refs"] == {
        **document["refs"],
        "main": {"snapshot-id": 77, "type": "branch"},
    }
    assert members["snapshot-log"] == [
        *document["snapshot-log"],
        {"timestamp-ms": new["timestamp-ms"], "snapshot-id": 77},
    ]
    assert members["metadata-log"][-1] == {
        "timestamp-ms": document["last-updated-ms"],
        "metadata-file": FILE,
    }
    assert members["last-sequence-number"] == document["last-sequence-number"] + 1
    assert members["last-updated-ms"] == new["timestamp-ms"]
    assert members["something-new"] == {"a": [1]}
    if version == 3:
        assert members["next-row-id"] == document["next-row-id"] + 3


def test_clocks_that_go_back(tmp_path):
    document = document_of(tmp_path)
    members = applied(document, updates.set_properties({"a": "b"}), now_ms=1)
    assert members["last-updated-ms"] == document["last-updated-ms"]
    new = snapshot(document, 77, **{"timestamp-ms": 9})
    members = applied(document, updates.add_snapshot(new), updates.set_snapshot_ref("main", 77), now_ms=9)
    times = [entry["timestamp-ms"] for entry in members["snapshot-log"]]
    assert times == sorted(times)


def test_a_commit_on_a_branch_leaves_main(tmp_path):
    document = document_of(tmp_path)
    members = applied(
        document,
        updates.add_snapshot(snapshot(document, 77)),
        updates.set_snapshot_ref("audit", 77, retention={"max-ref-age-ms": 5, "min-snapshots-to-keep": 2}),
    )
    assert members["current-snapshot-id"] == document["current-snapshot-id"]
    assert members["snapshot-log"] == document["snapshot-log"]
    assert members["refs"]["audit"] == {
        "snapshot-id": 77,
        "type": "branch",
        "max-ref-age-ms": 5,
        "min-snapshots-to-keep": 2,
    }
    assert "audit" not in applied(members, updates.remove_snapshot_ref("audit"))["refs"]


def test_a_rollback_is_logged_at_its_own_time(tmp_path):
    document = document_of(tmp_path)
    old = document["refs"]["first"]["snapshot-id"]
    members = applied(document, updates.set_snapshot_ref("main", old))
    assert members["current-snapshot-id"] == old
    assert members["snapshot-log"][-1] == {"timestamp-ms": LATER, "snapshot-id": old}


def test_removed_snapshots_take_their_statistics_refs_and_log_with_them(tmp_path):
    document = document_of(tmp_path)
    old, new = [item["snapshot-id"] for item in document["snapshots"]]

    def statistics(number):
        return {"snapshot-id": number, "statistics-path": f"/lake/{number}.stats", "file-size-in-bytes": 1}

    with_both = {
        **document,
        "statistics": [statistics(old), statistics(new)],
        "partition-statistics": [statistics(new), statistics(old)],
    }
    members = applied(with_both, updates.remove_snapshots([old]))
    assert [item["snapshot-id"] for item in members["snapshots"]] == [new]
    assert list(members["refs"]) == ["main"]
    assert members["snapshot-log"] == document["snapshot-log"][1:]
    assert members["statistics"] == members["partition-statistics"] == [statistics(new)]
    kept = applied(document, updates.set_statistics(statistics(old)), updates.remove_statistics(new))
    assert kept["statistics"] == [statistics(old)]


def test_a_gap_in_the_log_removes_what_is_before_it(tmp_path):
    document = document_of(tmp_path)
    old, new = [item["snapshot-id"] for item in document["snapshots"]]
    later = applied(document, updates.set_snapshot_ref("main", old), updates.set_snapshot_ref("main", new))
    again = applied(later, updates.remove_snapshot_ref("first"), updates.remove_snapshots([old]))
    assert [entry["snapshot-id"] for entry in later["snapshot-log"]] == [old, new, old, new]
    assert [entry["snapshot-id"] for entry in again["snapshot-log"]] == [new]


def test_snapshots_that_one_commit_adds_and_replaces_are_not_logged(tmp_path):
    document = document_of(tmp_path)
    first = snapshot(document, 77)
    second = snapshot(document, 78, **{"sequence-number": first["sequence-number"] + 1, "first-row-id": 5})
    members = applied(
        document,
        *(updates.add_snapshot(first), updates.set_snapshot_ref("main", 77)),
        *(updates.add_snapshot(second), updates.set_snapshot_ref("main", 78)),
    )
    logged = [entry["snapshot-id"] for entry in members["snapshot-log"]]
    assert (77 in logged, logged[-1]) == (False, 78)


def test_schemas_and_specs(tmp_path):
    document = document_of(tmp_path)
    wider = {**document["schemas"][0], "schema-id": 1}
    wider["fields"] = [*wider["fields"], {"id": 9, "name": "x", "required": False, "type": "int"}]
    spec = {
        "spec-id": 1,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}],
    }
    members = applied(
        document,
        *(updates.add_schema(wider, 9), updates.set_current_schema()),
        *(updates.add_spec(spec), updates.set_default_spec()),
    )
    assert (members["current-schema-id"], members["last-column-id"]) == (1, 9)
    assert (members["default-spec-id"], members["last-partition-id"]) == (1, 1000)
    # An equal schema is used again, whatever its id is.
    again = applied(
        members,
        updates.add_schema({**document["schemas"][0], "schema-id": 5}, 9),
        updates.set_current_schema(),
    )
    assert (again["current-schema-id"], len(again["schemas"])) == (0, 2)
    removed = applied(again, updates.remove_schemas([1]))
    assert [schema["schema-id"] for schema in removed["schemas"]] == [0]


@pytest.mark.parametrize("kept", [1, 3])
def test_the_metadata_log_has_a_limit(tmp_path, kept):
    document = document_of(tmp_path)
    document["properties"] = {"write.metadata.previous-versions-max": str(kept)}
    for number in range(5):
        document = applied(
            document, updates.set_properties({"n": str(number)}), file=f"/lake/t/{number}.json"
        )
    files = [entry["metadata-file"] for entry in document["metadata-log"]]
    assert files == [f"/lake/t/{number}.json" for number in range(5 - kept, 5)]


def test_an_upgrade_to_version_3_starts_row_ids_at_0(tmp_path):
    document = document_of(tmp_path, version=2)
    members = applied(document, updates.upgrade_format_version(3))
    assert (members["format-version"], members["next-row-id"]) == (3, 0)
    assert members["snapshots"] == document["snapshots"]


def test_an_upgrade_from_version_1(tmp_path):
    from pyiceberg.table.metadata import TableMetadataUtil

    old = document_of(tmp_path, version=1)
    schema = {key: value for key, value in old["schemas"][0].items() if key != "schema-id"}
    oldest = {
        key: value
        for key, value in old.items()
        if key
        in ("format-version", "location", "last-updated-ms", "last-column-id", "properties", "snapshots")
    }
    field = {"source-id": 1, "name": "id", "transform": "identity"}
    oldest |= {
        "schema": schema,
        "partition-spec": [field],
        "current-snapshot-id": old["current-snapshot-id"],
    }
    members = applied(oldest, updates.upgrade_format_version(2))
    assert "schema" not in members
    assert members["partition-specs"] == [{"spec-id": 0, "fields": [{"field-id": 1000, **field}]}]
    assert members["last-partition-id"] == 1000
    assert members["refs"]["main"]["snapshot-id"] == old["current-snapshot-id"]
    theirs = TableMetadataUtil.parse_obj(members)
    assert theirs.format_version == 2
    assert str(theirs.table_uuid) == members["table-uuid"]
    assert theirs.sort_order().is_unsorted


def test_none_is_null(tmp_path):
    document = {**document_of(tmp_path, 2), "current-snapshot-id": -1, "refs": {}}
    assert applied(document, updates.set_properties({"a": "b"}))["current-snapshot-id"] is None
    with_snapshots = document_of(tmp_path)
    members = applied(with_snapshots, updates.remove_snapshot_ref("main"))
    assert members["current-snapshot-id"] is None
    assert members["snapshot-log"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: updates.add_snapshot(snapshot(d, d["current-snapshot-id"])), "exists already"),
        (lambda d: updates.add_snapshot(snapshot(d, 7, **{"sequence-number": 2})), "sequence number"),
        (lambda d: updates.add_snapshot(snapshot(d, 7, **{"first-row-id": 1})), "first-row-id"),
        (lambda d: updates.add_snapshot(snapshot(d, 7, **{"first-row-id": None})), "first-row-id"),
        (lambda d: updates.add_snapshot(snapshot(d, 7, **{"added-rows": None})), "added-rows"),
        (lambda _: updates.set_snapshot_ref("main", 7), "'main' is set to snapshot 7"),
        (lambda d: updates.set_snapshot_ref("main", d["current-snapshot-id"], kind="tag"), "type of ref"),
        (lambda _: updates.remove_snapshots([7]), "snapshot 7 does not exist"),
        (lambda _: updates.set_current_schema(4), "current-schema-id is 4"),
        (lambda _: updates.set_default_spec(), "default-spec-id is None"),
        (lambda _: updates.remove_schemas([0]), "schema-id to remove is 0"),
        (lambda _: updates.remove_partition_specs([3]), "spec-id to remove is 3"),
        (lambda _: updates.upgrade_format_version(2), "format version is 2, expected at least"),
        (lambda _: updates.upgrade_format_version(5), "format version is 5, expected 2, 3 or 4"),
        (lambda _: updates.add_schema(SCHEMA, 1), "schema-id of the new item of schemas is 0"),
        (
            lambda _: updates.set_properties({"write.metadata.previous-versions-max": "x"}),
            "previous-versions-max is 'x'",
        ),
    ],
)
def test_refused(tmp_path, change, message):
    document = document_of(tmp_path)
    with pytest.raises(InvalidOperationError, match=message):
        applied(document, change(document))


def test_version_1_is_refused_by_the_name_of_what_helps(tmp_path):
    document = document_of(tmp_path, version=1)
    with pytest.raises(UnsupportedFeatureError, match=r"upgrade\(format_version=2\)"):
        applied(document, updates.set_properties({"a": "b"}))


@pytest.mark.parametrize(
    "field",
    [
        {"type": "timestamp_ns"},
        {"type": {"type": "list", "element-id": 10, "element-required": False, "element": "variant"}},
        {"type": "int", "initial-default": 7},
    ],
)
def test_types_of_version_3_in_version_2(tmp_path, field):
    column = {"id": 9, "name": "x", "required": False, **field}
    schema = {"type": "struct", "schema-id": 1, "fields": [column]}
    with pytest.raises(UnsupportedFeatureError, match="column x"):
        applied(document_of(tmp_path, version=2), updates.add_schema(schema, 10))
    applied(document_of(tmp_path), updates.add_schema(schema, 10))


def test_an_unknown_update(tmp_path):
    with pytest.raises(UnsupportedFeatureError, match="'add-view-version' is unknown"):
        applied(document_of(tmp_path), {"action": "add-view-version"})


def random_update(rng, document, number):
    """Updates that change the document, and which both libraries define alike."""
    ids = [item["snapshot-id"] for item in document["snapshots"]]
    last = document["snapshots"][-1]["snapshot-id"]
    free = [found for found in ids if found not in (document["current-snapshot-id"], last)]
    refs = [name for name in document["refs"] if name != "main"]
    spec = {
        "source-id": 1,
        "field-id": 1000 + number,
        "name": f"p{number}",
        "transform": f"bucket[{number + 1}]",
    }
    column = {"id": 10 + number, "name": f"c{number}", "required": False, "type": "string"}
    schema = document["schemas"][-1]
    choices = [
        [
            updates.add_snapshot(snapshot(document, 1000 + number)),
            updates.set_snapshot_ref(rng.choice(["main", "b1", "b2"]), 1000 + number),
        ],
        [updates.set_properties({f"p{rng.randrange(3)}": str(number)})],
        [updates.set_snapshot_ref(f"t{number}", rng.choice(ids), kind="tag")],
        [
            updates.add_schema(
                {**schema, "schema-id": len(document["schemas"]), "fields": [*schema["fields"], column]}, 10
            ),
            updates.set_current_schema(),
        ],
        [
            updates.add_spec({"spec-id": len(document["partition-specs"]), "fields": [spec]}),
            updates.set_default_spec(),
        ],
        [updates.set_location(f"/lake/t{number}")],
    ]
    if document["properties"]:
        choices.append([updates.remove_properties([rng.choice(list(document["properties"]))])])
    if refs:
        choices.append([updates.remove_snapshot_ref(rng.choice(refs))])
    if free:
        choices.append([updates.remove_snapshots([rng.choice(free)])])
    return rng.choice(choices)


@pytest.mark.parametrize("seed", range(12))
def test_random_updates_as_pyiceberg_applies_them(tmp_path, seed):
    from pydantic import TypeAdapter
    from pyiceberg.table.metadata import TableMetadataUtil
    from pyiceberg.table.update import TableUpdate, update_table_metadata

    adapter = TypeAdapter(TableUpdate)
    rng = random.Random(seed)
    document = document_of(tmp_path, 2)
    for number in range(25):
        changes = random_update(rng, document, number)
        expected = update_table_metadata(
            TableMetadataUtil.parse_obj(document),
            tuple(map(adapter.validate_python, changes)),
            metadata_location=FILE,
        )
        document = applied(document, *changes, now_ms=document["last-updated-ms"] + 10)
        ours = TableMetadataUtil.parse_obj(document)
        assert _comparable(ours) == _comparable(expected), changes


def _comparable(metadata):
    """Without what differs on purpose: pyiceberg takes the clock itself, forgets the parents of snapshots
    that it removes, and does not cut the log at a gap.
    """
    found = json.loads(metadata.model_dump_json())
    found.pop("last-updated-ms")
    present = {item["snapshot-id"] for item in found["snapshots"]}
    for item in found["snapshots"]:
        if item.get("parent-snapshot-id") not in present:
            item["parent-snapshot-id"] = None
    for entry in found["metadata-log"]:
        entry.pop("timestamp-ms")
    found["snapshot-log"] = [entry["snapshot-id"] for entry in found["snapshot-log"]][-1:]
    return found
