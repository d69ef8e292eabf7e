"""Warns of columns without a qualifier in subqueries that belong to another table than they seem to.

In ``EXISTS (SELECT 1 FROM req r WHERE r.id = id)`` the second ``id`` is a column of ``req``: the condition is
true for every row of the changed table, or for none. Only comparisons of two columns in the subquery's own
WHERE or ON are checked, and only in subqueries that do not name the changed table.

In ``id IN (SELECT id FROM req)``, if ``req`` has no column ``id``, the second ``id`` is a column of the
changed table: the condition is true for every row if ``req`` has rows. Only subqueries over tables that Spark
knows are checked.
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
    """Warn of columns that seem to belong to the changed table but belong to the subquery's, or the
    reverse.
    """
    if "select" not in where.lower():
        return
    try:
        parsed = sqlglot.parse_one(f"SELECT 1 WHERE {where}", read="spark")
    except SqlglotError:
        return
    target_columns = {name.lower() for name in columns}
    for select in parsed.find_all(exp.Select):
        if select is not parsed:
            for column, comparison in _captured(spark, select, target_columns, alias):
                warnings.warn(_message(column, comparison, alias), SubqueryScopeWarning, stacklevel=2)
            for column in _escaped(spark, select, target_columns):
                warnings.warn(_message_of_escape(column, alias), SubqueryScopeWarning, stacklevel=2)


def _message(column: exp.Column, comparison: exp.Binary, alias: str | None) -> str:
    fix = f"{alias}.{column.name}" if alias else f"<alias>.{column.name} (with alias=)"
    return (
        f"{comparison.sql('spark')}: {column.name} is a column of the subquery's own table here, not of the "
        f"table that is changed; write {fix} to mean the latter"
    )


def _message_of_escape(column: exp.Column, alias: str | None) -> str:
    fix = f"; write {alias}.{column.name} to mean it" if alias else ""
    return (
        f"IN (SELECT {column.name} …): no table of the subquery has a column {column.name}, so it is that "
        f"of the table that is changed{fix}"
    )


def _captured(
    spark: SparkSession, select: exp.Select, target_columns: Collection[str], alias: str | None
) -> Iterator[tuple[exp.Column, exp.Binary]]:
    tables = _tables(select)
    names = {table.alias_or_name.lower() for table in tables}
    qualifiers = {column.table.lower() for column in select.find_all(exp.Column)}
    if (alias and alias.lower() in qualifiers) or qualifiers - names - {""}:
        return  # the subquery is correlated
    subquery_columns: set[str] | None = None
    for comparison in _own_comparisons(select):
        bare = [side for side in comparison.find_all(exp.Column) if not side.table]
        column = next((side for side in bare if side.name.lower() in target_columns), None)
        if column is None:
            continue
        subquery_columns = _columns(spark, tables) if subquery_columns is None else subquery_columns
        if column.name.lower() in subquery_columns:
            yield column, comparison


def _own_comparisons(select: exp.Select) -> Iterator[exp.Binary]:
    """The comparisons of two columns in the WHERE and ON of this subquery, but not of nested subqueries."""
    conditions = [select.args.get("where"), *(join.args.get("on") for join in select.args.get("joins") or ())]
    for condition in filter(None, conditions):
        for comparison in condition.find_all(*_COMPARISONS):
            of_columns = isinstance(comparison.left, exp.Column) and isinstance(comparison.right, exp.Column)
            if of_columns and comparison.find_ancestor(exp.Select) is select:
                yield comparison


def _escaped(
    spark: SparkSession, select: exp.Select, target_columns: Collection[str]
) -> Iterator[exp.Column]:
    """The columns without a qualifier that the subquery of an IN selects and that none of its tables has."""
    bare = [column for column in select.expressions if isinstance(column, exp.Column) and not column.table]
    bare = [column for column in bare if column.name.lower() in target_columns]
    if not bare or not _is_in_operand(select):
        return
    subquery_columns = [_columns_of(spark, table) for table in _tables(select)]
    if not subquery_columns or None in subquery_columns:
        return
    names = {name for columns in subquery_columns for name in columns or ()}
    names |= {column.alias.lower() for column in select.expressions if isinstance(column, exp.Alias)}
    yield from (column for column in bare if column.name.lower() not in names)


def _is_in_operand(select: exp.Select) -> bool:
    """Whether ``select`` is the subquery of an IN in the condition itself, and all its tables are visible."""
    parent = select.parent
    while isinstance(parent, (exp.Subquery, exp.SetOperation)):
        parent = parent.parent
    if not isinstance(parent, exp.In) or parent.parent_select is not select.root():
        return False
    return not select.args.get("laterals") and select.root().find(exp.With) is None


def _tables(select: exp.Select) -> list[exp.Expression]:
    sources = [select.args.get("from") or select.args.get("from_"), *(select.args.get("joins") or ())]
    return [source.this for source in sources if source is not None]


def _columns(spark: SparkSession, tables: Collection[exp.Expression]) -> set[str]:
    """The columns of the tables and views that Spark knows."""
    column_sets = (_columns_of(spark, table) for table in tables)
    return {column for columns in column_sets for column in columns or ()}


def _columns_of(spark: SparkSession, table: exp.Expression) -> set[str] | None:
    """The columns of a table or view; None if Spark does not know it, or if the query renames its columns."""
    if not isinstance(table, exp.Table) or table.alias_column_names:
        return None
    if any(table.args.get(part) for part in ("pivots", "joins", "laterals")):
        return None
    name = exp.Table(this=table.this, db=table.args.get("db"), catalog=table.args.get("catalog"))
    try:
        return {column.lower() for column in spark.table(name.sql("spark")).columns}
    except PySparkException:
        return None
