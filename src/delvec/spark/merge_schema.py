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

    A clause that assigns all columns assigns all columns of the source. A column that the table has is left
    out unless the source's column has more fields: the expression for it does not determine its type.
    """
    assigning = [clause for clause in clauses if clause.action != DELETE]
    if any(clause.values is None for clause in assigning):
        return source
    names = [
        name
        for clause in assigning
        if clause.kind != NOT_MATCHED_BY_SOURCE  # such a clause has no source row
        for name in clause.values or ()
    ]
    return _assigned_fields(source, schema, [_path(name, schema, source) for name in names])


def _path(name: str, schema: Schema, source: StructType) -> Path:
    """The names of the column and of the fields inside, in lower case.

    A name with dots is a field of a column if the table has that column; otherwise it may be a column of the
    source.
    """
    path = tuple(part.lower() for part in name_parts(name) or [name])
    in_source = name.lower() in {field.name.lower() for field in source}
    is_whole = schema.find(name) or (in_source and not schema.find(path[0]))
    return (name.lower(),) if is_whole else path


def _assigned_fields(source: StructType, target: Struct, paths: Sequence[Path]) -> StructType:
    fields = []
    for field in source:
        inner_paths = [path[1:] for path in paths if path[0] == field.name.lower()]
        if inner_paths:
            matches = target.find(field.name, case_sensitive=False)
            kind = _added_type(field.dataType, matches[0].type if matches else None, inner_paths)
            if kind is not None:
                fields.append(StructField(field.name, kind, field.nullable, field.metadata))
    return StructType(fields)


def _added_type(kind: DataType, target: object, paths: Sequence[Path]) -> DataType | None:
    """The part of a source column's type that the table lacks; None if the table lacks nothing."""
    is_whole = () in paths
    if is_whole and target is None:
        return kind
    if isinstance(kind, StructType) and (target is None or isinstance(target, Struct)):
        inner = [(field.name.lower(),) for field in kind] if is_whole else paths
        return _assigned_fields(kind, Struct(()) if target is None else target, inner) or None
    if is_whole and isinstance(kind, ArrayType) and isinstance(target, Array):
        element = _added_type(kind.elementType, target.element, paths)
        return None if element is None else ArrayType(element)
    if is_whole and isinstance(kind, MapType) and isinstance(target, Map):
        key, value = (
            _added_type(kind.keyType, target.key, paths),
            _added_type(kind.valueType, target.value, paths),
        )
        if key is not None or value is not None:
            return MapType(key or spark_type(target.key), value or spark_type(target.value))
    return None
