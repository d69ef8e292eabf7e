"""Subqueries that look correlated and are not: a bare column that both the subquery and the table have.

In ``EXISTS (SELECT 1 FROM req r WHERE r.id = id)`` SQL takes ``id`` as a column of ``req``: the condition is
true for every row of the table, or for none. Only comparisons of two columns inside of the subquery's own
WHERE or ON are looked at, and only in subqueries that name the table nowhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator

import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from delvec.errors import SubqueryScopeWarning

_COMPARISONS = (exp.EQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def warn_of_captured_columns(
    spark: SparkSession, where: str, columns: Collection[str], alias: str | None
) -> None:
    """Warn of bare columns that mean the subquery's column where the table's seems to be meant."""
    if "select" not in where.lower():
        return
    try:
        parsed = sqlglot.parse_one(f"SELECT 1 WHERE {where}", read="spark")
    except SqlglotError:
        return
    known = {name.lower() for name in columns}
    for select in parsed.find_all(exp.Select):
        if select is not parsed:
            for column, comparison in _captured(spark, select, known, alias):
                warnings.warn(_message(column, comparison, alias), SubqueryScopeWarning, stacklevel=2)


def _message(column: exp.Column, comparison: exp.Binary, alias: str | None) -> str:
    fix = f"{alias}.{column.name}" if alias else f"<alias>.{column.name} (with alias=)"
    return (
        f"{comparison.sql('spark')}: {column.name} is a column of the subquery's own table here, not of the "
        f"table that is changed; write {fix} to mean the latter"
    )


def _captured(
    spark: SparkSession, select: exp.Select, known: Collection[str], alias: str | None
) -> Iterator[tuple[exp.Column, exp.Binary]]:
    sources = [select.args.get("from") or select.args.get("from_"), *(select.args.get("joins") or ())]
    tables = [source.this for source in sources if source is not None]
    names = {table.alias_or_name.lower() for table in tables}
    qualifiers = {column.table.lower() for column in select.find_all(exp.Column)}
    if (alias and alias.lower() in qualifiers) or qualifiers - names - {""}:
        return  # correlated already
    inside: set[str] | None = None
    for comparison in _own_comparisons(select):
        bare = [side for side in comparison.find_all(exp.Column) if not side.table]
        found = next((side for side in bare if side.name.lower() in known), None)
        if found is None:
            continue
        inside = _columns(spark, tables) if inside is None else inside
        if found.name.lower() in inside:
            yield found, comparison


def _own_comparisons(select: exp.Select) -> Iterator[exp.Binary]:
    """The comparisons of two columns in the WHERE and ON of this subquery, not of those inside of it."""
    conditions = [select.args.get("where"), *(join.args.get("on") for join in select.args.get("joins") or ())]
    for condition in filter(None, conditions):
        for found in condition.find_all(*_COMPARISONS):
            columns = isinstance(found.left, exp.Column) and isinstance(found.right, exp.Column)
            if columns and found.find_ancestor(exp.Select) is select:
                yield found


def _columns(spark: SparkSession, tables: Collection[exp.Expression]) -> set[str]:
    """The columns of the tables and views that Spark knows."""
    found: set[str] = set()
    for table in tables:
        if isinstance(table, exp.Table):
            name = exp.Table(this=table.this, db=table.args.get("db"), catalog=table.args.get("catalog"))
            try:
                found |= {column.lower() for column in spark.table(name.sql("spark")).columns}
            except PySparkException:
                continue
    return found
