"""Pruning of Iceberg plans is sound: over random files, partition specs, statistics and conditions, no file
with a matching row is left out, and no file is said to match whole that has another row.

Manifests and manifest lists are written by fastavro, transforms and bounds computed by the test writer.
"""

from __future__ import annotations

import json
import math
import random

import pytest

from condition_cases import CUT, KINDS, ZONES, random_case, value_of
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.table import IcebergTable
from delvec.predicate import SqlSettings, parse
from iceberg_tables import avro
from iceberg_tables.columns import schema_json
from iceberg_tables.snapshots import _summary_of
from iceberg_tables.values import to_bytes
from partitioned_cases import COLUMNS, IDS, STRUCT, planned_file, random_specs, type_of


def statistics(rng, file):
    stats = {name: {} for name in ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")}
    for name in KINDS:
        if rng.random() < 0.4:
            continue
        values = [value_of(row, name) for row in file.content.rows]
        held = [value for value in values if value is not None]
        plain = [value for value in held if not (isinstance(value, float) and math.isnan(value))]
        stats["null_value_counts"][IDS[name]] = len(values) - len(held)
        if type_of(name) in ("float", "double") and rng.random() < 0.7:
            stats["nan_value_counts"][IDS[name]] = len(held) - len(plain)
        if plain and rng.random() < 0.9:
            key = (lambda text: text.encode()) if isinstance(plain[0], str) else None
            lower, upper = min(plain, key=key), max(plain, key=key)
            if isinstance(lower, str):
                lower, upper = lower[:CUT], upper[:CUT]
            stats["lower_bounds"][IDS[name]] = to_bytes(type_of(name), lower)
            stats["upper_bounds"][IDS[name]] = to_bytes(type_of(name), upper)
    return stats


def entry(rng, file):
    partition = {part.name: value for part, value in zip(file.spec.fields, file.partition, strict=True)}
    data_file = {
        "content": 0,
        "file_path": file.path,
        "file_format": "PARQUET",
        "partition": partition,
        "record_count": len(file.content.rows),
        "file_size_in_bytes": 1,
        **{name: avro.pairs(values) for name, values in statistics(rng, file).items()},
    }
    return {"status": 1, "snapshot_id": 1, "data_file": data_file}


def written(rng, root, files, specs):
    """A manifest list of one or two manifests for each spec."""
    lists = []
    for spec in specs:
        mine = [file for file in files if file.spec == spec]
        cut = rng.randint(0, len(mine))
        for number, part in enumerate((mine[:cut], mine[cut:])):
            if not part:
                continue
            kind = avro.partition_type([(f.id, f.name, f.type) for f in spec.fields])
            entries = [entry(rng, file) for file in part]
            data = avro.avro_bytes(avro.manifest_schema(2, kind), entries, {"format-version": "2"})
            path = root / f"m{spec.id}-{number}.avro"
            path.write_bytes(data)
            summaries = [
                _summary_of(f, [file.partition[at] for file in part]) for at, f in enumerate(spec.fields)
            ]
            lists.append(
                {
                    "manifest_path": str(path),
                    "manifest_length": len(data),
                    "partition_spec_id": spec.id,
                    "content": 0,
                    "sequence_number": 1,
                    "min_sequence_number": 1,
                    "added_snapshot_id": 1,
                    **{
                        f"{kind}_{what}_count": 0
                        for kind in ("existing", "deleted")
                        for what in ("files", "rows")
                    },
                    "added_files_count": len(part),
                    "added_rows_count": sum(len(file.content.rows) for file in part),
                    "partitions": None if rng.random() < 0.1 else summaries,
                }
            )
    place = root / "list.avro"
    place.write_bytes(avro.avro_bytes(avro.manifest_list_schema(2), lists, {}))
    (root / "v1.metadata.json").write_text(json.dumps(metadata(root, place, specs)))


def metadata(root, manifest_list, specs):
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 0,
        "manifest-list": str(manifest_list),
    }
    return {
        "format-version": 2,
        "location": str(root),
        "last-updated-ms": 0,
        "last-column-id": 1000,
        "last-sequence-number": 1,
        "schemas": [schema_json(STRUCT, 0)],
        "current-schema-id": 0,
        "partition-specs": [spec.json() for spec in specs],
        "default-spec-id": specs[-1].id,
        "current-snapshot-id": 1,
        "snapshots": [snapshot],
    }


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 2000), marks=pytest.mark.slow)])
def test_no_matching_row_is_pruned_and_no_other_row_said_to_match(tmp_path, seeds):
    skippable = skipped = whole = found_whole = 0
    for seed in seeds:
        MANIFESTS.clear()
        rng = random.Random(seed)
        specs = random_specs(rng)
        files = [planned_file(rng, number, specs) for number in range(14)]
        root = tmp_path / str(seed)
        root.mkdir()
        written(rng, root, files, specs)
        for _ in range(12):
            zone = rng.choice(ZONES)
            case = random_case(rng, zone)
            snapshot = IcebergTable.of_file(f"{root}/v1.metadata.json").snapshot()  # has read no manifest
            condition = parse(case.text, COLUMNS, SqlSettings(time_zone=zone, ansi=rng.random() < 0.5))
            planned = snapshot.plan(condition)
            matches = dict(
                zip(
                    *(planned.files.column(name).to_pylist() for name in ("raw_location", "match")),
                    strict=True,
                )
            )
            assert planned.skipped + len(matches) == len(files)
            for file in files:
                answers = [case.truth(row) is True for row in file.content.live]
                where = f"seed {seed}, zone {zone}: {case.text}\n{file}"
                assert file.path in matches or not any(answers), f"a matching row is pruned: {where}"
                assert matches.get(file.path) != "all" or all(answers), f"not all rows match: {where}"
                skippable, skipped = skippable + (not any(answers)), skipped + (file.path not in matches)
                whole, found_whole = whole + all(answers), found_whole + (matches.get(file.path) == "all")
    assert skipped / skippable > 0.4, f"{skipped} of {skippable} files without a match are skipped"
    assert found_whole / whole > 0.25, f"{found_whole} of {whole} files that match whole are found"
