"""Checks of a change or a statement before Spark starts, because starting Spark takes seconds.

Refuses only text that Spark would refuse under any setting: a quote or a bracket that does not end, a table
that does not exist, a column that the table does not have, a simple condition that cannot be parsed; and a
change of a table that delvec cannot write. Spark checks everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delvec import detect, location
from delvec.cli.arguments import ChangedTable
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot, Table, on_ref
from delvec.predicate.binding import Column, Names, nearest, quoted, referenced
from delvec.predicate.parser import parse_expression
from delvec.row_delta import Verb
from delvec.schema import Schema
from delvec.statements.cursor import Name, Span, verify_brackets
from delvec.statements.lexer import Kind, Token, tokenize
from delvec.statements.statement import (
    Convert,
    Create,
    CreateView,
    Delete,
    DropTable,
    Explain,
    Insert,
    Merge,
    MultiInsert,
    Other,
    Query,
    RewriteDeletes,
    Statement,
    Update,
)
from delvec.statements.table_references import relations

# If an expression has only these, columns, numbers and strings, sqlglot accepts it whenever Spark does.
_SIMPLE_WORDS = frozenset(("AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE"))
_SIMPLE_SYMBOLS = frozenset(("=", "<", ">", "<=", ">=", "<>", "!=", "(", ")", ",", "+", "-", "*", "/"))
_NOT_COLUMNS = frozenset(("default",))


def changed_snapshot(table: ChangedTable, options: Mapping[str, str]) -> Snapshot | None:
    """The version that a command changes; None if only the Spark session may have the credentials for the
    store. Those of a catalog's table are not known before it is opened.
    """
    found = readable_table(table.path, options) if table.catalog is None else None
    return None if found is None else on_ref(found, table.branch).snapshot()


def readable_snapshot(path: str, options: Mapping[str, str]) -> Snapshot | None:
    """The newest version; None if only the Spark session may have the credentials for the store."""
    table = readable_table(path, options)
    return None if table is None else table.snapshot()


def readable_table(path: str, options: Mapping[str, str]) -> Table | None:
    """The table; None if only the Spark session may have the credentials for the store."""
    if not options and not location.normalize(path).startswith("/"):
        return None
    return detect.open_table(path, options)


def verify_writable(snapshot: Snapshot, verb: Verb) -> None:
    """Refuse a table that delvec cannot change in this way, by the name of the feature."""
    snapshot.rules(verb)


def verify_expression(text: str, schema: Schema, what: str) -> None:
    """Refuse an expression that is certainly wrong; ``what`` names it in the error."""
    if "${" in text:  # Spark substitutes variables
        return
    tokens = tokenize(text)
    if tokens[0].kind is Kind.END:
        raise InvalidOperationError(f"{what} is empty, expected an expression")
    verify_brackets(text, tokens)
    try:
        tree = parse_expression(text)
    except InvalidOperationError:
        if _is_simple(tokens[:-1], schema):
            raise
        return
    referenced(tree, _KnownNames(schema, case_sensitive=False, text=text, what=what))


def verify_column(name: str, schema: Schema, what: str) -> None:
    """Refuse to set a column that does not exist; Spark checks names with several parts."""
    tokens = tokenize(name)[:-1]
    if len(tokens) == 1 and tokens[0].is_name and not schema.find(name):
        _verify_known(tokens[0].name, schema, what)


def verify_statement(text: str, options: Mapping[str, str]) -> None:
    """Refuse a statement that cannot be parsed, or whose table or columns do not exist."""
    from delvec.statements.parser import parse  # loads PySpark, which the other checks do not need

    _verify_statement(parse(text, lambda name: name.is_path), options)


def _verify_statement(statement: Statement, options: Mapping[str, str]) -> None:
    match statement:
        case Query(query):
            for relation in relations(query):
                _snapshot_of(relation.name, options)
        case Explain(change):
            _verify_statement(change, options)
        case MultiInsert(inserts):
            for insert in inserts:
                _verify_statement(insert, options)
        case Create() | Convert() | DropTable() | CreateView() | Other():
            return  # its table need not exist
        case _:
            snapshot = _snapshot_of(statement.table, options)
            if snapshot is not None:
                if isinstance(statement, Delete | Update | Insert | Merge):
                    verify_writable(snapshot, Verb.DELETE)  # the least that they need
                if isinstance(statement, RewriteDeletes):
                    verify_writable(snapshot, Verb.REWRITE_DELETES)
                _verify_columns(statement, snapshot.schema)


def _verify_columns(statement: Statement, schema: Schema) -> None:
    match statement:
        case Update():
            for assignment in statement.set:
                _verify_name(assignment.column, schema, "SET")
                _verify_span(assignment.value, schema, "the value of SET")
        case Insert():
            for column in statement.columns or ():
                _verify_name(column, schema, "the list of columns")
    if isinstance(statement, Delete | Update) and statement.where is not None:
        _verify_span(statement.where, schema, "WHERE")


def _verify_name(name: Name, schema: Schema, what: str) -> None:
    if len(name.parts) == 1:
        verify_column(name.span.text, schema, what)


def _verify_span(span: Span, schema: Schema, what: str) -> None:
    if not any(token.kind is Kind.MARKER for token in span.tokens):
        verify_expression(span.text, schema, what)


def _snapshot_of(name: Name, options: Mapping[str, str]) -> Snapshot | None:
    return readable_snapshot(name.parts[-1], options) if name.is_path else None


def _is_simple(tokens: Sequence[Token], schema: Schema) -> bool:
    """Whether the text has only columns, literals and simple operators."""
    if any(schema.find(word) for word in _SIMPLE_WORDS):
        return False
    for token in tokens:
        match token.kind:
            case Kind.WORD | Kind.QUOTED:
                simple = bool(schema.find(token.name)) or token.word in _SIMPLE_WORDS
            case Kind.NUMBER:
                simple = token.text.replace(".", "", 1).isdigit()
            case Kind.SYMBOL:
                simple = token.text in _SIMPLE_SYMBOLS
            case Kind.STRING:
                simple = token.text.startswith("'") and "\\" not in token.text
            case _:
                simple = False
        if not simple:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _KnownNames(Names):
    """Refuses unknown names of one part; longer names may start with an alias, so Spark checks them."""

    what: str

    def resolve(self, parts: Sequence[str]) -> Column:
        if len(parts) == 1 and parts[0].lower() not in _NOT_COLUMNS:
            _verify_known(parts[0], self.schema, f"{self.what} {self.text!r}")
        return Column(tuple(parts), None, comparable=False)


def _verify_known(name: str, schema: Schema, what: str) -> None:
    if not schema.find(name):
        expected = nearest(name, [field.name for field in schema])
        raise InvalidOperationError(f"unknown column {quoted([name])} in {what}, expected one of {expected}")
