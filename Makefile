# Everything a person does here. `make demo`, `make test` and `make check` need nothing but Python 3 and make: each
# first makes the machine ready (uv, the environment, Java, the jars, the kernels), which costs nothing when it is.
.DEFAULT_GOAL := help
.PHONY: chaos teeth fuzz bench-admin bench-codec bench-reader bench-snapshot bench help demo up down test check simulate fmt lint type generate \
	test-alone ready docs images sbom audit test-compose test-helm bench-check bench-growth bench-page profile

PYTHON ?= python3
BIN := .venv/bin
SOURCES := libs/src services/reader/src services/spark-processor/src services/admin-api/src
export DEMO_SECONDS

# What is done to the reader alone, which `make test` does once: in the tiers that take hours also as often as a fleet's.
READER_TRIALS := $(patsubst %,services/reader/tests/test_%.py,trials fault_trials outages resnapshots failovers publications refusals acks)

VERSION := 0.1.0
LABELS = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) --build-arg CREATED=$(shell date -u +%Y-%m-%dT%H:%M:%SZ)

help: ## Show this list
	@echo "make …"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r n d; do printf '  %-12s %s\n' "$$n" "$$d"; done

demo: ready ## Run everything beside a shop that writes by itself, and watch (DEMO_SECONDS=30 ends it)
	@$(BIN)/tidegate demo

up: ready ## Run the fleet with an embedded Kafka and Redis; CONFIG=your-pipeline.yaml, or the demo's shop
	@$(BIN)/tidegate up $(if $(CONFIG),--config $(CONFIG))

down: ready ## Stop what `make up` or `make demo` runs elsewhere on this machine
	@$(BIN)/tidegate down

test: ready ## Run all tests; real servers are started for them (WORKERS=2 side by side, each with servers of its own)
	CHAOS_PATIENCE=$(or $(CHAOS_PATIENCE),3) $(BIN)/pytest --numprocesses=$(or $(WORKERS),2) --dist=worksteal $(ARGS)

check: ready lint type ## What CI runs first: style, types, imports, house rules, generated pages
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/house.py
	$(BIN)/python tools/generate.py --check

bench: ready ## Compare with pg_recvlogical and Debezium, on one WAL and broker (QUICK=1: under five minutes; ARGS=--help)
	@PYTHONPATH=tests:. $(BIN)/python -m bench $(ARGS)

bench-check: ready ## The same, quickly, and its ratios beside the accepted ones (ARGS=--accept accepts these)
	@QUICK=1 PYTHONPATH=tests:. $(BIN)/python -m bench $(or $(ARGS),--check)

bench-growth: ready ## Measure what an event costs as one thing grows: tables, lanes, backlog … (QUICK=1)
	@PYTHONPATH=tests:. $(BIN)/python -m bench.growth $(ARGS)

bench-page: ready ## Write docs/speed.md and its plots from the newest run that is kept
	@PYTHONPATH=tests:. $(BIN)/python -m bench.page $(ARGS)

profile: ready ## Draw a flame graph of a service at work (WHAT=reader|stage|lane, ROWS=n)
	@ROWS=$(ROWS) PYTHONPATH=tests:. $(BIN)/python -m bench.profile $(WHAT)

simulate: ready ## Run the pipeline's code among simulated servers and faults (SEEDS=2000; ARGS=--teeth plants bugs)
	@PYTHONPATH=tests $(BIN)/python -m chaos.simulator --seeds $(or $(SEEDS),2000) $(ARGS)

chaos: ready ## Break a real fleet on purpose (TIER=quick|nightly|release; CASE=M13, TRIALS=n, SEED=s, SECONDS=s)
	@PYTHONPATH=tests $(BIN)/python -m chaos.fleet --tier $(or $(TIER),quick) --case "$(CASE)" --trials $(or $(TRIALS),0) \
	  --seed "$(SEED)" --seconds $(or $(SECONDS),0) $(ARGS)
	@case "$(TIER):$(CASE)" in nightly:|release:) TIDEGATE_TESTS_TRIALS=$(or $(TRIALS),10) $(BIN)/pytest -q -n0 $(READER_TRIALS);; esac

teeth: ready ## Plant bugs in the running services, and see how many trials it takes to catch each
	@PYTHONPATH=tests $(BIN)/python -m chaos.fleet.teeth $(ARGS)

fuzz: ready ## Fuzz the decoders, coverage-guided, each target for SECONDS=60; ARGS="message casts" for some of them
	@for target in $(or $(ARGS),envelope message stream frame kernels casts); do \
	  PYTHONPATH=tests $(BIN)/python -m fuzz $$target $(or $(SECONDS),60) || exit 1; done

bench-codec: ready ## Measure the codec alone: frames to events and columns, beside the reference (QUICK=1)
	@PYTHONPATH=tests:. $(BIN)/python -m bench.codec

bench-reader: ready ## Measure the reader alone, beside pg_recvlogical on the same WAL (QUICK=1: about a minute)
	@PYTHONPATH=tests:. $(BIN)/python -m bench.reader

bench-snapshot: ready ## Measure snapshots beside psql's COPY, and what the stream feels of one (QUICK=1: about a minute)
	@PYTHONPATH=tests:. $(BIN)/python -m bench.snapshot

bench-admin: ready ## Measure the admin service: 1,000 lanes, a million dead letters (QUICK=1: under a minute)
	@PYTHONPATH=tests:. $(BIN)/python -m bench.admin

fmt: ready ## Format, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: ready ## Style only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: ready ## Types only
	$(BIN)/mypy $(SOURCES)

generate: ready ## Write the generated pages
	$(BIN)/python tools/generate.py

test-alone: ready ## Install each member alone, from the lock, and run its own unit tests there
	$(BIN)/python tools/test_alone.py $(ARGS)

docs: ready ## Build the documentation into site/, and fail on a link that leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

images: ## Build the three images (BUILD="--build-arg PYPI_INDEX=…" behind a mirror)
	docker build $(BUILD) $(LABELS) -f services/reader/Dockerfile -t tidegate-reader:$(VERSION) .
	docker build $(BUILD) $(LABELS) -f services/spark-processor/Dockerfile -t tidegate-processor:$(VERSION) .
	docker build $(BUILD) $(LABELS) -f services/admin-api/Dockerfile -t tidegate-admin:$(VERSION) .

sbom: ready ## Write what each image holds, as CycloneDX, into dist/
	$(BIN)/python tools/sbom.py

audit: ready ## Ask for known vulnerabilities of what is locked (needs the internet; fails if one can't be asked for)
	@$(BIN)/python tools/audit.py

test-compose: ready ## Bring compose.yaml up on a Docker engine, and kill each container once (root; about 15 minutes)
	tests/ship/stand_ins/build.sh
	$(MAKE) images
	$(BIN)/pytest tests/ship/check_images.py tests/ship/check_compose.py -p no:randomly $(ARGS)

test-helm: ready ## Check the chart (tests/ship/tools.sh gets the tools); CHART_CLUSTER=1 with KUBECONFIG also installs it
	PATH="$(CURDIR)/.cache/bin:$$PATH" $(BIN)/pytest tests/ship/check_chart.py tests/ship/check_cluster.py -p no:randomly $(ARGS)

ready:
	@$(PYTHON) tools/bootstrap.py
