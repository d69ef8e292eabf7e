"""Tables of Iceberg-Spark: SQL, its metadata tables, and equality deletes through Iceberg's Java API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATALOG = "ice"


def catalog_settings(warehouse: Path) -> dict[str, str]:
    """The settings of a session whose catalog ``ice`` has its tables below a folder."""
    return {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(warehouse),
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    }


@dataclass(frozen=True)
class SparkTable:
    """A table of the catalog ``ice``."""

    spark: Any
    name: str
    warehouse: Path

    @property
    def full_name(self) -> str:
        return f"{CATALOG}.db.{self.name}"

    @property
    def location(self) -> str:
        return f"{self.warehouse}/db/{self.name}"

    def create(self, columns: str, version: int, more: str = "", **properties: str) -> None:
        """``more``: PARTITIONED BY."""
        given = {
            "format-version": str(version),
            **{f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")},
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        texts = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {more} TBLPROPERTIES ({texts})")

    def sql(self, text: str) -> Any:
        """A statement; ``{t}`` is the table."""
        return self.spark.sql(text.replace("{t}", self.full_name))

    def snapshots(self) -> list[int]:
        found = self.sql("SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at").collect()
        return [row[0] for row in found]

    def rows(self, snapshot: int | str | None = None) -> Any:
        """The rows that Iceberg-Spark sees; ``snapshot``: an id, or the name of a branch or tag."""
        if snapshot is None:
            return self.sql("SELECT * FROM {t}")
        version = f"'{snapshot}'" if isinstance(snapshot, str) else snapshot
        return self.sql(f"SELECT * FROM {{t}} VERSION AS OF {version}")

    def data_files(self, snapshot: int) -> set[tuple[Any, ...]]:
        found = self.sql(
            f"SELECT file_path, record_count, file_size_in_bytes, spec_id FROM {{t}}.data_files "
            f"VERSION AS OF {snapshot}"
        )
        return {tuple(row) for row in found.collect()}

    def delete_files(self, snapshot: int) -> set[tuple[Any, ...]]:
        found = self.sql(
            f"SELECT content, file_path, content_offset, record_count, equality_ids "
            f"FROM {{t}}.delete_files VERSION AS OF {snapshot}"
        )
        return {(*row[:4], tuple(row[4]) if row[4] else None) for row in found.collect()}

    # Through the JVM

    def _java(self) -> Any:
        jvm = self.spark._jvm
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, self.full_name
        )

    def delete_keys(
        self,
        keys: Sequence[Mapping[str, Any]],
        on: Sequence[str],
        partition: Mapping[str, Any] | None = None,
        spec_id: int | None = None,
    ) -> None:
        """A commit with one equality-delete file. ``partition``: a row of its partition.

        Numbers must be of type int: the bridge to the JVM has no other small ones.
        """
        jvm, table = self.spark._jvm, self._java()
        schema = table.schema()
        spec = table.spec() if spec_id is None else table.specs().get(spec_id)
        held = schema.select(list(on))
        ids = self.spark._sc._gateway.new_array(jvm.int, len(on))
        for at, name in enumerate(on):
            ids[at] = schema.findField(name).fieldId()
        data = jvm.org.apache.iceberg.data
        factory = (
            data.GenericFileWriterFactory.Builder(table)
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(held)
            .build()
        )
        name = f"equality-{jvm.java.util.UUID.randomUUID().toString()}.parquet"
        place = table.io().newOutputFile(table.locationProvider().newDataLocation(name))
        output = jvm.org.apache.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(place)
        writer = factory.newEqualityDeleteWriter(output, spec, self._partition(schema, spec, partition))
        for key in keys:
            writer.write(_record(data, held, key))
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

    def _partition(self, schema: Any, spec: Any, row: Mapping[str, Any] | None) -> Any:
        if row is None:
            return None
        jvm = self.spark._jvm
        key = jvm.org.apache.iceberg.PartitionKey(spec, schema)
        key.partition(_record(jvm.org.apache.iceberg.data, schema, row))
        return key


def _record(data: Any, schema: Any, row: Mapping[str, Any]) -> Any:
    record = data.GenericRecord.create(schema)
    for name, value in row.items():
        record.setField(name, value)
    return record
