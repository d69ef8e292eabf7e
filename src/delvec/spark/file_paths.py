"""How data files reach Spark: each by its path when they are few, by folder when they are many.

Spark lists what it is given. Many single paths cost it a job of thousands of tasks and, on object stores, a
request each; a folder costs a request per thousand files, and a filter on the path, which Spark applies
before it opens any file, leaves the ones that the plan names. But Spark applies it to every row as well, at
about 0.1 µs: on a local disk, where a path costs 0.2 ms, files of many rows go by path whatever their number.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec import location
from delvec.chunked import Rows
from delvec.errors import ObjectNotFoundError, UnsupportedFeatureError
from delvec.spark.session import settings
from delvec.storage import Storage, in_parallel

METADATA = "_metadata"
ROW_INDEX = "_tmp_metadata_row_index"
"""A column that Spark's Parquet reader fills with each row's position in its file. ``_metadata.row_index`` is
the same, but in a struct that Spark makes anew for every row: a third of what leaving out rows costs.
"""
_DATA_FILE = ".parquet"

# Spark lists this many paths on the driver itself.
FEW_PATHS = 32
# The listing job's tasks, where many single paths cannot be avoided; Spark's own default is 10,000.
_LISTING_TASKS = 8
_LOCAL_FOLDERS = 100_000  # listed on the driver itself
_DISCOVERY = "spark__sql__sources__parallelPartitionDiscovery__"
# Local files of so many rows on average are cheaper by path than with a filter on each row.
_MANY_ROWS = 100_000

# Characters that Spark shows in a path as they stand.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._=+/:@-]+")
_GLOB = re.compile(r"([\[\]{}*?\\])")

# A setting of the session that hides missing or corrupt files would make rows vanish.
_OPTIONS: Mapping[str, str] = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "timeZone": "UTC",  # of timestamps in folder names; those in files have none to be read in
}


class FileReader:
    """Reads data files of one table. The store is asked about them once, and a folder read once."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._stored = StoredFiles(storage)
        self._root = storage.root
        self._folders: dict[tuple[object, ...], DataFrame | None] = {}

    def read(
        self, locations: Sequence[str], schema: StructType, *, rows: int, by_folder_names: bool
    ) -> DataFrame:
        """The rows of exactly these files, with Spark's hidden ``_metadata``; ``rows``: how many, about.

        ``by_folder_names``: the schema's partition columns come from ``name=value`` folders below the root.
        Else no folder's name means anything.
        """
        _verify_visible(locations)
        options = dict(_OPTIONS)
        if by_folder_names:
            options["basePath"] = hadoop_path(self._root)
        else:
            options["recursiveFileLookup"] = "true"
        if len(locations) <= FEW_PATHS:
            return self._spark.read.schema(schema).options(**options).parquet(*map(spark_path, locations))
        cheap_paths = self._is_local and rows >= _MANY_ROWS * len(locations)
        if not cheap_paths and METADATA not in schema.fieldNames():
            found = self._by_folder(locations, schema, options)
            if found is not None:
                return found
        paths = list(map(spark_path, locations))
        return self._listed(paths, schema, options, parallelism=_LISTING_TASKS)

    @property
    def _is_local(self) -> bool:
        return self._root.startswith("/")

    def _by_folder(
        self, locations: Sequence[str], schema: StructType, options: Mapping[str, str]
    ) -> DataFrame | None:
        """The files by folder and path; None where that would not give exactly them."""
        folders = _folders(self._root, locations)
        # A file that is missing would not be missed: by path, Spark names it.
        if not folders or not self._stored.has_all(locations):
            return None
        if all(place.endswith(_DATA_FILE) for place in locations):
            options = {**options, "pathGlobFilter": f"*{_DATA_FILE}"}
        found = self._whole_folders(folders, schema, options)
        paths = list(map(file_path, locations))
        if found is None or not shown_alike(found, paths):
            return None
        listed = ", ".join(map(sql_text, paths))
        return found.where(f"{METADATA}.file_path IN ({listed})")

    def _whole_folders(
        self, folders: Sequence[str], schema: StructType, options: Mapping[str, str]
    ) -> DataFrame | None:
        """All files there; None where dead ones do not fit the partitioning."""
        key = (*folders, schema.json(), *options.items())
        if key not in self._folders:
            paths = list(map(spark_path, folders))
            try:
                # A job that lists local folders takes longer than the driver alone.
                threshold = {"threshold": _LOCAL_FOLDERS} if self._is_local else {}
                self._folders[key] = self._listed(paths, schema, options, **threshold)
            except PySparkException:
                self._folders[key] = None
        return self._folders[key]

    def _listed(
        self, paths: Sequence[str], schema: StructType, options: Mapping[str, str], **discovery: int
    ) -> DataFrame:
        """The frame, its files listed under these settings of Spark's parallel discovery."""
        wanted = {_DISCOVERY + name: str(value) for name, value in discovery.items()}
        with settings(self._spark, **wanted):
            found = self._spark.read.schema(schema).options(**options).parquet(*paths)
            _ = found.schema  # Connect resolves the files now, while the settings hold
        return found


