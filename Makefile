# `make run` and `make test` are all a newcomer needs; both set the project up first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNTIME_STAMP := $(VENV)/.runtime-installed
TEST_STAMP    := $(VENV)/.test-installed
PIP_INSTALL   := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DOCS_STAMP    := $(VENV)/.docs-installed
STUDIES ?= housing snp swarm
FAST := not slow and not server and not browser and not audit
# A process per core, of one thread each; servers and browsers are tested one at a time.
PYTEST_PARALLEL := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses logical --dist worksteal
# Tests and tutorials start a hundred processes, whose code is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup page run test fast-tests test-all bench bench-accuracy docs dist serve clean clean-home lint

run: $(RUNTIME_STAMP)
	$(BIN)/dpcost run $(STUDIES) --profile standard

# Side by side: mypy has one process only.
test: $(TEST_STAMP)
	$(MAKE) --no-print-directory --jobs=2 lint fast-tests

fast-tests: $(TEST_STAMP)
	$(PYTEST_PARALLEL) -m "$(FAST)"

test-all: test
	tests/install-browser.sh
	$(BIN)/pytest -m "not ($(FAST))"

lint: $(TEST_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose

bench: $(TEST_STAMP)
	$(BIN)/python -m tests.bench

bench-accuracy: $(TEST_STAMP)
	$(BIN)/python -m tests.bench accuracy advice

# A warning is an error; the pages request nothing from a network. Tutorials run again where their cells or the code
# changed. RELEASE=1: figures to measure again are an error, too.
docs: $(DOCS_STAMP)
	cd docs && ../$(BIN)/python -m generate.stale $(if $(RELEASE),--fail)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Every Python of the metadata that is installed here.
dist: | $(BIN)/python
	tests/try_dist.sh $(BIN)/python python3.11 python3.12 python3.13

# All threads share two heaps of glibc. With heaps of their own, they keep the memory that they free.
serve: $(RUNTIME_STAMP)
	MALLOC_ARENA_MAX=2 $(BIN)/python -m flows.serve

setup: $(TEST_STAMP)

# What `dpcost open` needs.
page: $(RUNTIME_STAMP)
	$(PIP_INSTALL) --editable '.[page]'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUNTIME_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(TEST_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable '.[test,dask,postgres,s3]'
	@touch $(RUNTIME_STAMP) $@

$(DOCS_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $(RUNTIME_STAMP) $@

clean:
	rm -rf $(VENV) reports/out docs/_build docs/generated docs/api/modules build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The home goes too, unless it holds a ledger: without it, budgets that are spent would count as untouched.
clean-home: clean
	@test ! -e .dpcost/ledger.key -a ! -e .dpcost/ledger.sqlite || { \
	  echo ".dpcost holds a ledger of privacy budgets and stays; move ledger.* to another home first"; exit 1; }
	rm -rf .dpcost
