"""DELETE, UPDATE and MERGE, as the verbs of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.spark.merge_builder import MergeBuilder
from delvec.spark.target import OperationResult
from delvec.spark.types import quoted
from delvec.statements.cursor import Span
from delvec.statements.edits import Edit, edited
from delvec.statements.frames import Frames
from delvec.statements.places import pointed_at
from delvec.statements.qualifiers import short_paths, unqualified_parts, without_qualifier
from delvec.statements.relations import has_query
from delvec.statements.tree import Assignment, Delete, Merge, MergeClause, Update
from delvec.table import Table

_SOURCE = "source"


def delete(frames: Frames, asked: Delete) -> OperationResult:
    table = frames.tables.of(asked.table)
    with _Texts(frames, table, asked.alias or asked.table.parts[-1], _present(asked.where)) as texts:
        return table.delete(None if asked.where is None else texts.of(asked.where), alias=texts.alias)


def update(frames: Frames, asked: Update) -> OperationResult:
    table, qualifier = frames.tables.of(asked.table), asked.alias or asked.table.parts[-1]
    spans = [each.value for each in asked.set] + _present(asked.where)
    with _Texts(frames, table, qualifier, spans) as texts:
        values = _assigned(asked.set, qualifier, texts)
        where = None if asked.where is None else texts.of(asked.where)
        return table.update(values, where, alias=texts.alias)


def merge(frames: Frames, asked: Merge) -> OperationResult:
    table = frames.tables.of(asked.table)
    target_alias = asked.alias or asked.table.parts[-1]
    source_alias = asked.source_alias or _unlike(target_alias)
    spans = [asked.on, *(span for clause in asked.clauses for span in _spans(clause))]
    with pointed_at(frames.spark, *spans):
        builder = table.merge(
            lambda: frames.rows_of(asked.source),
            _plain(frames, asked.on),
            source_alias,
            target_alias,
            asked.merge_schema,
        )
        columns = _columns(table)
        for clause in asked.clauses:
            builder = _with_clause(frames, builder, clause, target_alias, columns)
        return builder.execute()


def _with_clause(
    frames: Frames, builder: MergeBuilder, clause: MergeClause, alias: str, columns: Collection[str]
) -> MergeBuilder:
    condition = None if clause.condition is None else _plain(frames, clause.condition)
    values: dict[str, str] = {}
    for each in clause.values or ():
        _put(values, each, unqualified_parts(each.column, alias, columns), _plain(frames, each.value))
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
    qualifier: str
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

    @property
    def alias(self) -> str | None:
        """What subqueries call the table; None without one."""
        return self.qualifier if any(has_query(span) for span in self.spans) else None

    @property
    def columns(self) -> Collection[str]:
        return _columns(self.table)

    def of(self, span: Span) -> str:
        taken = {edit.start for edit in self._edits}
        edits = [
            *self._edits,
            *self.frames.parameters.literals(span),
            *short_paths(span.tokens, taken),
            *without_qualifier(span, self.qualifier, self.columns),
        ]
        return edited(span.source, span.start, span.end, edits)


def _assigned(given: Sequence[Assignment], qualifier: str, texts: _Texts) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in given:
        parts = unqualified_parts(each.column, qualifier, texts.columns)
        _put(values, each, parts, texts.of(each.value))
    return values


def _put(values: dict[str, str], given: Assignment, parts: Sequence[str], text: str) -> None:
    key = ".".join(map(quoted, parts))
    if key.lower() in {known.lower() for known in values}:
        raise InvalidOperationError(f"column {given.column} is given twice, expected once")
    values[key] = text


def _plain(frames: Frames, span: Span) -> str:
    edits = [*frames.parameters.literals(span), *short_paths(span.tokens)]
    return edited(span.source, span.start, span.end, edits)


def _spans(clause: MergeClause) -> list[Span]:
    return _present(clause.condition) + [each.value for each in clause.values or ()]


def _present(span: Span | None) -> list[Span]:
    return [] if span is None else [span]


def _columns(table: Table) -> Collection[str]:
    return {name.lower() for name in table.schema.names}


def _unlike(alias: str) -> str:
    return _SOURCE if alias.lower() != _SOURCE else f"_{_SOURCE}"
