"""What importing delvec loads, and what it exports."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import delvec
import pyspark_delvec

PUBLIC = {
    "CommitConflictError",
    "CorruptVectorError",
    "DelvecError",
    "FormatError",
    "InvalidOperationError",
    "ObjectNotFoundError",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "UnsupportedFeatureError",
    "__version__",
    "sql",
}


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_import_delvec_is_light() -> None:
    loaded = modules_after("import delvec")
    for heavy in (
        "pyspark",
        "pyiceberg",
        "pyarrow",
        "numpy",
        "sqlglot",
        "obstore",
        "pyroaring",
        "rich",
        "typer",
    ):
        assert heavy not in loaded
    assert {name for name in loaded if name.startswith("delvec")} == {
        "delvec",
        "delvec.errors",
        "delvec.version",
    }


def test_the_delta_read_side_needs_no_engine() -> None:
    loaded = modules_after("import delvec.delta.table, delvec.deletes.loader")
    assert not {
        name for name in loaded if name.split(".")[0] in ("pyspark", "pyiceberg", "py4j", "deltalake")
    }


def test_both_packages_say_that_they_are_typed() -> None:
    for package in (delvec, pyspark_delvec):
        assert (resources.files(package) / "py.typed").is_file()


def test_the_public_names() -> None:
    assert set(delvec.__all__) == PUBLIC
    assert all(hasattr(delvec, name) for name in PUBLIC)


def test_every_error_is_a_delvec_error() -> None:
    for name in PUBLIC - {"Table", "__version__", "sql"}:
        assert issubclass(getattr(delvec, name), delvec.DelvecError)
