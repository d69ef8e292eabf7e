"""The cache of parsed manifests: bounded by bytes, without those that were not used for longest."""

from __future__ import annotations

import pyarrow as pa

from delvec.iceberg.manifest import Manifest
from delvec.iceberg.manifest_cache import ManifestCache


def manifest(size):
    return Manifest(pa.table({"x": pa.array(range(size), pa.int64())}), (), 3, 0)


def test_the_least_recently_used_manifest_goes_first():
    cache = ManifestCache(max_bytes=8 * 250)
    manifests = {name: manifest(100) for name in "abc"}
    for name in "ab":
        cache.put((name, 1), manifests[name])
    assert cache.get(("a", 1)) is manifests["a"]
    cache.put(("c", 1), manifests["c"])
    assert cache.get(("b", 1)) is None
    assert [cache.get((name, 1)) is manifests[name] for name in "ac"] == [True, True]
    assert cache.nbytes == 8 * 200


def test_length_is_part_of_the_key_and_large_manifests_are_not_kept():
    cache = ManifestCache(max_bytes=8 * 50)
    cache.put(("a", 1), manifest(10))
    assert cache.get(("a", 2)) is None
    cache.put(("a", 1), manifest(20))
    assert len(cache.get(("a", 1)).entries) == 10
    cache.put(("b", 1), manifest(51))
    assert cache.get(("b", 1)) is None
    assert cache.nbytes == 80
    cache.clear()
    assert (cache.get(("a", 1)), cache.nbytes) == (None, 0)
