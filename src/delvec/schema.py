"""A table's schema, in terms that every format shares.

Types have the names that Spark uses (``long``, ``timestamp_ntz``, ``decimal(10,2)``), because Spark reads and
writes the rows. Types that Spark does not have (``uuid``, ``fixed(16)``, nanoseconds) have names in the same
style. A field has two names: the one that users see, and the one in data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from delvec.errors import UnsupportedFeatureError

COMMENT = "comment"
"""The key of a column's comment in ``Field.metadata``."""


def _no_metadata() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parameters; ``name`` is one of ``PRIMITIVES``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Text(Primitive):
    """A string of a declared length: ``char(n)``, which is padded with spaces, or ``varchar(n)``.

    Files store it like any other string. It matches ``Primitive("string")`` in patterns.
    """

    length: int
    padded: bool

    def __str__(self) -> str:
        return f"{'char' if self.padded else 'varchar'}({self.length})"


def char(length: int) -> Text:
    return Text("string", length, padded=True)


def varchar(length: int) -> Text:
    return Text("string", length, padded=False)


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one length."""

    length: int

    def __str__(self) -> str:
        return f"fixed({self.length})"


@dataclass(frozen=True, slots=True)
class Geospatial(Primitive):
    """``geometry`` or ``geography``, stored as WKB. ``parameters``: coordinate system, and how edges run.

    It matches ``Primitive("geometry")`` and ``Primitive("geography")`` in patterns.
    """

    parameters: str = ""

    def __str__(self) -> str:
        return f"{self.name}({self.parameters})" if self.parameters else self.name


@dataclass(frozen=True, slots=True)
class Array:
    """``element_id`` is the Parquet field id of the elements. Two arrays are equal whatever their ids are:
    the id says where the values are stored, not of what type they are.
    """

    element: DataType
    contains_null: bool = True
    element_id: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """``key_id`` and ``value_id`` are Parquet field ids, which do not count in comparisons, as in `Array`."""

    key: DataType
    value: DataType
    value_contains_null: bool = True
    key_id: int | None = field(default=None, compare=False)
    value_id: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """One column, or one field of a struct.

    ``physical_name`` is the name in data files and statistics, ``field_id`` the Parquet field id.
    ``widened_from`` lists the types that the column may still have in older data files.
    ``collated``: strings in it are not compared byte by byte, because of a collation or of padding that the
    type does not show. Such a column cannot be judged by bounds.
    ``metadata`` belongs to the format, except for the comment, under the key ``COMMENT``.
    """

    name: str
    type: DataType
    nullable: bool = True
    field_id: int | None = None
    physical_name: str = ""
    widened_from: tuple[DataType, ...] = ()
    initial_default: Any = None
    collated: bool = field(default=False, compare=False)
    metadata: Mapping[str, Any] = field(default_factory=_no_metadata, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not self.physical_name:
            object.__setattr__(self, "physical_name", self.name)

    @property
    def comment(self) -> str | None:
        comment = self.metadata.get(COMMENT)
        return comment if isinstance(comment, str) else None


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.type}' for f in self.fields)}>"

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def find(self, name: str, *, case_sensitive: bool = False) -> list[Field]:
        """The fields of this name: none, one or, if case is ignored, several."""
        if case_sensitive:
            return [f for f in self.fields if f.name == name]
        return [f for f in self.fields if f.name.lower() == name.lower()]


DataType = Primitive | Decimal | Fixed | Array | Map | Struct
Schema = Struct
NO_FIELDS = Struct(())

PRIMITIVES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "timestamp_ns": pa.timestamp("ns", tz="UTC"),
        "timestamp_ntz_ns": pa.timestamp("ns"),
        "time": pa.time64("us"),
        "uuid": pa.binary(16),
        "void": pa.null(),
        "variant": pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
        "geometry": pa.binary(),
        "geography": pa.binary(),
    }
)


def united(schema: Schema, more: Schema) -> Schema:
    """The fields of both, those of ``more`` last. Structs with the same field id become one."""
    by_id = {field.field_id: field for field in more if field.field_id is not None}
    fields = [_united_field(f, None if f.field_id is None else by_id.get(f.field_id)) for f in schema]
    ids = {field.field_id for field in schema} - {None}
    return Struct((*fields, *(field for field in more if field.field_id not in ids)))


def _united_field(field: Field, more: Field | None) -> Field:
    if more is None or not isinstance(field.type, Struct) or not isinstance(more.type, Struct):
        return field
    return replace(field, type=united(field.type, more.type))


def is_string(data_type: DataType | None) -> bool:
    """Whether the type is a string, with or without a declared length."""
    return isinstance(data_type, Primitive) and data_type.name == "string"


def has_length(data_type: DataType) -> bool:
    """Whether the type is, or contains, a string with a declared length."""
    match data_type:
        case Text():
            return True
        case Array(element):
            return has_length(element)
        case Map(key, value):
            return has_length(key) or has_length(value)
        case Struct(fields):
            return any(has_length(field.type) for field in fields)
    return False


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type for values of ``data_type``. Fields of structs have the names that users see."""
    match data_type:
        case Primitive(name) if name in PRIMITIVES:
            return PRIMITIVES[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length):
            return pa.binary(length)
        case Array(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), nullable=contains_null))
        case Map(key, value, value_contains_null):
            item = pa.field("value", arrow_type(value), nullable=value_contains_null)
            return pa.map_(arrow_type(key), item)
        case Struct(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type), nullable=f.nullable) for f in fields])
    raise UnsupportedFeatureError(f"type {data_type} has no Arrow equivalent", feature=str(data_type))


def bare(schema: Schema) -> Schema:
    """The schema without the metadata that only the format reads: small, and can be pickled."""
    return Struct(tuple(_bare_field(column) for column in schema))


def _bare_field(column: Field) -> Field:
    return replace(column, type=_bare_type(column.type), metadata={})


def _bare_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return bare(data_type)
        case Array(element):
            return replace(data_type, element=_bare_type(element))
        case Map(key, value):
            return replace(data_type, key=_bare_type(key), value=_bare_type(value))
    return data_type
