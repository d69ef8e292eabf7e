"""`delvec files`: the data files of a version, or only those that may match a condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from delvec.cli.arguments import (
    DEFAULT_LIMIT,
    Catalog,
    Json,
    Limit,
    Path,
    Ref,
    Relocate,
    StorageOptions,
    Timestamp,
    Version,
    Where,
    first,
    open_source,
    storage_options,
)
from delvec.cli.output import cell, counted, number, shortened, size, table

if TYPE_CHECKING:
    from delvec.formats import Snapshot
    from delvec.plan import ScanPlan


def files(
    path: Path,
    *,
    where: Where = None,
    limit: Limit = DEFAULT_LIMIT,
    version: Version = None,
    timestamp: Timestamp = None,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> FileList:
    """List the data files, or only those that may match --where."""
    del json
    source = open_source(path, storage_options(option), catalog=catalog, ref=ref, relocate=relocate)
    return list_files(source.snapshot(version, timestamp), where, limit)


@dataclass(frozen=True, slots=True)
class FileList:
    """``files``: the first of ``total`` files that may match; ``skipped``: the number of files that
    cannot.
    """

    location: str
    version: int
    where: str | None
    total: int
    skipped: int
    files: tuple[Mapping[str, Any], ...]

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in FileList.__slots__}

    def render(self) -> Iterable[RenderableType]:
        if self.files:
            yield self._table()
        yield self._summary()

    def _table(self) -> RenderableType:
        has_partition, has_deletes = (
            any(file[name] for file in self.files) for name in ("partition", "delete_files")
        )
        headings = ["file", "size", "rows", "deleted", "vector", *["delete files"] * has_deletes]
        headings += ["partition"] * has_partition + ["match"] * (self.where is not None)
        numbers = ("size", "rows", "deleted", "delete files")
        grid = table(*headings, numbers=numbers, fold=("file", "partition"))
        for file in self.files:
            cells = [cell(file["path"]), size(file["size"]), number(file["rows"]), number(file["deleted"])]
            cells.append(place_text(file["vector"]) if file["vector"] else "")
            if has_deletes:
                cells.append(number(file["delete_files"]))
            if has_partition:
                cells.append(cell(", ".join(f"{k}={_value(v)}" for k, v in file["partition"].items())))
            if self.where is not None:
                cells.append(file["match"])
            grid.add_row(*cells)
        return grid

    def _summary(self) -> str:
        line = counted(self.total, "file")
        if self.where is not None:
            line += f" may match, {counted(self.skipped, 'file')} skipped"
        more = self.total - len(self.files)
        return line + (f"; {more:,} more not shown (--limit)" if more else "")


def list_files(snapshot: Snapshot, where: str | None, limit: int) -> FileList:
    """The first files of the snapshot that may match the condition."""
    from delvec import predicate

    plan = snapshot.plan(None if where is None else predicate.parse(where, snapshot.schema))
    return list_plan(plan, where, limit)


def list_plan(plan: ScanPlan, where: str | None, limit: int) -> FileList:
    """The first files of the plan."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from delvec.deletes.deletes_of_files import match_deletes, match_equality_files
    from delvec.plan import POSITION_VECTOR

    selected = plan.at(np.arange(first(len(plan.files), limit)))
    matches, by_value = match_deletes(selected), match_equality_files(selected)
    is_vector = pc.equal(selected.deletes.column("kind"), POSITION_VECTOR).to_numpy()[matches.delete]
    vectors = dict(
        zip(
            matches.file[is_vector].tolist(),
            selected.deletes.take(pa.array(matches.delete[is_vector])).to_pylist(),
            strict=True,
        )
    )
    others = Counter([*matches.file[~is_vector].tolist(), *by_value.file.tolist()])
    counts = selected.deleted_rows.to_pylist()
    return FileList(
        location=plan.location,
        version=plan.base.version,
        where=where,
        total=len(plan.files),
        skipped=plan.skipped,
        files=tuple(
            {
                **_file(plan, file, deleted, vectors.get(row)),
                "delete_files": others[row],
                "match": None if where is None else file["match"],
            }
            for row, (file, deleted) in enumerate(zip(selected.files.to_pylist(), counts, strict=True))
        ),
    )


def _file(
    plan: ScanPlan,
    file: Mapping[str, Any],
    deleted: int | None,
    vector: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    from delvec import location

    rows = file["record_count"]
    return {
        "path": location.relative(plan.location, file["location"]) or file["location"],
        "location": file["location"],
        "size": file["size"],
        "rows": rows,
        "deleted": deleted,
        "live": None if rows is None or deleted is None else rows - deleted,
        "partition": plan.partition_of(file),
        "vector": vector_place(plan.location, vector) if vector else None,
    }


def vector_place(root: str, delete: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a delete is stored."""
    from delvec import location

    stored = delete["location"]
    relative_path = None if stored is None else location.relative(root, stored)
    return {
        "storage": "inline" if stored is None else "table" if relative_path else "elsewhere",
        "path": relative_path or stored,
        "offset": delete["offset"],
        "size": delete["length"],
    }


def place_text(place: Mapping[str, Any]) -> str:
    """Where a delete is stored, in short."""
    if place["storage"] == "inline":
        return "inline"
    offset = "" if place["offset"] is None else f" @ {place['offset']}"
    return cell(f"{shortened(place['path'])}{offset}")


def _value(value: Any) -> str:
    return "NULL" if value is None else str(value)
