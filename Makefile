# `make train` and `make test` do everything on a fresh machine: environment, install, run.
PYTHON ?= python3
VENV   ?= .venv
RUN     = $(VENV)/bin
# Without a GPU, pin torch to a CPU build; with one, take what the published range gives.
CONSTRAINTS = $(shell command -v nvidia-smi >/dev/null 2>&1 || echo "-c constraints/cpu.txt")
PIP     = $(RUN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS)
OUT    ?= runs/alfworld-mgr-pocket
# Many tests start a Python, which would compile everything anew if it could not keep the bytecode.
PYTEST  = PYTHONDONTWRITEBYTECODE= $(RUN)/python -m pytest
# Three workers on two cores, because some tests wait.
ALL     = $(PYTEST) -n 3 --dist worksteal
# Scripts that test beside what the dev environment lacks; those that take longest first.
PEERS   = $(addprefix .ci/,vllm smollm2 ray verl trl nemo_gym areal tinker verifiers torchrl trackers foreign openenv genuine quick \
  extras hostile agents gym_sokoban appworld lucene verl_agent docs)

.PHONY: train quick test long check peers docs sdist format clean $(PEERS)

train: $(VENV)/train.stamp
	$(RUN)/agent-envs train alfworld mgr pocket --out $(OUT) --resume

quick: $(VENV)/quick.stamp
	$(PYTEST) -n 2 -q --quick

test: $(VENV)/dev.stamp
	$(ALL) -m "not long and not extras"

long: $(VENV)/dev.stamp
	$(ALL) -m "long and not extras"

check: $(VENV)/dev.stamp
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/python -m tools.budget
	$(RUN)/python -m pytest -q tests/test_layers.py
	PIP="$(abspath $(RUN))/python" sh .ci/wheel

docs:
	.ci/docs

sdist: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/sdist

peers: $(PEERS)

$(PEERS): $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" $@

.ci/verl_agent: .ci/verl

format: $(VENV)/dev.stamp
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.stamp: $(VENV)/bin/python pyproject.toml
	$(PIP) -e '.[train]'
	touch $@

$(VENV)/quick.stamp: $(VENV)/bin/python pyproject.toml
	$(PIP) -e '.[quick]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
