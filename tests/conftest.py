"""For every test process: one local Spark session, which starts when a test first asks for it."""

from __future__ import annotations

import os
import sys

from local_spark import _collected_sockets, applied, conf, pytest_collection_modifyitems, spark

__all__ = ["_collected_sockets", "applied", "conf", "pytest_collection_modifyitems", "spark"]

# Spark's Python workers must be this interpreter: the connector's need delvec. The JVM asks when it starts.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
