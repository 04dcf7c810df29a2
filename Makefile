# Everything a developer or CI runs. Each target sets up what it needs, once, and again when the lock file changes.

UV_VERSION := 0.13.7
BIN := .venv/bin
# The certificates of the machine, so that a company proxy is trusted as pip and curl trust it.
UV := $(BIN)/uv --system-certs pip
PYTHON := PYTHONDEVMODE=1 $(BIN)/python
# Tests wait more than they work: three on two cores take two thirds of the time of two.
WORKERS ?= 3
# The same mixed order each time, so that a change is blamed for what it broke; test-all takes another each time.
SEED_OF_ORDER ?= 1
# Where a machine forbids compiled modules, a node would take twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
# The first interpreter that is new enough; 3.11 is the one the lock file is made for.
INTERPRETER := $(firstword $(foreach name,python3.11 python3 python3.12 python3.13 python3.14,$(shell \
	$(name) -c 'import sys; sys.version_info < (3, 11) or print("$(name)")' 2>/dev/null)))

# What hatch_build.py compiles: an installation is out of date when one of them changes.
COMPILED := $(wildcard src/chordmq/*/*.pyx)

.DEFAULT_GOAL := help
.PHONY: help setup run console test test-all explore sim chaos check format bench soak docs site map requirements lock tools clean

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: .venv/installed ## make .venv with every locked package

run: .venv/installed ## start everything, with data in ./data
	@$(BIN)/python -m scripts.console --optional
	@$(BIN)/python scripts/system_packages.py run || echo "Going on without the data pipeline, which needs Java."
	@$(BIN)/chordmq up $(ARGS)

console: .venv/installed ## build the web console (needs Node.js, which .venv brings)
	@$(BIN)/python -m scripts.console

test: .venv/installed tools ## run the tests, with real clients (TESTS=tests/storage narrows them)
	$(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal --randomly-seed=$(SEED_OF_ORDER) -m "not slow" $(TESTS)

test-all: .venv/installed tools ## run the tests, the slow ones too
	$(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal $(TESTS)

explore: .venv/installed ## feed new random examples to the property tests
	HYPOTHESIS_PROFILE=explore $(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal -m hypothesis $(TESTS)

sim: .venv/installed ## explore simulated faults (TIME=600 seconds; SEED=17 PART=ring replays one schedule)
	$(BIN)/python -m tests.sim --seconds $(or $(TIME),60) $(if $(SEED),--seed $(SEED)) $(if $(PART),--part $(PART))

chaos: .venv/installed tools ## run a cluster under real faults, as root (TIME=600 seconds, SEED=17, ARGS="--nodes 3")
	$(BIN)/python -m tests.chaos --seconds $(or $(TIME),180) $(if $(SEED),--seed $(SEED)) $(ARGS)

check: .venv/installed ## format, lint, types, import directions, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/reference_pages.py --check
	$(BIN)/python -m pytest -q -p no:randomly tests/test_tidy.py
	$(BIN)/typos

format: .venv/installed ## put every file into the common format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/installed tools ## measure against the peers on this machine (writes benchmarks/out/latest.json)
	@$(BIN)/python scripts/system_packages.py bench
	$(BIN)/python -m benchmarks $(ARGS)

soak: .venv/installed ## run a node at half load (TIME=3600 seconds): flat memory and latency, nothing lost
	$(BIN)/python -m benchmarks.soak --seconds $(or $(TIME),3600)

docs: .venv/installed ## write the pages of docs/ that are made from code
	@$(BIN)/python scripts/reference_pages.py

site: .venv/installed ## build the documentation site into .cache/site; a dead link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q
	@echo "Open .cache/site/index.html"

map: .venv/installed ## print what each module is for
	@$(BIN)/python scripts/map.py

requirements: .venv/installed ## print the tests that prove each requirement (MISSING=C1,C5 fails if one has none)
	@$(BIN)/python scripts/requirements.py $(if $(MISSING),--missing $(MISSING))

lock: .venv/bin/uv ## resolve pyproject.toml into requirements.lock
	$(UV) compile -q pyproject.toml --group dev --group interop --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -o requirements.lock

tools: .venv/installed
	@$(BIN)/python scripts/system_packages.py test
	@$(BIN)/python scripts/test_tools.py
	@$(BIN)/python -m scripts.console --optional

clean: ## remove what the other targets made, except data
	find src -name '*.so' -delete
	rm -rf console/node_modules src/chordmq/fronts/admin/static .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/uv:
	@test -n "$(INTERPRETER)" || { echo "make: ChordMQ needs Python 3.11 or newer on the PATH; none was found." >&2; exit 1; }
	@$(INTERPRETER) scripts/system_packages.py setup
	@echo "Making .venv with $$($(INTERPRETER) --version)"
	@$(INTERPRETER) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)

.venv/installed: .venv/bin/uv requirements.lock pyproject.toml hatch_build.py $(COMPILED)
	@echo "Installing the locked packages (the first time takes a minute)"
	@$(UV) sync -q --require-hashes requirements.lock
	@test -n "$$CHORDMQ_PURE" || $(BIN)/python scripts/system_packages.py compile || true
	@$(UV) install -q --no-deps --reinstall-package chordmq -e .
	@find src -name '*.so' | grep -q . || echo "Nothing was compiled: going on with plain Python, which is slower."
	@touch $@
