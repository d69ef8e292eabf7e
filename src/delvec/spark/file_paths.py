"""Passes data files to Spark: few files by their paths, many files by folder.

Spark lists the paths that it gets. Many single paths cost a job of thousands of tasks and, on object stores,
one request each. A folder costs one request per thousand files; a filter on the path, which Spark applies
before it opens a file, selects the files of the plan. But Spark applies this filter to every row too, which
takes about 0.1 µs per row. On a local disk a path costs only 0.2 ms, so there files with many rows are always
passed by path.
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
from delvec.errors import UnsupportedFeatureError
from delvec.spark.session import settings
from delvec.storage import Storage, in_parallel

METADATA = "_metadata"
ROW_INDEX = "_tmp_metadata_row_index"
"""A column that Spark's Parquet reader fills with each row's position in its file. ``_metadata.row_index``
has the same value, but Spark builds a struct for it in every row, which takes a third of the time of
filtering deleted rows.
"""
_DATA_FILE = ".parquet"

# Spark lists up to this many paths on the driver.
FEW_PATHS = 32
# The number of tasks of a job that lists many single paths; Spark's default is 10,000.
_LISTING_TASKS = 8
_LOCAL_FOLDERS = 100_000  # up to this many local folders are listed on the driver
_DISCOVERY = "spark__sql__sources__parallelPartitionDiscovery__"
# Local files with this many rows on average are faster by path than with a filter on each row.
_MANY_ROWS = 100_000

# Characters that Spark does not encode in a path.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._=+/:@-]+")
_GLOB = re.compile(r"([\[\]{}*?\\])")

# Override session settings that hide missing or corrupt files: rows would be missing from the result.
_OPTIONS: Mapping[str, str] = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "timeZone": "UTC",  # for timestamps in folder names; timestamps in files do not depend on it
}


class FileReader:
    """Reads data files of one table. Checks once which files exist, and lists each folder once."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._stored = StoredFiles(storage)
        self._root = storage.root
        self._folders: dict[tuple[object, ...], DataFrame | None] = {}

    def read(
        self, locations: Sequence[str], schema: StructType, *, rows: int, by_folder_names: bool
    ) -> DataFrame:
        """The rows of exactly these files, with Spark's hidden ``_metadata``. ``rows``: about how many.

        ``by_folder_names``: the values of partition columns come from the names of ``name=value`` folders.
        Otherwise the names of folders are ignored.
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
            frame = self._by_folder(locations, schema, options)
            if frame is not None:
                return frame
        paths = list(map(spark_path, locations))
        return self._listed(paths, schema, options, parallelism=_LISTING_TASKS)

    @property
    def _is_local(self) -> bool:
        return self._root.startswith("/")

    def _by_folder(
        self, locations: Sequence[str], schema: StructType, options: Mapping[str, str]
    ) -> DataFrame | None:
        """The files by folder, filtered by path; None if that would not read exactly these files."""
        folders = _folders(self._root, locations)
        # By folder, Spark does not notice a missing file; by path, its error names the file.
        if not folders or not self._stored.has_all(locations):
            return None
        if all(place.endswith(_DATA_FILE) for place in locations):
            options = {**options, "pathGlobFilter": f"*{_DATA_FILE}"}
        frame = self._whole_folders(folders, schema, options)
        paths = list(map(file_path, locations))
        if frame is None or not shown_alike(frame, paths):
            return None
        listed = ", ".join(map(sql_text, paths))
        return frame.where(f"{METADATA}.file_path IN ({listed})")

    def _whole_folders(
        self, folders: Sequence[str], schema: StructType, options: Mapping[str, str]
    ) -> DataFrame | None:
        """All files in the folders; None if files that are not live do not fit the partitioning."""
        key = (*folders, schema.json(), *options.items())
        if key not in self._folders:
            paths = list(map(spark_path, folders))
            try:
                # For local folders, a listing job takes longer than listing them on the driver.
                threshold = {"threshold": _LOCAL_FOLDERS} if self._is_local else {}
                self._folders[key] = self._listed(paths, schema, options, **threshold)
            except PySparkException:
                self._folders[key] = None
        return self._folders[key]

    def _listed(
        self, paths: Sequence[str], schema: StructType, options: Mapping[str, str], **discovery: int
    ) -> DataFrame:
        """The files as a DataFrame; Spark lists them with these settings of its parallel discovery."""
        overrides = {_DISCOVERY + name: str(value) for name, value in discovery.items()}
        with settings(self._spark, **overrides):
            frame = self._spark.read.schema(schema).options(**options).parquet(*paths)
            _ = frame.schema  # makes Connect list the files now, with these settings
        return frame


def shown_alike(frame: DataFrame, paths: Sequence[str]) -> bool:
    """Whether Spark returns the files of the DataFrame under these paths, which come from ``file_path``."""
    if all(map(_PLAIN_PATH.fullmatch, paths)):
        return True
    return {path.replace("file:///", "file:/", 1) for path in frame.inputFiles()}.issuperset(paths)


def numbers(texts: Iterable[str]) -> Rows:
    """For each name or path of a file, the number that the expression ``number_of`` computes for its rows."""
    return np.array([zlib.crc32(text.encode()) for text in texts], np.int64)


def number_of(column: str) -> str:
    """An expression for the 32-bit number of a text. Spark computes it in a few nanoseconds."""
    return f"crc32(CAST({column} AS BINARY))"


def sql_text(text: str) -> str:
    """The text as a literal in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_path(place: str) -> str:
    """The location as a path for Spark, without characters that Spark would read as a glob pattern."""
    return _GLOB.sub(r"\\\1", hadoop_path(place))


