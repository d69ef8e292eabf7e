"""The connector: ``spark.read.format("delvec")``, a data source in Python."""
