"""Folders of new data files: ``data/<field>=<value>/``, as Iceberg's own library lays them out.

Readers take partition values from manifests, never from folders. The texts in the names are for people: a day
is ``2024-07-01``, an hour ``2024-07-01-05``, a null is ``null``.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa

from delvec import location
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.property_values import flag
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import DataType, Primitive

DATA_PATH = "write.data.path"
OBJECT_STORAGE = "write.object-storage.enabled"
PARTITIONED_PATHS = "write.object-storage.partitioned-paths"
LOCATION_PROVIDERS = ("write.location-provider.impl", "write.py-location-provider.impl")

_OLDER_PATHS = ("write.object-storage.path", "write.folder-storage.path")
_DATA = "data"
_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_HASH_BITS = (4, 4, 4, 8)


def file_folders(
    spec: PartitionSpec, properties: Mapping[str, str], home: str, values: pa.StructArray
) -> list[str]:
    """The folder, below the table's location ``home``, of each new file with these partition values."""
    data, parts = data_folder(properties, home), partition_parts(spec, values)
    if not flag(properties, OBJECT_STORAGE, default=False):
        return [_joined(data, *part) for part in parts]
    partitioned = flag(properties, PARTITIONED_PATHS, default=True)
    return [_joined(data, *_random_folders(), *(part if partitioned else ())) for part in parts]


def data_folder(properties: Mapping[str, str], home: str) -> str:
    """The folder of all data files, below the table's location ``home``.

    A table that wants its data files elsewhere is refused by the property's name.
    """
    for provider in LOCATION_PROVIDERS:
        if provider in properties:
            raise UnsupportedFeatureError(
                f"property {provider} is {properties[provider]!r}, expected none: delvec chooses the "
                f"folders of data files by the table's other properties: {home}",
                feature=provider,
            )
    older = _OLDER_PATHS if flag(properties, OBJECT_STORAGE, default=False) else _OLDER_PATHS[1:]
    name = next((name for name in (DATA_PATH, *older) if properties.get(name)), None)
    if name is None:
        return _DATA
    try:
        folder = location.relative(home, location.unencoded(properties[name]))
    except (FormatError, UnsupportedFeatureError):
        folder = None
    if folder is None:
        raise UnsupportedFeatureError(
            f"property {name} is {properties[name]!r}, expected a folder below the table's location: {home}",
            feature=name,
        )
    return folder


def partition_parts(spec: PartitionSpec, values: pa.Array) -> list[tuple[str, ...]]:
    """The folders of each file with these partition values, one for each field of the spec."""
    if not spec.fields:
        return [()] * len(values)
    columns = []
    for at, field in enumerate(spec.fields):
        name = _encoded(field.name)
        texts = human_texts(field, values.field(at))
        columns.append([f"{name}={_encoded(text)}" for text in texts])
    return list(zip(*columns, strict=True))


def human_texts(field: PartitionField, values: pa.Array) -> list[str]:
    """The partition values of one field as people read them."""
    if field.transform.name in _UNITS:
        return [_time_text(value, _UNITS[field.transform.name]) for value in _ordinals(values)]
    if field.type == Primitive("date"):
        return [_time_text(value, "D") for value in _ordinals(values)]
    if field.type in (Primitive("timestamp"), Primitive("timestamp_ntz")):
        zone = "+00:00" if field.type == Primitive("timestamp") else ""
        micros = values.cast(pa.int64()).to_pylist()
        return ["null" if value is None else f"{np.datetime64(value, 'us')}{zone}" for value in micros]
    return [_text(value, field.type) for value in values.to_pylist()]


def _text(value: Any, data_type: DataType) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return format(value, "f") if str(data_type).startswith("decimal") else str(value)


def _ordinals(values: pa.Array) -> list[int | None]:
    numbers = values.view(pa.int32()) if pa.types.is_date32(values.type) else values
    ordinals: list[int | None] = numbers.to_pylist()
    return ordinals


def _time_text(ordinal: int | None, unit: str) -> str:
    if ordinal is None:
        return "null"
    # numpy writes years beyond 9999, too, and separates the hour by a T
    return str(np.datetime64(ordinal, unit)).replace("T", "-")  # type: ignore[call-overload]


def _encoded(text: str) -> str:
    """The text as Java's URLEncoder writes it."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _random_folders() -> list[str]:
    """Folders that spread the files of an object store over its partitions."""
    return [format(secrets.randbits(bits), f"0{bits}b") for bits in _HASH_BITS]


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))
