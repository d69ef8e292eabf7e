"""The files of a table that a vacuum may delete: found by listing, less those that the table still needs.

    files     old files below the table's location that no version needs
    expired   files that only expired versions needed, however young they are and wherever they are
    folders   empty folders

Memory holds columns of paths, sizes and times, never an object for each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from delvec import detect, location
from delvec.errors import ObjectNotFoundError
from delvec.formats import AloneInLocation, Table
from delvec.retention import EXPIRED_SCHEMA, STAGING, Expired, Protected, RetentionRules
from delvec.storage import LINK, STAGED_NAME, WALKED_SCHEMA, in_parallel

Report = Callable[[str, int], None]
"""Called with the kind of progress and the increment."""

FILES_LISTED = "files listed"
ORPHAN = "orphan"
"""The name under which `Garbage.take` counts old files that no version needs."""

_NO_PARENT = ""
_EXISTING_SCHEMA = EXPIRED_SCHEMA.append(pa.field("size", pa.int64()))


@dataclass(slots=True)
class Garbage:
    """What may be deleted.

    files, folders   as ``WALKED_SCHEMA``, with paths below the table's location
    expired          as ``EXPIRED_SCHEMA``, with ``size``
    has_links        a folder of the table has a second path
    checked          the table's last answer
    """

    root: str
    files: pa.Table
    folders: pa.Table
    listed_folders: int
    has_links: bool
    expired: pa.Table = field(default_factory=_EXISTING_SCHEMA.empty_table)
    checked: Protected | None = None

    @property
    def bytes(self) -> int:
        return sum(int(pc.sum(part.column("size")).as_py() or 0) for part in (self.files, self.expired))

    @property
    def count(self) -> int:
        return len(self.files) + len(self.expired)

    def locations(self) -> Iterator[str]:
        """The locations of all files, then of the folders."""
        yield from self.expired.column("location").to_pylist()
        for rows in (self.files, self.folders):
            for path in rows.column("path").to_pylist():
                yield self.absolute(path)

    def take(self, count: int) -> pa.Table:
        """Remove the next files from the garbage, at most ``count``: their ``location``, ``size`` and
        ``metric``.
        """
        if len(self.expired):
            batch, self.expired = self.expired.slice(0, count), self.expired.slice(count)
            return batch
        files, self.files = self.files.slice(0, count), self.files.slice(count)
        places = [self.absolute(path) for path in files.column("path").to_pylist()]
        columns = [
            pa.array(places, pa.large_string()),
            pa.repeat(pa.scalar(ORPHAN), len(files)),
            files.column("size"),
        ]
        return pa.table(columns, schema=_EXISTING_SCHEMA)

    def absolute(self, path: str) -> str:
        """The location: a relative path may look like an absolute one, if a folder is named ``file:``."""
        return location.join(self.root, path)

    def leave_protected(self, protected: Protected) -> None:
        """Drop what is protected."""
        for locations in protected.locations:
            self._leave(locations)
            if not self.count:
                break
        self.checked = protected

    def _leave(self, locations: pa.ChunkedArray) -> None:
        root = self.root.rstrip("/") + "/"
        inside = pc.starts_with(locations, root)
        paths = pc.utf8_slice_codeunits(locations.filter(inside), start=len(root))
        self.files = self.files.filter(pc.invert(_is_in(self.files.column("path"), paths)))
        self.expired = self.expired.filter(pc.invert(_is_in(self.expired.column("location"), locations)))
        elsewhere = locations if self.has_links else locations.filter(pc.invert(inside))
        if len(elsewhere):
            # Two paths may lead to one folder, by a link or a mount. File names are unique, so a protected
            # file outside of the table, or perhaps behind a link inside, protects the file of its name.
            names = _names(elsewhere)
            self.files = self.files.filter(pc.invert(_is_in(_names(self.files.column("path")), names)))
            expired = _names(self.expired.column("location"))
            self.expired = self.expired.filter(pc.invert(_is_in(expired, names)))

    def drop_folders_in_use(self) -> None:
        """Keep the folders that are empty when the files are gone; young files may keep a folder in
        staging.
        """
        parents = pc.replace_substring_regex(self.files.column("path"), "/?[^/]*$", "")
        gone = Counter({pair["values"]: pair["counts"] for pair in pc.value_counts(parents).to_pylist()})
        columns = (self.folders.column(name).to_pylist() for name in ("path", "entries"))
        rows = list(zip(*columns, strict=True))
        goes = {}
        for path, entries in sorted(rows, key=lambda row: len(row[0]), reverse=True):
            goes[path] = gone[path] >= entries
            if goes[path]:
                gone[path.rpartition("/")[0]] += 1
        self.folders = self.folders.filter(pa.array([goes[path] for path, _ in rows], pa.bool_()))


def list_garbage(
    table: Table, rules: RetentionRules, cutoff_ms: int, expired: Expired | None, report: Report
) -> Garbage:
    """The files and empty folders that were last modified before the cutoff, and the files that expired
    versions need.
    """
    other_tables: set[str] = set()
    is_alone = isinstance(table, AloneInLocation)
    table_folders = rules.table_folders | (_folders_of_other_formats(table) if is_alone else set())

    def enter(folder: str) -> bool:
        parent, _, name = folder.rpartition("/")
        if name in table_folders:
            other_tables.add(parent)
        return _in_staging(folder) or not rules.hidden.has(name)

    parts, folders, links = [WALKED_SCHEMA.empty_table()], 1, 0
    keeps_young = is_alone or (expired is not None and len(expired.files) > 0)
    for rows in table.storage.walk(enter):
        part = rows.filter(pc.not_equal(pc.fill_null(rows.column("entries"), 0), LINK))
        links += len(rows) - len(part)
        files = part.column("entries").null_count
        folders += len(part) - files
        report(FILES_LISTED, files)
        parts.append(part if keeps_young else _old(part, rules, cutoff_ms))
    walked = pa.concat_tables(parts)
    candidates = _old(walked, rules, cutoff_ms) if keeps_young else walked
    if isinstance(table, AloneInLocation):
        uncertain = _verify_alone(table, walked, sorted(other_tables))
        candidates = candidates.filter(pc.invert(_is_in(candidates.column("path"), uncertain)))
    candidates = _outside(candidates, other_tables - {_NO_PARENT})
    is_file = pc.is_null(candidates.column("entries"))
    root = table.location
    garbage = Garbage(
        root, candidates.filter(is_file), candidates.filter(pc.invert(is_file)), folders, links > 0
    )
    if expired is not None:
        _add_expired(table, garbage, walked, expired.files)
    return garbage


def _folders_of_other_formats(table: Table) -> set[str]:
    """The names of metadata folders. A table of another format may have the same files as this one."""
    return {known.metadata for name, known in detect.FORMATS.items() if name != table.format}


def _verify_alone(table: AloneInLocation, walked: pa.Table, other_tables: list[str]) -> pa.ChunkedArray:
    paths = walked.filter(pc.is_null(walked.column("entries"))).column("path")
    metadata = paths.filter(pc.match_substring_regex(paths, table.metadata_files))
    return pa.chunked_array([table.verify_alone(metadata.combine_chunks(), other_tables)])


def _add_expired(table: Table, garbage: Garbage, walked: pa.Table, files: pa.Table) -> None:
    """Add the files of expired versions that exist, with their sizes. They do not count as old files."""
    root = table.location.rstrip("/") + "/"
    places = files.column("location")
    inside = pc.if_else(pc.starts_with(places, root), places, pa.scalar(None, places.type))
    listed = pc.utf8_slice_codeunits(inside, start=len(root))
    rows = pc.index_in(listed, value_set=walked.column("path").cast(places.type))
    sizes = walked.column("size").take(rows)
    unlisted = files.filter(pc.is_null(sizes))
    found = files.append_column("size", sizes).filter(pc.is_valid(sizes))
    heads = in_parallel(lambda place: _size(table, place), unlisted.column("location").to_pylist())
    elsewhere = unlisted.append_column("size", pa.chunked_array([pa.array(heads, pa.int64())]))
    garbage.expired = pa.concat_tables([found, elsewhere.filter(pc.is_valid(elsewhere.column("size")))])
    paths = pc.utf8_slice_codeunits(found.column("location"), start=len(root))
    garbage.files = garbage.files.filter(pc.invert(_is_in(garbage.files.column("path"), paths)))


def _size(table: Table, place: str) -> int | None:
    try:
        return table.storage.head(place).size
    except ObjectNotFoundError:
        return None


def _in_staging(path: str) -> bool:
    return path == STAGING or path.startswith(f"{STAGING}/")


def _old(part: pa.Table, rules: RetentionRules, cutoff_ms: int) -> pa.Table:
    """The rows that may be deleted by their age and name."""
    part = part.filter(pc.less(part.column("modified_ms"), cutoff_ms))
    paths = part.column("path")
    names = _names(paths)
    staging = pc.starts_with(paths, f"{STAGING}/")
    unfinished = pc.match_substring_regex(names, f"^{STAGED_NAME}$")
    visible = pc.or_(pc.invert(rules.hidden.mask(names)), pc.or_(staging, unfinished))
    entries = part.column("entries")
    # A folder in staging is deleted with the files in it. Elsewhere only a folder that was empty.
    gone = pc.or_(pc.is_null(entries), pc.or_(pc.equal(pc.fill_null(entries, 0), 0), staging))
    return part.filter(pc.and_(visible, gone))


def _outside(rows: pa.Table, folders: set[str]) -> pa.Table:
    """The rows that are not in one of these folders."""
    for folder in sorted(folders):
        path = rows.column("path")
        inside = pc.or_(pc.starts_with(path, f"{folder}/"), pc.equal(path, folder))
        rows = rows.filter(pc.invert(inside))
    return rows


def _names(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(paths, "^.*/", "")


def _is_in(values: pa.ChunkedArray, among: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(values.cast(pa.large_string()), value_set=among.cast(pa.large_string()))
