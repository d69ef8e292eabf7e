"""Queries as DataFrames: tables of ours become relations that Spark knows, the rest of the text stays."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.predicate.settings import SqlSettings
from delvec.schema import Schema
from delvec.spark.conditions import reason_of
from delvec.spark.session import sql_settings
from delvec.spark.types import quoted
from delvec.statements import pruning
from delvec.statements.cursor import Name, Span
from delvec.statements.error_positions import QUERY, pointed_at
from delvec.statements.lexer import Kind, syntax_error
from delvec.statements.parameters import Parameters
from delvec.statements.qualifiers import Qualifier, short_paths
from delvec.statements.scopes import Scopes
from delvec.statements.table_names import Tables, snapshot_of
from delvec.statements.table_references import Relation, nested_relations, relations
from delvec.statements.text_edits import Edit, edited
from delvec.table import Table

_ALL_OF = "SELECT * FROM "
_EXPRESSION = "SELECT "
_Moment = tuple[int | None, dt.datetime | None]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Frames:
    spark: SparkSession
    tables: Tables
    parameters: Parameters
    _moments: dict[int, _Moment] = field(default_factory=dict)

    @cached_property
    def settings(self) -> SqlSettings:
        """How the session reads the statement."""
        return sql_settings(self.spark)

    def rows_of(self, source: Span) -> DataFrame:
        """The rows of what may stand after FROM: a table or a query in parentheses, with an alias."""
        return self.of(source, before=_ALL_OF)

    def of(self, query: Span, before: str = "", replaced: Sequence[Edit] = ()) -> DataFrame:
        """What the query gives; of a command: what it answers. ``replaced``: edits of its text."""
        found = relations(query, listed=before == _ALL_OF)
        ours = [relation for relation in found if self.tables.is_ours(relation.name)]
        versions = [piece for r in ours for piece in (r.version, r.timestamp) if piece is not None]
        edits, args = self.parameters.for_query(query, versions)
        edits = [*edits, *replaced]
        if not ours:
            with pointed_at(self.spark, query, around=(before, QUERY[1])):
                text = edited(query.source, query.start, query.end, edits)
                return self.spark.sql(before + text, args=args)
        scopes = self.scopes(query, ours, before if before == _ALL_OF else "")
        frames = {f"t{number}": self.read(each, query, scopes) for number, each in enumerate(ours)}
        edits = [Edit(edit.start, edit.end, _escaped(edit.text)) for edit in edits]
        for name, relation in zip(frames, ours, strict=True):
            edits += _replacing(relation, "{" + name + "}", _escaped)
        edits += [] if scopes is None else short_paths(scopes, self.qualifiers(ours))
        text = edited(query.source, query.start, query.end, edits, _escaped)
        with pointed_at(self.spark, query, around=(before, QUERY[1])):
            # Spark's own way to name a DataFrame in a query. It leaves no view behind, on Connect too,
            # where a query is analysed each time it runs.
            return self.spark.sql(before + text, args=args, **frames)

    @contextmanager
    def subqueries(self, *spans: Span, target: Table) -> Iterator[list[Edit]]:
        """Edits that make the tables in subqueries of conditions known to Spark, for as long as this lasts.

        ``target`` is the table that is changed: what a subquery finds in it could change while it runs.
        """
        views: list[str] = []
        edits: list[Edit] = []
        try:
            for span in spans:
                ours = self.nested(span)
                scopes = self.scopes(span, ours) if ours else None
                for relation in ours:
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
        """The scopes of a text that is a query with ``before``; None where they are not certain."""
        if self.settings.double_quoted_names and '"' in span.text:
            return None  # the token reader takes these names for texts
        return Scopes.of(span, relations, before)

    def nested(self, span: Span) -> list[Relation]:
        """The tables of ours that subqueries of an expression read."""
        return [relation for relation in nested_relations(span) if self.tables.is_ours(relation.name)]

    def qualifiers(self, ours: Sequence[Relation]) -> Mapping[int, Callable[[], Qualifier]]:
        """What the query calls these tables, by where they are named."""
        return {relation.span.start: partial(self._qualifier, relation) for relation in ours}

    def _qualifier(self, relation: Relation) -> Qualifier:
        schema = snapshot_of(self.tables.of(relation.name), *self._moment(relation)).schema
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
        """The table's rows at the version asked for, those left out that WHERE surely excludes."""
        table = self.tables.of(relation.name)
        version, timestamp = self._moment(relation)
        where = None
        found = pruning.filters(relation, scopes)
        if found:
            called = self._qualifier(relation)
            where = pruning.condition(found, called, query, self.parameters, self.settings)
        return table.to_df(version=version, timestamp=timestamp, where=where)

    def _moment(self, relation: Relation) -> _Moment:
        """The version and the timestamp that are asked for; computed once, as it may be ``now()``."""
        start = relation.span.start
        if start not in self._moments:
            version = None if relation.version is None else self._version(relation.version)
            timestamp = None if relation.timestamp is None else self._instant(relation.timestamp)
            self._moments[start] = version, timestamp
        return self._moments[start]

    def _version(self, asked: Span) -> int:
        (token, *others) = asked.tokens
        value = self.parameters.value(token) if token.kind is Kind.MARKER else token.text.strip("'\"")
        if others or isinstance(value, bool) or not str(value).isdecimal():
            raise syntax_error(asked.source, asked.start, f"version is {asked.text}, expected a whole number")
        return int(value)

    def _instant(self, asked: Span) -> dt.datetime:
        """The time that the expression is, in the session's time zone where it names none."""
        query = f"SELECT unix_micros(CAST(({self.parameters.text(asked)}) AS TIMESTAMP_LTZ))"
        try:
            with pointed_at(self.spark, asked):
                micros = self.spark.sql(query).collect()[0][0]
        except PySparkException as error:
            raise InvalidOperationError(f"timestamp {asked.text} is invalid: {reason_of(error)}") from None
        if micros is None:
            raise syntax_error(asked.source, asked.start, f"timestamp {asked.text} is null, expected a time")
        return _EPOCH + dt.timedelta(microseconds=micros)


def _replacing(relation: Relation, text: str, kept: Callable[[str], str]) -> list[Edit]:
    """The table's name and version replaced, by something that still goes by the table's name."""
    edits = [Edit(relation.span.start, relation.span.end, text)]
    if relation.alias is None and relation.alias_at is not None:
        alias = kept(quoted(relation.name.parts[-1]))
        edits.append(Edit(relation.alias_at, relation.alias_at, f" AS {alias}"))
    return edits


def _escaped(text: str) -> str:
    """Text in which no brace stands for a value."""
    return text.replace("{", "{{").replace("}", "}}")
