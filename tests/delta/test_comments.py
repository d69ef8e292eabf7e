"""Comments of tables and columns: kept by every way to create a table, and shown wherever a schema is."""

from __future__ import annotations

import pytest

from scanning import collected
from verbs import MAPPED, rows_of, table_of

pytestmark = pytest.mark.spark

DDL = (
    "id BIGINT COMMENT 'the ''key''', s STRUCT<a: INT COMMENT 'inner', b: STRING> COMMENT 'outer', "
    "l ARRAY<STRUCT<x: INT COMMENT 'in a list'>>, p INT COMMENT 'by this', plain STRING"
)
ROWS = [(n, (n, "b"), [(n,)], n % 2, "x") for n in range(8)]
COMMENTS = {
    "id": "the 'key'",
    "s": "outer",
    "s.a": "inner",
    "l.element.x": "in a list",
    "p": "by this",
}


def comments(schema, prefix=""):
    """The comments by the path of the column."""
    found = {}
    for field in schema:
        name = prefix + field.name
        if "comment" in field.metadata:
            found[name] = field.metadata["comment"]
        kind = field.dataType
        if kind.typeName() == "array":
            kind, name = kind.elementType, f"{name}.element"
        if kind.typeName() == "struct":
            found |= comments(kind, f"{name}.")
    return found


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_column_comments_in_every_schema(spark, tmp_path, properties):
    table = table_of(spark, tmp_path / "t", DDL, partition_by=["p"], properties=properties)
    assert comments(table.schema) == comments(table.to_df().schema) == COMMENTS
    table.append(spark.createDataFrame(ROWS, "id bigint, s struct<a:int,b:string>, l array<struct<x:int>>, "
                                             "p int, plain string"))  # fmt: skip
    table.delete("id = 3")  # files with and without a vector
    assert comments(table.to_df().schema) == COMMENTS
    assert comments(table.to_df(columns=["s", "p"]).schema) == {
        name: text for name, text in COMMENTS.items() if name[0] in "sp"
    }
    assert [row[0] for row in rows_of(table)] == [0, 1, 2, 4, 5, 6, 7]
    table.update({"s.a": "s.a + 1"}, "id = 4")
    table.merge(table.to_df(), "target.id = source.id").when_matched_update_all().execute()
    assert comments(table.schema) == comments(table.to_df().schema) == COMMENTS


def test_comments_without_folder_names(spark, tmp_path):
    """Partition values that folders do not have are joined to the rows, with the column's comment."""
    table = table_of(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])
    for folder in (tmp_path / "t").glob("p=*"):
        folder.rename(folder.with_name(f"other{folder.name[-1]}"))
    log = tmp_path / "t/_delta_log/00000000000000000001.json"
    log.write_text(log.read_text().replace('"path":"p=', '"path":"other'))
    frame = type(table).open(spark, table.location).to_df()
    assert comments(frame.schema) == COMMENTS
    assert sorted(row["p"] for row in collected(frame)) == [0] * 4 + [1] * 4


def test_comments_by_structtype(spark, tmp_path):
    from pyspark.sql.types import IntegerType, StructField, StructType

    from delvec import Table

    schema = StructType([StructField("a", IntegerType(), metadata={"comment": "x"})])
    assert comments(Table.create(spark, str(tmp_path / "t"), schema).schema) == {"a": "x"}


def test_added_columns(spark, tmp_path):
    from delvec import sql

    table = table_of(spark, tmp_path / "t", "id BIGINT", [(1,)])
    sql(spark, f"ALTER TABLE delvec.`{table.location}` ADD COLUMNS (e DECIMAL(10, 2) COMMENT 'x, y', f INT)")
    table.add_columns("g STRUCT<h: INT COMMENT 'deep'>")
    assert comments(table.schema) == comments(table.to_df().schema) == {"e": "x, y", "g.h": "deep"}


def test_create_as_select(spark, tmp_path):
    from delvec import sql

    table = table_of(spark, tmp_path / "t", DDL, ROWS)
    table.register("commented")
    place = tmp_path / "copy"
    sql(spark, f"CREATE TABLE delvec.`{place}` AS SELECT id, s, id + 1 AS next FROM commented")
    copied = type(table).open(spark, str(place))
    assert comments(copied.schema) == {"id": "the 'key'", "s": "outer", "s.a": "inner"}


def test_description_of_a_table(spark, tmp_path):
    from delvec import Table, sql

    name = f"delvec.`{tmp_path / 't'}`"
    sql(spark, f"CREATE TABLE {name} (id INT) COMMENT 'all ''orders'''")
    table = Table.open(spark, str(tmp_path / "t"))
    assert "comment" not in table.properties
    assert described(spark, name) == "all 'orders'"
    assert dict(collected(table.history())[0]["parameters"])["description"] == "all 'orders'"
    table.set_properties({"comment": "newer", "x": "y"})
    assert described(spark, name) == "newer"
    table.append(spark.createDataFrame([(1,)], "id int"))
    assert described(spark, name) == "newer"
    sql(spark, f"ALTER TABLE {name} UNSET TBLPROPERTIES ('comment')")
    assert described(spark, name) is None
    assert dict(table.properties)["x"] == "y"


def described(spark, name):
    from delvec import sql

    return collected(sql(spark, f"DESCRIBE DETAIL {name}"))[0]["description"]
