"""One local Spark session for all behaviour tests."""

from __future__ import annotations

from local_spark import conf, pytest_collection_modifyitems, spark

__all__ = ["conf", "pytest_collection_modifyitems", "spark"]
