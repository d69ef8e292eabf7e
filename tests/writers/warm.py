"""What a client imports, once for all: clients are forked from a process that has it, and no channel yet."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pyspark.sql.connect.dataframe
    import pyspark.sql.connect.functions
    import pyspark.sql.connect.observation
    import pyspark.sql.connect.session  # noqa: F401

    import delvec.detect
    import delvec.table  # noqa: F401
    import writers.client  # noqa: F401
