"""Runs queries: delvec's tables in the text are replaced by DataFrames, and Spark runs the rest unchanged."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession

from delvec.errors import UnsupportedFeatureError
from delvec.predicate.settings import SqlSettings
from delvec.schema import Schema
from delvec.spark.session import sql_settings
from delvec.spark.types import quoted
from delvec.statements import run_table_changes, where_conjuncts
from delvec.statements.cursor import Name, Span
from delvec.statements.error_positions import QUERY, pointed_at
from delvec.statements.lexer import Kind, syntax_error
from delvec.statements.opened_tables import Tables, snapshot_of
from delvec.statements.parameters import Parameters
from delvec.statements.qualifiers import Qualifier, short_paths
from delvec.statements.scopes import Scopes
from delvec.statements.table_references import Relation, nested_relations, relations
from delvec.statements.text_edits import Edit, edited
from delvec.statements.time_values import instant
from delvec.table import Table

_ALL_OF = "SELECT * FROM "
_EXPRESSION = "SELECT "
_TimeTravel = tuple[int | None, dt.datetime | None, str | None]


@dataclass(frozen=True)
class Frames:
    """Turns the queries of one statement into DataFrames."""

    spark: SparkSession
    tables: Tables
    parameters: Parameters
    _versions: dict[int, _TimeTravel] = field(default_factory=dict)

    @cached_property
    def settings(self) -> SqlSettings:
        """The session's settings that change how a statement is read."""
        return sql_settings(self.spark)

    def rows_of(self, source: Span) -> DataFrame:
        """The rows of a relation after FROM: a table or a query in parentheses, with an alias."""
        return self.of(source, before=_ALL_OF)

    def of(
        self,
        query: Span,
        before: str = "",
        replaced: Sequence[Edit] = (),
        scans: Mapping[int, DataFrame] | None = None,
    ) -> DataFrame:
        """The result of a query or a command. ``before``: text to put before it; ``replaced``: edits of it;
        ``scans``: rows to read instead of a table, by the position of its name.
        """
        listed = before == _ALL_OF
        delvec_tables = [each for each in relations(query, listed=listed) if self.tables.is_ours(each.name)]
        replaced_parts = [span for r in delvec_tables for span in _replaced_parts(r)]
        edits, args = self.parameters.for_query(query, replaced_parts)
        edits = [*edits, *replaced]
        if not delvec_tables:
            with pointed_at(self.spark, query, around=(before, QUERY[1])):
                text = edited(query.source, query.start, query.end, edits)
                return self.spark.sql(before + text, args=args)
        scopes = self.scopes(query, delvec_tables, before if listed else "")
        frames = {
            f"t{number}": (scans or {}).get(each.span.start) or self.read(each, query, scopes)
            for number, each in enumerate(delvec_tables)
        }
        edits = [Edit(edit.start, edit.end, _escaped(edit.text)) for edit in edits]
        for name, relation in zip(frames, delvec_tables, strict=True):
            edits += _replacing(relation, "{" + name + "}", _escaped)
        edits += [] if scopes is None else short_paths(scopes, self.qualifiers(delvec_tables))
        text = edited(query.source, query.start, query.end, edits, _escaped)
        with pointed_at(self.spark, query, around=(before, QUERY[1])):
            # Spark's own way to use a DataFrame in a query. It creates no view, even on Connect, which
            # analyses a query each time it runs.
            return self.spark.sql(before + text, args=args, **frames)

    @contextmanager
    def subqueries(self, *spans: Span, target: Table) -> Iterator[list[Edit]]:
        """Edits that replace delvec's tables in subqueries by temporary views, which exist inside the
        context.

        ``target`` is the changed table. A subquery over it is refused: its rows could change during the run.
        """
        views: list[str] = []
        edits: list[Edit] = []
        try:
            for span in spans:
                delvec_tables = self.nested(span)
                scopes = self.scopes(span, delvec_tables) if delvec_tables else None
                for relation in delvec_tables:
                    self._verify_other(relation, target)
                    views.append(f"_delvec_{uuid.uuid4().hex}")
                    self.read(relation, span, scopes).createTempView(views[-1])
                    edits += _replacing(relation, views[-1], str)
            yield edits
        finally:
            for view in views:
                self.spark.catalog.dropTempView(view)

    def scopes(
        self, span: Span, relations: Sequence[Relation] = (), before: str = _EXPRESSION
    ) -> Scopes | None:
        """The scopes of a text that becomes a query with ``before``; None if they are not certain."""
        if self.settings.double_quoted_names and '"' in span.text:
            return None  # delvec's lexer reads these names as strings
        return Scopes.of(span, relations, before)

    def nested(self, span: Span) -> list[Relation]:
        """The delvec tables that subqueries of an expression read."""
        return [relation for relation in nested_relations(span) if self.tables.is_ours(relation.name)]

    def qualifiers(self, delvec_tables: Sequence[Relation]) -> Mapping[int, Callable[[], Qualifier]]:
        """The qualifiers of these tables, by the position of their names."""
        return {relation.span.start: partial(self._qualifier, relation) for relation in delvec_tables}

    def _qualifier(self, relation: Relation) -> Qualifier:
        schema = snapshot_of(self.tables.of(relation.name), *self.version_of(relation)).schema
        return self.qualifier(relation.name, relation.alias, schema)

    def qualifier(self, table: Name, alias: str | None, schema: Schema) -> Qualifier:
        return Qualifier.of(table, alias, schema, case_sensitive=self.settings.case_sensitive)

    def _verify_other(self, relation: Relation, target: Table) -> None:
        if self.tables.of(relation.name).location == target.location:
            raise UnsupportedFeatureError(
                f"the condition reads {relation.name}, the table that is changed, in a subquery, expected "
                "other tables there; MERGE can read it as its source",
                feature="subquery over the changed table",
            )

    def read(self, relation: Relation, query: Span, scopes: Scopes | None) -> DataFrame:
        """The table's rows at the version of AS OF, without files that WHERE excludes."""
        table = self.tables.of(relation.name)
        if relation.changes is not None:
            return run_table_changes.rows(self.spark, table, relation.changes, self.parameters)
        version, timestamp, ref = self.version_of(relation)
        where = None
        filters = where_conjuncts.filters(relation, scopes)
        if filters:
            qualifier = self._qualifier(relation)
            where = where_conjuncts.condition(filters, qualifier, query, self.parameters, self.settings)
        return table.to_df(version=version, timestamp=timestamp, ref=ref, where=where)

    def version_of(self, relation: Relation) -> _TimeTravel:
        """The version, timestamp or ref of AS OF; computed once, because a timestamp may be ``now()``."""
        start = relation.span.start
        if start not in self._versions:
            version = None if relation.version is None else self.version_or_ref(relation.version)
            timestamp = None if relation.timestamp is None else self.instant(relation.timestamp)
            ref = version if isinstance(version, str) else None
            self._versions[start] = (None if isinstance(version, str) else version), timestamp, ref
        return self._versions[start]

    def version(self, expression: Span) -> int:
        """The number after VERSION AS OF."""
        value = self.version_or_ref(expression)
        if isinstance(value, str):
            raise _not_a_version(expression, "a whole number")
        return value

    def version_or_ref(self, expression: Span) -> int | str:
        """The value after VERSION AS OF: a number, or a string that names a branch or tag."""
        (token, *more_tokens) = expression.tokens
        is_marker = token.kind is Kind.MARKER
        value = self.parameters.value(token) if is_marker else token.text.strip("'\"")
        if not more_tokens and not isinstance(value, bool) and str(value).isdecimal():
            return int(value)
        is_text = isinstance(value, str) and value and (is_marker or token.text[0] in "'\"")
        if more_tokens or not is_text:
            raise _not_a_version(expression, "a whole number, or the name of a branch or tag in quotes")
        return str(value)

    def instant(self, expression: Span) -> dt.datetime:
        """The value of a timestamp expression; without a time zone it is in the session's."""
        return instant(self.spark, expression, self.parameters)


def _not_a_version(expression: Span, expected: str) -> Exception:
    problem = f"version is {expression.text}, expected {expected}"
    return syntax_error(expression.source, expression.start, problem)


def _replaced_parts(relation: Relation) -> list[Span]:
    """The parts of a relation that may have markers and that Spark does not see."""
    parts = [relation.version, relation.timestamp]
    parts += [] if relation.changes is None else [relation.changes.arguments]
    return [part for part in parts if part is not None]


def _replacing(relation: Relation, text: str, convert: Callable[[str], str]) -> list[Edit]:
    """Edits that replace a table's name and version by ``text``, with the table's name as its alias."""
    edits = [Edit(relation.span.start, relation.span.end, text)]
    if relation.alias is None and relation.alias_at is not None:
        alias = convert(quoted(relation.name.parts[-1]))
        edits.append(Edit(relation.alias_at, relation.alias_at, f" AS {alias}"))
    return edits


def _escaped(text: str) -> str:
    """Text whose braces Spark does not read as placeholders."""
    return text.replace("{", "{{").replace("}", "}}")
