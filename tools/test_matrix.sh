#!/usr/bin/env bash
# The tests that need a Spark session, on each supported PySpark, each in a virtual environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
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
  "$venv/bin/python" -m pytest -m "spark and not interop" tests/behaviour
done
