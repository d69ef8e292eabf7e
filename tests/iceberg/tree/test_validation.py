"""Each rule of the tree, broken in a sound manifest: it is refused with the file and the entry."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.tree import entries as e
from delvec.iceberg.tree import entry_rules, leaf_rules, root_rules
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.validation import verify_leaf, verify_root

PATH = "t/metadata/manifest.parquet"
SNAPSHOT, SEQUENCE = 70, 7


def entry(content_type, location, **columns):
    """An EXISTING entry with all that its type needs."""
    row = {
        "status": e.EXISTING,
        "snapshot_id": 50,
        "sequence_number": 5,
        "file_sequence_number": 5,
        "content_type": content_type,
        "location": location,
        "file_format": "parquet",
        "record_count": 3,
        "file_size_in_bytes": 100,
        "partition_spec_id": 0,
    }
    match content_type:
        case e.DATA:
            row |= {"first_row_id": 0, "sort_order_id": 0, "split_offsets": [4, 40]}
        case e.POSITION_DELETES:
            row |= {"file_format": "puffin", "dv_offset": 4, "dv_size_in_bytes": 40, "referenced_file": "d1"}
        case e.EQUALITY_DELETES:
            row |= {"equality_ids": [1]}
        case e.DATA_MANIFEST | e.DELETE_MANIFEST:
            row |= dict.fromkeys(e.MANIFEST_STATS, 1)
        case e.MANIFEST_DV:
            row |= {
                "file_format": "puffin",
                "record_count": 1,
                "dv_inline": b"x",
                "file_size_in_bytes": None,
                "referenced_file": "m1",
            }
    return row | columns


ROOT = {
    "d1": entry(e.DATA, "d1"),
    "d2": entry(
        e.DATA, "d2", status=e.ADDED, snapshot_id=SNAPSHOT, sequence_number=7, file_sequence_number=7
    ),
    "d3": entry(e.DATA, "d3", status=e.DELETED, snapshot_id=SNAPSHOT),
    "v1": entry(e.POSITION_DELETES, "v1"),
    "v0": entry(e.POSITION_DELETES, "v0", status=e.DELETED, snapshot_id=SNAPSHOT),
    "q1": entry(e.EQUALITY_DELETES, "q1"),
    "m1": entry(e.DATA_MANIFEST, "m1", first_row_id=9),
    "m2": entry(e.DELETE_MANIFEST, "m2", referenced_file="m1"),
    "m3": entry(e.DELETE_MANIFEST, "m3", partition_spec_id=e.MIXED_SPECS),
    "x1": entry(e.MANIFEST_DV, None),
    "x0": entry(e.MANIFEST_DV, None, status=e.DELETED, snapshot_id=SNAPSHOT),
    "x2": entry(
        e.MANIFEST_DV,
        "x2",
        referenced_file="m3",
        dv_inline=None,
        dv_offset=4,
        dv_size_in_bytes=9,
        file_size_in_bytes=20,
    ),
}
DATA_LEAF = {"d1": entry(e.DATA, "d1"), "d2": entry(e.DATA, "d2", status=e.ADDED)}
DELETE_LEAF = {"v1": entry(e.POSITION_DELETES, "v1"), "v2": entry(e.POSITION_DELETES, "v2", status=e.ADDED)}


def manifest(content, rows):
    columns = {
        field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in e.ENTRIES_SCHEMA
    }
    return ManifestFile(content, e.entries_table(columns, len(rows)))


def changed(rows, name, **columns):
    return [row | columns if key == name else row for key, row in rows.items()]


def verify(root):
    verify_root(root, PATH, snapshot_id=SNAPSHOT, sequence_number=SEQUENCE)


def test_sound_manifests_pass():
    for content, rows in (("root", ROOT), ("data", DATA_LEAF), ("delete", DELETE_LEAF)):
        data = write_manifest(manifest(content, list(rows.values())))
        found = read_manifest(data, PATH)
        if content == "root":
            verify(found)
        else:
            verify_leaf(found, content, PATH, is_affiliated=content == "delete")
    verify_root(manifest("root", []), PATH)


OF_ENTRIES = [
    (entry_rules.known_status, "d1", {"status": 3}, "status is 3, expected 0, 1 or 2"),
    (entry_rules.known_content_type, "d1", {"content_type": 6}, "content_type is 6, expected 0 to 5"),
    *(
        (
            entry_rules.file_format_of_content,
            name,
            {"file_format": found},
            f"is {found!r}, expected {expected}:",
        )
        for name, found, expected in (
            ("d1", "csv", "parquet or avro or orc"),
            ("d1", "puffin", "parquet or avro or orc"),
            ("v1", "parquet", "puffin"),
            ("q1", "csv", "parquet or avro or orc or puffin"),
            ("m1", "orc", "parquet or avro"),
            ("m2", "puffin", "parquet or avro"),
            ("x1", "parquet", "puffin"),
        )
    ),
    (
        entry_rules.no_negative_sizes,
        "d1",
        {"record_count": -1},
        "record_count is negative, expected 0 or more",
    ),
    (entry_rules.no_negative_sizes, "v1", {"dv_offset": -4}, "dv_offset is negative, expected 0 or more"),
    (
        entry_rules.no_negative_sizes,
        "m1",
        {"added_rows_count": -2},
        "added_rows_count is negative, expected 0",
    ),
    (
        entry_rules.vector_exactly_on_vectors,
        "v1",
        {"dv_offset": None, "dv_size_in_bytes": None},
        "deletion_vector is null, expected a vector: entry 3 (POSITION_DELETES v1)",
    ),
    (
        entry_rules.vector_exactly_on_vectors,
        "x1",
        {"dv_inline": None},
        "deletion_vector is null, expected a vector: entry 9 (MANIFEST_DV of m1)",
    ),
    *(
        (
            entry_rules.vector_exactly_on_vectors,
            name,
            {"dv_offset": 4, "dv_size_in_bytes": 9},
            "deletion_vector is set, expected null",
        )
        for name in ("d1", "q1", "m1", "m2")
    ),
    (
        entry_rules.inline_or_stored,
        "x2",
        {"dv_inline": b"x"},
        "vector is inline and stored, expected one of them",
    ),
    (entry_rules.offset_with_size, "v1", {"dv_size_in_bytes": None}, "only one of offset and size_in_bytes"),
    (entry_rules.offset_with_size, "x2", {"dv_offset": None}, "only one of offset and size_in_bytes"),
    *(
        (
            entry_rules.vector_within_file,
            name,
            {"file_size_in_bytes": 12},
            f"vector ends at byte {end}, expected at most 12, the file's size",
        )
        for name, end in (("v1", 44), ("x2", 13))
    ),
    (
        entry_rules.no_inline_data_vector,
        "v1",
        {"dv_inline": b"x", "dv_offset": None, "dv_size_in_bytes": None},
        "vector of a data file is inline, expected it in a Puffin file",
    ),
    *(
        (entry_rules.location_unless_inline, name, {"location": None}, "location is null, expected one")
        for name in ("d1", "q1", "m1", "m2", "x2")
    ),
    (entry_rules.file_size_with_location, "d1", {"file_size_in_bytes": None}, "file_size_in_bytes is null"),
    (
        entry_rules.file_size_with_location,
        "x1",
        {"file_size_in_bytes": 4},
        "file_size_in_bytes is set without a location, expected null",
    ),
    (
        entry_rules.manifest_stats_exactly_on_manifests,
        "m1",
        dict.fromkeys(e.MANIFEST_STATS),
        "manifest_stats is null or incomplete, expected counts",
    ),
    (
        entry_rules.manifest_stats_exactly_on_manifests,
        "m2",
        {"min_sequence_number": None},
        "manifest_stats is null or incomplete, expected counts",
    ),
    *(
        (
            entry_rules.manifest_stats_exactly_on_manifests,
            name,
            {"added_files_count": 1},
            "manifest_stats is set, expected null: only types 3 and 4 have it",
        )
        for name in ("d1", "v1", "q1", "x1")
    ),
    (
        entry_rules.counts_of_manifests_add_up,
        "m1",
        {"existing_files_count": 0},
        "files_counts of manifest_stats add up to 2, expected the record_count 3",
    ),
    (
        entry_rules.min_sequence_number_not_above,
        "m2",
        {"min_sequence_number": 6},
        "min_sequence_number is 6, expected at most the sequence_number 5",
    ),
    (
        entry_rules.one_sequence_number_on_manifests,
        "m1",
        {"sequence_number": 4},
        "sequence_number is 4, expected the file_sequence_number 5",
    ),
    *(
        (
            entry_rules.sort_order_only_on_data,
            name,
            {"sort_order_id": 0},
            "sort_order_id is set, expected null",
        )
        for name in ("v1", "q1", "m1", "m2", "x1")
    ),
    (
        entry_rules.equality_ids_exactly_on_equality_deletes,
        "q1",
        {"equality_ids": None},
        "equality_ids is null or empty, expected field ids",
    ),
    (
        entry_rules.equality_ids_exactly_on_equality_deletes,
        "q1",
        {"equality_ids": []},
        "equality_ids is null or empty, expected field ids",
    ),
    *(
        (
            entry_rules.equality_ids_exactly_on_equality_deletes,
            name,
            {"equality_ids": [1]},
            "equality_ids is set, expected null: only type 2 has it",
        )
        for name in ("d1", "v1", "m2")
    ),
    *(
        (
            entry_rules.encoding_only_on_deletes,
            name,
            {"encoding": 0},
            "encoding is set, expected null: only types 1 and 2 have one",
        )
        for name in ("d1", "m1", "m2", "x1")
    ),
    *(
        (
            entry_rules.referenced_file_on_vectors,
            name,
            {"referenced_file": None},
            "referenced_file is null, expected a location",
        )
        for name in ("v1", "x1")
    ),
    *(
        (
            entry_rules.referenced_file_on_vectors,
            name,
            {"referenced_file": "d1"},
            "referenced_file is set, expected null: only types 1, 4 and 5 have it",
        )
        for name in ("d1", "q1", "m1")
    ),
    *(
        (entry_rules.row_ids_only_on_data, name, {"first_row_id": 1}, "first_row_id is set, expected null")
        for name in ("v1", "q1", "m2", "x1")
    ),
    (
        entry_rules.mixed_specs_only_on_manifests,
        "d1",
        {"partition_spec_id": -1},
        "partition_spec_id is -1, expected a partition spec of the table",
    ),
    (entry_rules.mixed_specs_only_on_manifests, "m1", {"partition_spec_id": -2}, "partition_spec_id is -2"),
    (
        entry_rules.ascending_split_offsets,
        "d1",
        {"split_offsets": [4, 40, 39]},
        "split_offsets do not ascend",
    ),
    (
        entry_rules.sequence_numbers_unless_added,
        "d1",
        {"sequence_number": None},
        "sequence_number is null, expected a number: only ADDED entries inherit it",
    ),
    (
        entry_rules.sequence_numbers_unless_added,
        "d3",
        {"file_sequence_number": None},
        "file_sequence_number is null, expected a number",
    ),
]
OF_ROOTS = [
    (root_rules.explicit_tracking, "d1", {"snapshot_id": None}, "snapshot_id is null in the root"),
    (root_rules.explicit_tracking, "d2", {"sequence_number": None}, "sequence_number is null in the root"),
    (
        root_rules.explicit_tracking,
        "d2",
        {"file_sequence_number": None},
        "file_sequence_number is null in the",
    ),
    (
        root_rules.one_live_vector_per_manifest,
        "x2",
        {"referenced_file": "m1"},
        "m1 has two live manifest vectors, expected one: entry 11",
    ),
    (
        root_rules.one_live_vector_per_manifest,
        "x0",
        {"status": e.ADDED},
        "m1 has two live manifest vectors, expected one: entry 10",
    ),
    (
        root_rules.one_replaced_vector_per_manifest,
        "x2",
        {"status": e.DELETED, "snapshot_id": SNAPSHOT, "referenced_file": "m1"},
        "m1 has two DELETED manifest vectors, expected one: entry 11",
    ),
    (
        root_rules.no_deleted_manifests,
        "m3",
        {"status": e.DELETED, "snapshot_id": SNAPSHOT},
        "manifest is DELETED, expected a manifest vector that masks its entries: entry 8",
    ),
    *(
        (root_rules.row_ids_of_data_files, name, {"first_row_id": None}, "first_row_id is null in the root")
        for name in ("d1", "d2")
    ),
    (
        root_rules.one_live_vector_per_data_file,
        "v0",
        {"status": e.ADDED},
        "d1 has two live vectors, expected",
    ),
    (root_rules.each_file_once, "d2", {"location": "d1"}, "d1 has two live entries, expected one: entry 1"),
    (root_rules.each_file_once, "m3", {"location": "m1"}, "m1 has two live entries, expected one: entry 8"),
    (
        root_rules.vectors_of_live_manifests,
        "x1",
        {"referenced_file": "d1"},
        "manifest vector is of a file that is no live manifest of the root: entry 9",
    ),
    (
        root_rules.affinity_to_live_data_manifests,
        "m2",
        {"referenced_file": "m3"},
        "referenced_file is m3, expected a live data manifest of the root",
    ),
    (
        root_rules.vector_within_manifest,
        "x1",
        {"record_count": 3},
        "manifest vector has 3 positions, expected at most 2, the entries of its manifest that are not DEL",
    ),
    (
        root_rules.changes_of_snapshot,
        "d2",
        {"snapshot_id": 50},
        "snapshot_id of an ADDED entry is 50, expected that of the snapshot, 70",
    ),
    (
        root_rules.changes_of_snapshot,
        "v0",
        {"snapshot_id": 60},
        "snapshot_id of a DELETED entry is 60, expected that of the snapshot, 70",
    ),
    (
        root_rules.changes_of_snapshot,
        "d1",
        {"sequence_number": 8},
        "sequence number is 8, expected at most that of the snapshot, 7",
    ),
]


@pytest.mark.parametrize(
    ("rule", "name", "columns", "message"),
    [*OF_ENTRIES, *OF_ROOTS],
    ids=[f"{case[0].__name__}-{case[1]}-{'-'.join(case[2])}" for case in [*OF_ENTRIES, *OF_ROOTS]],
)
def test_a_root_that_breaks_one_rule_is_refused(rule, name, columns, message):
    broken = manifest("root", changed(ROOT, name, **columns))
    with pytest.raises(FormatError) as caught:
        verify(broken)
    assert message in caught.value.message
    assert (caught.value.path, "entry " in caught.value.message) == (PATH, True)
    args = (SNAPSHOT, SEQUENCE) if rule is root_rules.changes_of_snapshot else ()
    assert rule(entry_rules.CheckedEntries(broken.entries), *args) == caught.value.message


def test_every_rule_has_a_case():
    tested = {case[0] for case in [*OF_ENTRIES, *OF_ROOTS]}
    assert tested == {*entry_rules.ENTRY_RULES, *root_rules.ROOT_RULES, root_rules.changes_of_snapshot}
    of_leaves = {*leaf_rules.rules_of("data"), *leaf_rules.rules_of("delete")}
    assert {case[0] for case in OF_LEAVES} == of_leaves


OF_LEAVES = [
    *(
        (leaf_rules.two_levels, content, rows, ROOT[name], "leaf has an entry that only the root may have")
        for content, rows in (("data", DATA_LEAF), ("delete", DELETE_LEAF))
        for name in ("m1", "m2", "x1")
    ),
    *(
        (leaf_rules.only_data_in_data_manifests, "data", DATA_LEAF, ROOT[name], "entry that is no data file")
        for name in ("v1", "q1")
    ),
    (
        leaf_rules.only_deletes_in_delete_manifests,
        "delete",
        DELETE_LEAF,
        ROOT["d1"],
        "entry that is no delete",
    ),
    (
        leaf_rules.one_kind_of_deletes,
        "delete",
        DELETE_LEAF,
        ROOT["q1"],
        "delete manifest has equality deletes beside vectors, expected one kind",
    ),
]


@pytest.mark.parametrize(
    ("rule", "content", "rows", "more", "message"),
    OF_LEAVES,
    ids=[f"{case[0].__name__}-{case[1]}-{case[3]['content_type']}" for case in OF_LEAVES],
)
def test_a_leaf_that_breaks_one_rule_is_refused(rule, content, rows, more, message):
    broken = manifest(content, [*rows.values(), more])
    with pytest.raises(FormatError) as caught:
        verify_leaf(broken, content, PATH)
    assert message in caught.value.message
    assert caught.value.path == PATH
    assert rule(entry_rules.CheckedEntries(broken.entries)) == caught.value.message


def test_entries_of_leaves_follow_the_rules_of_entries():
    broken = manifest("data", changed(DATA_LEAF, "d1", sequence_number=None))
    with pytest.raises(FormatError, match="sequence_number is null, expected a number: only ADDED entries"):
        verify_leaf(broken, "data", PATH)
    inherits = manifest("data", changed(DATA_LEAF, "d2", sequence_number=None, snapshot_id=None))
    verify_leaf(inherits, "data", PATH)


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        ("root", "data", "content of a leaf is root, expected data: manifests have two levels"),
        ("root", "delete", "content of a leaf is root, expected delete: manifests have two levels"),
        ("delete", "data", "content of a leaf is delete, expected data"),
        ("data", "delete", "content of a leaf is data, expected delete"),
    ],
)
def test_a_leaf_holds_what_the_root_says(found, expected, message):
    with pytest.raises(FormatError, match=f"^{message}: {PATH}$"):
        verify_leaf(manifest(found, []), expected, PATH)


def test_a_leaf_is_no_root():
    with pytest.raises(FormatError, match=f"content of a root manifest is data, expected root: {PATH}"):
        verify(manifest("data", list(DATA_LEAF.values())))


def test_an_affiliated_delete_manifest_has_only_vectors():
    leaf = manifest("delete", [ROOT["q1"]])
    verify_leaf(leaf, "delete", PATH)
    with pytest.raises(FormatError, match="affiliated delete manifest has equality deletes, expected only"):
        verify_leaf(leaf, "delete", PATH, is_affiliated=True)


def test_encrypted_files_are_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match=r"file is encrypted: entry 0 \(DATA d1\): t/metadata"):
        verify(manifest("root", changed(ROOT, "d1", key_metadata=b"k")))
    with pytest.raises(UnsupportedFeatureError, match="file is encrypted"):
        verify_leaf(manifest("data", changed(DATA_LEAF, "d1", key_metadata=b"k")), "data", PATH)
