.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast check bench soak random-test life-test loop-test kill-test gate-test shed-test cluster-test lock clean

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# Two processes keep two cores busy. Files come in their own order: long tests would be the last.
TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# The Java that set-up found. Read when a recipe runs, because set-up may run in the same call.
export JAVA_HOME = $(shell cat .venv/java-home 2>/dev/null)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## make .venv with the locked packages, and find or install Java
	@scripts/setup

demo: setup ## what sharing brings against plain Spark, and who gives way in a surge; three minutes
	@.venv/bin/evenflow demo

test: check ## check, then all tests
	$(PYTHON) -m tests.kafka.fetch & \
		EVENFLOW_HOSTILE=50000 EVENFLOW_NETWORKS=1000 \
		EVENFLOW_METHOD_NETWORKS=100 EVENFLOW_METHOD_RATES=100 \
		$(PYTEST) -m "not spark" $(TWO); passed=$$?; wait; exit $$passed
	@test -e .venv/share/evenflow/spark.jsa || .venv/bin/evenflow setup archive
	$(PYTEST) -m "spark and not long" $(TWO)

test-fast: setup ## the tests that need no JVM
	$(PYTEST) -m "not spark" $(TWO)

check: setup ## lint, types, import contracts
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup ## sharing against plain Spark, all cases
	.venv/bin/evenflow bench sharing

soak: setup ## ten minutes of changes: does anything grow?
	.venv/bin/evenflow bench soak --verbose

random-test: setup ## 300 random sets of queries against plain Spark
	EVENFLOW_RANDOM_SETS=300 $(PYTEST) --numprocesses 2 tests/spark/test_random.py

life-test: setup ## 300 random lives of queries against plain Spark
	EVENFLOW_LIVES=300 $(PYTEST) --numprocesses 2 tests/spark/test_lives.py

loop-test: setup ## 2,000 random flows under the control loop
	EVENFLOW_LOOPS=2000 EVENFLOW_LOOP_WORLDS=20000 $(PYTEST) --timeout 1800 tests/control/test_loop_properties.py tests/control/test_loop_explore.py

kill-test: setup ## 50 kills of a running flow, at named points, at random moments, and in a surge
	EVENFLOW_KILLS=50 $(PYTEST) -s tests/spark/kill tests/kafka/test_kill.py

gate-test: setup ## gates before all kinds of conditions, windows and joins
	$(PYTEST) --numprocesses 2 tests/spark/test_gates.py tests/spark/test_gate_kinds.py tests/spark/test_input_gates.py

shed-test: setup ## 1,000 random networks with 1,000 rates, every method of shedding
	EVENFLOW_NETWORKS=5000 EVENFLOW_METHOD_NETWORKS=1000 EVENFLOW_METHOD_RATES=1000 \
		EVENFLOW_TREES=1000 EVENFLOW_TREE_RATES=1000 EVENFLOW_WIRE_TREES=1000 EVENFLOW_CHANGED_TREES=1000 EVENFLOW_WORLDS=100000 \
		$(PYTEST) --numprocesses 2 --timeout 7200 tests/shed

cluster-test: setup ## the run tests on two executors in JVMs of their own
	EVENFLOW_MASTER='local-cluster[2,1,1024]' $(PYTEST) -m spark tests/spark

lock: setup ## write requirements.txt anew from pyproject.toml
	$(PYTHON) -m pip install --quiet 'uv>=0.5'
	.venv/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade --quiet \
		--output-file requirements.txt

clean: ## remove what set-up, tests and runs made
	rm -rf .venv .evenflow .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf build dist src/evenflow.egg-info .coverage htmlcov spark-warehouse
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
