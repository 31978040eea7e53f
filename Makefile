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
UV_VERSION := 0.13.8

# Bytecode is kept, whatever the environment says: without it every process compiles all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

# Rooms of the tests that need no broker; tests/architecture/test_rooms.py holds them to that.
FAST := tests/unit tests/component tests/console tests/scenario tests/conformance tests/manifests tests/architecture

.PHONY: help
help: ## what there is to do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

# uv comes from PyPI into the project's own environment; uv.lock pins the rest.
$(READY): pyproject.toml schemas/pyproject.toml sdk/pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "Moorage needs Python 3.11 or newer, and found none on PATH" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --locked --inexact --python $(BIN)/python
	@touch $@

.PHONY: setup
setup: $(READY) ## make the environment in .venv

.PHONY: demo
demo: $(READY) ## the main job on an embedded Kafka, to watch
	@$(BIN)/moorage demo

.PHONY: docs
docs: $(READY) ## build the docs site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

.PHONY: pictures
pictures: $(READY) ## take the pictures of the console in docs/images anew
	@$(BIN)/pytest -q -n 0 --pictures tests/console/test_pictures.py

.PHONY: recording
recording: $(READY) ## record the demo anew as docs/demo.svg
	@$(BIN)/python docs/record_demo.py

.PHONY: up
up: $(READY) ## broker, all services and the gateway, until Ctrl-C
	@$(BIN)/moorage up

.PHONY: check
check: $(READY) ## formatting, lints, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: kubectl
kubectl: $(READY) ## get the kubectls that the tests use: Debian's package, and the newest, built with Go
	@$(BIN)/python ops/kubectl-get

.PHONY: karmadactl
karmadactl: $(READY) ## get karmadactl, which Go builds in minutes, for its tests
	@$(BIN)/python ops/kubectl-get --karmadactl

.PHONY: helm
helm: $(READY) ## get helm, which Go builds, for the tests of ops/kubernetes
	@$(BIN)/python ops/kubectl-get --helm

.PHONY: typescript
typescript: $(READY) ## get the TypeScript compiler that the tests of the examples use, with npm
	@$(BIN)/python ops/typescript-get

.PHONY: chromium
chromium: $(READY) ## install Debian's Chromium, in which the tests of the console open its pages
	@$(BIN)/python ops/chromium-get

.PHONY: test
test: check ## every check and every test
	@$(BIN)/python ops/kubectl-get --helm --best-effort
	@$(BIN)/python ops/typescript-get --best-effort
	@$(BIN)/python ops/chromium-get --best-effort
	@$(BIN)/pytest -n auto

.PHONY: test-fast
test-fast: $(READY) ## the tests that need no broker; a minute and a half on two cores
	@$(BIN)/pytest -n logical $(FAST)

.PHONY: coverage
coverage: $(READY) ## how much of the code the tests of test-fast reach; fails below the floor in pyproject.toml
	@$(BIN)/pytest -n logical --cov --cov-report=term:skip-covered $(FAST)

.PHONY: schemas
schemas: $(READY) ## write schemas/generated and sdk/generated from the models
	@$(BIN)/moorage schemas
	@$(BIN)/python -m moorage_sdk.specification sdk/generated

OPENAPI := services/moorage/kinds/openapi
.PHONY: kubernetes-schema
kubernetes-schema: ## write the structure of upstream's kinds from its own types and manifests (needs Go)
	@cd ops/kubernetes-schema && go run . -out ../../$(OPENAPI) -vectors ../../tests/unit/openapi/vectors/protobuf.jsonl

RECORD ?=
.PHONY: bench
bench: $(READY) ## every benchmark; each prints one line of JSON last, and RECORD=1 adds it to bench/history
	@for b in bench/matching.py bench/permissions.py bench/stage.py bench/latency.py bench/lateness.py bench/heartbeats.py bench/restore.py \
		bench/evictions.py bench/placement.py bench/ocm.py bench/ocm_change.py bench/ocm_fleet.py bench/simulate.py \
		bench/timers.py bench/cli.py bench/steps.py \
		bench/explain.py bench/failover.py bench/scale.py bench/gateway.py bench/console.py; do \
		echo "== $$b"; BENCH_RECORD=$(RECORD) $(BIN)/python $$b; done
	@test -z "$(RECORD)" || $(BIN)/python -m bench.page

.PHONY: bench-page
bench-page: $(READY) ## write the tables and plots of docs/benchmarks.md from bench/history
	@$(BIN)/python -m bench.page

.PHONY: conformance
conformance: $(READY) ## 10,000 fresh random requests to moorage eval and to upstream's own code (needs Go)
	@$(BIN)/python ops/conformance

REQUESTS ?= 10000
.PHONY: fuzz
fuzz: $(READY) ## 10,000 random requests, valid and not, to a Moorage of their own: none fails or costs much (REQUESTS=100000, MOORAGE_SEED=7)
	@MOORAGE_FUZZ_REQUESTS=$(REQUESTS) $(BIN)/pytest -q tests/chaos/requests

PATCHING ?=
.PHONY: patching-conformance
patching-conformance: $(READY) ## fresh random patches and applies to Moorage and to upstream's own code (needs Go), or with MOORAGE_PLANES=FOLDER to a real kube-apiserver
	@$(BIN)/python ops/patching-conformance $(PATCHING)

CONVERSATION ?=
.PHONY: conversation-conformance
conversation-conformance: $(READY) ## 200 random conversations with Moorage and, with MOORAGE_PLANES=FOLDER, a real kube-apiserver: the same answers
	@$(BIN)/python -m tests.conformance.conversations $(CONVERSATION)

PERMISSIONS ?=
.PHONY: permission-conformance
permission-conformance: $(READY) ## random roles and bindings in Moorage and, with MOORAGE_PLANES=FOLDER, in a real kube-apiserver: the same answers and refusals
	@$(BIN)/python -m tests.conformance.permissions $(PERMISSIONS)

VALIDATION ?=
.PHONY: validation-conformance
validation-conformance: $(READY) ## 600 random objects with flaws to Moorage and, with MOORAGE_PLANES=FOLDER, to a real kube-apiserver: the same causes
	@$(BIN)/python -m tests.conformance.validating $(VALIDATION)

.PHONY: storm
storm: $(READY) ## a zone of 5,000 nodes with 150,000 pods is lost: nothing too fast, nothing early, nothing lost
	@BENCH_RECORD=$(RECORD) $(BIN)/python bench/storm.py --rates default
	@BENCH_RECORD=$(RECORD) $(BIN)/python bench/storm.py --rates lifted --seconds 600

PEERS ?=
.PHONY: peers
peers: $(READY) ## Moorage beside upstream's controllers on real control planes (MOORAGE_PLANES=FOLDER; PEERS="--only a,c --nodes 50 --rounds 1")
	@BENCH_RECORD=$(RECORD) $(BIN)/python bench/peers.py $(PEERS)

GROWTH ?=
.PHONY: growth
growth: $(READY) ## two hours of a fleet in 20 minutes: topics, memory and restores stay flat (GROWTH="--minutes 3 --nodes 100 --rate 600 --partitions 4")
	@$(BIN)/python bench/growth.py $(GROWTH)

SOAK ?=
.PHONY: soak
soak: $(READY) ## seeds, and faults on a real three-broker Kafka, without end (SOAK="--seeds 100000", "--rounds 50")
	@$(BIN)/python ops/soak $(SOAK)
