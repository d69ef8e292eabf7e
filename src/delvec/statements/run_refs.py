"""Runs ALTER TABLE … CREATE and DROP of branches and tags, with the verbs of ``Table``."""

from __future__ import annotations

from delvec.ref_changes import RefRetention
from delvec.statements.cursor import Span
from delvec.statements.lexer import Kind, syntax_error
from delvec.statements.run_query import Frames
from delvec.statements.statement import CreateRef, DropRef, Duration


def change_refs(frames: Frames, statement: CreateRef | DropRef) -> None:
    table = frames.tables.of(statement.table)
    if isinstance(statement, DropRef):
        table.drop_ref(statement.name, statement.kind, if_exists=statement.if_exists)
        return
    table.create_ref(
        statement.name,
        statement.kind,
        None if statement.version is None else frames.version(statement.version),
        if_exists=statement.if_exists,
        retention=RefRetention(
            max_ref_age_ms=_milliseconds(frames, statement.max_ref_age),
            max_version_age_ms=_milliseconds(frames, statement.max_version_age),
            min_versions=None if statement.min_versions is None else _number(frames, statement.min_versions),
        ),
    )


def _milliseconds(frames: Frames, duration: Duration | None) -> int | None:
    return None if duration is None else _number(frames, duration.number) * duration.unit_ms


def _number(frames: Frames, span: Span) -> int:
    (token,) = span.tokens
    value = frames.parameters.value(token) if token.kind is Kind.MARKER else token.text
    if isinstance(value, bool) or not str(value).isdecimal():
        raise syntax_error(span.source, span.start, f"found {value!r}, expected a whole number")
    return int(value)
