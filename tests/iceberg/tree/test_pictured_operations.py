"""The operations that the proposal of the metadata tree pictures, entry by entry.

Vectors are V1, V2; delete manifests DM1, DM2; ``M1−[1]`` is a manifest vector that masks position 1 of M1.
"""

from __future__ import annotations

from delvec.iceberg.tree.limits import TreeLimits
from memory_tree import MemoryTree, data, vectors

BY_LEAF = TreeLimits(root_data_files=0, root_deletes=0, affiliated_entries=1)


def with_leaf(*names: str) -> MemoryTree:
    """A table whose first commit is a data manifest M1 of these files."""
    tree = MemoryTree()
    assert tree.commit(data(*names), limits=BY_LEAF) == ["M1 ADDED"]
    assert tree.leaf("M1") == [f"{name} ADDED" for name in names]
    return tree


def test_append_to_the_root():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(data("D4")) == ["M1 EXISTING", "D4 ADDED"]
    assert tree.files.stored == []
    assert tree.commit(data("D5")) == ["M1 EXISTING", "D4 EXISTING", "D5 ADDED"]
    assert tree.files.stored == tree.files.read == []


def test_append_by_a_new_data_manifest():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(data("D4", "D5", "D6"), limits=BY_LEAF) == ["M1 EXISTING", "M2 ADDED"]
    assert tree.leaf("M2") == ["D4 ADDED", "D5 ADDED", "D6 ADDED"]
    assert tree.files.stored == ["M2"]


def test_remove_from_the_root():
    tree = MemoryTree()
    tree.commit(data("D1", "D2"))
    assert tree.commit(removed=[tree.row("D1")]) == ["D2 EXISTING", "D1 DELETED"]
    assert tree.commit(data("D3")) == ["D2 EXISTING", "D3 ADDED"]
    assert tree.files.stored == []


def test_remove_from_a_leaf():
    tree = with_leaf("D1", "D2", "D3")
    assert tree.commit(masked={"M1": [1]}) == ["M1 EXISTING", "M1−[1] ADDED"]
    assert tree.files.stored == []


def test_a_second_removal_keeps_the_old_manifest_vector_for_one_snapshot():
    tree = with_leaf("D1", "D2", "D3", "D4")
    tree.commit(masked={"M1": [1]})
    assert tree.commit(masked={"M1": [2]}) == ["M1 EXISTING", "M1−[1] DELETED", "M1−[1, 2] ADDED"]
    assert tree.commit(masked={"M1": [0]}) == ["M1 EXISTING", "M1−[1, 2] DELETED", "M1−[0, 1, 2] ADDED"]
    assert tree.commit(data("D5")) == ["M1 EXISTING", "M1−[0, 1, 2] EXISTING", "D5 ADDED"]


def test_overwrite_in_the_root():
    tree = MemoryTree()
    assert tree.commit(data("D1")) == ["D1 ADDED"]
    assert tree.commit(data("D2"), removed=[tree.row("D1")]) == ["D1 DELETED", "D2 ADDED"]
    assert tree.commit(data("D3"), removed=[tree.row("D2")]) == ["D2 DELETED", "D3 ADDED"]


def test_overwrite_in_a_leaf():
    tree = with_leaf("D1", "D2", "D3")
    root = tree.commit(data("D4"), masked={"M1": [1]})
    assert root == ["M1 EXISTING", "M1−[1] ADDED", "D4 ADDED"]


def test_row_delta_in_the_root():
    tree = MemoryTree()
    tree.commit(data("D1"))
    root = tree.commit(vectors({"V1": "D1"}), data("D2"))
    assert root == ["D1 EXISTING", "V1→D1 ADDED", "D2 ADDED"]
    assert tree.files.stored == []


def test_complex_row_delta():
    tree = MemoryTree()
    added = data("D1", "D2"), vectors({"V1": "D1", "V2": "D2"})
    assert tree.commit(*added, limits=BY_LEAF) == ["M1 ADDED", "DM1→M1 ADDED"]
    root = tree.commit(vectors({"V4": "D1"}), data("D3"), masked={"DM1": [0]}, limits=BY_LEAF)
    assert root == ["M1 EXISTING", "DM1→M1 EXISTING", "M2 ADDED", "DM2→M1 ADDED", "DM1−[0] ADDED"]
    assert tree.leaf("DM2") == ["V4→D1 ADDED"]
    assert tree.leaf("M2") == ["D3 ADDED"]
    assert tree.files.stored == ["M2", "DM2"]
