# Everything a newcomer or a contributor runs. `make` alone lists the targets.
PYTHON ?= $(or $(shell command -v python3.11 || command -v python3.12 || command -v python3.13),python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-combinations test-browser page page-check check bench docs site release clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

# What contstim itself needs; the developers' tools come on top of it.
$(BIN)/.runs: pyproject.toml constraints.txt
	@echo "Installing contstim and what it needs into $(VENV): minutes, most of it PyTorch."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(BIN)/.installed: $(BIN)/.runs
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

demo: $(BIN)/.runs  ## install, then see the tool at work: a minute, a page to look at
	@$(BIN)/contstim demo --out demo-output

# Two processes of one thread each: PyTorch's own threads would wait for each other on two cores.
test: $(BIN)/.installed  ## run the tests, two files at a time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-combinations: $(BIN)/.installed  ## run every pair of options; `make test` runs some
	OMP_NUM_THREADS=1 COMBINATIONS=all $(BIN)/python -m pytest -n 2 --dist load -rP tests/combinations

test-browser: $(BIN)/.installed page  ## play the experiment in Chromium (chromium and npm needed)
	$(PIP) install -c constraints.txt -e ".[dev,browser]"
	cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund
	$(BIN)/python -m pytest -m browser -n 2 --dist worksteal tests/browser

page: $(BIN)/.installed  ## fetch the npm files of the experiment's page, by lock file
	$(BIN)/contstim experiment build

page-check:  ## check the page's scripts: types, style, units without a browser (npm needed)
	cd tests/page && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent check

check: $(BIN)/.installed  ## run the linters: format, style, types, import layers, names
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_repository.py
	$(BIN)/python tools/check_canonical_form.py
	$(BIN)/python tools/check_language.py
	$(BIN)/python tools/option_table.py > /dev/null

bench: $(BIN)/.installed  ## measure speed, output in build/benchmarks; DATA=FOLDER for real data
	$(BIN)/python benchmarks/run.py --out build/benchmarks $(if $(DATA),--data $(DATA))

docs: $(BIN)/.installed  ## build the documentation into docs/_build/html; a warning is an error
	$(PIP) install -c constraints.txt -e ".[dev,docs]"
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

site: docs  ## put it beside other versions in a folder that needs no server; SITE=FOLDER
	$(BIN)/python tools/add_version.py docs/_build/html $(or $(SITE),docs/_build/site)

release: $(BIN)/.installed  ## try a release without uploading: build, check, install, run (minutes, 2 GB)
	$(PIP) install -c constraints.txt -e ".[release]"
	$(BIN)/python tools/release.py

clean:  ## remove the environment and what the commands made
	rm -rf $(VENV) demo-output docs/_build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache
