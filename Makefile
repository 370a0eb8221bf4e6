# Every target builds what it needs from nothing: a virtual environment in .venv, then the package.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu setup check format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.bundled ## tune the bundled model on the starter pairs, show before and after
	$(BIN)/gradate demo

# A process for each core, each on one thread: most tests are too small for two threads to share.
test: check ## run the checks and the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

test-gpu: $(VENV)/.dev ## run the tests that need a GPU
	GRADATE_TEST_GPU=1 $(BIN)/python -m pytest -q tests/gpu

setup: $(VENV)/.dev ## create .venv with everything a developer needs

check: $(VENV)/.dev ## ruff, format and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## put imports and layout in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp says that the environment matches the pins; -e keeps the sources live.
$(VENV)/.bundled: $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[bundled]"
	@touch $@

$(VENV)/.dev: $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[bundled,dev]"
	@touch $(VENV)/.bundled $@
