# Everything runs in .venv, which `make` sets up from constraints.txt. Needs Python 3.11+, make, git, a C compiler.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LINKS  := $(addprefix typings/hetopt/,models proofs instances engine_conformance)

.PHONY: help setup test unit verify check lint types bench bench-small demo docs long clean
help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(VENV)/.dev $(LINKS)   ## own virtual environment with pinned versions, for development

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(VENV)/.user: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hetopt needs Python 3.11 or newer; say make PYTHON=python3.12, for instance")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	@touch $@

$(VENV)/.dev: $(VENV)/.user
	$(INSTALL) '.[dev,docs]'
	@touch $@

# mypy does not follow the mapping of folders to packages (see docs/contributing); links show it the real tree.
$(LINKS):
	@mkdir -p typings/hetopt
	@ln -sfn ../../$(patsubst engine_conformance,tests/engine_conformance,$(notdir $@)) $@
	@for f in hetopt/*; do ln -sfn ../../$$f typings/hetopt/$$(basename $$f); done

check: lint types   ## style and types
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
types: setup
	@for f in hetopt/*; do ln -sfn ../../$$f typings/hetopt/$$(basename $$f); done
	$(BIN)/mypy

unit: setup      ## tests alone
	$(BIN)/pytest -q -n 3 --dist worksteal

test: setup      ## all that must hold: style, types, tests, benchmarks at their smallest size, docs with the ledger
	@$(MAKE) --jobs 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync) check unit bench-small docs

verify: setup    ## the ledger: stored counterexamples and 50 instances a claim
	$(BIN)/hetopt verify --quick

bench-small: setup
	$(BIN)/pytest -q benchmarks --benchmark-disable --size small

bench: setup     ## measure: every benchmark at full size (about half an hour)
	$(BIN)/pytest -q benchmarks --benchmark-only --size full

demo: $(VENV)/.user      ## solve the lab cluster with every policy, print a table, write a report
	$(BIN)/hetopt demo --out demo

docs: setup      ## build the pages, deciding the ledger as verify does; warnings and pages that load others are errors
	$(BIN)/sphinx-build -q -E -W --keep-going docs docs/_build
	@! grep -rnoE --include='*.html' '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//[^"]*' docs/_build

long: setup      ## slow tests, and properties on more cases; prints the number of kill -9 by engine
	HETOPT_LONG=1 $(BIN)/pytest -q -n 3 --dist worksteal -m 'long or hypothesis'

clean:           ## remove all that make has made
	rm -rf $(VENV) typings build dist demo docs/_build *.egg-info