def hadoop_path(place: str) -> str:
    """The location with Hadoop's scheme. A path without a scheme would be in the session's default store."""
    if place.startswith("s3://"):
        return "s3a://" + place.removeprefix("s3://")
    return f"file:{place}" if place.startswith("/") else place


def file_path(place: str) -> str:
    """The location as Spark has it in ``_metadata.file_path``: percent-encoded once."""
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
    """The distinct folders of the files; empty if Spark would not find all files there."""
    folders = sorted({place.rpartition("/")[0] for place in locations})
    relative = ["" if folder == root else location.relative(root, folder) for folder in folders]
    if None in relative:
        return []
    if len(folders) > FEW_PATHS:
        folders = [root]
        # `_verify_visible` has checked the names of the files; these are the folders below the root.
        if any(_is_hidden(name) for path in relative if path for name in path.split("/")):
            return []
    return [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]


class StoredFiles:
    """Which files exist in the store. Each file is checked once; many files are checked by listing
    folders.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._exists: dict[str, bool] = {}

    def has_all(self, locations: Sequence[str]) -> bool:
        unknown = [place for place in locations if place not in self._exists]
        if len(unknown) > FEW_PATHS:
            self._list(_folders(self._storage.root, unknown))
            unknown = [place for place in unknown if place not in self._exists]
        self._exists.update(zip(unknown, in_parallel(self._storage.exists, unknown), strict=True))
        return all(self._exists[place] for place in locations)

    def _list(self, folders: Sequence[str]) -> None:
        root = self._storage.root
        for folder in folders:
            below = "" if folder == root else location.relative(root, folder)
            for entry in self._storage.list(below or ""):
                self._exists[location.join(root, entry.path)] = True


def _verify_visible(locations: Sequence[str]) -> None:
    for place in locations:
        if _is_hidden(place.rpartition("/")[2]):
            raise UnsupportedFeatureError(
                f"Spark treats a file of this name as hidden and would skip its rows: {place}",
                feature="hidden data file",
            )


def _is_hidden(name: str) -> bool:
    """Whether Spark ignores a file or folder with this name when it lists files."""
    if name.startswith(("_metadata", "_common_metadata")):
        return False
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
