# Every target works on a fresh clone: what it needs it installs first.
PYTHON ?= python3
CACHE := $(or $(DELVEC_CACHE),$(HOME)/.cache/delvec)
BIN := .venv/bin
READY := .venv/.ready

export DELVEC_CACHE := $(CACHE)
# Build tools are pinned as well.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests run side by side, one process a core; a file's tests stay together, long files start first (tests/local_spark.py).
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Tests run each query once: what the JVM's second compiler would win later costs them a sixth of their time.
test test-slow interop test-matrix: export SPARK_SUBMIT_OPTS := -XX:TieredStopAtLevel=1

.PHONY: help setup demo test test-slow soak fuzz lint format interop bench test-matrix s3-server clean

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## create .venv with all dependencies and development tools

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

demo: setup  ## explain deletion vectors on a small table
	$(BIN)/delvec demo

test: setup  ## run the tests that need only Python packages and Java
	$(PYTEST) -m "not slow and not interop"

test-slow: setup  ## run the slow tests; those of interop need the official jars
	$(PYTEST) -m slow --timeout 3600

soak: setup  ## run random writers, readers and crashes for SOAK_MINUTES (30), then check every commit
	PYTHONPATH=tests $(BIN)/python -W ignore tests/soak/soak.py

fuzz: setup  ## run ten times the usual number of fuzz cases
	DELVEC_FUZZ_SCALE=10 $(PYTEST) tests/fuzz tests/delta/test_fuzz_log.py --timeout 3600

lint: setup  ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

interop: setup  ## run the tests against the official jars, which are downloaded once
	$(PYTEST) -m "interop and not slow" --timeout 1800 tests/interop

bench: setup  ## measure the figures of docs/benchmarks.md
	$(BIN)/python -m bench vectors log scan iceberg_scan equality deletes key_vectors rewrite_deletes pile_up planning write iceberg_write cold writers requests

test-matrix: setup  ## run a short test on each supported PySpark
	tools/test_matrix.sh

s3-server:  ## the S3 server of the storage tests, into the cache; needs Go
	tools/install_versitygw.sh

clean:  ## forget what was installed and built
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
