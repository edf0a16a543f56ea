# `make train` and `make test` do everything on a fresh machine: environment, install, run.
PYTHON ?= python3
VENV   ?= .venv
RUN     = $(VENV)/bin
# Without a GPU, train with a CPU build of torch; with one, take what the published range gives.
CONSTRAINTS = $(shell command -v nvidia-smi >/dev/null 2>&1 || echo "-c constraints/cpu.txt")
PIP     = $(RUN)/python -m pip install --quiet --disable-pip-version-check --retries 2
NO_PIP  = { echo "The packages cannot be installed: see above; without a network nothing runs."; exit 1; }
OUT    ?= runs/alfworld-mgr-pocket
GATE    = not long and not extras
# Many tests start a Python, which would compile everything anew if it could not keep the bytecode.
PYTEST  = PYTHONDONTWRITEBYTECODE= $(RUN)/python -m pytest
# More workers than cores, because some tests wait. Their cache says what failed.
WORKERS ?= 3
ALL     = $(PYTEST) -n $(WORKERS) --dist worksteal -o cache_dir=build/pytest
# What failed runs once more, without others: what passes then is unsteady, and no failure.
ONCE_MORE = $(PYTEST) -n 1 --last-failed --last-failed-no-failures none --unsteady -o cache_dir=build/pytest

.PHONY: train quick test long check full shake speed docs sdist wheel format clean

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

shake: $(VENV)/dev.stamp
	$(RUN)/python -m tools.shake

speed: $(VENV)/dev.stamp
	$(RUN)/python -m tools.speed

check: $(VENV)/dev.stamp
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/python -m tools.budget

wheel: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/wheel

docs: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/docs

sdist: $(VENV)/dev.stamp
	PIP="$(abspath $(RUN))/python" .ci/sdist

format: $(VENV)/dev.stamp
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

# pip comes last: an environment without it was never finished.
$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/train.stamp: $(VENV)/bin/pip pyproject.toml
	$(PIP) $(CONSTRAINTS) -e '.[train]' || $(NO_PIP)
	touch $@

$(VENV)/quick.stamp: $(VENV)/bin/pip pyproject.toml constraints/dev.txt
	$(PIP) -c constraints/dev.txt -e '.[quick]' || $(NO_PIP)
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/pip pyproject.toml constraints/dev.txt
	$(PIP) -c constraints/dev.txt -e '.[dev]' || $(NO_PIP)
	touch $@

clean:
	rm -rf $(VENV) dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
