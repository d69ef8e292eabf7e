"""One local Spark session for the tests of Delta's own rules."""

from __future__ import annotations

from local_spark import _collected_sockets, applied, conf, pytest_collection_modifyitems, spark

__all__ = ["_collected_sockets", "applied", "conf", "pytest_collection_modifyitems", "spark"]
