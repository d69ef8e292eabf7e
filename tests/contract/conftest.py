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
    """The kinds that a test runs on, by its marks: see `contract.kinds`."""
    if "kind" in metafunc.fixturenames:
        kinds = _kinds(metafunc.definition)
        if "server" in metafunc.fixturenames:  # other processes do not know the toy format
            kinds = [kind for kind in kinds if kind.format != "toy"]
        parameters = [
            pytest.param(kind, id=kind.name, marks=_marks(metafunc.definition, kind)) for kind in kinds
        ]
        metafunc.parametrize("kind", parameters, scope="module")


def _kinds(test):
    core = test.get_closest_marker("core") is not None
    needed = {need for mark in test.iter_markers("needs") for need in mark.args}
    kinds = [kind for kind in KINDS if (core or kind.whole) and kind.abilities >= needed]
    if test.get_closest_marker("numbered") is not None:
        kinds = [kind for kind in kinds if kind.numbered]
    return kinds


def _marks(test, kind):
    """On kinds that are ``rare`` some tests are slow: see `contract.kinds`."""
    if not kind.rare or test.get_closest_marker("core"):
        return []
    common = None if test.get_closest_marker("rare") else test.get_closest_marker("common")
    return [] if common and (kind.common or common.kwargs.get("every")) else [pytest.mark.slow]
