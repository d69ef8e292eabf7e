#!/usr/bin/env bash
# What depends on the release of PySpark, tried on each that is supported, in a virtual environment of its own:
# scans, the connector, verbs, SQL, lost races; classic and Connect. MATRIX names other releases, TESTS other tests
# ("tests/contract tests/engine" for all).
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
smoke=$(echo tests/contract/test_{scan,delete,merge,conflict_cases,sql_queries}.py \
  tests/engine/test_{scan_plans,scan_connect,connector,large_results,verbs_connect,sql_connect}.py)
for version in ${MATRIX:-4.0.5 4.1.4 4.2.1 4.3.0}; do
  venv=".venv-pyspark-$version"
  if [ ! -e "$venv/.ready" ]; then
    "$python" -m venv "$venv"
    # Everything as pinned but what differs between the releases of PySpark.
    grep -vE '^(pyspark|py4j|grpcio|grpcio-status|googleapis-common-protos|protobuf|pandas)==' constraints.txt \
      >"$venv/constraints.txt"
    PIP_CONSTRAINT="$PWD/$venv/constraints.txt" "$venv/bin/python" -m pip install --quiet \
      --editable ".[dev]" "pyspark[connect]==$version"
    touch "$venv/.ready"
  fi
  echo "== PySpark $version"
  # shellcheck disable=SC2086 # a list of paths
  "$venv/bin/python" -m pytest -n "${WORKERS:-2}" --dist loadfile -m "spark and not slow and not interop" \
    ${TESTS:-$smoke}
done
