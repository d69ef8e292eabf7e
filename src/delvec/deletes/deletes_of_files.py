"""Which deletes of rows by position apply to which data files of a plan.

    vector         applies to its file, and replaces the file's position files
    position file  applies to the files of its group whose data sequence is not above its own sequence;
                   a sequence that is not recorded excludes nothing

Equality files delete rows by value: `delvec.deletes.equality` has their rule. This module does not read the
deletes themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows
from delvec.plan import EQUALITY_FILE, POSITION_FILE, ScanPlan

_UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class DeleteMatches:
    """Pairs of a data file and a delete that applies to it: ``file[n]`` is a row of ``ScanPlan.files``,
    ``delete[n]`` a row of ``ScanPlan.deletes``. Pairs are ordered by file.
    """

    file: Rows
    delete: Rows


def match_deletes(plan: ScanPlan) -> DeleteMatches:
    """All pairs of a data file and a delete of positions that applies to it, deletes of unknown kinds
    included.
    """
    vector = plan.files.column("vector")
    has_vector = pc.is_valid(vector).to_numpy()
    of_vectors = np.flatnonzero(has_vector)
    vectors = pc.drop_null(vector).to_numpy().astype(np.int64)
    of_groups, grouped = _expand_groups(plan)
    if not len(of_groups):
        return DeleteMatches(of_vectors, vectors)
    applies = _apply_by_rule(plan, has_vector, of_groups, grouped)
    files = np.concatenate([of_vectors, of_groups[applies]])
    deletes = np.concatenate([vectors, grouped[applies]])
    order = np.argsort(files, kind="stable")
    return DeleteMatches(files[order], deletes[order])


def match_equality_files(plan: ScanPlan) -> DeleteMatches:
    """All pairs of a data file and an equality file that applies to it. There can be many: for plans of few
    files, to show them.
    """
    files, deletes = _expand_groups(plan, equality=True)
    data = _numbers(plan.files.column("data_sequence"))[files]
    delete = _numbers(plan.deletes.column("sequence"))[deletes]
    applies = (data < delete) | (delete == _UNKNOWN) | (data == _UNKNOWN)
    return DeleteMatches(files[applies], deletes[applies])


def applied_deletes(plan: ScanPlan) -> Mask:
    """For each of the plan's deletes whether it applies to any of the plan's files. A position file that the
    files of a partition share counts for each of them that has no vector.
    """
    applied = np.zeros(len(plan.deletes), np.bool_)
    applied[match_deletes(plan).delete] = True
    applied[pc.equal(plan.deletes.column("kind"), EQUALITY_FILE).to_numpy()] = False
    group = plan.files.column("delete_group")
    has_group = pc.is_valid(group).to_numpy()
    oldest = np.full(len(plan.delete_groups), np.iinfo(np.int64).max)
    data = pc.fill_null(plan.files.column("data_sequence"), _UNKNOWN).to_numpy()
    np.minimum.at(oldest, pc.drop_null(group).to_numpy(), data[has_group])
    sequence = pc.fill_null(plan.deletes.column("sequence"), np.iinfo(np.int64).max).to_numpy()
    is_equality = pc.equal(plan.deletes.column("kind"), EQUALITY_FILE).to_numpy()
    for number in np.unique(pc.drop_null(group).to_numpy()).tolist():
        members = np.array(plan.delete_groups[number], np.int64)
        applied[members] |= is_equality[members] & (sequence[members] > oldest[number])
    return applied


def _expand_groups(plan: ScanPlan, *, equality: bool = False) -> tuple[Rows, Rows]:
    """Each file that has a group, paired with each delete of the group: equality files, or all others."""
    shared = _expand(plan, "delete_group", equality=equality)
    own = _expand(plan, "own_deletes", equality=equality)
    return np.concatenate([shared[0], own[0]]), np.concatenate([shared[1], own[1]])


def _expand(plan: ScanPlan, column: str, *, equality: bool) -> tuple[Rows, Rows]:
    group = plan.files.column(column)
    files = np.flatnonzero(pc.is_valid(group).to_numpy())
    if not len(files):
        return files, files
    groups = pc.drop_null(group).to_numpy().astype(np.int64)
    is_wanted = pc.equal(plan.deletes.column("kind"), EQUALITY_FILE).to_numpy() == equality
    by_group = [np.array(deletes, np.int64) for deletes in plan.delete_groups]
    by_group = [deletes[is_wanted[deletes]] for deletes in by_group]
    lengths = np.array([len(deletes) for deletes in by_group], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    members = np.concatenate(by_group)
    counts = lengths[groups]
    index_in_group = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(files, counts), members[np.repeat(starts[groups], counts) + index_in_group]


def _apply_by_rule(plan: ScanPlan, has_vector: Mask, files: Rows, deletes: Rows) -> Mask:
    """Which pairs of a file and a delete of its group satisfy the rules of position files."""
    is_position_file = pc.equal(plan.deletes.column("kind"), POSITION_FILE).to_numpy()[deletes]
    data = _numbers(plan.files.column("data_sequence"))[files]
    delete = _numbers(plan.deletes.column("sequence"))[deletes]
    is_older = (data <= delete) | (delete == _UNKNOWN)  # an unknown data sequence is below all others
    applies: Mask = ~is_position_file | (is_older & ~has_vector[files])
    return applies


def _numbers(sequences: pa.ChunkedArray) -> Rows:
    numbers: Rows = pc.fill_null(sequences, _UNKNOWN).to_numpy()
    return numbers
