"""Found by Spark on its own: the home of ``spark.read.format("delvec")``."""
