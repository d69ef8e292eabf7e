"""A table's schema in Spark's types, with the names that users see or with the names in data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import PySparkException, PySparkTypeError
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
    Fixed,
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
# Types that Spark cannot read or write (Spark 4.1 has TIME, but only behind a setting that is off). Schemas
# show such a column with this type instead, so that the table's other columns can be used.
_SUBSTITUTES: dict[str, spark.DataType] = {
    "time": spark.StringType(),
    "uuid": spark.StringType(),
    "timestamp_ns": spark.TimestampType(),
    "timestamp_ntz_ns": spark.TimestampNTZType(),
    "geometry": spark.BinaryType(),
    "geography": spark.BinaryType(),
}


def logical(schema: Schema) -> spark.StructType:
    """The schema with the names that users see, with comments and declared types."""
    return spark.StructType(
        [
            spark.StructField(
                field.name, spark_type(field.type, comments=True), field.nullable, column_metadata(field)
            )
            for field in schema
        ]
    )


def physical(schema: Schema) -> spark.StructType:
    """The schema with the names in data files."""
    return _struct(schema, physical=True, comments=False)


def spark_field(field: Field, *, physical: bool = False) -> spark.StructField:
    """The column, nullable, with the comments of the column and its nested fields, and its declared type."""
    name = field.physical_name if physical else field.name
    kind = spark_type(field.type, physical=physical, comments=True)
    return spark.StructField(name, kind, metadata=column_metadata(field, physical=physical))


def column_metadata(field: Field, *, physical: bool = False) -> dict[str, str]:
    """Spark's metadata of the column: the comment, and the declared type if it contains ``char`` or
    ``varchar``. From the declared type Spark knows which values to pad when it reads files and compares.
    """
    metadata = dict(comment_of(field) or {})
    if has_length(field.type):
        metadata[CHAR_OR_VARCHAR] = declared(field.type, physical=physical)
    return metadata


def comment_of(field: Field) -> dict[str, str] | None:
    """The comment in the form of Spark's column metadata."""
    return None if field.comment is None else {COMMENT: field.comment}


def spark_type(data_type: DataType, *, physical: bool = False, comments: bool = False) -> spark.DataType:
    """The type in Spark's terms. ``comments``: with the comments of nested fields. For Spark, types with
    different comments are different types.
    """
    match data_type:
        case Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Primitive(name) if name in _SUBSTITUTES:
            return _SUBSTITUTES[name]
        case Fixed():
            return spark.BinaryType()
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


def has_spark_type(data_type: DataType) -> bool:
    """Whether Spark can read and write values of the type."""
    match data_type:
        case Primitive(name):
            return name in _PRIMITIVES
        case Fixed():
            return False
        case Array(element):
            return has_spark_type(element)
        case Map(key, value):
            return has_spark_type(key) and has_spark_type(value)
        case Struct(fields):
            return all(has_spark_type(field.type) for field in fields)
    return True


def is_readable(data_type: DataType) -> bool:
    """Whether Spark can read values of the type; some of them as another type (`_SUBSTITUTES`)."""
    match data_type:
        case Primitive("uuid") | Fixed():
            return True
        case Array(element):
            return is_readable(element)
        case Map(key, value):
            return is_readable(key) and is_readable(value)
        case Struct(fields):
            return all(is_readable(field.type) for field in fields)
    return has_spark_type(data_type)


def verify_readable(field: Field) -> None:
    """Refuse a column that Spark cannot read."""
    if not is_readable(field.type):
        raise UnsupportedFeatureError(no_spark_type(field), feature=f"type {field.type}")


def verify_spark_type(field: Field) -> None:
    """Refuse a column that Spark cannot read or write."""
    if not has_spark_type(field.type):
        raise UnsupportedFeatureError(no_spark_type(field), feature=f"type {field.type}")


def no_spark_type(field: Field) -> str:
    """The message about a column that Spark cannot read or write."""
    return f"column {field.name} is of type {field.type}, which Spark cannot read or write"


def from_spark(struct: spark.StructType) -> Schema:
    """A schema of Spark as one of delvec."""
    schema = _from_spark(struct)
    assert isinstance(schema, Struct)
    return schema


def schema_from(source: DataFrame | spark.StructType | str) -> Schema:
    """The schema that a user gives: a DataFrame, a schema, or its DDL text."""
    match source:
        case spark.StructType():
            return from_spark(source)
        case str():
            try:
                return from_spark(parse_ddl(source))
            except PySparkException as error:
                raise InvalidOperationError(f"schema {source!r} is invalid: {error}") from None
        case DataFrame():
            # A column without nulls in these rows may get nulls later.
            return as_nullable(from_spark(source.schema))
    raise InvalidOperationError(
        f"rows or schema are {type(source).__name__}, expected a DataFrame or a schema"
    )


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
    for name, candidate in _PRIMITIVES.items():
        if type(candidate) is type(data_type):
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
    """The columns that a DDL text defines. If it does not define columns, a PySparkException is raised."""
    parsed = spark.DataType.fromDDL(text)
    if not isinstance(parsed, spark.StructType):
        raise PySparkTypeError(f"{text!r} is a type, expected columns: a name and a type each")
    return parsed


def as_nullable(schema: Schema) -> Schema:
    """The schema with all fields nullable, also the nested ones."""
    return Struct(tuple(replace(f, nullable=True, type=_nullable(f.type)) for f in schema))


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return as_nullable(data_type)
        case Array(element):
            return replace(data_type, element=_nullable(element), contains_null=True)
        case Map(key, value):
            return replace(data_type, key=_nullable(key), value=_nullable(value), value_contains_null=True)
    return data_type


def type_text(data_type: DataType) -> str:
    """The type in Spark SQL, with the names that users see."""
    match data_type:
        case Array(element):
            return f"ARRAY<{type_text(element)}>"
        case Map(key, value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_text(f.type)}' for f in fields)}>"
        case Primitive("timestamp"):
            return "TIMESTAMP_LTZ"  # the meaning of TIMESTAMP depends on a session setting
    return spark_type(data_type).simpleString()


def selected(frame: DataFrame, columns: Sequence[str | Column]) -> DataFrame:
    """Select these expressions. If all of them are texts, this is one call into the JVM."""
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) == len(columns):
        return frame.selectExpr(*texts)
    return frame.select(*(F.expr(one) if isinstance(one, str) else one for one in columns))


def quoted(name: str) -> str:
    """The name of a column as an identifier of Spark SQL."""
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
