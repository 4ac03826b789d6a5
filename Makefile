# Everything a person or a machine runs here. Needs Python 3.11 or newer and nothing else.
#   make demo        set up, then play ten days of work through the real memory, without a key
#   make test        set up, then check and run every test, on both engines
#   make quick       only the tests of the rooms, without a database or with SQLite in RAM, for the inner loop
#   make test-long   the same tests with their full counts
#   make test-versions  the adapter tests with the lowest and the newest version of each library; EXTRAS="openai mcp" for some
#   make check       format, lint, types and the contracts between rooms
#   make style       the same without the types, in seconds
#   make format      format, and apply the fixes that are safe
#   make setup       only set up .venv, pinned by constraints.txt (for the demo constraints-core.txt is enough)
#   make sim RUNS=2000 many agents and random faults in virtual time, from SEED=0 on; SEED=n alone replays one, line by line
#   make bench-NAME  one benchmark of bench/, a table and a last line of JSON
#   make docs        write the pages and the picture of docs/ that follow from the code
#   make site        write the documentation as a site into site/, without a network
#   make clean       remove what the other targets made
#   make lock        resolve the versions again into both constraints files

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The library by itself, which is soon there; and all that its tests need.
CORE := $(VENV)/.core
STAMP := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --quiet
TESTS ?= tests
# Two workers suit the two cores that the suite is sized for.
WORKERS ?= 2
# Tests begin some hundred interpreters: without compiled modules each of them would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick test-long test-versions sim check style format docs site lock clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(STAMP)

$(CORE): pyproject.toml constraints-core.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Memolog needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once, until the constraints change)"
	@$(INSTALL) --require-hashes --requirement constraints-core.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(CORE)

$(STAMP): $(CORE) constraints.txt
	@echo "adding what checks and tests need"
	@$(INSTALL) --require-hashes --requirement constraints.txt
	@touch $(STAMP)

demo: $(CORE)
	@$(BIN)/python -m memolog demo

# The types are checked while the tests run, and the findings are printed after them; both must succeed.
define CHECKED_TESTS
	@echo "$(BIN)/basedpyright beside $(BIN)/pytest -n $(WORKERS) --dist worksteal $(TESTS)"
	@$(BIN)/basedpyright > $(VENV)/types.txt 2>&1 & types=$$!; trap "kill $$types" INT TERM; \
	  $(BIN)/pytest -n $(WORKERS) --dist worksteal $(TESTS); tests=$$?; \
	  wait $$types; types=$$?; echo "basedpyright:"; cat $(VENV)/types.txt; exit $$((tests + types))
endef

test: style
	$(CHECKED_TESTS)

quick: $(STAMP)
	$(BIN)/pytest --quick -n $(WORKERS) --dist worksteal $(TESTS)

test-long: export MEMOLOG_LONG := 1
test-long: style
	$(CHECKED_TESTS)

# The environments are kept in .versions, so that a second run installs little.
test-versions: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m versions $(EXTRAS)

# With RUNS, that many worlds; with SEED alone, that one.
sim: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m simulation $(if $(RUNS),--runs $(RUNS),$(if $(SEED),,--runs 200)) $(if $(SEED),--seed $(SEED))

check: style
	$(BIN)/basedpyright

style: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/diagrams.py
	$(BIN)/python docs/picture.py
	TZ=UTC $(BIN)/python docs/screenshots.py

# The variable silences an announcement of the tool; it reads files and fetches nothing.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "written to site/: open site/index.html, or for its search: $(BIN)/python -m http.server --directory site"

bench-%: $(STAMP)
	$(BIN)/python bench/bench_$(subst -,_,$*).py $(ARGS)

# The core is resolved within what was just resolved for everything, so that the two never differ.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --upgrade pyproject.toml

lock: $(STAMP)
	$(INSTALL) uv
	$(COMPILE) --all-extras --group dev --output-file constraints.txt
	$(COMPILE) --group build --constraint constraints.txt --output-file constraints-core.txt

clean:
	rm -rf $(VENV) .versions .bench site .hypothesis .ruff_cache .pytest_cache
