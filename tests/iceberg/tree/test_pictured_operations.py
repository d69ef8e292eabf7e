"""The operations that the proposal of the metadata tree pictures, entry by entry.

Vectors are V1, V2; delete manifests DM1, DM2; ``M1−[1]`` is a manifest vector that masks position 1 of M1.
What delvec does not write, as the pictures of the proposal's appendix have it, is read from files built here.
"""

from __future__ import annotations

import pytest

from delvec.iceberg.tree.limits import TreeLimits
from hand_built_tree import built, live_names
from memory_tree import MemoryTree, data, vectors

BY_LEAF = TreeLimits(root_data_files=0, root_deletes=0, affiliated_entries=1)


def with_leaf(*names: str) -> MemoryTree:
    """A table whose first commit is a data manifest M1 of these files."""
    tree = MemoryTree()
    assert tree.live() == []
    assert tree.commit(data(*names), limits=BY_LEAF) == ["M1 ADDED"]
    assert tree.leaf("M1") == [f"{name} ADDED" for name in names]
    return tree


def test_append_to_the_root():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(data("D4")) == ["M1 EXISTING", "D4 ADDED"]
    assert tree.files.stored == []
    assert tree.commit(data("D5")) == ["M1 EXISTING", "D4 EXISTING", "D5 ADDED"]
    assert tree.files.stored == tree.files.read == []
    assert tree.live() == ["D4", "D5", "M1[0] D1", "M1[1] D2", "M1[2] D3"]


def test_append_by_a_new_data_manifest():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(data("D4", "D5", "D6"), limits=BY_LEAF) == ["M1 EXISTING", "M2 ADDED"]
    assert tree.leaf("M2") == ["D4 ADDED", "D5 ADDED", "D6 ADDED"]
    assert tree.files.stored == ["M2"]
    assert tree.live() == ["M1[0] D1", "M1[1] D2", "M1[2] D3", "M2[0] D4", "M2[1] D5", "M2[2] D6"]


def test_remove_from_the_root():
    tree = MemoryTree()
    tree.commit(data("D1", "D2"))
    assert tree.commit(removed=[tree.row("D1")]) == ["D2 EXISTING", "D1 DELETED"]
    assert tree.live() == ["D2"]
    assert tree.commit(data("D3")) == ["D2 EXISTING", "D3 ADDED"]
    assert tree.files.stored == []


def test_remove_from_a_leaf():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(masked={"M1": [1]}) == ["M1 EXISTING", "M1−[1] ADDED"]
    assert tree.live() == ["M1[0] D1", "M1[2] D3"]
    assert tree.files.stored == []


def test_a_second_removal_keeps_the_old_manifest_vector_for_one_snapshot():
    tree = with_leaf("D1", "D2", "D3", "D4")
    tree.commit(masked={"M1": [1]})
    assert tree.commit(masked={"M1": [2]}) == ["M1 EXISTING", "M1−[1] DELETED", "M1−[1, 2] ADDED"]
    assert tree.commit(masked={"M1": [0]}) == ["M1 EXISTING", "M1−[1, 2] DELETED", "M1−[0, 1, 2] ADDED"]
    assert tree.commit(data("D5")) == ["M1 EXISTING", "M1−[0, 1, 2] EXISTING", "D5 ADDED"]
    assert tree.live() == ["D5", "M1[3] D4"]


def test_overwrite_in_the_root():
    tree = MemoryTree()
    assert tree.commit(data("D1")) == ["D1 ADDED"]
    assert tree.commit(data("D2"), removed=[tree.row("D1")]) == ["D1 DELETED", "D2 ADDED"]
    assert tree.commit(data("D3"), removed=[tree.row("D2")]) == ["D2 DELETED", "D3 ADDED"]
    assert (tree.live(), tree.files.stored) == (["D3"], [])


def test_overwrite_in_a_leaf():
    tree = with_leaf("D1", "D2", "D3")
    root = tree.commit(data("D4"), masked={"M1": [1]})
    assert root == ["M1 EXISTING", "M1−[1] ADDED", "D4 ADDED"]
    assert tree.live() == ["D4", "M1[0] D1", "M1[2] D3"]
    assert tree.files.stored == tree.files.read == []


def test_overwrites_in_a_leaf_one_after_the_other():
    """Each removed data file is in the difference of the ADDED and the DELETED manifest vector."""
    tree = with_leaf("D1", "D2", "D3", "D4")
    root = tree.commit(data("D5"), masked={"M1": [1]})
    assert root == ["M1 EXISTING", "M1−[1] ADDED", "D5 ADDED"]
    root = tree.commit(data("D6"), masked={"M1": [2]})
    assert root == ["M1 EXISTING", "M1−[1] DELETED", "M1−[1, 2] ADDED", "D5 EXISTING", "D6 ADDED"]
    root = tree.commit(data("D7"), masked={"M1": [0]}, limits=TreeLimits(root_data_files=1))
    assert root == ["M1 EXISTING", "M2 EXISTING", "M1−[1, 2] DELETED", "M1−[0, 1, 2] ADDED", "D7 ADDED"]
    assert tree.leaf("M2") == ["D5 EXISTING", "D6 EXISTING"]  # the picture adds D7 here: no net change is
    assert tree.live() == ["D7", "M1[3] D4", "M2[0] D5", "M2[1] D6"]  # allowed, so it stays in the root


