"""DELETE, UPDATE and MERGE, as the verbs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.predicate.parser import parse_expression
from delvec.spark.merge_builder import MergeBuilder
from delvec.spark.target import OperationResult
from delvec.spark.types import quoted
from delvec.statements.cursor import Span
from delvec.statements.default_keyword import default_of
from delvec.statements.error_positions import pointed_at
from delvec.statements.qualifiers import Qualifier, short_paths, without_qualifier
from delvec.statements.run_query import Frames
from delvec.statements.scopes import Scopes
from delvec.statements.statement import Assignment, Delete, Merge, MergeClause, Update
from delvec.statements.table_names import snapshot_of
from delvec.statements.table_references import relations
from delvec.statements.text_edits import Edit, edited
from delvec.table import Table

_SOURCE = "source"


def delete(frames: Frames, asked: Delete, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(asked.table)
    target = _target(frames, asked, table)
    with _Texts(frames, table, target, _present(asked.where)) as texts:
        return table.delete(texts.condition(asked.where), alias=target.names[-1], dry_run=dry_run)


def update(frames: Frames, asked: Update, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(asked.table)
    target = _target(frames, asked, table)
    spans = [each.value for each in asked.set] + _present(asked.where)
    with _Texts(frames, table, target, spans) as texts:
        values: dict[str, str] = {}
        for each in asked.set:
            _put(values, each, target, table, texts.of(each.value))
        where = texts.condition(asked.where)
        return table.update(values, where, alias=target.names[-1], dry_run=dry_run)


def merge(frames: Frames, asked: Merge, *, dry_run: bool = False) -> OperationResult:
    table = frames.tables.of(asked.table)
    target = _target(frames, asked, table)
    source_alias = asked.source_alias or _unlike(target.names[-1])
    spans = [asked.on, *(span for clause in asked.clauses for span in _spans(clause))]
    with pointed_at(frames.spark, *spans):
        texts = _MergeTexts(frames, target, _source_tables(frames, asked.source))
        builder = table.merge(
            lambda: frames.rows_of(asked.source),
            texts.of(asked.on),
            source_alias,
            target.names[-1],
            asked.merge_schema,
        )
        for clause in asked.clauses:
            builder = _with_clause(texts, table, builder, clause)
        return builder.execute(dry_run=dry_run)


def _with_clause(
    texts: _MergeTexts, table: Table, builder: MergeBuilder, clause: MergeClause
) -> MergeBuilder:
    condition = None if clause.condition is None else texts.of(clause.condition)
    values: dict[str, str] = {}
    for each in clause.values or ():
        _put(values, each, texts.target, table, texts.of(each.value))
    match clause.kind, clause.action:
        case "matched", "delete":
            return builder.when_matched_delete(condition)
        case "matched", _ if clause.values is None:
            return builder.when_matched_update_all(condition)
        case "matched", _:
            return builder.when_matched_update(values, condition)
        case "not matched", _ if clause.values is None:
            return builder.when_not_matched_insert_all(condition)
        case "not matched", _:
            return builder.when_not_matched_insert(values, condition)
        case _, "delete":
            return builder.when_not_matched_by_source_delete(condition)
    return builder.when_not_matched_by_source_update(values, condition)


@dataclass(slots=True)
class _Texts:
    """Conditions and values as the verbs take them, while Spark knows the tables of their subqueries."""

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
        """The condition; a Column, which prunes nothing, where Spark may resolve its names in another way."""
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
            taken = {edit.start for edit in bare}
            inner = self.frames.qualifiers(self.frames.nested(span))
            paths = short_paths(scopes, inner, [self.target])
            edits += bare + [edit for edit in paths if edit.start not in taken]
        return edited(span.source, span.start, span.end, edits)


@dataclass(frozen=True, slots=True)
class _MergeTexts:
    """Conditions and values of a MERGE: Spark knows both tables by their aliases."""

    frames: Frames
    target: Qualifier
    sources: Sequence[Qualifier]

    def of(self, span: Span) -> str:
        edits = self.frames.parameters.literals(span)
        scopes = self.frames.scopes(span)
        if scopes is not None:
            edits += short_paths(scopes, {}, [self.target, *self.sources])
        return edited(span.source, span.start, span.end, edits)


def _target(frames: Frames, asked: Delete | Update | Merge, table: Table) -> Qualifier:
    return frames.qualifier(asked.table, asked.alias, snapshot_of(table).schema)


def _source_tables(frames: Frames, source: Span) -> list[Qualifier]:
    """The table that a MERGE has as its source, if it is one of ours."""
    found = relations(source, listed=True)
    first = [each for each in found if each.span.start == source.start and frames.tables.is_ours(each.name)]
    return [make() for make in frames.qualifiers(first).values()]


def _put(values: dict[str, str], given: Assignment, target: Qualifier, table: Table, text: str) -> None:
    parts = given.column.parts[target.length(given.column.parts) :]
    key = ".".join(map(quoted, parts))
    if key.lower() in {known.lower() for known in values}:
        raise InvalidOperationError(f"column {given.column} appears twice")
    default = default_of(table, parts[0] if len(parts) == 1 else "", given.value)
    values[key] = text if default is None else default


def _spans(clause: MergeClause) -> list[Span]:
    return _present(clause.condition) + [each.value for each in clause.values or ()]


def _present(span: Span | None) -> list[Span]:
    return [] if span is None else [span]


def _unlike(alias: str) -> str:
    return _SOURCE if alias.lower() != _SOURCE else f"_{_SOURCE}"
