"""What Spark ran: the physical plans of its queries, as the session keeps them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_NODE = re.compile(r"[A-Z][A-Za-z ]*[a-zA-Z] +\((?P<number>\d+)\)")
_CACHED, _SCAN, _INITIAL = "InMemoryRelation", "Scan parquet", "+- == Initial Plan =="


@dataclass
class Executed:
    """The plans of the queries that ran, in order; and how many jobs."""

    plans: list[str] = field(default_factory=list)
    jobs: int = 0


@contextmanager
def executed(spark: Any) -> Iterator[Executed]:
    """What runs inside is told afterwards."""
    context, store = spark.sparkContext, spark._jsparkSession.sharedState().statusStore()
    group, before, found = str(uuid.uuid4()), _last_execution(store), Executed()
    context.setJobGroup(group, group)
    try:
        yield found
    finally:
        context._jsc.clearJobGroup()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    listed = store.executionsList()
    new = [e for e in map(listed.apply, range(listed.size())) if e.executionId() > before]
    found.plans = [execution.physicalPlanDescription() for execution in new]
    found.jobs = len(context.statusTracker().getJobIdsForGroup(group))


def _last_execution(store: Any) -> int:
    listed = store.executionsList()
    return max((listed.apply(at).executionId() for at in range(listed.size())), default=-1)


def scans(plan: str, place: str) -> tuple[int, int]:
    """How often a plan scans files below the place: by itself, and in what it reads from the cache."""
    tree, _, details = plan.partition("\n\n")
    own = cached = 0
    cache_column = None
    for line in tree.splitlines():
        if line.startswith(_INITIAL):  # what was planned before the query ran
            break
        node = _NODE.search(line)
        if node is None:
            continue
        if cache_column is not None and node.start() <= cache_column:
            cache_column = None
        if _CACHED in node.group():
            cache_column = node.start()
        elif _SCAN in node.group() and f"{place}/" in _detail(details, node["number"]):
            own, cached = own + (cache_column is None), cached + (cache_column is not None)
    return own, cached


def _detail(details: str, number: str) -> str:
    found = re.search(rf"^\({number}\) .*?(?=^\(\d+\) |\Z)", details, re.DOTALL | re.MULTILINE)
    assert found is not None, f"no node {number}"
    return found.group()


def times_read(found: Executed, place: str) -> int:
    """How often the queries read the files below the place; what they keep in the cache is read once."""
    counts = [scans(plan, place) for plan in found.plans]
    return sum(own > 0 for own, _ in counts) + any(cached for _, cached in counts)
