"""Tables that delvec cannot write: every verb is refused by name, before it reads a row.

The data file of each table is gone, and the new rows cannot be computed: whoever reads one of them fails with
another error.
"""

from __future__ import annotations

import uuid
import warnings

import pyarrow as pa
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import StaticTable

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from iceberg_tables import IcebergWriter

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int32())])
DDL = "id bigint, v int"


class Glue(NoopCatalog):
    """A catalog of a kind that delvec does not know, with one table."""

    def __init__(self, file):
        super().__init__("glue")
        self.file = file

    def load_table(self, identifier):
        assert identifier == ("db", "t")
        return StaticTable.from_metadata(self.file)


def written(root, version=3):
    writer = IcebergWriter(root, COLUMNS, format_version=version)
    writer.append([{"id": 1, "v": 1}])
    for file in root.rglob("*.parquet"):
        file.unlink()
    return writer


def newest_file(writer):
    return writer.root / f"metadata/v{writer.metadata_version}.metadata.json"


def of_version_1(root):
    return (
        (str(written(root, 1).root),),
        UnsupportedFeatureError,
        r"version (is )?1\b.*2, 3 or 4.*upgrade",
    )


def of_a_catalog_by_path(root):
    writer = written(root)
    newest_file(writer).rename(root / f"metadata/00007-{uuid.uuid4()}.metadata.json")
    for file in list(root.glob("metadata/v*")):
        file.unlink()
    return (str(root),), InvalidOperationError, "a table of a catalog is changed through its catalog"


def of_one_metadata_file(root):
    file = str(newest_file(written(root)))
    return (file,), InvalidOperationError, "was opened by one of its metadata files"


def of_another_catalog(root):
    catalog = Glue(str(newest_file(written(root))))
    return ("db.t", catalog), UnsupportedFeatureError, r"catalog 'glue' \(Glue\) can only be read"


def of_metadata_elsewhere(root):
    writer = written(root)
    writer.set_properties({"write.metadata.path": f"{root}/elsewhere"})
    return (str(root),), InvalidOperationError, r"write\.metadata\.path is .* expected none"


VERBS = {
    "append": lambda t, rows: t.append(rows),
    "append of new columns": lambda t, rows: t.append(rows.withColumnRenamed("v", "w"), merge_schema=True),
    "overwrite": lambda t, rows: t.overwrite(rows),
    "overwrite some": lambda t, rows: t.overwrite(rows, where="id = 1"),
    "delete": lambda t, _: t.delete("v % 2 = 1"),
    "delete all": lambda t, _: t.delete(),
    "update": lambda t, _: t.update({"v": "v + 1"}),
    "merge": lambda t, rows: t.merge(rows, "target.id = source.id").when_matched_delete().execute(),
    "insert only": lambda t, rows: (
        t.merge(rows, "target.id = source.id").when_not_matched_insert_all().execute()
    ),
    "optimize": lambda t, _: t.optimize(max_deleted_rows_ratio=0.0),
    "purge": lambda t, _: t.purge(),
    "add columns": lambda t, _: t.add_columns("w int"),
    "set properties": lambda t, _: t.set_properties({"a": "b"}),
    "branch": lambda t, _: t.create_ref("b"),
    "vacuum": lambda t, _: t.vacuum(),
}


@pytest.mark.parametrize(
    "kind",
    [of_version_1, of_a_catalog_by_path, of_one_metadata_file, of_another_catalog, of_metadata_elsewhere],
)
def test_every_verb_is_refused_before_it_reads(spark, tmp_path, kind):
    from delvec import Table

    (name, *catalog), error, message = kind(tmp_path / "t")
    rows = spark.sql("SELECT CAST(raise_error('a row was computed') AS bigint) AS id, 1 AS v")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the table belongs to a catalog")
        table = Table.open(spark, name, *catalog)
        before = sorted(tmp_path.rglob("*"))
        for run in VERBS.values():
            with pytest.raises(error, match=message):
                run(table, rows)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_table_of_another_catalog(spark, tmp_path):
    from delvec import Table

    catalog = Glue(str(newest_file(written(tmp_path / "t"))))
    with pytest.raises(UnsupportedFeatureError, match=r"catalog 'glue' \(Glue\) can only be read"):
        Table.create(spark, "db.new", DDL, catalog=catalog)
