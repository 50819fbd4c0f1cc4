# Needs python3 (3.11 or newer, with pip and venv), git and make. Everything goes into .venv.
PYTHON ?= python3
VENV := .venv
PIP_INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
# The CPU build (180 MB), where pip can find one: the one on PyPI brings several GB of CUDA along.
CPU_TORCH := torch==2.13.0+cpu
# The tests of a file share what is dear to start. Most of them wait more than they compute.
THREE_AT_A_TIME := --numprocesses 3 --dist loadfile --no-loadscope-reorder

# LeRobot's pins are not ours, and its torch brings CUDA along: some 8 GB, in an environment of its own.
LEROBOT := .venv-lerobot
LEROBOT_PINS := lerobot==0.4.4

.PHONY: help setup demo test test-quick check bench chaos lerobot-check clean
.DEFAULT_GOAL := help

help: ## list what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(RUNTIME) ## set up .venv with what a run needs

demo: $(RUNTIME) ## both published scenarios, oracle and random, published seeds, frames on, then the table
	$(VENV)/bin/rollouts run --scenario published --policy oracle --policy random --rubric rule --seeds published --frames png

test: $(DEV) ## every test, the slow ones too
	$(VENV)/bin/python -m pytest $(THREE_AT_A_TIME) --durations=15

test-quick: $(DEV) ## the tests that take no engine runs or Ray clusters
	$(VENV)/bin/python -m pytest $(THREE_AT_A_TIME) -m "not slow"

check: $(DEV) ## ruff and mypy strict
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(RUNTIME) ## decisions a second, side by side with the bare engine and the method this replaces
	$(VENV)/bin/rollouts bench

chaos: $(DEV) ## kill actors, engines, a node and the driver 25 times, then compare with a calm run (KILLS, SEED)
	$(VENV)/bin/python -m tests.chaos --kills $(or $(KILLS),25) --seed $(or $(SEED),0)

lerobot-check: $(DEV) ## LeRobot itself opens an export of ours (installs it, some 8 GB, into .venv-lerobot)
	test -x $(LEROBOT)/bin/lerobot-info || { $(PYTHON) -m venv $(LEROBOT) && $(LEROBOT)/bin/python -m pip install --quiet '$(LEROBOT_PINS)'; }
	LEROBOT_PYTHON=$(LEROBOT)/bin/python $(VENV)/bin/python -m pytest tests/rollouts/exports/test_lerobot_opens.py

clean: ## remove .venv and caches; runs stay
	rm -rf $(VENV) $(LEROBOT) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

$(RUNTIME): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable .
	@touch $@

$(DEV): $(RUNTIME)
	$(PIP_INSTALL) --editable '.[dev]'
	$(PIP_INSTALL) --editable '.[torch,transformers,trl]' '$(CPU_TORCH)' 2>/dev/null \
		|| echo "no $(CPU_TORCH) at hand: the tests of torch and transformers are skipped"
	@touch $@
