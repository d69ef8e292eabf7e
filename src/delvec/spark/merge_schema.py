"""Which columns a MERGE with schema evolution adds to the table: those that its clauses assign."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from delvec.schema import Array, Map, Schema, Struct
from delvec.spark.merge_clauses import DELETE, NOT_MATCHED_BY_SOURCE, Clause
from delvec.spark.set_clause import name_parts
from delvec.spark.types import spark_type

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
    return _chosen(source, schema, [_path(name, schema, source) for name in names])


def _path(name: str, schema: Schema, source: StructType) -> Path:
    """The names of the column and of the fields inside, in lower case.

    A name with dots is a field of a column that the table has, before it is a column of the source.
    """
    path = tuple(part.lower() for part in name_parts(name) or [name])
    in_source = name.lower() in {field.name.lower() for field in source}
    is_whole = schema.find(name) or (in_source and not schema.find(path[0]))
    return (name.lower(),) if is_whole else path


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
    whole = () in paths
    if whole and held is None:
        return kind
    if isinstance(kind, StructType) and (held is None or isinstance(held, Struct)):
        inner = [(field.name.lower(),) for field in kind] if whole else paths
        return _chosen(kind, Struct(()) if held is None else held, inner) or None
    if whole and isinstance(kind, ArrayType) and isinstance(held, Array):
        element = _added(kind.elementType, held.element, paths)
        return None if element is None else ArrayType(element)
    if whole and isinstance(kind, MapType) and isinstance(held, Map):
        key, value = _added(kind.keyType, held.key, paths), _added(kind.valueType, held.value, paths)
        if key is not None or value is not None:
            return MapType(key or spark_type(held.key), value or spark_type(held.value))
    return None
