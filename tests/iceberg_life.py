"""The life of an Iceberg table, from its creation to a vacuum, in a process with a session of its own."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from writers.client import session

DDL = "id BIGINT, region STRING, amount DOUBLE, tags ARRAY<STRING>"
REGIONS = ("a b", "x/y=50%41", None)


def row(key: int, amount: float = 1.0) -> tuple[Any, ...]:
    return key, REGIONS[key % 3], amount, [f"t{key}"]


FIRST = [row(key) for key in range(30)]
LEFT = [
    row(key, 5.0 if key == 7 else 9.0 if key in (8, 40) else 1.0)
    for key in [*range(30), 40]
    if key not in (3, 4)
]
"""The rows after all verbs."""


def live(
    server: str, options: Mapping[str, str], place: str, uri: str | None, version: int, pipe: Any
) -> None:
    """Every verb on a new table; answers with the rows, the metadata file and what a vacuum deleted.

    ``place``: a URL, or the table's name in the REST catalog at ``uri``.
    """
    pipe.recv()
    try:
        pipe.send(lived(server, options, place, uri, version))
    except Exception:
        pipe.send(traceback.format_exc())


def lived(
    server: str, options: Mapping[str, str], place: str, uri: str | None, version: int
) -> dict[str, Any]:
    from delvec.table import Table

    catalog = None
    if uri is not None:
        from pyiceberg.catalog.rest import RestCatalog

        catalog = RestCatalog("rest", uri=uri)
    spark = session(server)
    table = Table.create(
        spark,
        place,
        DDL,
        format="iceberg",
        format_version=version,
        catalog=catalog,
        partition_by=["region", "bucket(2, id)"],
        storage_options=options,
    )
    table.append(spark.createDataFrame(FIRST, DDL))
    assert table.delete("id IN (3, 4)").counts.deleted == 2
    table.update({"amount": "5.0"}, "id = 7")
    source = spark.createDataFrame([row(8, 9.0), row(40, 9.0)], DDL)
    merging = table.merge(source, "target.id = source.id")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.optimize().removed.count > 0
    deleted = table.vacuum(0, force=True).files
    again = Table.open(spark, place, catalog=catalog, storage_options=options)
    assert again.verify().findings == ()
    rows = [(*r[:3], list(r[3])) for r in again.to_df().orderBy("id").collect()]
    snapshot = again._table.snapshot()
    result = {
        "rows": rows,
        "deleted": deleted,
        "source": snapshot.opened.metadata_path,
        "place": again.location,
    }
    spark.stop()
    return result
