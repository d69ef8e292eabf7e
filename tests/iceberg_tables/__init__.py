"""Iceberg tables written from plain Python rows, without delvec, Spark and Iceberg's own libraries.

writer.py    IcebergWriter: a table at a path, commit by commit, and the rows it must have
files.py     data and delete files, and what manifests record of them
avro.py      manifests and manifest lists, with the field ids of the specification
columns.py   schemas with field ids; rows seen through another schema
values.py    bounds, partition transforms
vectors.py   deletion vectors and Puffin files
histories.py random histories
lake.py      IcebergLake: the table as the contract suite writes it
readers.py   the rows that DuckDB and pyiceberg read
"""

from __future__ import annotations

from iceberg_tables.files import File
from iceberg_tables.writer import IcebergWriter

__all__ = ["File", "IcebergWriter"]
