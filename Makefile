# make demo   a whole tuning job on the embedded field guide: hP-targeted against accuracy-targeted
# make test   the tests
# Both set up .venv first where it is missing or older than pyproject.toml.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Model code on the CPU: one thread for each of two test workers beats two threads each.
TEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test lint format bench clean

help:
	@echo "make install   taxtune in $(VENV)"
	@echo "make demo      tune the embedded field guide for hP and for accuracy, and compare"
	@echo "make test      run the tests (make test ARGS='-k mapper' for some)"
	@echo "make lint      ruff and mypy"
	@echo "make format    ruff, writing"
	@echo "make bench     the benchmarks, as ratios (ARGS='--taxonomy FILE --placed FILE' for the mapper on your data)"
	@echo "make clean     remove $(VENV), caches and runs/"

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "taxtune needs Python 3.11 or newer; run make with PYTHON=/path/to/it")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

demo: install
	$(BIN)/taxtune compare fieldguide --objective hp --objective accuracy --out runs/demo --resume

test: install-dev
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n $(TEST_WORKERS) $(ARGS)

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/build.py
	$(BIN)/python benchmarks/mapper.py $(ARGS)

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
