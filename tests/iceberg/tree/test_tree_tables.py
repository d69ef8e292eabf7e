"""Tables of format version 4: commits of deltas, plans, and what a commit writes and reads."""

from __future__ import annotations

import random

import pytest

from delvec import conflicts
from delvec.browse import metadata_tree
from delvec.detect import open_table
from delvec.iceberg.catalogs import IcebergCatalog
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest_list import DATA, DELETES
from delvec.iceberg.needed_files import SnapshotFiles
from delvec.iceberg.tree.stored_tree import TREE_MANIFESTS
from delvec.predicate import condition
from delvec.ref_changes import NewRef
from delvec.row_delta import Committed, Operation, Read, Request, RowDelta, Verb
from delvec.schema import Field, Primitive, Struct
from iceberg_tables.trees import TreeModel


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


def needed(model):
    """The locations of what all snapshots need, but for the metadata files."""
    metadata = model.snapshot.metadata
    files = SnapshotFiles(model.table.storage, Locations(metadata.location))
    found = files.metadata_files(metadata.snapshots.values())
    tables = [found.lists, found.manifests, found.contents, *files.live_files(found.manifests, found.masks)]
    return {place for table in tables for place in table.column("location").to_pylist()}


def expected_needed(model):
    """The same, by the naive reader."""
    found = set()
    for snapshot in model.metadata()["snapshots"]:
        root = model.root_entries(snapshot["root-manifest"])
        found |= {snapshot["root-manifest"], *(entry.name for entry in model.live(root))}
        found |= {entry["location"] for entry in root if entry["status"] != 2 and entry["location"]}
    return found


def changed(model):
    """What the newest snapshot added and removed, as its root says."""
    found = (set(), set())
    for content in (DATA, DELETES):
        for names, table in zip(found, model.snapshot.files.live.changed(content), strict=True):
            columns = (table.column(name).to_pylist() for name in ("file_path", "referenced_data_file"))
            names.update(zip(*columns, strict=True))
    return found


def difference(before, after):
    old, new = ({(entry.name, entry.referenced) for entry in live} for live in (before, after))
    return new - old, old - new


def files_of(model):
    return {str(file.relative_to(model.root)) for file in model.root.rglob("*") if file.is_file()}


def test_a_small_commit_writes_one_root_and_one_metadata_file(tmp_path):
    model = TreeModel(tmp_path / "t")
    (path,) = appended(model, 5)
    before = files_of(model)
    model.commit(delete={path: [1]}, verb=Verb.DELETE)
    new = sorted(files_of(model) - before)
    assert [name.split("/")[0] for name in new] == ["data", "metadata", "metadata"]
    assert [name.rsplit(".", 1)[1] for name in new] == ["puffin", "parquet", "json"]
    model.check()
    summary = model.metadata()["snapshots"][-1]["summary"]
    assert (summary["operation"], summary["added-dvs"], summary["total-records"]) == ("delete", "1", "5")


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n > 3 else []) for n in range(24)]
)
def test_random_commits(tmp_path, seed):
    rng = random.Random(seed)
    limits = {
        "root_data_files": rng.choice([0, 1, 3, 1000]),
        "root_deletes": rng.choice([0, 1, 3, 1000]),
        "leaf_entries": rng.choice([1, 2, 5, 100]),
        "inline_bytes": rng.choice([0, 60, 2048]),
        "affiliated_entries": rng.choice([1, 2, 32]),
        "affiliated_manifests": rng.choice([1, 2]),
        "unaffiliated_manifests": rng.choice([1, 2, 4]),
    }
    model = TreeModel(tmp_path / "t", partitioned=rng.random() < 0.6, **limits)
    for _ in range(12):
        add = [model.new_file(rng.randrange(1, 8), rng.randrange(3)) for _ in range(rng.randrange(4))]
        paths = list(model.files)
        remove = rng.sample(paths, min(len(paths), rng.choice([0, 0, 0, 1, 2])))
        delete = {}
        for path in rng.sample(paths, min(len(paths), rng.randrange(4))):
            live = set(range(len(model.files[path][0]))) - model.files[path][1]
            if path not in remove and live:
                delete[path] = rng.sample(sorted(live), rng.randrange(1, len(live) + 1))
        before = model.live()
        model.commit(add=add, remove=remove, delete=delete)
        model.check()
        if add or remove or delete:
            assert changed(model) == difference(before, model.live())
        assert not list(model.table.findings(model.snapshot))
        assert str(shown(model))
    assert needed(model) == expected_needed(model)


def names_of(won):
    return tuple(set(column.to_pylist()) for column in (won.added, won.removed, won.vectors))


@pytest.mark.parametrize("limit", [0, 1000])
def test_the_root_says_what_its_snapshot_changed(tmp_path, limit):
    """In the root, and in leaves: by manifest vectors."""
    model = TreeModel(tmp_path / "t", root_data_files=limit, root_deletes=limit, affiliated_entries=1)
    one, two, three = appended(model, 3, 3, 3)
    before = model.snapshot
    model.commit(delete={one: [0]})
    model.commit(delete={one: [1], two: [2]}, remove=[three])
    new = model.new_file(2)
    model.commit(add=[new], remove=[one])
    commits = model.table.won(before, model.snapshot)
    assert [names_of(won) for won in commits] == [
        (set(), set(), {one}),
        (set(), {three}, {one, two}),
        ({new[0]}, {one}, set()),
    ]


