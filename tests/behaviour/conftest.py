"""One local Spark session for all behaviour tests."""

from __future__ import annotations

from local_spark import _collected_sockets, applied, conf, pytest_collection_modifyitems, spark

__all__ = ["_collected_sockets", "applied", "conf", "pytest_collection_modifyitems", "spark"]
