"""Runs DELETE, UPDATE and MERGE with the verbs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.predicate.parser import parse_expression
from delvec.spark import merge_clauses
from delvec.spark.merge_builder import MergeBuilder
from delvec.spark.target import OperationResult
from delvec.spark.types import quoted
from delvec.statements.cursor import Span
from delvec.statements.default_keyword import default_of
from delvec.statements.error_positions import pointed_at
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.qualifiers import Qualifier, short_paths, without_qualifier
from delvec.statements.run_query import Frames
from delvec.statements.scopes import Scopes
from delvec.statements.statement import Assignment, Delete, Merge, MergeClause, Update
from delvec.statements.table_references import relations
from delvec.statements.text_edits import Edit, edited
from delvec.table import Table

_SOURCE = "source"


def delete(frames: Frames, statement: Delete, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(statement.table)
    target = _target(frames, statement, table)
    with _Texts(frames, table, target, _present(statement.where)) as texts:
        return table.delete(texts.condition(statement.where), alias=target.names[-1], dry_run=dry_run)


def update(frames: Frames, statement: Update, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(statement.table)
    target = _target(frames, statement, table)
    spans = [assignment.value for assignment in statement.set] + _present(statement.where)
    with _Texts(frames, table, target, spans) as texts:
        values: dict[str, str] = {}
        for assignment in statement.set:
            _put(values, assignment, target, table, texts.of(assignment.value))
        where = texts.condition(statement.where)
        return table.update(values, where, alias=target.names[-1], dry_run=dry_run)


def merge(frames: Frames, statement: Merge, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(statement.table)
    target = _target(frames, statement, table)
    source_alias = statement.source_alias or _other_alias(target.names[-1])
    spans = [statement.on, *(span for clause in statement.clauses for span in _spans(clause))]
    with pointed_at(frames.spark, *spans):
        texts = _MergeTexts(frames, target, _source_tables(frames, statement.source))
        builder = table.merge(
            lambda: frames.rows_of(statement.source),
            texts.of(statement.on),
            source_alias,
            target.names[-1],
            statement.merge_schema,
        )
        for clause in statement.clauses:
            builder = _with_clause(texts, table, builder, clause)
        return builder.execute(dry_run=dry_run)


def _with_clause(
    texts: _MergeTexts, table: Table, builder: MergeBuilder, clause: MergeClause
) -> MergeBuilder:
    condition = None if clause.condition is None else texts.of(clause.condition)
    values: dict[str, str] = {}
    for assignment in clause.values or ():
        _put(values, assignment, texts.target, table, texts.of(assignment.value))
    match clause.kind, clause.action:
        case merge_clauses.MATCHED, merge_clauses.DELETE:
            return builder.when_matched_delete(condition)
        case merge_clauses.MATCHED, _ if clause.values is None:
            return builder.when_matched_update_all(condition)
        case merge_clauses.MATCHED, _:
            return builder.when_matched_update(values, condition)
        case merge_clauses.NOT_MATCHED, _ if clause.values is None:
            return builder.when_not_matched_insert_all(condition)
        case merge_clauses.NOT_MATCHED, _:
            return builder.when_not_matched_insert(values, condition)
        case _, merge_clauses.DELETE:
            return builder.when_not_matched_by_source_delete(condition)
    return builder.when_not_matched_by_source_update(values, condition)


@dataclass(slots=True)
class _Texts:
    """Conditions and values in the form that the verbs accept. Inside the context, the tables of their
    subqueries are views of Spark.
    """

    frames: Frames
    table: Table
    target: Qualifier
    spans: Sequence[Span]
    _edits: Sequence[Edit] = ()
    _stack: ExitStack | None = None

    def __enter__(self) -> _Texts:
        with ExitStack() as stack:
            stack.enter_context(pointed_at(self.frames.spark, *self.spans))
            self._edits = stack.enter_context(self.frames.subqueries(*self.spans, target=self.table))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> bool | None:
        assert self._stack is not None
        return self._stack.__exit__(*problem)  # type: ignore[arg-type]

    def of(self, span: Span) -> str:
        return self._text(span, self._scopes(span))

    def condition(self, span: Span | None) -> str | Column | None:
        """The condition as text. If Spark may resolve its names differently, as a Column, which prunes
        nothing.
        """
        if span is None:
            return None
        scopes = self._scopes(span)
        text = self._text(span, scopes)
        certain = scopes is not None and scopes.is_certain
        return text if certain or not self._prunes(text) else F.expr(text)

    def _prunes(self, text: str) -> bool:
        try:
            parse_expression(text, self.frames.settings)
        except InvalidOperationError:
            return False
        return True

    def _scopes(self, span: Span) -> Scopes | None:
        return self.frames.scopes(span, self.frames.nested(span))

    def _text(self, span: Span, scopes: Scopes | None) -> str:
        edits = [*self._edits, *self.frames.parameters.literals(span)]
        if scopes is not None:
            bare = without_qualifier(scopes, self.target)
            edited_positions = {edit.start for edit in bare}
            inner = self.frames.qualifiers(self.frames.nested(span))
            paths = short_paths(scopes, inner, [self.target])
            edits += bare + [edit for edit in paths if edit.start not in edited_positions]
        return edited(span.source, span.start, span.end, edits)


@dataclass(frozen=True, slots=True)
class _MergeTexts:
    """Conditions and values of a MERGE, in which both tables have aliases."""

    frames: Frames
    target: Qualifier
    sources: Sequence[Qualifier]

    def of(self, span: Span) -> str:
        edits = self.frames.parameters.literals(span)
        scopes = self.frames.scopes(span)
        if scopes is not None:
            edits += short_paths(scopes, {}, [self.target, *self.sources])
        return edited(span.source, span.start, span.end, edits)


def _target(frames: Frames, statement: Delete | Update | Merge, table: Table) -> Qualifier:
    return frames.qualifier(statement.table, statement.alias, snapshot_of(table).schema)


def _source_tables(frames: Frames, source: Span) -> list[Qualifier]:
    """The source of a MERGE, if it is a delvec table."""
    first = [
        relation
        for relation in relations(source, listed=True)
        if relation.span.start == source.start and frames.tables.is_ours(relation.name)
    ]
    return [qualifier() for qualifier in frames.qualifiers(first).values()]


def _put(values: dict[str, str], assignment: Assignment, target: Qualifier, table: Table, text: str) -> None:
    """Add an assignment to ``values``, by the name of the column without its qualifier."""
    column = assignment.column
    parts = column.parts[target.length(column.parts) :]
    key = ".".join(map(quoted, parts))
    if key.lower() in {name.lower() for name in values}:
        raise InvalidOperationError(f"column {column} appears twice")
    default = default_of(table, parts[0] if len(parts) == 1 else "", assignment.value)
    values[key] = text if default is None else default


def _spans(clause: MergeClause) -> list[Span]:
    return _present(clause.condition) + [assignment.value for assignment in clause.values or ()]


def _present(span: Span | None) -> list[Span]:
    return [] if span is None else [span]


def _other_alias(alias: str) -> str:
    return _SOURCE if alias.lower() != _SOURCE else f"_{_SOURCE}"
