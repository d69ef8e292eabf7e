"""`delvec verify`: checks every vector and data file of a table."""

from __future__ import annotations

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
    first,
    open_source,
    storage_options,
)
from delvec.cli.output import cell, counted, progress_bar, table

if TYPE_CHECKING:
    from delvec.verify import Report

FOUND_ERRORS = 1


def verify(
    path: Path,
    *,
    limit: Limit = DEFAULT_LIMIT,
    version: Version = None,
    timestamp: Timestamp = None,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> Verification:
    """Check every deletion vector and data file of a table.

    Exits with 1 if there are errors. Warnings name what could not be checked.
    """
    from delvec.verify import verify_table

    source = open_source(path, storage_options(option), catalog=catalog, ref=ref, relocate=relocate)
    with progress_bar(hidden=json) as progress:
        return Verification(
            verify_table(source, version=version, timestamp=timestamp, progress=progress), limit
        )


@dataclass(frozen=True, slots=True)
class Verification:
    report: Report
    limit: int = DEFAULT_LIMIT

    @property
    def exit_code(self) -> int:
        return FOUND_ERRORS if self.report.errors else 0

    def document(self) -> Mapping[str, Any]:
        report = self.report
        return {
            "location": report.location,
            "version": report.version,
            "sound": not report.errors,
            "checked": {
                "files": report.files,
                "vectors": report.vectors,
                "delete_files": report.delete_files,
                "deleted_rows": report.deleted_rows,
            },
            "errors": report.errors,
            "warnings": report.warnings,
            "findings": [
                {"severity": f.severity, "check": f.check, "path": f.path, "message": f.message}
                for f in self._visible()
            ],
        }

    def render(self) -> Iterable[RenderableType]:
        report, visible = self.report, self._visible()
        if visible:
            findings = table("severity", "check", "file", "finding", fold=("file", "finding"))
            for finding in visible:
                # Show paths relative to the table, so that lines stay short.
                texts = (text.replace(f"{report.location}/", "") for text in (finding.path, finding.message))
                findings.add_row(finding.severity, finding.check, *map(cell, texts))
            yield findings
        if len(visible) < len(report.findings):
            yield f"{len(report.findings) - len(visible):,} more not shown (--limit)"
        yield self._summary()

    def _visible(self) -> tuple[Any, ...]:
        findings = self.report.findings
        return findings[: first(len(findings), self.limit)]

    def _summary(self) -> str:
        report = self.report
        verdict = "sound" if not report.errors else f"not sound, {counted(report.errors, 'error')}"
        if report.warnings:
            verdict += f", {counted(report.warnings, 'warning')}"
        prefix = f"version {report.version}: " if report.version is not None else ""
        counts = [counted(report.files, "file"), counted(report.vectors, "vector")]
        if report.delete_files:
            counts.append(counted(report.delete_files, "delete file"))
        checked = f"{', '.join(counts)}, {counted(report.deleted_rows, 'deleted row')} checked"
        return f"{prefix}{checked}: {verdict}"
