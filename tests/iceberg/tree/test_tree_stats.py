"""Statistics of the tree: of new files, of leaves, as facts for pruning, and as partition values."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from condition_cases import CUT, KINDS, LAST_CHARACTER, ZONES, random_case, value_of
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.footers.statistics import measure
from delvec.iceberg.bound_truncation import upper_of_prefix
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.partitions import bind_specs
from delvec.iceberg.stats_writer import measured_columns
from delvec.iceberg.tree import content_stats as cs
from delvec.iceberg.tree import entries as e
from delvec.iceberg.tree.aggregated_stats import aggregated_stats, without_tight_bounds
from delvec.iceberg.tree.expressions import parse_expressions, parse_tree_spec, with_expressions
from delvec.iceberg.tree.measured_columns import MeasuredColumns, partition_expressions
from delvec.iceberg.tree.new_stats import new_file_stats, vector_stats
from delvec.iceberg.tree.partition_tuples import partition_columns
from delvec.iceberg.tree.tree_facts import TreeFacts
from delvec.predicate import SqlSettings, parse
from delvec.row_delta import with_statistics
from delvec.schema import Decimal as DecimalType
from delvec.schema import Field, Primitive, Struct, arrow_type
from delvec.storage import open_storage
from partitioned_cases import COLUMNS, IDS, planned_file, random_specs, type_of

FULL = {"write.metadata.metrics.default": "full"}
TABLE = Struct(
    (
        Field("id", Primitive("long"), field_id=1),
        Field("ts", Primitive("timestamp_ntz"), field_id=2),
        Field("name", Primitive("string"), field_id=3),
        Field("x", Primitive("double"), field_id=4),
        Field("price", DecimalType(9, 2), field_id=5),
    )
)


def measured(schema, fields_by_spec, properties=FULL, sorted_ids=()):
    """``fields_by_spec``: of each spec (source id, transform, name)."""
    numbers = {}
    specs = [
        {
            "spec-id": spec_id,
            "fields": [
                {
                    "source-id": source,
                    "transform": transform,
                    "name": name,
                    "field-id": numbers.setdefault((source, transform), 1000 + len(numbers)),
                }
                for source, transform, name in fields
            ],
        }
        for spec_id, fields in fields_by_spec.items()
    ]
    return of_json(schema, specs, properties, sorted_ids)


def of_json(schema, specs, properties=FULL, sorted_ids=()):
    members = with_expressions({"last-column-id": 100, "partition-specs": specs})
    root = JsonObject(members, "table metadata")
    expressions = parse_expressions(root)
    raw = {
        spec.spec_id: spec
        for spec in (parse_tree_spec(s, expressions) for s in root.children("partition-specs"))
    }
    bound = bind_specs(raw.values(), max(raw), schema, [schema])
    return MeasuredColumns(
        schema,
        properties,
        bound,
        {spec_id: partition_expressions(raw[spec_id], spec) for spec_id, spec in bound.items()},
        frozenset(sorted_ids),
    )


def entries(stats, kind=None, content_type=e.DATA, spec_ids=None, **columns):
    """Entries with these ``content_stats``, given as dictionaries or as an array."""
    if not isinstance(stats, pa.Array):
        stats = pa.array([None if s is None else {k: full(v) for k, v in s.items()} for s in stats], kind)
    count = len(stats)
    given = {
        "status": pa.array([e.ADDED] * count),
        "content_type": pa.array([content_type] * count),
        "location": pa.array([f"f{at}" for at in range(count)]),
        "record_count": pa.array([10] * count),
        "partition_spec_id": pa.array([0] * count if spec_ids is None else spec_ids),
        **columns,
        e.CONTENT_STATS: stats,
    }
    return e.entries_table(given, count, stats.type)


def full(values):
    return None if values is None else dict.fromkeys(cs.STATISTICS) | values


def column(entries, field_id):
    """The statistics of a column, without those that are null."""
    rows = entries if isinstance(entries, pa.Array) else entries.column(e.CONTENT_STATS)
    found = [(row or {}).get(str(field_id)) for row in rows.to_pylist()]
    return [row and {name: value for name, value in row.items() if value is not None} for row in found]


# New files


def stored(tmp_path, files, schema, properties, spec_id=0, columns=None):
    """``RowDelta.added`` of Parquet files with these rows."""
    storage = open_storage(str(tmp_path))
    kinds = pa.schema(
        [pa.field(f.name, arrow_type(f.type), metadata={"PARQUET:field_id": str(f.field_id)}) for f in schema]
    )
    for number, (rows, _) in enumerate(files):
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(pa.Table.from_pylist(rows, kinds), sink)
        storage.put(f"{number}.parquet", sink.getvalue().to_pybytes())
    locations = [f"{storage.root}/{number}.parquet" for number in range(len(files))]
    spec = columns.specs[spec_id]
    added = pa.table(
        {
            "location": pa.array(locations),
            "size": pa.array([1] * len(files)),
            "record_count": pa.nulls(len(files), pa.int64()),
            "split_offsets": pa.nulls(len(files), pa.list_(pa.int64())),
            "partition": pa.array([partition for _, partition in files], spec.value_type),
        }
    )
    return with_statistics(added, measure(storage, locations, measured_columns(schema, properties)))


def row(number, name="a", x=1.5):
    return {
        "id": number,
        "ts": dt.datetime(2024, 1, 1 + number),
        "name": name,
        "x": x,
        "price": Decimal(number) / 4,
    }


def test_new_files_have_typed_statistics_of_columns_and_expressions(tmp_path):
    columns = measured(TABLE, {0: [(2, "day", "ts_day"), (1, "bucket[4]", "b")]})
    day, bucket = (item.expr_id for item in columns.expressions[0])
    files = [
        ([row(0), row(2, "b", None)], {"ts_day": dt.date(2024, 1, 1), "b": 3}),
        ([row(1, None, math.nan)], {"ts_day": None, "b": 0}),
    ]
    found = new_file_stats(stored(tmp_path, files, TABLE, FULL, columns=columns), columns, 0)
    assert found.type == columns.stats_type
    tight = {cs.TIGHT: True}
    assert column(found, 1)[0] == {cs.LOWER: 0, cs.UPPER: 2, cs.VALUES: 2, cs.NULLS: 0, **tight}
    assert column(found, 3) == [
        {cs.LOWER: "a", cs.UPPER: "b", cs.VALUES: 2, cs.NULLS: 0, **tight},
        {cs.VALUES: 1, cs.NULLS: 1, cs.TIGHT: False},
    ]
    assert column(found, 5)[0] == {
        cs.LOWER: Decimal("0.00"),
        cs.UPPER: Decimal("0.50"),
        cs.VALUES: 2,
        cs.NULLS: 0,
        **tight,
    }
    assert column(found, day) == [
        {cs.LOWER: dt.date(2024, 1, 1), cs.UPPER: dt.date(2024, 1, 1), cs.VALUES: 2, cs.NULLS: 0, **tight},
        {cs.VALUES: 1, cs.NULLS: 1, cs.TIGHT: False},
    ]
    assert column(found, bucket)[1] == {cs.LOWER: 0, cs.UPPER: 0, cs.VALUES: 1, cs.NULLS: 0, **tight}


def test_bounds_are_cut_and_identity_values_are_not(tmp_path):
    long = "x" * 40
    columns = measured(TABLE, {0: [(3, "identity", "name")], 1: []}, {})
    files = [([row(0, long)], {"name": long})]
    found = new_file_stats(stored(tmp_path, files, TABLE, {}, columns=columns), columns, 0)
    assert column(found, 3) == [{cs.LOWER: long, cs.UPPER: long, cs.VALUES: 1, cs.NULLS: 0, cs.TIGHT: True}]
    (tmp_path / "other").mkdir()
    plain = [([row(0, long)], {})]
    found = new_file_stats(stored(tmp_path / "other", plain, TABLE, {}, 1, columns), columns, 1)
    assert column(found, 3) == [
        {cs.LOWER: "x" * 16, cs.UPPER: "x" * 15 + "y", cs.VALUES: 1, cs.NULLS: 0, cs.TIGHT: False}
    ]


def test_nan_partition_values_have_no_bounds(tmp_path):
    columns = measured(TABLE, {0: [(4, "identity", "x")]})
    files = [([row(0, x=math.nan)], {"x": math.nan}), ([row(1)], {"x": 1.5})]
    found = new_file_stats(stored(tmp_path, files, TABLE, FULL, columns=columns), columns, 0)
    assert column(found, 4)[0] == {cs.VALUES: 1, cs.NULLS: 0, cs.NANS: 1, cs.TIGHT: False}
    values = partition_columns(entries(found), columns)["partition.x"].to_pylist()
    assert [math.isnan(values[0]), values[1]] == [True, 1.5]


def test_vectors_copy_partition_values_and_sort_columns():
    columns = measured(TABLE, {0: [(1, "bucket[4]", "b")]}, sorted_ids=[3])
    bucket = str(columns.expressions[0][0].expr_id)
    data = entries([{"1": {cs.LOWER: 1}, "3": {cs.LOWER: "a"}, bucket: {cs.LOWER: 2}}], columns.stats_type)
    found = vector_stats(data.column(e.CONTENT_STATS).combine_chunks(), columns)
    assert found.type == columns.stats_type
    assert [column(found, number) for number in (1, 3, bucket)] == [
        [None],
        [{cs.LOWER: "a"}],
        [{cs.LOWER: 2}],
    ]


def test_modes_bound_the_columns():
    properties = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.id": "full"}
    columns = measured(TABLE, {0: [(2, "day", "d"), (3, "identity", "name")]}, properties, sorted_ids=[5])
    assert set(columns.types) == {1, 3, 5, columns.expressions[0][0].expr_id}


# Leaves

LONG = cs.stats_type({1: pa.int64()})


def aggregated(*stats, kind=LONG, **columns):
    return column(aggregated_stats(entries([{"1": s} for s in stats], kind, **columns), kind), 1)[0]


def test_aggregates_are_sums_and_extremes():
    one = {cs.LOWER: 3, cs.UPPER: 5, cs.TIGHT: True, cs.VALUES: 10, cs.NULLS: 1, cs.NANS: 0}
    two = {cs.LOWER: -1, cs.UPPER: 4, cs.TIGHT: True, cs.VALUES: 7, cs.NULLS: 0, cs.NANS: 2}
    both = {cs.LOWER: -1, cs.UPPER: 5, cs.TIGHT: True, cs.VALUES: 17, cs.NULLS: 1, cs.NANS: 2}
    assert aggregated(one, two) == both
    assert aggregated(one, {**two, cs.TIGHT: False})[cs.TIGHT] is False
    assert aggregated(one, {**two, cs.TIGHT: None})[cs.TIGHT] is False


def test_what_one_entry_lacks_the_leaf_lacks():
    one = {cs.LOWER: 3, cs.UPPER: 5, cs.VALUES: 10, cs.NULLS: 1, cs.NANS: 0}
    for name in (cs.LOWER, cs.UPPER, cs.NULLS, cs.VALUES, cs.NANS):
        assert set(aggregated(one, {**one, name: None})) == {*one, cs.TIGHT} - {name}
    assert aggregated(one, None) is None
    assert aggregated_stats(entries([{"1": one}, None], LONG), LONG).to_pylist() == [None]


def test_entries_without_values_do_not_count_for_bounds():
    one = {cs.LOWER: 3, cs.UPPER: 5, cs.TIGHT: True, cs.VALUES: 10, cs.NULLS: 0, cs.NANS: 0}
    nulls = {cs.VALUES: 4, cs.NULLS: 4}
    assert aggregated(one, nulls) == {cs.LOWER: 3, cs.UPPER: 5, cs.TIGHT: True, cs.VALUES: 14, cs.NULLS: 4}
    assert aggregated(nulls, nulls) == {cs.VALUES: 8, cs.NULLS: 8}
    nans = {cs.VALUES: 4, cs.NULLS: 1, cs.NANS: 3}
    assert aggregated(one, nans)[cs.UPPER] == 5


def test_deleted_entries_do_not_count():
    one, two = ({cs.LOWER: n, cs.UPPER: n, cs.VALUES: 1, cs.NULLS: 0} for n in (3, 9))
    status = pa.array([e.EXISTING, e.DELETED])
    assert aggregated(one, two, status=status)[cs.UPPER] == 3
    gone = entries([{"1": one}], LONG, status=pa.array([e.DELETED]))
    assert aggregated_stats(gone, LONG).to_pylist() == [None]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.string(), "B", "é"),
        (pa.binary(), b"\x00", b"\xff"),
        (pa.binary(2), b"aa", b"ab"),
        (pa.bool_(), False, True),
        (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(1, 1, 1, tzinfo=dt.UTC),
            dt.datetime(9999, 1, 1, tzinfo=dt.UTC),
        ),
        (pa.time64("us"), dt.time(0), dt.time(23)),
        (pa.decimal128(38, 10), Decimal("-1E-10"), Decimal("1")),
        (pa.float64(), -math.inf, math.inf),
    ],
    ids=str,
)
def test_extremes_of_every_type(kind, low, high):
    stats = [{cs.LOWER: v, cs.UPPER: v, cs.VALUES: 1, cs.NULLS: 0} for v in (high, low)]
    found = aggregated(*stats, kind=cs.stats_type({1: kind}))
    assert (found[cs.LOWER], found[cs.UPPER]) == (
        pa.scalar(low, kind).as_py(),
        pa.scalar(high, kind).as_py(),
    )


def test_a_masked_leaf_has_no_tight_bounds():
    one = {cs.LOWER: 3, cs.UPPER: 5, cs.TIGHT: True, cs.VALUES: 10, cs.NULLS: 0}
    stats = entries([{"1": one}, {"1": None}, None], LONG).column(e.CONTENT_STATS).combine_chunks()
    assert column(without_tight_bounds(stats), 1) == [{**one, cs.TIGHT: False}, None, None]
    assert without_tight_bounds(cs.null_stats(2, cs.NO_STATS)).type == cs.NO_STATS


# Partition values


def partition(stats, columns=None, **values):
    columns = columns or measured(TABLE, {0: [(1, "bucket[4]", "b")]})
    expr = str(columns.expressions[0][0].expr_id)
    table = entries([s if s is None else {expr: s} for s in stats], columns.stats_type, **values)
    return partition_columns(table, columns)


def test_partition_values_come_from_statistics():
    stats = [{cs.LOWER: 3, cs.UPPER: 3}, {cs.LOWER: 2}, {cs.VALUES: 5, cs.NULLS: 5}]
    assert partition(stats) == {"partition.b": pa.array([3, 2, None], pa.int32())}


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        ({cs.LOWER: 3, cs.UPPER: 4}, "bounds differ, expected one value for the file"),
        ({cs.UPPER: 4}, "bounds differ, expected one value for the file"),
        ({cs.VALUES: 5, cs.NULLS: 4}, "statistics are missing"),
        ({}, "statistics are missing"),
        (None, "statistics are missing"),
    ],
)
def test_partition_values_that_are_not_known_are_refused(stats, message):
    with pytest.raises(FormatError, match=f"partition value b of a file: {message} .expression 101.: f1$"):
        partition([{cs.LOWER: 3, cs.UPPER: 3}, stats])


def test_files_of_several_specs_in_one_manifest():
    columns = measured(
        TABLE, {0: [(1, "bucket[4]", "b")], 1: [], 2: [(3, "identity", "name"), (1, "bucket[4]", "b")]}
    )
    bucket = str(columns.expressions[0][0].expr_id)
    stats = [
        {bucket: {cs.LOWER: 1, cs.UPPER: 1}, "3": {cs.LOWER: "a", cs.UPPER: "z"}},
        {bucket: {cs.LOWER: 0, cs.UPPER: 3}, "3": {cs.LOWER: "a", cs.UPPER: "z"}},
        {bucket: {cs.LOWER: 2, cs.UPPER: 2}, "3": {cs.LOWER: "q", cs.UPPER: "q"}},
    ]
    table = entries(stats, columns.stats_type, spec_ids=[0, 1, 2])
    found = {name: values.to_pylist() for name, values in partition_columns(table, columns).items()}
    assert found == {"partition.b": [1, None, 2], "partition.name": [None, None, "q"]}
    wrong = entries(stats[:1], columns.stats_type, spec_ids=[7])
    with pytest.raises(FormatError, match="partition spec of a file is 7, expected one of 0, 1, 2: f0"):
        partition_columns(wrong, columns)


def test_void_is_null_and_unknown_transforms_are_refused():
    columns = measured(TABLE, {0: [(1, "void", "v")]})
    assert partition([None], columns) == {"partition.v": pa.nulls(1, pa.int64())}
    odd = measured(TABLE, {0: [(1, "odd", "o")]})
    with pytest.raises(
        UnsupportedFeatureError, match="partition field o has the transform odd, expected one"
    ):
        partition([None], odd)


# Pruning


def file_stats(rng, file, columns):
    """Statistics that hold for the rows of the file, some of them left out."""
    found = {}
    for name in KINDS:
        if rng.random() < 0.2:
            continue
        values = [value_of(r, name) for r in file.content.rows]
        held = [value for value in values if value is not None]
        plain = [value for value in held if not (isinstance(value, float) and math.isnan(value))]
        stats = {cs.VALUES: len(values), cs.NULLS: len(values) - len(held)}
        if type_of(name) in ("float", "double") and rng.random() < 0.7:
            stats[cs.NANS] = len(held) - len(plain)
        if plain and rng.random() < 0.9:
            key = (lambda text: text.encode()) if isinstance(plain[0], str) else None
            lower, upper = min(plain, key=key), max(plain, key=key)
            if isinstance(lower, str):
                upper = upper[:CUT] + LAST_CHARACTER if len(upper) > CUT else upper
                lower = lower[:CUT]
            stats |= {cs.LOWER: lower, cs.UPPER: upper}
        found[str(IDS[name])] = stats
    for item, value in zip(columns.expressions[file.spec.id], file.partition, strict=True):
        found[str(item.expr_id)] = partition_stats(rng, item, value, len(file.content.rows))
    return found


def partition_stats(rng, item, value, rows):
    if value is None:
        return {cs.VALUES: rows, cs.NULLS: rows}
    if isinstance(value, float) and math.isnan(value):
        return {cs.VALUES: rows, cs.NULLS: 0, cs.NANS: rows}
    kind = arrow_type(item.field.type)
    if pa.types.is_temporal(kind):
        numbers = pa.array([value], pa.int32() if pa.types.is_date32(kind) else pa.int64())
        value = numbers.view(kind)[0].as_py()
    upper = None if rng.random() < 0.1 else value  # null means equal
    return {cs.LOWER: value, cs.UPPER: upper, cs.VALUES: rows, cs.NULLS: 0, cs.NANS: 0}


def can_be_read(spec):
    """Not a transform that is unknown, nor a decimal that rounding down gave a digit more than its type."""
    return not any(part.transform == "odd" or part.source_type.startswith("decimal") for part in spec.fields)


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 200), marks=pytest.mark.slow)])
def test_no_matching_row_is_pruned_by_statistics_of_files_and_of_leaves(seeds):
    skippable = skipped = leaves_skippable = leaves_skipped = 0
    for seed in seeds:
        rng = random.Random(seed)
        specs = [spec for spec in random_specs(rng) if can_be_read(spec)]
        if not specs:
            continue
        columns = of_json(COLUMNS, [spec.json() for spec in specs])
        files = [planned_file(rng, number, specs) for number in range(16)]
        table = entries(
            [file_stats(rng, file, columns) for file in files],
            columns.stats_type,
            spec_ids=[file.spec.id for file in files],
            record_count=pa.array([len(file.content.rows) for file in files]),
        )
        order = sorted(range(16), key=lambda at: str(files[at].partition))  # clustered, as after a flush
        groups = [order[start : start + 2] for start in range(0, 16, 2)]
        parts = [aggregated_stats(table.take(pa.array(rows)), columns.stats_type) for rows in groups]
        leaves = entries(pa.concat_arrays(parts), content_type=e.DATA_MANIFEST)
        facts, of_leaves = TreeFacts(table, columns), TreeFacts(leaves, columns)
        for _ in range(10):
            zone = rng.choice(ZONES)
            case = random_case(rng, zone)
            condition = parse(case.text, COLUMNS, SqlSettings(time_zone=zone, ansi=rng.random() < 0.5))
            chosen = np.array(sorted(rng.sample(range(16), 9)))
            some = condition.match(facts.at(chosen))
            matches, leaf_matches = condition.match(facts), condition.match(of_leaves)
            assert some.may.tolist() == matches.may[chosen].tolist()
            answers = [[case.truth(r) is True for r in file.content.live] for file in files]
            where = f"seed {seed}, zone {zone}: {case.text}"
            for at, file in enumerate(files):
                assert matches.may[at] or not any(answers[at]), f"a matching row is pruned: {where}\n{file}"
                assert not matches.only[at] or all(answers[at]), f"not all rows match: {where}\n{file}"
                skippable, skipped = skippable + (not any(answers[at])), skipped + (not matches.may[at])
            for number, rows in enumerate(groups):
                found = any(any(answers[at]) for at in rows)
                assert leaf_matches.may[number] or not found, f"a leaf is pruned: {where}"
                every = all(all(answers[at]) for at in rows)
                assert not leaf_matches.only[number] or every, f"not all rows of a leaf match: {where}"
                leaves_skippable += not found
                leaves_skipped += not leaf_matches.may[number]
    assert skipped / skippable > 0.5, f"{skipped} of {skippable} files without a match are skipped"
    assert leaves_skipped / leaves_skippable > 0.3, f"{leaves_skipped} of {leaves_skippable} leaves"


def test_facts_of_columns_that_have_none():
    columns = measured(TABLE, {0: []})
    facts = TreeFacts(entries([None], columns.stats_type), columns)
    assert facts.column(("missing",)) is None
    assert facts.column(("id",)).lower.to_pylist() == [None]
    assert (facts.count, facts.record_count.to_pylist(), facts.tight.to_pylist()) == (1, [10], [False])
    leaf = TreeFacts(entries([None], columns.stats_type, content_type=e.DATA_MANIFEST), columns)
    assert leaf.record_count.to_pylist() == [None]


def test_bounds_of_other_writers_may_be_cut():
    """The upper bound is then above all values that start with it."""
    texts = upper_of_prefix(pa.array(["ab", None, "a\U0010ffff", "\U0010ffff"]))
    assert texts.to_pylist() == ["ac", None, "b", None]
    assert upper_of_prefix(pa.array([b"\x01\xff", b"\xff"])).to_pylist() == [b"\x02", None]
    assert upper_of_prefix(pa.array([7])).to_pylist() == [7]
