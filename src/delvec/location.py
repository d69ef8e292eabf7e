"""Locations of tables and of their files, as text. No I/O.

There are four kinds of text, and only this module decodes them:

    typed by a user            /lake/a b        s3a://bucket/a b      file:///lake/a%20b
    recorded in a log (raw)    a%20b.parquet    s3a://bucket/a%20b    file:/lake/a%20b      URI-encoded
    recorded, never encoded    /lake/a b        s3a://bucket/a b      file:/lake/a b        as Hadoop's Path
    a location in delvec       /lake/a b        s3://bucket/a b       /lake/a b             decoded, absolute

``normalize`` turns the first kind into the last, ``resolve`` the second, ``unencoded`` the third. In the
first kind only ``file:`` URLs are URI-encoded; other text is the name itself, as in Hadoop's ``Path``. So
normalizing a location does not change it. Empty segments and ``.`` are dropped.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError

SUPPORTED = "local paths, file:, memory://, s3://, s3a://, s3n://, gs://, az://, abfs(s)://, wasb(s)://"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_S3_NAMES = {"s3a": "s3", "s3n": "s3"}
_AZURE_NAMES = {"azure": "az", "adl": "az", "abfs": "abfss", "wasb": "wasbs"}
_ALIASES = {**_S3_NAMES, "gcs": "gs", **_AZURE_NAMES}
_WITH_ACCOUNT = ("abfss", "wasbs")  # container@account.host
_WITH_BUCKET = ("s3", "gs", "az", "memory")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# The ASCII characters, besides letters and digits, that java.net.URI does not encode in a path.
_URI_PATH = "/-_.!~*'():@&=+$,;"
_OTHER_SPACES = r"\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_TO_ENCODE = re.compile(rf"[^A-Za-z0-9{re.escape(_URI_PATH)}\u00a1-\U0010ffff]|[{_OTHER_SPACES}]")
# A raw path that contains one of these is resolved individually; any other raw path is the name itself.
_SPECIAL = r"%|//|:/|(?:^|/)\.|^/|/$|^$|\x00"
_SLASH, _DOT, _COLON = b"/.:"


def normalize(location: str) -> str:
    """The location for text that a user typed: absolute, decoded, without a trailing slash.

    Refuses an unsupported scheme by name (UnsupportedFeatureError), and text that is not a location or is
    outside of its bucket because of ``..`` (InvalidOperationError).
    """
    text = os.fspath(location)
    if not text or "\0" in text:
        raise InvalidOperationError(f"a location must be a path or a URL, found {text!r}")
    scheme = _scheme(text)
    try:
        if scheme == "file":
            return _absolute_path(_file_path(text, decode(text)))
        if scheme is not None:
            return _store_location(scheme, text)
    except FormatError as error:
        raise InvalidOperationError(f"{error}: location {text!r}") from error
    return _absolute_path(os.path.abspath(text))  # noqa: PTH100 - text in, text out


def unencoded(text: str) -> str:
    """The location for recorded, absolute text in which nothing is percent-encoded, not even in ``file:``
    URLs. FormatError if it is not absolute.
    """
    _verify_no_nul(text, text, text)
    scheme = _scheme(text)
    if scheme == "file":
        return _absolute_path(_file_path(text, text))
    if scheme is not None:
        return _store_location(scheme, text)
    if text.startswith("/"):
        return _absolute_path(text)
    raise FormatError(f"location {text!r} is not absolute, expected a path from / or a URL")


def unencoded_many(column: pa.Array) -> pa.Array:
    """``unencoded`` for a column; nulls stay null. Each distinct folder is looked at once."""
    parts = pc.split_pattern(column, "/", max_splits=1, reverse=True)
    if not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return _unencoded_one_by_one(column)
    names = pc.list_element(parts, 1)
    if pc.any(pc.match_substring_regex(names, r"^\.{0,2}$|\x00")).as_py():
        return _unencoded_one_by_one(column)
    folders = pc.list_element(parts, 0).dictionary_encode()
    resolved = [_as_folder(unencoded(f"{folder}/")) for folder in folders.dictionary.to_pylist()]
    prefixes = pa.array(resolved, names.type).take(folders.indices)
    return pc.binary_join_element_wise(prefixes, names, pa.scalar("", names.type))


def _unencoded_one_by_one(column: pa.Array) -> pa.Array:
    texts = column.to_pylist()
    return pa.array([None if text is None else unencoded(text) for text in texts], column.type)


def decode(uri_text: str) -> str:
    """Percent-decode the text once. Refuses broken escapes and escapes that are not UTF-8 (FormatError)."""
    if "%" not in uri_text:
        return uri_text
    bad = _BAD_ESCAPE.search(uri_text)
    if bad:
        raise FormatError(
            f"percent-escape {uri_text[bad.start() : bad.start() + 3]!r} at character {bad.start()} of "
            f"{uri_text!r} is broken, expected % and two hexadecimal digits"
        )
    try:
        return unquote_to_bytes(uri_text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"percent-escapes of {uri_text!r} are not UTF-8") from error


def encode(path: str) -> str:
    """The inverse of ``decode``, as Hadoop's ``Path.toUri`` does it: non-ASCII letters are not encoded.

    If the start of a relative path looks like a scheme (``a:/b``), its colon is encoded.
    """
    text = _TO_ENCODE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)
    if _SCHEME.match(text) and _scheme_is_unknown(text):
        text = text.replace(":", "%3A", 1)
    return text


def resolve(root: str, raw: str) -> str:
    """The location of the raw (URI-encoded) path ``raw`` in the table at ``root``.

    A relative path is decoded and joined to ``root``; it is refused (FormatError) if it is empty or
    outside of the root. An absolute path (with a scheme or a leading slash) is decoded and normalized.
    """
    scheme = _scheme(raw)
    text = decode(raw)
    _verify_no_nul(raw, text, root)
    if scheme == "file":
        return _absolute_path(_file_path(raw, text))
    if scheme is not None:
        return _store_location(scheme, text)
    if raw.startswith("/"):
        return _absolute_path(text)
    return join(root, _inside(raw, text, root))


def resolve_many(root: str, raw: pa.Array | pa.ChunkedArray) -> pa.Array:
    """``resolve`` for a column. All names that need no decoding are resolved in one pass, only the others one
    by one. Nulls stay null. Each distinct folder of encoded names is decoded once.
    """
    column = raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) else raw
    if isinstance(column, pa.ChunkedArray):  # too much text for one array with 32-bit offsets
        column = column.cast(pa.large_string()).combine_chunks()
    joined = pc.binary_replace_slice(column, 0, 0, _as_folder(root)).cast(column.type)
    if _is_plain(column):
        return joined
    special = pc.fill_null(pc.match_substring_regex(column, _SPECIAL), False)  # noqa: FBT003
    resolved = _resolve_special(root, column.filter(special)).cast(column.type)
    return pc.replace_with_mask(joined, special, resolved)


def _is_plain(column: pa.Array) -> bool:
    """Whether no name is special. Looks at the text of all rows at once, which is faster than row by row."""
    if not len(column) or column.null_count:
        return False
    _, offset_bytes, data = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    offsets = np.frombuffer(offset_bytes, width)[column.offset : column.offset + len(column) + 1]
    if (offsets[1:] == offsets[:-1]).any():
        return False
    text = memoryview(data)[offsets[0] : offsets[-1]]
    codes = np.frombuffer(text, np.uint8)
    first, last = codes[offsets[:-1] - offsets[0]], codes[offsets[1:] - offsets[0] - 1]
    if ((first == _SLASH) | (first == _DOT) | (last == _SLASH)).any():
        return False
    all_names = text.tobytes()
    if b"%" in all_names or b"\0" in all_names:
        return False
    if b"/" not in all_names:
        return True
    slashes = np.flatnonzero(codes == _SLASH)
    before, after = codes[slashes - 1], codes[slashes + 1]
    return not ((before == _COLON) | (after == _SLASH) | (after == _DOT)).any()


def _resolve_special(root: str, column: pa.Array) -> pa.Array:
    """Resolve the few distinct folders instead of each name, if the last parts of the names are plain."""
    parts = pc.split_pattern(column, "/", max_splits=1, reverse=True)
    if pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        names = pc.list_element(parts, 1)
        if _is_plain(names):
            folders = pc.list_element(parts, 0).dictionary_encode()
            with suppress(FormatError):  # raised again below, with the whole path in its message
                resolved = [_as_folder(resolve(root, f"{raw}/")) for raw in folders.dictionary.to_pylist()]
                prefixes = pa.array(resolved, names.type).take(folders.indices)
                return pc.binary_join_element_wise(prefixes, names, pa.scalar("", names.type))
    return pa.array([resolve(root, raw) for raw in column.to_pylist()], column.type)


def _as_folder(location: str) -> str:
    return location if location.endswith("/") else location + "/"


def relative(root: str, location: str) -> str | None:
    """The path of ``location`` relative to ``root``; None if it is not below the root."""
    base = _as_folder(root)
    return location[len(base) :] if location.startswith(base) and len(location) > len(base) else None


def join(root: str, path: str) -> str:
    """The location of a decoded, relative path below ``root``."""
    return _as_folder(root) + path


def split_store(location: str) -> tuple[str, str]:
    """The store of a location (``s3://bucket``, or ``/`` for local files) and the key in that store."""
    if location.startswith("/"):
        return "/", location[1:]
    scheme, _, rest = location.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


def is_absolute(path: str) -> bool:
    """Whether ``path`` has a scheme or a leading slash."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def _scheme(text: str) -> str | None:
    match = _SCHEME.match(text)
    return match[1].lower() if match else None


def _scheme_is_unknown(text: str) -> bool:
    scheme = _scheme(text)
    return scheme != "file" and _ALIASES.get(scheme or "", scheme) not in (*_WITH_ACCOUNT, *_WITH_BUCKET)


def _file_path(raw: str, text: str) -> str:
    """The path of a ``file:`` URL; refuses the URL of another host."""
    rest = text[len("file:") :]
    if not rest.startswith("//"):
        return rest
    host, _, path = rest[2:].partition("/")
    if host not in ("", "localhost"):
        raise UnsupportedFeatureError(
            f"file URL {raw!r} is on host {host!r}, expected file:///path or file:/path", feature="file host"
        )
    return "/" + path


def _absolute_path(text: str) -> str:
    """A local path without ``.``, ``..`` and doubled slashes; ``..`` above the root is dropped."""
    return "/" + os.path.normpath(text).lstrip("/")


def _store_location(scheme: str, text: str) -> str:
    name = _ALIASES.get(scheme, scheme)
    if name not in _WITH_BUCKET and name not in _WITH_ACCOUNT:
        raise UnsupportedFeatureError(
            f"locations of scheme {scheme}: are not supported, expected one of {SUPPORTED}: {text!r}",
            feature=f"{scheme}:",
        )
    rest = text[len(scheme) + 1 :]
    host, _, path = rest.removeprefix("//").partition("/")
    account = host.partition("@")[2]
    if not rest.startswith("//") or not host or (name in _WITH_ACCOUNT and "." not in account):
        expected = "container@account.host" if name in _WITH_ACCOUNT else "bucket"
        raise FormatError(f"location {text!r} has no {expected}, expected {scheme}://{expected}/path")
    if scheme == "adl" and "." in host:
        raise UnsupportedFeatureError(
            f"Azure Data Lake Storage Gen1 is not supported, expected abfss://: {text!r}", feature="adl:"
        )
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise FormatError(f"location {text!r} contains '..', expected a path that stays in {host!r}")
    return "/".join((f"{name}://{host}", *segments))


def _inside(raw: str, text: str, root: str) -> str:
    segments = [segment for segment in text.split("/") if segment not in ("", ".")]
    if text.startswith("/") or ".." in segments or not segments:
        raise FormatError(f"relative path {raw!r} is not inside the table, expected a path below", path=root)
    return "/".join(segments)


def _verify_no_nul(raw: str, text: str, root: str) -> None:
    if "\0" in text:
        raise FormatError(f"path {raw!r} contains a NUL character, expected a file's name", path=root)
