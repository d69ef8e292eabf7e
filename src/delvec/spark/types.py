"""A table's schema as Spark's types: by the names users know, or by those that data files hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from delvec.declared_types import CHAR_OR_VARCHAR, declared, with_lengths
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import (
    COMMENT,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    char,
    has_length,
    varchar,
)

_PRIMITIVES: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "byte": spark.ByteType(),
    "short": spark.ShortType(),
    "integer": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
    "void": spark.NullType(),
    "variant": spark.VariantType(),
}


def logical(schema: Schema) -> spark.StructType:
    """The schema by the names that users know, with comments and declared types."""
    return spark.StructType(
        [
            spark.StructField(
                field.name, spark_type(field.type, comments=True), field.nullable, column_metadata(field)
            )
            for field in schema
        ]
    )


def physical(schema: Schema) -> spark.StructType:
    """The schema by the names that data files hold."""
    return _struct(schema, physical=True, comments=False)


def spark_field(field: Field, *, physical: bool = False) -> spark.StructField:
    """The column, nullable, with its comment, those of nested fields, and its declared type."""
    name = field.physical_name if physical else field.name
    kind = spark_type(field.type, physical=physical, comments=True)
    return spark.StructField(name, kind, metadata=column_metadata(field, physical=physical))


def column_metadata(field: Field, *, physical: bool = False) -> dict[str, str]:
    """What Spark keeps of a column beside its type: the comment, and its type where that has ``char`` or
    ``varchar``. By that it pads the column's values, where it reads files, and what they are compared with.
    """
    found = dict(comment_of(field) or {})
    if has_length(field.type):
        found[CHAR_OR_VARCHAR] = declared(field.type, physical=physical)
    return found


def comment_of(field: Field) -> dict[str, str] | None:
    """The comment as Spark keeps it: in the column's metadata."""
    return None if field.comment is None else {COMMENT: field.comment}


def spark_type(data_type: DataType, *, physical: bool = False, comments: bool = False) -> spark.DataType:
    """``comments``: nested fields keep theirs. Spark takes types whose comments differ for different ones."""
    match data_type:
        case Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Decimal(precision, scale):
            return spark.DecimalType(precision, scale)
        case Array(element, contains_null):
            return spark.ArrayType(spark_type(element, physical=physical, comments=comments), contains_null)
        case Map(key, value, value_contains_null):
            return spark.MapType(
                spark_type(key, physical=physical, comments=comments),
                spark_type(value, physical=physical, comments=comments),
                value_contains_null,
            )
        case Struct():
            return _struct(data_type, physical=physical, comments=comments)
    raise UnsupportedFeatureError(f"type {data_type} has no Spark equivalent", feature=str(data_type))


def from_spark(struct: spark.StructType) -> Schema:
    """Spark's schema as ours."""
    found = _from_spark(struct)
    assert isinstance(found, Struct)
    return found


def _from_spark(data_type: spark.DataType) -> DataType:
    match data_type:
        case spark.DecimalType():
            return Decimal(data_type.precision, data_type.scale)
        case spark.ArrayType():
            return Array(_from_spark(data_type.elementType), data_type.containsNull)
        case spark.MapType():
            return Map(
                _from_spark(data_type.keyType), _from_spark(data_type.valueType), data_type.valueContainsNull
            )
        case spark.StructType():
            return Struct(tuple(_field(f) for f in data_type))
        case spark.CharType():
            return char(data_type.length)
        case spark.VarcharType():
            return varchar(data_type.length)
    for name, known in _PRIMITIVES.items():
        if type(known) is type(data_type):
            return Primitive(name)
    raise UnsupportedFeatureError(
        f"type {data_type.simpleString()} cannot be stored", feature=data_type.simpleString()
    )


def _field(field: spark.StructField) -> Field:
    data_type, metadata = _from_spark(field.dataType), dict(field.metadata)
    text = metadata.pop(CHAR_OR_VARCHAR, None)
    if text is not None:
        try:
            data_type = with_lengths(data_type, text)
        except ValueError as error:
            raise InvalidOperationError(
                f"column {field.name} is declared {text}, expected a type like {data_type} ({error})"
            ) from None
    return Field(field.name, data_type, field.nullable, metadata=metadata)


def parse_ddl(text: str) -> spark.StructType:
    """The columns that a DDL text defines; a PySparkException where it defines none."""
    found = spark.DataType.fromDDL(text)
    if not isinstance(found, spark.StructType):
        raise PySparkTypeError(f"{text!r} is a type, expected columns: a name and a type each")
    return found


def as_nullable(schema: Schema) -> Schema:
    """The schema whose fields, nested ones too, may all be null."""
    return Struct(tuple(replace(f, nullable=True, type=_nullable(f.type)) for f in schema))


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return as_nullable(data_type)
        case Array(element):
            return Array(_nullable(element))
        case Map(key, value):
            return Map(_nullable(key), _nullable(value))
    return data_type


def type_text(data_type: DataType) -> str:
    """The type as Spark SQL takes it, by the names that users know."""
    match data_type:
        case Array(element):
            return f"ARRAY<{type_text(element)}>"
        case Map(key, value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_text(f.type)}' for f in fields)}>"
        case Primitive("timestamp"):
            return "TIMESTAMP_LTZ"  # what TIMESTAMP means is a setting
    return spark_type(data_type).simpleString()


def selected(frame: DataFrame, columns: Sequence[str | Column]) -> DataFrame:
    """The frame's columns by these expressions; in one call into the JVM where all are texts."""
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) == len(columns):
        return frame.selectExpr(*texts)
    return frame.select(*(F.expr(one) if isinstance(one, str) else one for one in columns))


def quoted(name: str) -> str:
    """The name of a column as Spark SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _struct(struct: Struct, *, physical: bool, comments: bool) -> spark.StructType:
    return spark.StructType(
        [
            spark.StructField(
                field.physical_name if physical else field.name,
                spark_type(field.type, physical=physical, comments=comments),
                field.nullable,
                comment_of(field) if comments else None,
            )
            for field in struct
        ]
    )
