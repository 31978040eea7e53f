# Two commands do everything: `make demo` and `make test`. Both need Python >= 3.11 and make, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first interpreter that is new enough.
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.ready-to-run
comma := ,
UV_VERSION := 0.13.8

# Bytecode is kept, whatever the environment says: without it every process compiles all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

# Certificates are those that the system trusts, as with pip: a company's proxy may have its own.
export UV_SYSTEM_CERTS ?= 1

# Rooms of the tests that need no broker; tests/architecture/test_rooms.py holds them to that.
FAST := tests/unit tests/component tests/console tests/scenario tests/conformance tests/manifests tests/architecture

.PHONY: help
help: ## what there is to do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 25

# uv comes from PyPI into the project's own environment; uv.lock pins the rest. The demo does without the packages of
# the tests and the docs, which are most of all.
UV := $(BIN)/uv
DEFINITIONS := pyproject.toml schemas/pyproject.toml sdk/pyproject.toml uv.lock
define SYNC
	@test -n "$(PYTHON)" || { echo "Moorage needs Python 3.11 or newer, and found none on PATH" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "setup: creating $(VENV) with $$($(PYTHON) --version)"; \
		ops/patiently "setup: creating $(VENV)" $(PYTHON) -m venv $(VENV); }
	@test -x $(UV) || { echo "setup: installing uv $(UV_VERSION), 17 MB"; \
		ops/patiently "setup: installing uv" \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@echo "setup: installing $(1)"
	@UV_PROJECT_ENVIRONMENT=$(VENV) ops/patiently "setup: installing" \
		$(UV) sync --locked --inexact $(2) --python $(BIN)/python 2>&1 \
		| { grep --line-buffered -vE '^ [+~-] ' || true; }
endef

$(RUNS): $(DEFINITIONS)
	$(call SYNC,Moorage and its packages: up to 75 MB to download$(comma) 300 MB on disk,--no-default-groups)
	@touch $@

$(READY): $(DEFINITIONS)
	$(call SYNC,the packages of Moorage$(comma) its tests and its docs: up to 250 MB to download$(comma) 930 MB on disk,--all-extras)
	@touch $@ $(RUNS)

.PHONY: setup
setup: $(READY) ## make the environment in .venv

.PHONY: demo
demo: $(RUNS) ## the main job on an embedded Kafka, to watch
	@$(BIN)/moorage demo

.PHONY: docs
docs: $(READY) ## build the docs site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

.PHONY: up
up: $(RUNS) ## broker, all services and the gateway, until Ctrl-C
	@$(BIN)/moorage up

.PHONY: check
check: $(READY) ## formatting, lints, types, layers
	@echo "check: ruff"; $(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@echo "check: mypy (a minute when nothing is cached)"; $(BIN)/mypy
	@echo "check: layers"; $(BIN)/lint-imports

.PHONY: test
test: check ## every check, and the tests of what a change can break, within ten minutes on two cores
	@$(BIN)/pytest -n auto --tier test

.PHONY: test-all
test-all: $(READY) ## all other tests: Kafka, faults, 1,000 seeds, kubectl, planes, browser, helm, other languages
	@$(MAKE) --no-print-directory tools TOOLS=--best-effort
	@$(BIN)/pytest -n auto --tier rest

.PHONY: test-fast
test-fast: $(READY) ## the tests that need no broker
	@$(BIN)/pytest -n logical $(FAST)

.PHONY: coverage
coverage: $(READY) ## the coverage of test-fast; fails below the floor in pyproject.toml
	@$(BIN)/pytest -n logical --cov --cov-report=term:skip-covered $(FAST)

TOOLS ?=
.PHONY: tools
tools: $(READY) ## get the programs that test-all uses: kubectl and helm (built with Go), TypeScript (npm), Chromium (apt)
	@echo "tools: TypeScript"; $(BIN)/python ops/typescript-get $(TOOLS)
	@echo "tools: Chromium"; $(BIN)/python ops/chromium-get $(TOOLS)
	@echo "tools: kubectl and helm (minutes when Go has built neither)"; $(BIN)/python ops/kubectl-get --helm $(TOOLS)

.PHONY: monitoring
monitoring: $(READY) ## write the dashboards, and the rules for Kubernetes, from ops/monitoring
	@$(BIN)/python ops/monitoring/render

.PHONY: schemas
schemas: $(READY) ## write schemas/generated and sdk/generated from the models
	@$(BIN)/moorage schemas
	@$(BIN)/python -m moorage_sdk.specification sdk/generated

OPENAPI := services/moorage/apiserver/machinery/openapi
.PHONY: upstream-schemas
upstream-schemas: ## write the structure of upstream's kinds from its own types and manifests (needs Go)
	@cd ops/kubernetes-schema && go run . -out ../../$(OPENAPI) -vectors ../../tests/unit/openapi/vectors/protobuf.jsonl

.PHONY: pictures
pictures: $(READY) ## take the pictures of the console, and record the demo, in docs/
	@$(BIN)/pytest -q -n 0 --pictures tests/console/test_pictures.py
	@$(BIN)/python docs/record_demo.py

RECORD ?=
BENCH ?= matching ocm stage latency heartbeats rest restore placement timers
.PHONY: bench
bench: $(READY) ## benchmarks that take minutes, or those that BENCH names (storm, growth, peers); RECORD=1 adds to bench/history
	@for one in $(BENCH); do echo "== bench/$$one.py"; BENCH_RECORD=$(RECORD) $(BIN)/python bench/$$one.py $(OPTIONS); done
	@test -z "$(RECORD)" || $(BIN)/python -m bench.page

OF ?= eval
OPTIONS ?=
.PHONY: conformance
conformance: $(READY) ## fresh random requests to Moorage and to upstream (OF=eval|patching|conversations|permissions|validating|expressions)
	@case "$(OF)" in \
		eval) $(BIN)/python ops/conformance $(OPTIONS) ;; \
		patching) $(BIN)/python ops/patching-conformance $(OPTIONS) ;; \
		*) $(BIN)/python -m tests.conformance.$(OF) $(OPTIONS) ;; \
	esac

.PHONY: suites
suites: $(READY) ## specs of Kubernetes, OCM and Karmada on real control planes, where MOORAGE_PLANES names them (an hour)
	@$(BIN)/python ops/upstream-suites/run $(OPTIONS)

REQUESTS ?= 10000
.PHONY: fuzz
fuzz: $(READY) ## random requests, valid and not, to a Moorage of their own (REQUESTS=100000, MOORAGE_SEED=7)
	@MOORAGE_FUZZ_REQUESTS=$(REQUESTS) $(BIN)/pytest -q tests/chaos/requests

SOAK ?=
.PHONY: soak
soak: $(READY) ## seeds, and faults on a real three-broker Kafka, without end (SOAK="--seeds 100000", "--rounds 50")
	@$(BIN)/python ops/soak $(SOAK)

DRILL ?=
.PHONY: incident-drill
incident-drill: $(READY) ## an incident is played: alerts, dashboards, logs, trace, status and console must show it (DRILL="--zipkin")
	@$(BIN)/python ops/incident-drill $(DRILL)

.PHONY: upgrade-drill
upgrade-drill: $(READY) ## an earlier version is upgraded under load, and back (DRILL="--from REV", "--restart")
	@$(BIN)/python ops/upgrade-drill $(DRILL)
