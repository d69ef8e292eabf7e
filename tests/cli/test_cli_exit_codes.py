"""How a command line ends: each exit code, and what is written with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from delvec.cli import main as cli
from delvec.errors import CommitConflictError, DelvecError
from golden_data import golden

COMMAND = Path(sys.executable).with_name("delvec")
ON_TABLES = ("show", "files", "history", "dv", "verify")


@pytest.mark.parametrize("command", ON_TABLES)
def test_no_such_table(delvec, tmp_path, command):
    run = delvec(command, tmp_path / "absent")
    expected = f"error: no table at {tmp_path}/absent: the path does not exist\n"
    assert (run.code, run.out, run.err) == (3, "", expected)


@pytest.mark.parametrize("command", ON_TABLES)
def test_no_such_table_in_json(delvec, tmp_path, command):
    run = delvec(command, tmp_path / "absent", "--json")
    assert (run.code, run.err) == (3, "")
    assert run.json == {
        "error": {
            "kind": "TableNotFoundError",
            "message": f"no table at {tmp_path}/absent: the path does not exist",
        }
    }


def test_version_out_of_range(delvec, orders):
    run = delvec("show", orders, "--version", 3)
    assert run.code == 2
    assert run.err == f"error: version 3 does not exist, expected 0 to 2: {orders}\n"


def test_timestamp_out_of_range(delvec, orders):
    run = delvec("files", orders, "--timestamp", "2024-12-31")
    assert run.code == 2
    assert "before the first commit" in run.err


def test_vector_file_absent(delvec, tmp_path):
    assert delvec("dv", tmp_path / "absent.bin").code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "--version", "1", "--timestamp", "2025-01-01"], "both version 1 and timestamp"),
        (["show", "--timestamp", "yesterday"], "timestamp is 'yesterday'"),
        (["files", "--where", "prize > 3"], "prize"),
        (
            ["files", "--where", "id >"],
            "syntax error in the condition at line 1, column 4: id ⟦>⟧ (an operand is missing)",
        ),
        (["dv", "--file", "nothing.parquet"], "no data file has this name in version 2"),
        (["dv", "--file", ""], "this name"),
        (["show", "--option", "novalue"], "--option is not KEY=VALUE"),
        (["show", "--version", "one"], "--version"),
        (["files", "--limit", "-1"], "--limit"),
        (["show", "--nonsense"], "--nonsense"),
    ],
)
def test_bad_command_lines(delvec, orders, arguments, message):
    run = delvec(arguments[0], orders, *arguments[1:])
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error: ")
    assert message in run.err
    assert run.err.count("\n") == 1


def test_unknown_command(delvec):
    run = delvec("shew")
    assert (run.code, run.err) == (
        2,
        "error: No such command 'shew'. Did you mean 'show'? (see delvec --help)\n",
    )
    run = delvec("show")
    assert (run.code, run.err) == (2, "error: Missing argument 'PATH' (see delvec show --help)\n")
    assert delvec("shew", "--json").json["error"]["kind"] == "UsageError"


def test_options_of_tables_are_refused_for_vector_files(delvec, vector_files):
    run = delvec("dv", vector_files[0], "--version", 1)
    assert (run.code, run.err) == (2, "error: --version needs a table, but PATH is a vector file\n")


def test_a_secret_in_a_bad_option_is_not_repeated(delvec, orders):
    assert "hunter2" not in delvec("show", orders, "--option", "hunter2").err


def test_bad_log(delvec, orders):
    (orders / "_delta_log" / f"{1:020d}.json").unlink()
    run = delvec("show", orders)
    assert run.code == 4
    assert "commit 1 is missing" in run.err
    assert delvec("verify", orders).code == 1


@pytest.mark.filterwarnings("default")
def test_a_damaged_checkpoint(delvec, orders):
    damaged = orders / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    damaged.write_bytes(b"")
    for arguments in (["show"], ["show", "--json"]):
        run = delvec(arguments[0], orders, *arguments[1:])
        assert run.code == 0
        assert run.err.startswith("warning: skipped a damaged checkpoint, version 2 was read without it: ")
        assert str(damaged) in run.err
        assert run.err.count("\n") == 1
    run = delvec("verify", orders, "--json")
    assert run.code == 1
    assert [(f["check"], f["path"]) for f in run.json["findings"]] == [("metadata", str(damaged))]
    (orders / "_delta_log" / f"{0:020d}.json").unlink()
    run = delvec("show", orders)
    assert run.code == 4
    assert run.err.endswith(f"{damaged}\n")


def test_bad_vector(delvec, orders, vector_files):
    flip(vector_files[0], 20)
    run = delvec("dv", orders)
    assert run.code == 4
    assert "vector CRC is" in run.out
    listed = delvec("dv", orders, "--json")
    assert listed.code == 4
    errors = [vector["error"] for vector in listed.json["vectors"]]
    assert [error["kind"] for error in errors if error] == ["CorruptVectorError"]
    assert delvec("dv", vector_files[0]).code == 4
    assert str(vector_files[0]) in delvec("dv", vector_files[0]).out


def test_verify_names_a_flipped_byte(delvec, tmp_path):
    table = tmp_path / "small"
    shutil.copytree(golden("delta/table-with-dv-small"), table)
    (path,) = table.glob("deletion_vector_*.bin")
    flip(path, 30)
    run = delvec("verify", table, "--json")
    (finding,) = run.json["findings"]
    assert run.code == 1
    assert (finding["severity"], finding["check"]) == ("error", "vector")
    assert "CRC" in finding["message"]
    assert f"{path} at 1" in finding["message"]
    assert "not sound, 1 error" in delvec("verify", table).out


def test_verify_names_a_missing_vector(delvec, orders, vector_files):
    vector_files[0].unlink()
    run = delvec("verify", orders)
    assert run.code == 1
    assert "vector file is missing" in run.out


def test_verify_names_a_wrong_cardinality(delvec, orders):
    commit = orders / "_delta_log" / f"{2:020d}.json"
    lines = commit.read_text().replace('"cardinality":7', '"cardinality":6')
    commit.write_text(lines)
    run = delvec("verify", orders)
    assert run.code == 1
    assert "vector has 7 positions, expected 6" in run.out


def test_unsupported_format(delvec, tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_text('{"format-version": 5}')
    run = delvec("show", tmp_path)
    assert run.code == 5
    assert run.err.startswith("error: Iceberg format version is 5, expected 1, 2, 3 or 4")


def test_unsupported_place(delvec):
    run = delvec("show", "hdfs://host/table")
    assert run.code == 5
    assert "hdfs" in run.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_storage_failure(delvec, orders):
    commit = orders / "_delta_log" / f"{0:020d}.json"
    commit.chmod(0)
    run = delvec("show", orders)
    assert run.code == 6
    assert "Permission denied" in run.err


def test_storage_failure_is_told_apart(delvec, orders, monkeypatch):
    from delvec.errors import StorageError

    monkeypatch.setattr(
        "delvec.detect.open_table", raising(StorageError("cannot read: 503", path="s3://b/x"))
    )
    run = delvec("show", orders)
    assert (run.code, run.err) == (6, "error: cannot read: 503: s3://b/x\n")


def test_other_errors_of_ours(delvec, orders, monkeypatch):
    monkeypatch.setattr("delvec.detect.open_table", raising(DelvecError("something\nelse")))
    run = delvec("show", orders)
    assert (run.code, run.err) == (7, "error: something else\n")


def test_another_writer_came_first(delvec, orders, monkeypatch):
    monkeypatch.setattr("delvec.detect.open_table", raising(CommitConflictError("version 4 is taken")))
    run = delvec("show", orders)
    assert (run.code, run.err) == (8, "error: version 4 is taken\n")


@pytest.mark.parametrize(
    ("kind", "code"),
    [("ParseException", 2), ("AnalysisException", 2), ("SparkRuntimeException", 7), ("PySparkException", 7)],
)
def test_what_spark_refuses_is_one_line(delvec, orders, monkeypatch, kind, code):
    import pyspark.errors

    error = getattr(pyspark.errors, kind)("\n[NO] Not so. SQLSTATE: 1; line 1 pos 7;\n'Project\n+- x")
    monkeypatch.setattr("delvec.detect.open_table", raising(error))
    run = delvec("show", orders)
    assert (run.code, run.err) == (code, "error: [NO] Not so. SQLSTATE: 1; line 1 pos 7\n")


def test_a_mistake_of_ours_shows_where(delvec, orders, monkeypatch):
    monkeypatch.setattr("delvec.detect.open_table", raising(ZeroDivisionError("oh")))
    run = delvec("show", orders)
    assert run.code == 7
    assert "Traceback" in run.err
    assert run.err.endswith("error: unexpected ZeroDivisionError: oh\n")


def test_interruption(delvec, orders, monkeypatch):
    monkeypatch.setattr("delvec.detect.open_table", raising(KeyboardInterrupt()))
    run = delvec("show", orders)
    assert (run.code, run.err) == (130, "error: interrupted\n")


@pytest.mark.parametrize("kind", [DelvecError, KeyboardInterrupt])
def test_notes_of_an_error_are_told(delvec, orders, monkeypatch, kind):
    error = kind("oh")
    error.add_note("INSERT INTO a is committed as version 4")
    monkeypatch.setattr("delvec.detect.open_table", raising(error))
    run = delvec("show", orders)
    assert run.err.startswith("error: ")
    assert run.err.endswith("; INSERT INTO a is committed as version 4\n")
    assert "version 4" in delvec("show", orders, "--json").json["error"]["message"]


def test_every_error_has_an_exit_code():
    from delvec import errors

    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in classes if not issubclass(kind, Warning)]
    assert len(kinds) >= 9
    for kind in kinds:
        assert any(issubclass(kind, known) for known, _ in cli.EXIT_CODES), kind


def test_as_a_process(orders):
    good = subprocess.run([COMMAND, "show", orders, "--json"], capture_output=True, check=False)
    assert (good.returncode, good.stderr) == (0, b"")
    assert json.loads(good.stdout)["version"] == 2
    bad = subprocess.run([COMMAND, "show", orders / "x"], capture_output=True, text=True, check=False)
    expected = f"error: no table at {orders}/x: the path does not exist; {orders} is a table\n"
    assert (bad.returncode, bad.stdout, bad.stderr) == (3, "", expected)


def test_reader_that_goes_away(orders):
    with subprocess.Popen(
        [COMMAND, "show", orders], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_version_of_delvec(delvec):
    from delvec import __version__

    assert delvec("--version").out == f"delvec {__version__}\n"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def raising(error: BaseException):
    def function(*_arguments: object, **_options: object) -> None:
        raise error

    return function
