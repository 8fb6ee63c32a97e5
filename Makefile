# make help says what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo first-hour test test-slow test-spark42 test-delta test-kafka test-s3 test-standalone test-postgres test-yarn test-k8s test-prometheus test-otel crash crash-k8s faults simulate matrix golden fuzz sweep bench-state bench-pause bench-failover bench-stores bench-snapshot bench-list ui-test www docs lint format up down lock sbom audit clean clean-all

PORT ?= 8080
NOX = 2025.11.12
ARGS ?=
N ?= 300
SEED ?=
RESULTS ?=
VERSION ?=
ENV := ROOT="$(CURDIR)"; . scripts/env.sh;
export PORT

help:  ## this list
	@echo "Targets (ARGS=... is passed on by demo, first-hour, test, test-slow, crash, test-spark42, ui-test and the benchmarks):"
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

crash: setup  ## an update, a supervisor and the drivers struck at each boundary, against an oracle: hours (ARGS=--help)
	@$(ENV) .venv/bin/python scripts/crash.py $(ARGS)

test-spark42:  ## under Spark 4.2 (builds .venv-spark42), and a snapshot of 4.2 restored on the newer Spark
	@scripts/setup.sh spark42 && scripts/spark42.sh $(ARGS)

test-delta: setup  ## an update whose last batch is in Delta Lake and in files, but in no commit log (fetches jars)
	@scripts/ground.sh delta $(ARGS)

test-kafka: setup  ## an update under load that adds a topic, with a Kafka broker (fetches jars and kafka-python)
	@scripts/ground.sh kafka $(ARGS)

test-s3: setup  ## the registry, snapshots and updates in a bucket of an S3 server (fetches jars, s3fs and moto)
	@scripts/ground.sh s3 $(ARGS)

test-standalone: setup  ## an update whose state is migrated on executors, with Spark's standalone master and worker
	@scripts/ground.sh standalone $(ARGS)

test-postgres: setup  ## an update under load from an Airflow whose database is PostgreSQL (fetches drivers, and a server where there is none)
	@scripts/ground.sh postgres $(ARGS)

test-yarn: setup  ## updates with the root on HDFS, in YARN's client and cluster mode, with Hadoop's minicluster (fetches jars)
	@scripts/ground.sh yarn $(ARGS)

test-k8s: setup  ## updates and failures in pods, on a real Kubernetes API server (builds it from Go modules, once: 12 minutes)
	@scripts/ground.sh k8s $(ARGS)

test-prometheus: setup  ## metrics, alerts and dashboard with a real Prometheus (fetches Debian's where there is none)
	@scripts/ground.sh prometheus $(ARGS)

test-otel: setup  ## traces of updates in a real OpenTelemetry Collector (builds it from Go modules, once: 3 minutes)
	@scripts/ground.sh otel $(ARGS)

crash-k8s: setup  ## the same with drivers in pods, on a real Kubernetes API server: hours (ARGS=..., e.g. --results FILE goes on)
	@scripts/ground.sh k8s -- .venv/bin/python scripts/crash.py --pods $(ARGS)

matrix: setup  ## the tests in each environment of noxfile.py: Airflow, Spark and Python versions; hours (ARGS=--list)
	@$(ENV) .uv/bin/uv tool run nox==$(NOX) $(ARGS)

golden:  ## write the golden checkpoints anew, on each Spark
	@scripts/setup.sh spark42 && scripts/golden.sh

fuzz: setup  ## random app versions, verdicts against what really happens (N=300; SEED=.. replays, RESULTS=file goes on)
	@scripts/fuzz.sh "$(N)" "$(SEED)" "$(RESULTS)"

sweep: setup  ## Spark's functions, settings and Python code, changed: what gives another result has another meaning; and the SLO gate by whole updates (ARGS=..., SEED=.. replays)
	@SEED="$(SEED)" scripts/sweep.sh $(ARGS)

bench-state: setup  ## what a restore, a check and a migration of state cost (ARGS=--help)
	@$(ENV) .venv-spark/bin/python benchmarks/state.py $(ARGS)

bench-pause: setup  ## how long an update's pause is, by strategy, and beside Flink's (ARGS=--help)
	@scripts/setup.sh flink && $(ENV) .venv/bin/python benchmarks/pause.py $(ARGS)

bench-failover: setup  ## how long after a driver was killed the next batch commits, with and without a hot standby (ARGS=--help)
	@$(ENV) .venv/bin/python benchmarks/failover.py $(ARGS)

bench-stores: setup  ## an update with its state in a slow bucket, beside one on a local disk (ARGS=--help; fetches jars, builds an S3 server)
	@scripts/ground.sh s3 -- .venv/bin/python benchmarks/stores.py $(ARGS)

bench-snapshot: setup  ## what a snapshot of a running app costs, beside Flink's savepoint (ARGS=--help)
	@scripts/setup.sh flink && $(ENV) .venv/bin/python benchmarks/snapshot.py $(ARGS)

bench-list: setup  ## how long listing a thousand apps takes, on the command line and for the page (ARGS=--help)
	@$(ENV) .venv/bin/python benchmarks/listing.py $(ARGS)

ui-test: setup  ## the page in Chromium, with a real Airflow and a real update (SCREENSHOTS=docs/images keeps them)
	@scripts/ui.sh $(ARGS)

www:  ## build the page's front end with npm, after a change under plugins/www; the result is committed
	@scripts/www.sh

docs:  ## build the documentation site into site/ (builds .venv-docs); a warning is an error (ARGS=serve shows it while you write)
	@scripts/setup.sh docs && scripts/docs.sh $(ARGS)

lint: setup  ## ruff check, ruff format --check, mypy
	@scripts/lint.sh

format: setup  ## put the code into ruff's format, with its safe fixes
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

up: setup  ## a running Airflow with the example DAGs, prints its address (PORT=8080)
	@scripts/airflow_up.sh

down:  ## stop it
	@scripts/airflow_down.sh

lock: setup  ## resolve requirements/*.in anew, with hashes (ARGS=--upgrade for newer versions, ARGS=jars for the jars' checksums)
	@scripts/lock.sh $(ARGS)

sbom: setup  ## a bill of materials (CycloneDX) of each lock, into dist/sbom/
	@scripts/sbom.sh $(ARGS)

audit: setup  ## look up the locked packages among the known vulnerabilities
	@scripts/audit.sh

clean: down  ## remove what runs and tests left (.airflow too), keep the environments
	@rm -rf .airflow .airflow-test .crash .demo build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		metastore_db spark-warehouse derby.log
	@find . -path ./.git -prune -o -path ./.venv -prune -o -path ./.venv-spark -prune -o -path ./.venv-spark42 -prune -o -path ./.venv-flink -prune -o -path ./.venv-ui -prune -o -path ./.venv-docs -prune -o \
		-name __pycache__ -type d -exec rm -rf {} +

clean-all: clean  ## and the environments
	@rm -rf .uv .venv .venv-spark .venv-spark42 .venv-flink .venv-ui .venv-docs .ground .setup.lock airflow_provider_streamupdate/plugins/www/node_modules
