"""Which snapshots, branches and tags expire: a naive model of Iceberg's rules, and each rule by itself."""

from __future__ import annotations

import json
import random

import pytest

from delvec.errors import InvalidOperationError
from delvec.iceberg.expiry import ExpiryLimits, find_expired, verify_may_expire
from delvec.iceberg.metadata import parse_metadata
from iceberg_tables import retained

NOW = 1_000_000


def metadata_of(snapshots, refs, properties=None):
    """``snapshots``: {id: (parent, time)}. ``refs``: {name: (id, type, retention)}."""
    body = {
        "format-version": 2,
        "location": "/t",
        "last-updated-ms": 0,
        "last-column-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "properties": properties or {},
        "snapshots": [
            {"snapshot-id": number, "timestamp-ms": time, "manifest-list": f"/t/{number}.avro"}
            | ({"parent-snapshot-id": parent} if parent else {})
            for number, (parent, time) in snapshots.items()
        ],
        "refs": {name: {"snapshot-id": at, "type": kind} | more for name, (at, kind, more) in refs.items()},
    }
    if "main" in refs:
        body["current-snapshot-id"] = refs["main"][0]
    return parse_metadata(json.dumps(body).encode(), "/t/v1.metadata.json")


def line(*times):
    """Snapshots 1, 2, … that were made from each other."""
    return {number: (number - 1 or None, time) for number, time in enumerate(times, 1)}


def expired(metadata, older_than_ms=None):
    return find_expired(metadata, ExpiryLimits.of(metadata.properties, NOW, older_than_ms))


def test_the_newest_snapshots_are_kept_by_age_or_number():
    main = {"main": (4, "branch", {})}
    metadata = metadata_of(line(10, 20, 30, 40), main)
    assert expired(metadata, 30).snapshots == (1, 2)
    assert expired(metadata, 31).snapshots == (1, 2, 3)
    assert expired(metadata, NOW).snapshots == (1, 2, 3)
    three = metadata_of(line(10, 20, 30, 40), main, {"history.expire.min-snapshots-to-keep": "3"})
    assert expired(three, NOW).snapshots == (1,)
    aged = metadata_of(line(10, 20, 30, 40), main, {"history.expire.max-snapshot-age-ms": str(NOW - 40)})
    assert expired(aged).snapshots == (1, 2, 3)
    assert expired(metadata) == expired(metadata, 0)  # five days are before 1970 here
    assert not expired(metadata)


def test_a_young_snapshot_below_an_old_one_expires():
    """As in Iceberg: the first that is too old ends what is kept of the branch."""
    metadata = metadata_of(line(50, 10, 60), {"main": (3, "branch", {})})
    assert expired(metadata, 40).snapshots == (1, 2)


def test_a_ref_keeps_its_snapshot_and_a_branch_its_past():
    refs = {"main": (4, "branch", {}), "b": (3, "branch", {"min-snapshots-to-keep": 2}), "t": (1, "tag", {})}
    assert not expired(metadata_of(line(10, 20, 30, 40), refs), NOW)
    aged = refs | {"b": (3, "branch", {"max-snapshot-age-ms": NOW - 20})}
    assert not expired(metadata_of(line(10, 20, 30, 40), aged), NOW)
    assert expired(metadata_of(line(10, 20, 30, 40), refs | {"b": (3, "branch", {})}), NOW).snapshots == (2,)


def test_refs_expire_by_their_own_age_or_the_tables():
    refs = {
        "main": (2, "branch", {"max-ref-age-ms": 1}),
        "old": (1, "branch", {"max-ref-age-ms": NOW - 11}),
        "kept": (1, "tag", {"max-ref-age-ms": NOW - 10}),
    }
    assert expired(metadata_of(line(10, 20), refs), 0).refs == ("old",)
    by_table = metadata_of(line(10, 20), {"main": (2, "branch", {}), "old": (1, "tag", {})},
                           {"history.expire.max-ref-age-ms": str(NOW - 15)})  # fmt: skip
    assert expired(by_table, NOW) == expired(by_table, 15)
    assert (expired(by_table, NOW).refs, expired(by_table, NOW).snapshots) == (("old",), (1,))
    assert expired(by_table, 0).snapshots == ()


def test_a_snapshot_of_no_ref_is_kept_while_it_is_young():
    snapshots = line(10, 20) | {7: (1, 15), 8: (1, 5)}
    metadata = metadata_of(snapshots, {"main": (2, "branch", {})})
    assert expired(metadata, 6).snapshots == (8,)
    assert expired(metadata, 16).snapshots == (1, 7, 8)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history.expire.max-snapshot-age-ms", "a week"),
        ("history.expire.min-snapshots-to-keep", "0"),
        ("history.expire.max-ref-age-ms", "-1"),
    ],
)
def test_properties_that_are_no_numbers(name, value):
    metadata = metadata_of(line(10), {"main": (1, "branch", {})}, {name: value})
    with pytest.raises(InvalidOperationError, match=f"property {name} is '{value}', expected a whole number"):
        expired(metadata)


def test_a_table_without_garbage_collection():
    for text in ("false", "FALSE", "no"):
        with pytest.raises(InvalidOperationError, match=r"gc\.enabled is false"):
            verify_may_expire(metadata_of({}, {}, {"gc.enabled": text}))
    verify_may_expire(metadata_of({}, {}, {"gc.enabled": "True"}))
    verify_may_expire(metadata_of({}, {}))


@pytest.mark.parametrize("seed", range(300))
def test_random_tables_against_the_model(seed):
    rng = random.Random(seed)
    snapshots = {}
    for number in range(1, rng.randrange(2, 15)):
        known = [None, *snapshots]
        parent = rng.choice([known[-1], known[-1], rng.choice(known)])
        snapshots[number] = (parent, rng.choice([NOW - 50 + 3 * number, NOW - rng.randrange(50)]))
    refs = {}
    for name in rng.sample(["main", "b", "c", "t", "u"], rng.randrange(6)):
        kind = "tag" if name in "tu" else "branch"
        more = {"max-ref-age-ms": rng.randrange(1, 60)} if rng.random() < 0.4 else {}
        if kind == "branch":
            more |= {"max-snapshot-age-ms": rng.randrange(1, 60)} if rng.random() < 0.3 else {}
            more |= {"min-snapshots-to-keep": rng.randrange(1, 6)} if rng.random() < 0.3 else {}
        refs[name] = (rng.choice(list(snapshots)), kind, more)
    properties = {}
    if rng.random() < 0.5:
        properties["history.expire.min-snapshots-to-keep"] = str(rng.randrange(1, 5))
    if rng.random() < 0.3:
        properties["history.expire.max-ref-age-ms"] = str(rng.randrange(60))
    older_than = NOW - rng.randrange(60)
    found = expired(metadata_of(snapshots, refs, properties), older_than)
    listed = {name: {"snapshot-id": at, "type": kind} | more for name, (at, kind, more) in refs.items()}
    expected = retained.expired(snapshots, listed, properties, NOW, older_than)
    assert (set(found.refs), set(found.snapshots)) == expected
