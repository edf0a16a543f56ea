# `make train` and `make test` do everything on a fresh machine: environment, install, run.
PYTHON ?= python3
VENV   ?= .venv
RUN     = $(VENV)/bin
# Without a GPU, train with a CPU build of torch; with one, take what the published range gives.
CONSTRAINTS = $(shell command -v nvidia-smi >/dev/null 2>&1 || echo "-c constraints/cpu.txt")
PIP     = $(RUN)/python -m pip install --quiet --disable-pip-version-check
OUT    ?= runs/alfworld-mgr-pocket
GATE    = not long and not extras
# Many tests start a Python, which would compile everything anew if it could not keep the bytecode.
PYTEST  = PYTHONDONTWRITEBYTECODE= $(RUN)/python -m pytest
# Three workers on two cores, because some tests wait. Their cache says what failed.
ALL     = $(PYTEST) -n 3 --dist worksteal -o cache_dir=build/pytest
# What failed runs once more, without others: what passes then is unsteady, and no failure.
ONCE_MORE = $(PYTEST) --last-failed --last-failed-no-failures none --unsteady -o cache_dir=build/pytest

.PHONY: train quick test long check full docs sdist wheel format clean

train: $(VENV)/train.stamp
	$(RUN)/agent-envs train alfworld mgr pocket --out $(OUT) --resume

quick: $(VENV)/quick.stamp
	$(PYTEST) -n 2 -q --quick

test: $(VENV)/dev.stamp
	rm -rf build/pytest
	$(ALL) -m "$(GATE)" || { test $$? = 1 && $(ONCE_MORE) -m "$(GATE)"; }

long: $(VENV)/dev.stamp
	$(ALL) -m "long and not extras"

full: $(VENV)/dev.stamp
	$(RUN)/python -m tools.full

check: $(VENV)/dev.stamp
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/python -m tools.budget
	$(RUN)/python -m pytest -q tests/test_layers.py

wheel: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/wheel

docs:
	.ci/docs

sdist: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/sdist

format: $(VENV)/dev.stamp
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.stamp: $(VENV)/bin/python pyproject.toml
	$(PIP) $(CONSTRAINTS) -e '.[train]'
	touch $@

$(VENV)/quick.stamp: $(VENV)/bin/python pyproject.toml constraints/dev.txt
	$(PIP) -c constraints/dev.txt -e '.[quick]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml constraints/dev.txt
	$(PIP) -c constraints/dev.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
