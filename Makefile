# `make up` and `make test` are all that a fresh machine needs; the rest is for developers.
#   make up ARGS="--port 8000 --data-dir DIR --detach"

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(BIN)/python scripts/install.py --constraint constraints.txt --editable ./runtime --editable
NPM    := $(BIN)/python scripts/npm.py
ARGS   ?=
# Many tests wait, so more processes than processors; each may have a cluster of its own.
PROCESSES := $(shell n=$$(nproc); echo $$((n < 6 ? n + 2 : 8)))
# A module at a time in each process, in the order that tests/plugins/scheduling.py gives.
PYTEST := $(BIN)/pytest -q --rerun-show-tracebacks -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# Records the time of a command for `make test-times`.
PHASE  := $(BIN)/python scripts/test_times.py run

.PHONY: up down distrib apptainer check check-python check-portal check-commits fmt test test-all test-changed test-core test-packages \
  test-portal test-rest test-times test-unit gen screenshots bench docs clean

up: $(VENV)/.installed frontend/dist/.built
	@$(BIN)/aitne up $(ARGS)

down: $(VENV)/.installed
	@$(BIN)/aitne down $(ARGS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Aitne needs Python 3.11 or newer; run: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "Python cannot make virtual environments here; on Debian and Ubuntu install python3-venv." >&2; \
	  rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(BIN)/python pyproject.toml runtime/pyproject.toml constraints.txt hatch_build.py
	@echo "Installing Aitne into $(VENV) …"
	@$(INSTALL) '.[server]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing what tests and checks need …"
	@$(INSTALL) '.[server,dev,docs]' --no-compile
	@touch $@

# What programs need that train, and the tests of what trains them; without it those are skipped.
$(VENV)/.distrib: $(VENV)/.installed
	@echo "Installing PyTorch, NumPy, ipyparallel, mpi4py and scikit-learn …"
	@$(INSTALL) '.[server,distrib,notebook]' mpi4py scikit-learn --no-compile
	@touch $@

distrib: $(VENV)/.distrib

# For images, on Debian as root; elsewhere its own packages: docs/howto/images.md.
apptainer: $(VENV)/.installed
	@$(BIN)/python -m aitne_apptainer

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json | $(VENV)/.installed
	@echo "Installing the portal's packages …"
	@$(NPM) ci --prefix frontend --no-audit --no-fund --loglevel=error --no-update-notifier
	@touch $@

FRONTEND_SOURCES := $(shell find frontend/src frontend/public frontend/index.html frontend/vite.config.ts frontend/mantine-css.ts frontend/first-load.ts -type f 2>/dev/null)

frontend/dist/.built: frontend/node_modules/.installed $(FRONTEND_SOURCES)
	@echo "Building the portal …"
	@$(NPM) run --prefix frontend --silent build -- --logLevel warn
	@touch $@

# `make -j2 check` takes half the time.
check: check-python check-portal check-commits

check-python: $(VENV)/.dev frontend/node_modules/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_module_size.py
	$(BIN)/python scripts/gen.py --check

check-portal: frontend/node_modules/.installed
	$(NPM) run --prefix frontend --silent typecheck
	$(NPM) run --prefix frontend --silent lint
	$(NPM) run --prefix frontend --silent texts

# The subjects of all commits after this one; a shallow clone, or an export without git, does not have it.
FIRST_COMMIT := ecd566a6ad16e37e9b5c2a400586352ab2446f67
check-commits: $(VENV)/.dev
	@if git merge-base --is-ancestor $(FIRST_COMMIT) HEAD 2>/dev/null; then \
	  $(BIN)/cz check --rev-range $(FIRST_COMMIT)..HEAD; \
	else \
	  echo "Commit subjects were not checked: no history that contains $(FIRST_COMMIT)."; \
	fi

fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The quick part, which needs neither root nor the portal.
test-unit: $(VENV)/.dev
	$(PYTEST) --select core tests/unit runtime/tests/unit

# What the tests use of Debian's packages.
test-packages: $(VENV)/.dev
	@$(BIN)/python scripts/test_packages.py

# A phase that fails does not keep the next from running.
test: $(VENV)/.dev
	@$(BIN)/python scripts/test_times.py start
	@$(MAKE) --no-print-directory --keep-going test-portal test-core

test-all: $(VENV)/.dev
	@$(BIN)/python scripts/test_times.py start
	@$(MAKE) --no-print-directory --keep-going test-portal test-core test-rest
	@$(BIN)/python scripts/select_tests.py record

# What `make test` leaves out: all of it, or what the changes since the commit in .ci/last-full call for.
test-rest test-changed: $(VENV)/.distrib frontend/dist/.built test-packages
	$(PHASE) $(@:test-%=%) $(PYTEST) --select $(@:test-%=%) tests runtime/tests

test-core: $(VENV)/.distrib frontend/dist/.built test-packages
	$(PHASE) core $(PYTEST) --select core tests runtime/tests

test-portal: frontend/node_modules/.installed
	$(PHASE) portal $(NPM) run --prefix frontend --silent test

# Where the time of the last `make test` went.
test-times: $(VENV)/.dev
	@$(BIN)/python scripts/test_times.py report

gen: $(VENV)/.dev frontend/node_modules/.installed
	$(BIN)/python scripts/gen.py

screenshots: $(VENV)/.dev frontend/dist/.built
	$(BIN)/python scripts/screenshots.py $(ARGS)

bench: $(VENV)/.dev frontend/dist/.built
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) frontend/node_modules frontend/dist site
