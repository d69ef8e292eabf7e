"""The codecs that there are, by their names in blobs and by the types of columns."""

from __future__ import annotations

from delvec.deletes.codecs.codec import DeletionVectorCodec
from delvec.deletes.codecs.date import DateCodec
from delvec.deletes.codecs.integer import IntegerCodec
from delvec.deletes.codecs.long import LongCodec
from delvec.deletes.codecs.timestamp import TimestampCodec
from delvec.deletes.codecs.timestamptz import TimestampTzCodec
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import DataType

_CODECS: dict[str, DeletionVectorCodec] = {}


def register(codec: DeletionVectorCodec) -> None:
    """Add a codec. Its name and its type must be new: a blob or a column must not have two meanings."""
    for other in _CODECS.values():
        if type(other) is type(codec):
            return
        if other.name == codec.name or other.supported_type == codec.supported_type:
            raise InvalidOperationError(
                f"codec {codec.name!r} for {codec.supported_type} is registered, but there is the codec "
                f"{other.name!r} for {other.supported_type}, expected another name and another type"
            )
    _CODECS[codec.name] = codec


def codec_named(name: str) -> DeletionVectorCodec:
    """The codec of a blob; an unknown one is refused by name."""
    if name not in _CODECS:
        raise UnsupportedFeatureError(
            f"codec of a deletion vector is {name!r}, expected one of {', '.join(sorted(_CODECS))}",
            feature=f"codec {name}",
        )
    return _CODECS[name]


def codec_for(data_type: DataType) -> DeletionVectorCodec | None:
    """The codec for columns of this type; None if there is none."""
    return next((codec for codec in _CODECS.values() if codec.supported_type == data_type), None)


for _codec in (LongCodec(), IntegerCodec(), DateCodec(), TimestampCodec(), TimestampTzCodec()):
    register(_codec)
