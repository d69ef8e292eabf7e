"""MERGE: joins the target to the source once, finds the rows to change and computes the new rows.

    merge_request   the arguments, verified before a row is read
    merge_source    the source's rows, materialised once, each with a number: all jobs see the same rows
    merge_keys      the range of the source's keys, which selects the files of the target to read
    merge_join      pairs of rows: target rows that a clause changes, and the numbers of source rows that
                    match
    merge_run       vectors for the target rows in the pairs; new rows from the pairs, and from the source
                    rows whose number is in no pair; the commit
    merge_probe     answers to conflict checks

The join is inner, or left outer if clauses apply to unmatched target rows. So Spark can broadcast a small
source, and neither shuffles the target nor reads it twice.
"""

from __future__ import annotations

from delvec.conflicts import Rerun
from delvec.spark.merge_clauses import NOT_MATCHED, verify_clauses
from delvec.spark.merge_join import MergeJoin
from delvec.spark.merge_request import Merge, merge_names, verified_values
from delvec.spark.merge_run import MergeRun
from delvec.spark.merge_schema import assigned_columns
from delvec.spark.merge_source import MergeSource
from delvec.spark.target import OperationResult, Target


def merge(target: Target, request: Merge, rows: MergeSource) -> OperationResult | Rerun:
    """Run the merge once. ``rows`` keeps the source's rows for the next run."""
    return prepared(target, request, rows).result()


def prepared(target: Target, request: Merge, rows: MergeSource) -> MergeRun:
    """The merge, verified as far as possible before a row is read."""
    verify_clauses(request.clauses)
    if any(clause.kind != NOT_MATCHED for clause in request.clauses):
        target.verify_removable()
    if request.merge_schema:
        target = target.grown(assigned_columns(request.clauses, target.schema, request.source.schema))
    _ = target.rules  # refuses a table that cannot be written
    join = MergeJoin(target, request, merge_names(target, request), verified_values(target, request))
    return MergeRun(join, rows)
