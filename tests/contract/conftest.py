"""The kind of table that a test runs on."""

from __future__ import annotations

import pytest

from command_line import delvec, in_spark, started
from contract.kinds import KINDS
from contract.kinds.toy import TOY
from delvec import detect
from writers.server import connect_server

__all__ = ["delvec", "in_spark", "started"]


@pytest.fixture(scope="module", autouse=True)
def toy_format():
    """The toy format is known while a module of the suite runs."""
    detect.FORMATS["toy"] = TOY
    yield
    del detect.FORMATS["toy"]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a Spark Connect server, for tests whose writers are processes."""
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


def pytest_generate_tests(metafunc):
    """Tests marked ``core`` run on every kind, others on one kind of each format."""
    if "kind" in metafunc.fixturenames:
        core = metafunc.definition.get_closest_marker("core") is not None
        kinds = [kind for kind in KINDS if core or kind.whole]
        if "server" in metafunc.fixturenames:  # other processes do not know the toy format
            kinds = [kind for kind in kinds if kind.format != "toy"]
        metafunc.parametrize("kind", kinds, ids=lambda kind: kind.name, scope="module")