def test_row_delta_in_the_root():
    tree = MemoryTree()
    tree.commit(data("D1"))
    root = tree.commit(vectors({"V1": "D1"}), data("D2"))
    assert root == ["D1 EXISTING", "V1→D1 ADDED", "D2 ADDED"]
    assert tree.files.stored == []
    assert tree.live() == ["D1", "D2", "V1"]


def test_complex_row_delta():
    tree = MemoryTree()
    added = data("D1", "D2"), vectors({"V1": "D1", "V2": "D2"})
    assert tree.commit(*added, limits=BY_LEAF) == ["M1 ADDED", "DM1→M1 ADDED"]
    root = tree.commit(vectors({"V4": "D1"}), data("D3"), masked={"DM1": [0]}, limits=BY_LEAF)
    assert root == ["M1 EXISTING", "DM1→M1 EXISTING", "M2 ADDED", "DM2→M1 ADDED", "DM1−[0] ADDED"]
    assert tree.leaf("DM2") == ["V4→D1 ADDED"]
    assert tree.leaf("M2") == ["D3 ADDED"]
    assert tree.files.stored == ["M2", "DM2"]
    assert tree.live() == ["DM1[1] V2", "DM2[0] V4", "M1[0] D1", "M1[1] D2", "M2[0] D3"]


def test_removing_a_data_file_and_its_vector_masks_two_leaves():
    tree = MemoryTree()
    tree.commit(data("D1", "D2"), vectors({"V1": "D1", "V2": "D2"}), limits=BY_LEAF)
    root = tree.commit(masked={"M1": [0], "DM1": [0]})
    assert root == ["M1 EXISTING", "DM1→M1 EXISTING", "DM1−[0] ADDED", "M1−[0] ADDED"]
    assert (tree.live(), tree.files.stored) == (["DM1[1] V2", "M1[1] D2"], [])


def test_compaction_during_an_append_is_read():
    """M1 and M2 with their manifest vectors became M3. What vanishes by compaction has no DELETED entry."""
    before = built(
        ["M1 EXISTING", "M2 EXISTING", "M1−[0] EXISTING", "M2−[1] EXISTING"],
        M1=["D1 ADDED", "D2 ADDED", "D3 ADDED"],
        M2=["D4 ADDED", "D5 ADDED", "D6 ADDED"],
    )
    assert live_names(before) == ["D2", "D3", "D4", "D6"]
    after = built(
        ["M3 EXISTING", "D7 ADDED"],
        M3=["D2 EXISTING", "D3 EXISTING", "D4 EXISTING", "D6 EXISTING"],
    )
    assert live_names(after) == ["D2", "D3", "D4", "D6", "D7"]


@pytest.mark.parametrize(
    ("root", "leaves", "live"),
    [
        (
            ["M2 EXISTING", "M3 ADDED"],
            {
                "M2": ["D4 ADDED", "D5 ADDED", "D6 ADDED"],
                "M3": ["D1 EXISTING", "D2 EXISTING", "D3 EXISTING", "D7 ADDED", "D8 ADDED"],
            },
            ["D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8"],
        ),
        (["M2 ADDED"], {"M2": ["D1 DELETED", "D4 EXISTING"]}, ["D4"]),
        (
            ["M1 EXISTING", "M2 ADDED", "M1−[1, 2] DELETED", "M1−[0, 1, 2] ADDED"],
            {
                "M1": ["D1 ADDED", "D2 ADDED", "D3 ADDED", "D4 ADDED"],
                "M2": ["D5 EXISTING", "D6 EXISTING", "D7 ADDED"],
            },
            ["D4", "D5", "D6", "D7"],
        ),
        (
            ["DVM4→DM3 ADDED", "DM3 ADDED"],
            {
                "DM3": ["D1 EXISTING", "D2 EXISTING", "D3 EXISTING", "D4 ADDED"],
                "DVM4": ["V7→D2 EXISTING", "V4→D1 DELETED", "V8→D1 ADDED"],
            },
            ["D1", "D2", "D3", "D4", "V7", "V8"],
        ),
    ],
    ids=["append and compaction", "removal", "overwrite", "row delta"],
)
def test_rewritten_leaves_with_changes_are_read(root, leaves, live):
    """The pictures of the appendix put ADDED and DELETED entries beside EXISTING ones in one leaf. delvec
    never writes such a leaf.
    """
    assert live_names(built(root, **leaves)) == live
