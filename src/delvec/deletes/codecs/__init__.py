"""How values of key columns become numbers of a vector.

codec      the interface
registry   the codecs by name and by type
long, integer, date, timestamp, timestamptz   one codec each
"""

from delvec.deletes.codecs.codec import DeletionVectorCodec
from delvec.deletes.codecs.registry import codec_for, codec_named, register

__all__ = ["DeletionVectorCodec", "codec_for", "codec_named", "register"]
