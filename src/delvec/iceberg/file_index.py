"""The files of a snapshot for planning: which manifests a condition needs, facts, and deletes.

What concerns all files is computed once for all plans of the snapshot. A plan that needs only some of the
manifests reads only these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.file_facts import SelectableFacts
from delvec.iceberg.delete_scopes import DeleteScopes, find_scopes
from delvec.iceberg.live_entries import FILE_ID, LiveEntries, manifests_of
from delvec.iceberg.plan_tables import used_deletes
from delvec.partition_spec import PartitionSpec
from delvec.predicate import Condition
from delvec.schema import Schema


@dataclass(frozen=True, slots=True)
class Candidates:
    """Data files that a plan looks at: the rows ``rows`` of ``entries`` (`live_files`), and their facts.

    ``is_whole``: the entries are all live data files.
    ``skipped``: the live files in manifests that were not needed.
    """

    entries: pa.Table
    rows: Rows
    facts: SelectableFacts
    is_whole: bool
    skipped: int = 0


class FileIndex:
    """The files of one snapshot."""

    def __init__(self, live: LiveEntries, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self.live = live
        self._schema = schema
        self._specs = specs

    @cached_property
    def facts(self) -> SelectableFacts:
        """Facts about all live data files."""
        return self.live.facts(self.live.data(), self._schema)

    @cached_property
    def scopes(self) -> DeleteScopes:
        """The deletes of all live data files."""
        return find_scopes(self.live.data(), self.live.deletes(), self._specs)

    def candidates(self, condition: Condition | None, among: pa.Array | None) -> Candidates:
        """The files in which ``condition`` may match, as far as their manifests tell; ``among``: file ids."""
        if among is not None:
            return self._among(np.unique(np.asarray(among, dtype=np.int64)))
        numbers, skipped = self._needed_manifests(condition)
        if len(numbers) == len(self.live.data_manifests):
            entries = self.live.data()
            return Candidates(entries, np.arange(len(entries)), self.facts, is_whole=True)
        entries = self.live.entries(numbers)
        facts = self.live.facts(entries, self._schema)
        return Candidates(entries, np.arange(len(entries)), facts, is_whole=False, skipped=skipped)

    def deletes_of(self, candidates: Candidates, rows: Rows) -> tuple[DeleteScopes, pa.Table]:
        """The deletes of the candidates at ``rows`` of their entries, and where each file finds its own."""
        if candidates.is_whole and (len(rows) == len(candidates.entries) or self._has_all_deletes):
            deletes = self.live.deletes()
            scopes, used = used_deletes(self.scopes, rows)
        else:
            chosen = rows_of(candidates.entries, rows)
            deletes = self._deletes_for(chosen)
            scopes = find_scopes(chosen, deletes, self._specs)
            scopes, used = used_deletes(scopes, np.arange(len(chosen)))
        return scopes, deletes if len(used) == len(deletes) else rows_of(deletes, used)

    @property
    def _has_all_deletes(self) -> bool:
        return self.live.is_loaded(self.live.delete_manifests)

    def _deletes_for(self, entries: pa.Table) -> pa.Table:
        """The live delete files of the manifests that may have one for these data files."""
        numbers = self.live.delete_manifests if self._has_all_deletes else self.live.needed_deletes(entries)
        return self.live.entries(numbers)

    def _among(self, file_ids: Rows) -> Candidates:
        is_whole = self.live.is_loaded(self.live.data_manifests)
        if is_whole:
            entries, facts = self.live.data(), self.facts
        else:
            entries = self.live.entries(manifests_of(file_ids))
            facts = self.live.facts(entries, self._schema)
        ids = one_chunk(entries.column(FILE_ID)).to_numpy()
        rows = np.searchsorted(ids, file_ids)
        return Candidates(entries, rows, facts.at(rows), is_whole=is_whole)

    def _needed_manifests(self, condition: Condition | None) -> tuple[Rows, int]:
        """The data manifests that may have a matching file, and the number of files in the others."""
        numbers = self.live.data_manifests
        if condition is None or self.live.is_loaded(numbers):
            return numbers, 0
        return self.live.needed_data(condition, self._schema)