def shown(model):
    found = model.table
    return metadata_tree(found, found.snapshot(), limit=0)


def outline(node):
    """Kinds and statuses."""
    head = f"{node['kind']} {node['facts'].get('status', '')}".strip()
    return [head, *(outline(child) for child in node["children"])]


def test_the_tree_has_statuses_manifest_vectors_and_affinity(tmp_path):
    model = TreeModel(tmp_path / "t", root_data_files=0, root_deletes=0, affiliated_entries=1)
    one, _ = appended(model, 3, 3)
    model.commit(delete={one: [0]})
    model.commit(delete={one: [1]})
    model.commit(delete={one: [2]}, remove=[])
    tree = shown(model)
    (root,) = tree.document()["tree"]["children"]
    assert outline(root) == [
        "root",
        ["data manifest existing", ["manifest vector added"], ["data file"]],
        ["delete manifest existing", ["manifest vector added"]],
    ], str(tree)
    assert root["facts"]["leaves"] == 2


def reads(model, snapshot_of, monkeypatch):
    """The manifests that a plan reads."""
    found = []
    read = type(model.table.storage).read

    def counted(self, path):
        if path.endswith((".parquet", ".avro")):
            found.append(path.rsplit("/", 1)[1])
        return read(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(type(model.table.storage), "read", counted)
        snapshot_of().plan()
    return found


def test_the_plan_after_a_commit_reads_the_new_root_and_new_leaves(tmp_path, monkeypatch):
    TREE_MANIFESTS.clear()
    model = TreeModel(tmp_path / "t", root_data_files=2, root_deletes=2, affiliated_entries=1)
    paths = appended(model, *[2] * 6)
    appended(model, *[2] * 6)
    open_table(str(model.root)).snapshot().plan()
    model.commit(delete={paths[0]: [1]})
    name = model.root_file.rsplit("/", 1)[1]
    assert reads(model, lambda: open_table(str(model.root)).snapshot(), monkeypatch) == [name]
    before = files_of(model)
    model.commit(delete={path: [0] for path in paths[1:5]})
    new = {name.rsplit("/", 1)[1] for name in files_of(model) - before if name.endswith(".parquet")}
    assert len(new) == 2  # the root, and a leaf with this commit's vectors
    assert set(reads(model, lambda: open_table(str(model.root)).snapshot(), monkeypatch)) == new
    model.check()


def test_leaves_are_pruned_by_their_statistics(tmp_path, monkeypatch):
    model = TreeModel(
        tmp_path / "t", partitioned=False, root_data_files=0, root_deletes=0, affiliated_entries=1
    )
    one = appended(model, 5, 5)
    two = appended(model, 5, 5, p=2)
    model.commit(delete={one[0]: [0]})
    model.commit(delete={two[0]: [0]})
    TREE_MANIFESTS.clear()
    snapshot = open_table(str(model.root)).snapshot()
    plan = snapshot.plan(condition.parse("p = 2 AND id >= 0", snapshot.schema))
    assert set(plan.files.column("raw_location").to_pylist()) == set(two)
    assert (plan.skipped, len(plan.deletes)) == (2, 1)
    assert len(TREE_MANIFESTS._manifests) == 3  # the root, a data manifest, its delete manifest


def test_the_losing_writer_starts_from_the_winners_root(tmp_path):
    """The winner flushed, and masked the leaf in which the loser removes a file."""
    model = TreeModel(tmp_path / "t", root_data_files=3, root_deletes=0, affiliated_entries=1)
    one, two, three, four = appended(model, 4, 4, 4, 4)
    base = model.snapshot
    stale = [model.delta(delete={one: [1]}), model.delta(delete={two: [2]}, remove=[three])]
    model.commit(add=[model.new_file(3) for _ in range(3)], remove=[four], verb=Verb.MERGE)
    for delta in stale:
        outcome = conflicts.commit(model.table, base, delta, conflicts.ReadsNoRows())
        assert isinstance(outcome, conflicts.Settled), outcome
    model.files[one] = (model.files[one][0], {1})
    model.files[two] = (model.files[two][0], {2})
    del model.files[three]
    model.check()


def test_a_table_of_a_sql_catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("db")
    own = IcebergCatalog("lake", catalog)
    table, draft = own.draft_table(
        ("db", "t"), Struct((Field("id", Primitive("long")),)), lambda _: {}, format_version=4
    )
    delta = RowDelta(draft.base, Request(Operation.CREATE), Read(), Verb.APPEND)
    assert isinstance(table.commit(draft, delta), Committed)
    opened = own.open_table(("db", "t"), lambda _: {})
    assert opened.snapshot().format_version == 4
    opened.create_ref(NewRef("b", "branch"))
    assert opened.on_ref("b").snapshot().plan().files.num_rows == 0
    catalog.engine.dispose()
