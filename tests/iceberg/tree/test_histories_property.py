"""Random histories of a metadata tree, against a plain-Python model of the live entries.

Each snapshot is read again by a naive reader. The limits are random, so that entries are flushed often.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.live import live_leaf, root_files
from memory_tree import MemoryTree, data, equality_deletes, vectors
from naive_tree import (
    ADDED,
    DATA,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EQUALITY,
    EXISTING,
    MASK,
    ROOT,
    VECTOR,
    Live,
    affinities,
    live_entries,
    mask_of,
    parquet_entries,
)


def random_limits(rng: random.Random) -> TreeLimits:
    return TreeLimits(
        root_data_files=rng.randint(0, 6),
        root_deletes=rng.randint(0, 5),
        leaf_entries=rng.choice([1, 2, 3, 8]),
        inline_bytes=rng.choice([0, 45, 1000]),
        affiliated_entries=rng.randint(1, 3),
        affiliated_manifests=rng.randint(1, 2),
        unaffiliated_manifests=rng.randint(1, 2),
    )


@dataclass(frozen=True)
class Known:
    """What must stay true of a live entry for as long as it is live."""

    content: int
    rows: int
    snapshot_id: int
    sequence: int
    file_sequence: int
    referenced: str | None = None


@dataclass
class History:
    """A tree, and the model of its live entries."""

    limits: TreeLimits
    tree: MemoryTree = field(init=False)
    entries: dict[str, Known] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    gone: dict[str, Known] = field(default_factory=dict)
    number: int = 0
    next_row_id: int = 0

    def __post_init__(self) -> None:
        self.tree = MemoryTree(self.limits)

    def step(self, rng: random.Random) -> None:
        before = {live.name: live for live in self.read()}
        files = sorted(name for name, known in self.entries.items() if known.content == DATA)
        chosen = rng.sample(files, min(len(files), rng.choice([0, 1, 2, 3, 6])))
        cut = rng.randint(0, len(chosen))
        removed, changed = chosen[:cut], chosen[cut:]
        equality = sorted(name for name, known in self.entries.items() if known.content == EQUALITY)
        dropped = [name for name in equality if rng.random() < 0.3]
        new = [self._name("D") for _ in range(rng.choice([0, 1, 2, 3, 7]))]
        rows = rng.randint(0, 9)
        keys = [self._name("E") for _ in range(rng.choice([0, 0, 1, 2]))]
        back = [name for name in sorted(self.gone) if rng.random() < 0.2][:2]
        gone = {*removed, *dropped, *self._vectors_of({*removed, *changed})}
        old = {f"{name}": self._name("V") for name in changed}
        restored = [
            data(
                name,
                rows=self.gone[name].rows,
                sequence_number=self.gone[name].sequence,
                first_row_id=self.row_ids[name],
            )
            for name in back
        ]
        self._commit(
            before,
            gone,
            [
                data(*new, rows=rows),
                vectors({v: d for d, v in old.items()}),
                equality_deletes(*keys),
                *restored,
            ],
        )
        sequence, snapshot = self.tree.sequence, 100 + self.tree.sequence
        own = Known(DATA, rows, snapshot, sequence, sequence)
        for name in gone:
            known = self.entries.pop(name)
            if known.content == DATA:
                self.gone[name] = known
        self.entries |= dict.fromkeys(new, own)
        self.entries |= {v: replace(own, content=VECTOR, rows=1, referenced=d) for d, v in old.items()}
        self.entries |= {name: replace(own, content=EQUALITY, rows=3) for name in keys}
        for name in back:
            known = self.gone.pop(name)
            self.entries[name] = replace(own, rows=known.rows, sequence=known.sequence)
        self._verify(new)

    def read(self) -> list[Live]:
        files = self.tree.files
        return live_entries(
            self.root,
            lambda place: parquet_entries(files.leaves[place]),
            lambda place, offset, _: files.blobs[place, offset],
        )

    @property
    def root(self) -> list[dict]:
        """The entries of the newest root, as the naive reader reads them."""
        return parquet_entries(self.tree.root_file) if self.tree.root_file else []

    def _commit(self, before: dict[str, Live], gone: set[str], added: list) -> None:
        masked: dict[str, list[int]] = {}
        for name in sorted(gone):
            masked.setdefault(before[name].manifest, []).append(before[name].position)
        rows = masked.pop(ROOT, [])
        self.masked = masked
        self.masks = self._masks(ADDED, EXISTING)
        self.before = Counter(
            (live.content == DATA)
            for live in before.values()
            if live.manifest == ROOT and live.name not in gone
        )
        self.added = Counter(
            entry == DATA for part in added for entry in part.column("content_type").to_pylist()
        )
        self.tree.commit(*added, removed=rows, masked=masked)

    def _vectors_of(self, files: set[str]) -> set[str]:
        return {name for name, known in self.entries.items() if known.referenced in files}

    def _name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def _verify(self, new: list[str]) -> None:
        live = self.read()
        found = {
            one.name: Known(
                one.content, one.rows, one.snapshot_id, one.sequence, one.file_sequence, one.referenced
            )
            for one in live
        }
        assert len(found) == len(live)
        assert found == self.entries
        assert self._own_reading() == {
            (one.name, one.manifest, one.position, one.first_row_id) for one in live
        }
        self._verify_row_ids(live, new)
        self._verify_manifest_vectors()
        self._verify_statuses()
        self._verify_affinity(live)
        self._verify_limits(live)

    def _verify_row_ids(self, live: list[Live], new: list[str]) -> None:
        """A file keeps its row ids. New files take the ids that follow, without gaps."""
        ids = {one.name: (one.first_row_id, one.rows) for one in live if one.content == DATA}
        for name, (first, _) in ids.items():
            assert self.row_ids.setdefault(name, first) == first
        taken = sorted(ids[name] for name in new)
        free = self.next_row_id
        for first, rows in taken:
            assert first == free
            free += rows
        assert self.tree.next_row_id == free
        self.next_row_id = free

    def _own_reading(self) -> set[tuple]:
        """The live entries as delvec reads them."""
        root, files = self.tree.root, self.tree.files
        tables = {leaf.location: live_leaf(root, leaf, files) for leaf in root.leaves}
        tables[ROOT] = root_files(root, (DATA, VECTOR, EQUALITY))
        return {
            (entry["location"], place, entry["position"], entry["first_row_id"])
            for place, table in tables.items()
            for entry in table.to_pylist()
        }

    def _masks(self, *statuses: int) -> dict[str, set[int]]:
        blobs = self.tree.files.blobs
        return {
            entry["referenced_file"]: mask_of(entry, lambda place, at, _: blobs[place, at])
            for entry in self.root
            if entry["content_type"] == MASK and entry["status"] in statuses
        }

    def _verify_manifest_vectors(self) -> None:
        """A leaf that the commit masks has a new vector, and its old one as DELETED."""
        new, old, kept = (self._masks(status) for status in (ADDED, DELETED, EXISTING))
        before = self.masks
        assert new == {leaf: before.get(leaf, set()) | set(at) for leaf, at in self.masked.items()}
        assert old == {leaf: before[leaf] for leaf in self.masked if leaf in before}
        assert all(before[leaf] == mask for leaf, mask in kept.items())
        leaves = {leaf.location for leaf in self.tree.root.leaves}
        assert leaves >= {*new, *old, *kept}
        assert not new.keys() & kept.keys()

    def _verify_statuses(self) -> None:
        snapshot = 100 + self.tree.sequence
        for entry in self.root:
            if entry["status"] in (ADDED, DELETED):
                assert entry["snapshot_id"] == snapshot
            elif entry["content_type"] not in (DATA_MANIFEST, DELETE_MANIFEST):
                assert entry["snapshot_id"] < snapshot
            if entry["content_type"] in (DATA_MANIFEST, DELETE_MANIFEST):
                leaf = parquet_entries(self.tree.files.leaves[entry["location"]])
                counts = Counter(one["status"] for one in leaf)
                assert entry["record_count"] == len(leaf)
                assert entry["added_files_count"] == counts[ADDED]
                assert entry["existing_files_count"] == counts[EXISTING]
                assert entry["deleted_files_count"] == counts[DELETED] == 0
                assert len(counts) == 1
            assert (entry["content_type"] == MASK) <= (entry["record_count"] > 0)

    def _verify_affinity(self, live: list[Live]) -> None:
        """What is affiliated with a data manifest is about its files only; a vector that is affiliated with
        another one would be missed by a plan.
        """
        owners = {one.name: one.manifest for one in live if one.content == DATA}
        affiliated = affinities(self.root)
        manifests = {e["location"] for e in self.root if e["status"] != DELETED}
        for one in live:
            owner = affiliated.get(one.manifest)
            if owner is not None:
                assert one.content == VECTOR
                assert owners[one.referenced] == owner
        for owner, count in Counter(place for place in affiliated.values() if place).items():
            assert owner in manifests
            assert count <= self.limits.affiliated_manifests * -(-8 // self.limits.leaf_entries)

    def _verify_limits(self, live: list[Live]) -> None:
        """The root keeps its limits. A commit that stays within them stores no leaf."""
        in_root = Counter(one.content == DATA for one in live if one.manifest == ROOT)
        limits = {True: self.limits.root_data_files, False: self.limits.root_deletes}
        fits = True
        for is_data, limit in limits.items():
            assert in_root[is_data] <= limit
            fits = fits and self.before[is_data] + self.added[is_data] <= limit
        leaves = [name for name in self.tree.files.stored if not name.startswith("P")]
        puffins = len(self.tree.files.stored) - len(leaves)
        assert puffins <= 1
        if fits and not self._has_many_unaffiliated():
            assert leaves == []

    def _has_many_unaffiliated(self) -> bool:
        return bool(self.tree.last and self.tree.last.dropped_leaves)


def run(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    history = History(random_limits(rng))
    for _ in range(steps):
        history.step(rng)


@pytest.mark.parametrize("seed", range(12))
def test_random_histories(seed: int):
    run(seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 300))
def test_many_random_histories(seed: int):
    run(seed, 25)
