"""Found by Spark on its own: the home of ``spark.read.format("delvec")``.

Spark imports every module named ``pyspark_*`` when a data source is first asked for, and takes its
``DefaultSource``.
"""

from delvec.connector.source import DelvecSource as DefaultSource

__all__ = ["DefaultSource"]
