"""Names of Spark's own columns, which users' columns must not have."""

from __future__ import annotations

from delvec.errors import InvalidOperationError
from delvec.schema import Schema, Struct
from delvec.spark.file_paths import METADATA, ROW_INDEX

RESERVED = (METADATA, ROW_INDEX)
_NO_COLUMNS = Struct(())


def verify_new_names(schema: Schema, current: Schema = _NO_COLUMNS) -> None:
    """Refuse new top-level columns with a reserved name. Columns of the ``current`` schema are not new."""
    current_names = {field.name.lower() for field in current}
    for field in schema:
        if field.name.lower() in RESERVED and field.name.lower() not in current_names:
            raise InvalidOperationError(
                f"column {field.name!r} has a name that Spark reserves, expected a name other "
                f"than {' and '.join(RESERVED)}"
            )
