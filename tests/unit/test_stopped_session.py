"""A stopped session and a cancelled job: errors of ours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from delvec.errors import DelvecError, InvalidOperationError
from delvec.table import Table, _run


def test_a_stopped_session_is_told_at_once():
    table = Table(SimpleNamespace(_sc=SimpleNamespace(_jsc=None)), SimpleNamespace())
    for verb in (
        table.to_df,
        table.delete,
        lambda: table.update({"v": "1"}),
        lambda: table.append([{"v": 1}]),
    ):
        with pytest.raises(InvalidOperationError, match="the Spark session is stopped"):
            verb()


def test_a_cancelled_job_is_told():
    def verb():
        raise RuntimeError("[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs")

    with pytest.raises(DelvecError, match="the Spark job was cancelled: the table is as it was"):
        _run(verb)
