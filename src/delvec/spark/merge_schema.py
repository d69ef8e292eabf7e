"""Which columns a MERGE with schema evolution adds to the table: those that its clauses assign."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from delvec.schema import Schema, Struct
from delvec.spark.assignments import name_parts
from delvec.spark.merge_clauses import DELETE, NOT_MATCHED_BY_SOURCE, Clause

Path = tuple[str, ...]


def assigned_columns(clauses: Sequence[Clause], schema: Schema, source: StructType) -> StructType:
    """The columns of the source, and the fields in them, that clauses assign under the same name.

    A clause that assigns all columns assigns all of the source's. Columns that the table has already are left
    out unless the source's has more fields: an expression for such a column says nothing of its type.
    """
    writing = [clause for clause in clauses if clause.action != DELETE]
    if any(clause.values is None for clause in writing):
        return source
    names = [
        name
        for clause in writing
        if clause.kind != NOT_MATCHED_BY_SOURCE  # such a clause sees no source
        for name in clause.values or ()
    ]
    whole = {field.name.lower() for field in source}
    paths = [(name.lower(),) if name.lower() in whole else _folded(name) for name in names]
    return _chosen(source, schema, paths)


def _folded(name: str) -> Path:
    return tuple(part.lower() for part in name_parts(name))


def _chosen(source: StructType, held: Struct, paths: Sequence[Path]) -> StructType:
    chosen = []
    for field in source:
        inside = [path[1:] for path in paths if path[0] == field.name.lower()]
        if inside:
            known = held.find(field.name, case_sensitive=False)
            kind = _added(field.dataType, known[0].type if known else None, inside)
            if kind is not None:
                chosen.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(chosen)


def _added(kind: DataType, held: object, paths: Sequence[Path]) -> DataType | None:
    """What is added of a column's type; None: nothing."""
    if () in paths and held is None:
        return kind
    if isinstance(kind, StructType) and (held is None or isinstance(held, Struct)):
        inner = [(field.name.lower(),) for field in kind] if () in paths else paths
        return _chosen(kind, held if isinstance(held, Struct) else Struct(()), inner)
    return kind if () in paths and isinstance(kind, ArrayType | MapType) else None
