"""How data files reach Spark: each by its path when they are few, by folder and name when they are many.

Spark lists what it is given. Many single paths cost it a job of thousands of tasks and, on object stores, a
request each; a folder costs a request per thousand files, and a filter on the file name, which Spark applies
before it opens any file, leaves the ones that the plan names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from delvec import location
from delvec.errors import FormatError, ObjectNotFoundError, StorageError, UnsupportedFeatureError
from delvec.spark.session import settings
from delvec.storage import Storage

METADATA = "_metadata"
_DATA_FILE = ".parquet"

# Spark lists this many paths on the driver itself.
FEW_PATHS = 32
# The listing job's tasks, where many single paths cannot be avoided; Spark's own default is 10,000.
_LISTING_TASKS = 8
_ASKED_AT_ONCE = 8

# Spark shows file names percent-encoded; of these characters none is, so that names compare as they stand.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._=+-]+")
_GLOB = re.compile(r"([\[\]{}*?\\])")

# A setting of the session that hides missing or corrupt files would make rows vanish.
_OPTIONS: Mapping[str, str] = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "timeZone": "UTC",  # of timestamps in folder names; those in files have none to be read in
}


def read_parquet(
    spark: SparkSession,
    storage: Storage,
    locations: Sequence[str],
    schema: StructType,
    *,
    by_folder_names: bool,
) -> DataFrame:
    """The rows of exactly these files, with Spark's hidden ``_metadata``.

    ``by_folder_names``: the schema's partition columns come from ``name=value`` folders below the root.
    Else no folder's name means anything.
    """
    _verify_visible(locations)
    reader = spark.read.schema(schema).options(**_OPTIONS)
    if by_folder_names:
        reader = reader.option("basePath", _hadoop_path(storage.root))
    else:
        reader = reader.option("recursiveFileLookup", "true")
    if len(locations) > FEW_PATHS and METADATA not in schema.fieldNames():
        found = _read_folders(storage, locations, reader)
        if found is not None:
            return found
    paths = [spark_path(location) for location in locations]
    if len(paths) <= FEW_PATHS:
        return reader.parquet(*paths)
    with settings(spark, spark__sql__sources__parallelPartitionDiscovery__parallelism=str(_LISTING_TASKS)):
        found = reader.parquet(*paths)
        _ = found.schema  # Connect resolves the files now, while the setting holds
    return found


def _read_folders(storage: Storage, locations: Sequence[str], reader: DataFrameReader) -> DataFrame | None:
    """The files by folder and name; None where that would not give exactly them."""
    folders = _folders_with_unique_names(storage, locations)
    if not folders:
        return None
    names = [place.rpartition("/")[2] for place in locations]
    if all(name.endswith(_DATA_FILE) for name in names):
        reader = reader.option("pathGlobFilter", f"*{_DATA_FILE}")
    try:
        found = reader.parquet(*map(spark_path, folders))
        _ = found.schema
    except PySparkException:  # folders of dead files that do not fit the partitioning
        return None
    listed = ", ".join(f"'{name}'" for name in names)
    return found.where(f"{METADATA}.file_name IN ({listed})")


def spark_path(place: str) -> str:
    """The location as Spark takes it, where nothing in it is to read as a pattern."""
    return _GLOB.sub(r"\\\1", _hadoop_path(place))


def _hadoop_path(place: str) -> str:
    """The location by Hadoop's name for its store: a bare path would be in the session's default store."""
    if place.startswith("s3://"):
        return "s3a://" + place.removeprefix("s3://")
    return f"file:{place}" if place.startswith("/") else place


def file_path(place: str) -> str:
    """The location as Spark shows it in ``_metadata.file_path``: percent-encoded once."""
    if place.startswith("/"):
        return "file:" + location.encode(place)
    scheme, _, rest = place.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}://{location.encode(rest)}"


def _folders_with_unique_names(storage: Storage, locations: Sequence[str]) -> list[str]:
    """The folders to give Spark, or none where names alone would not tell these files from others there."""
    names = {place.rpartition("/")[2] for place in locations}
    relative = [location.relative(storage.root, place) for place in locations]
    if len(names) < len(locations) or None in relative or not all(map(_PLAIN_NAME.fullmatch, names)):
        return []
    folders = sorted({place.rpartition("/")[0] for place in locations})
    if len(folders) > FEW_PATHS:
        folders = [storage.root]
        if any(_is_hidden(name) for path in relative if path is not None for name in path.split("/")):
            return []
    folders = [f for f in folders if not any(f.startswith(f"{other}/") for other in folders)]
    try:
        listed = [entry.path for folder in folders for entry in storage.list(_below(storage, folder))]
    except StorageError:
        return []
    # A dead file of the same name in another folder would come along.
    seen = [path.rpartition("/")[2] for path in listed if path.rpartition("/")[2] in names]
    return folders if len(seen) == len(names) else []


def verify_sizes(storage: Storage, locations: Sequence[str], sizes: Sequence[int]) -> None:
    """Refuse a file whose size is not the recorded one: where files are told apart by size, its vector would
    be lost. A file that is absent is left to Spark, which names it.
    """
    found: dict[str, int | None]
    if len(locations) > FEW_PATHS:
        found = {location.join(storage.root, entry.path): entry.size for entry in storage.list()}
    else:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            found = dict(
                zip(locations, pool.map(lambda place: _size(storage, place), locations), strict=True)
            )
    for place, expected in zip(locations, sizes, strict=True):
        size = found[place] if place in found else _size(storage, place)
        if size is not None and size != expected:
            raise FormatError(f"data file has {size} bytes, expected the recorded {expected}", path=place)


def _size(storage: Storage, place: str) -> int | None:
    try:
        return storage.head(place).size
    except ObjectNotFoundError:
        return None


def _verify_visible(locations: Sequence[str]) -> None:
    for place in locations:
        if _is_hidden(place.rpartition("/")[2]):
            raise UnsupportedFeatureError(
                f"Spark takes a file of this name for hidden and would read no row of it: {place}",
                feature="hidden data file",
            )


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name when it lists."""
    if name.startswith(("_metadata", "_common_metadata")):
        return False
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _below(storage: Storage, folder: str) -> str:
    return (location.relative(storage.root, folder) or "") if folder != storage.root else ""
