# make help says what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo first-hour test test-slow test-spark ground faults simulate crash matrix golden fuzz sweep bench ui-test www docs lint format up down lock sbom audit clean clean-all

PORT ?= 8080
NOX = 2025.11.12
ARGS ?=
N ?= 300
SEED ?=
RESULTS ?=
KIND ?=
PODS ?=
VERSION ?= 4.2
ENV := ROOT="$(CURDIR)"; . scripts/env.sh;
export PORT

help:  ## this list
	@echo "Targets (ARGS=... is passed on; the Makefile has a few more, for maintainers):"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup:  ## build .venv (Airflow) and .venv-spark (PySpark), find Java; fast when nothing changed
	@scripts/setup.sh

demo: setup  ## the main job on real input: update a running app from Airflow, compare with an oracle
	@$(ENV) .venv/bin/python scripts/demo.py $(ARGS)

first-hour: setup  ## a new user's first hour and week, run for real: wheel, fresh environments, apps, mistakes, updates, roll back, crash (ARGS=--keep, --week: the second part)
	@$(ENV) .venv/bin/python scripts/first_hour.py $(ARGS)

test: setup  ## lint and the fast tests, in both environments
	@scripts/test.sh fast $(ARGS)

test-slow: setup  ## the tests that take minutes
	@scripts/test.sh slow $(ARGS)

faults: setup  ## faults made for real: cuts of power, full disks, reused pids, clocks that are set, deletes beside saves (ARGS="-k pid")
	@scripts/faults.sh $(ARGS)

simulate: setup  ## seeded schedules of faults over a simulated machine, in virtual time (N=100000; SEED=.. replays one with its steps, ARGS=--shrink makes it smaller, ARGS=--faults hunts the planted ones)
	@PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation $(if $(SEED),--seed $(SEED),--schedules $(N)) $(ARGS)

crash: setup  ## an update, a supervisor and the drivers struck at each boundary, against an oracle: hours (PODS=1: drivers in pods; ARGS=--help)
	@$(ENV) $(if $(PODS),scripts/ground.sh k8s --) .venv/bin/python scripts/crash.py $(if $(PODS),--pods) $(ARGS)

test-spark:  ## under an older Spark (VERSION=4.2; builds .venv-spark42), and its snapshot restored on later ones; 3.5: adopted
	@scripts/setup.sh "spark$(subst .,,$(VERSION))" && scripts/older_spark.sh "$(VERSION)" $(ARGS)

ground: setup  ## updates on real other systems: KIND=delta, iceberg, kafka, s3, standalone, postgres, yarn, k8s, prometheus or otel (docs/ground.md)
	@scripts/ground.sh "$(KIND)" $(ARGS)

matrix: setup  # the tests in each environment of noxfile.py: Airflow, Spark and Python versions; hours (ARGS=--list)
	@$(ENV) .uv/bin/uv tool run nox==$(NOX) $(ARGS)

golden: setup  # write the golden checkpoints anew, on each Spark
	@scripts/golden.sh

fuzz: setup  ## random app versions, verdicts against what really happens (N=300; SEED=.. replays, RESULTS=file goes on)
	@scripts/fuzz.sh "$(N)" "$(SEED)" "$(RESULTS)"

sweep: setup  ## Spark's functions, settings and Python code, changed: what gives another result has another meaning; and the SLO gate by whole updates (ARGS=..., SEED=.. replays)
	@SEED="$(SEED)" scripts/sweep.sh $(ARGS)

bench: setup  ## measure: KIND=state, pause, failover, stores, snapshot or list (docs/benchmarks.md; ARGS=--help)
	@scripts/bench.sh "$(KIND)" $(ARGS)

ui-test: setup  ## the page in Chromium, with a real Airflow and a real update (SCREENSHOTS=docs/images keeps them)
	@scripts/ui.sh $(ARGS)

www:  # build the page's front end with npm, after a change under plugins/www; the result is committed
	@scripts/www.sh

docs:  ## build the documentation site into site/ (builds .venv-docs); a warning is an error (ARGS=serve shows it while you write)
	@scripts/setup.sh docs && scripts/docs.sh $(ARGS)

lint: setup  ## ruff check, ruff format --check, mypy
	@scripts/lint.sh

format: setup  # put the code into ruff's format, with its safe fixes
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

up: setup  ## a running Airflow with the example DAGs, prints its address (PORT=8080)
	@scripts/airflow_up.sh

down:  ## stop it
	@scripts/airflow_down.sh

lock: setup  # resolve requirements/*.in anew, with hashes (ARGS=--upgrade for newer versions, ARGS=jars for the jars' checksums)
	@scripts/lock.sh $(ARGS)

sbom: setup  # a bill of materials (CycloneDX) of each lock, into dist/sbom/
	@scripts/sbom.sh $(ARGS)

audit: setup  # look up the locked packages among the known vulnerabilities
	@scripts/audit.sh

clean: down  # remove what runs and tests left (.airflow too), keep the environments
	@rm -rf .airflow .airflow-test .crash .demo build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		metastore_db spark-warehouse derby.log
	@find . -path ./.git -prune -o -path './.venv*' -prune -o \
		-name __pycache__ -type d -exec rm -rf {} +

clean-all: clean  # and the environments
	@rm -rf .uv .venv .venv-* .ground .setup.lock airflow_provider_streamupdate/plugins/www/node_modules