def shown_alike(frame: DataFrame, paths: Sequence[str]) -> bool:
    """Whether the frame shows all its files under these paths, which ``file_path`` made."""
    if all(map(_PLAIN_PATH.fullmatch, paths)):
        return True
    return {path.replace("file:///", "file:/", 1) for path in frame.inputFiles()}.issuperset(paths)


def numbers(texts: Iterable[str]) -> Rows:
    """For each file's name or path the number that ``number_of`` is for its rows."""
    return np.array([zlib.crc32(text.encode()) for text in texts], np.int64)


def number_of(column: str) -> str:
    """As an expression: a number of 32 bits for a text, which Spark makes in a few nanoseconds."""
    return f"crc32(CAST({column} AS BINARY))"


def sql_text(text: str) -> str:
    """The text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_path(place: str) -> str:
    """The location as Spark takes it, where nothing in it is to read as a pattern."""
    return _GLOB.sub(r"\\\1", hadoop_path(place))


def hadoop_path(place: str) -> str:
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


def location_of(path: str) -> str:
    """The inverse of ``file_path``."""
    if path.startswith("file:"):
        return location.decode(path.removeprefix("file:"))
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme == 's3a' else scheme}://{location.decode(rest)}"


def _folders(root: str, locations: Sequence[str]) -> list[str]:
    """The folders that hold the files, each once; none where Spark would not find all files there."""
    folders = sorted({place.rpartition("/")[0] for place in locations})
    relative = ["" if folder == root else location.relative(root, folder) for folder in folders]
    if None in relative:
        return []
    if len(folders) > FEW_PATHS:
        folders = [root]
        # Names of files are looked at before anything is read.
        if any(_is_hidden(name) for path in relative if path for name in path.split("/")):
            return []
    return [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]


class StoredFiles:
    """The files that the store has, asked about once: a folder at a time where they are many."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._there: dict[str, bool] = {}

    def has_all(self, locations: Sequence[str]) -> bool:
        asked = [place for place in locations if place not in self._there]
        if len(asked) > FEW_PATHS:
            self._list(_folders(self._storage.root, asked))
            asked = [place for place in asked if place not in self._there]
        self._there.update(zip(asked, in_parallel(self._is_there, asked), strict=True))
        return all(self._there[place] for place in locations)

    def _list(self, folders: Sequence[str]) -> None:
        root = self._storage.root
        for folder in folders:
            below = "" if folder == root else location.relative(root, folder)
            for entry in self._storage.list(below or ""):
                self._there[location.join(root, entry.path)] = True

    def _is_there(self, place: str) -> bool:
        try:
            self._storage.head(place)
        except ObjectNotFoundError:
            return False
        return True


def _verify_visible(locations: Sequence[str]) -> None:
    for place in locations:
        if _is_hidden(place.rpartition("/")[2]):
            raise UnsupportedFeatureError(
                f"Spark treats a file of this name as hidden and would skip its rows: {place}",
                feature="hidden data file",
            )


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name when it lists."""
    if name.startswith(("_metadata", "_common_metadata")):
        return False
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
