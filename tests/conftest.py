"""For every test process."""

from __future__ import annotations

import os
import sys

# Spark's Python workers must be this interpreter: the connector's need delvec. The JVM asks when it starts.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
