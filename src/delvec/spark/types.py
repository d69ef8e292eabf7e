"""A table's schema as Spark's types: by the names users know, or by those that data files hold."""

from __future__ import annotations

from pyspark.sql import types as spark

from delvec.errors import UnsupportedFeatureError
from delvec.schema import Array, DataType, Decimal, Map, Primitive, Schema, Struct

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
    """The schema by the names that users know."""
    return _struct(schema, physical=False)


def physical(schema: Schema) -> spark.StructType:
    """The schema by the names that data files hold."""
    return _struct(schema, physical=True)


def spark_type(data_type: DataType, *, physical: bool = False) -> spark.DataType:
    match data_type:
        case Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Decimal(precision, scale):
            return spark.DecimalType(precision, scale)
        case Array(element, contains_null):
            return spark.ArrayType(spark_type(element, physical=physical), contains_null)
        case Map(key, value, value_contains_null):
            return spark.MapType(
                spark_type(key, physical=physical), spark_type(value, physical=physical), value_contains_null
            )
        case Struct():
            return _struct(data_type, physical=physical)
    raise UnsupportedFeatureError(f"type {data_type} has no Spark equivalent", feature=str(data_type))


def _struct(struct: Struct, *, physical: bool) -> spark.StructType:
    return spark.StructType(
        [
            spark.StructField(
                field.physical_name if physical else field.name,
                spark_type(field.type, physical=physical),
                field.nullable,
            )
            for field in struct
        ]
    )
