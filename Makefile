# Two commands on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Twice quiet: errors only. Some machines are set up to print a warning for every package.
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
export OMP_NUM_THREADS ?= 1
CASES := tests/e2e/accuracy
EXTRAS := --extra run --extra diffusers --extra onnx --extra pytest --extra http --extra video --group server
DEV_EXTRAS := --extra audio --extra perceptual

ifneq ($(words $(VENV)),1)
$(error VENV must be one path without blanks, not '$(VENV)')
endif

.DEFAULT_GOAL := help
.PHONY: help demo test check unit e2e accuracy graphs lock bench clean

help:  ## List the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

# A stamp per lock file: an unchanged lock costs nothing, a changed one reinstalls.
$(VENV)/.run: requirements/run.lock pyproject.toml
	@python=$(BIN)/python; test -x $$python || python=$(PYTHON); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "$$python is not Python 3.10 or newer. Remove $(VENV) if it is there, and name a newer one:" >&2; \
	  echo "  make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements/run.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(PIP) -r requirements/dev.lock
	touch $@

graphs: $(VENV)/.run  ## Export the ONNX graphs of the tiny-digits candidates.
	$(BIN)/python $(CASES)/tiny_digits/export_onnx.py

demo: $(VENV)/.run graphs  ## Validate, check the generated CI, run one case on trained weights, write its report.
	$(BIN)/paritygate validate
	$(BIN)/paritygate ci generate --check
	$(BIN)/paritygate run tiny-digits-t2i-onnx

test: check unit e2e accuracy  ## The whole test command: static checks, unit tests, accuracy cases on CPU.

check: $(VENV)/.dev  ## Formatting, lint, strict types, the import table, manifests and drift of generated files.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_architecture.py
	$(BIN)/paritygate validate
	$(BIN)/paritygate ci generate --check
	$(BIN)/paritygate golden verify

unit: $(VENV)/.dev  ## Unit tests, but for the import table: that is in check.
	$(BIN)/python -m pytest -q -n 2 tests/unit --ignore tests/unit/test_architecture.py

e2e: $(VENV)/.dev graphs  ## Slower tests in real processes: legs that misbehave, pipelines, servers, documents, tools.
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/e2e --ignore $(CASES)

accuracy: $(VENV)/.dev graphs  ## The accuracy cases that a CPU can run, and the faults that must turn them red.
	$(BIN)/python -m pytest -q $(CASES) -m "accuracy and cpu" --paritygate-expect 7 --junitxml artifacts/junit/accuracy.xml
	$(BIN)/python -m pytest -q $(CASES)/test_faults.py

bench: $(VENV)/.dev graphs  ## Speed beside named peers, as ratios within one run.
	for name in collection harness images manifests tensors threeway video; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# CUDA libraries are left out: torch pins its own, and a CPU build of torch wants none of them.
lock: $(VENV)/.dev  ## Resolve requirements/*.lock again for every supported Python.
	$(PIP) uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.10 $(EXTRAS) --group build -c requirements/pins.txt \
	  --no-header --no-annotate --quiet -o requirements/run.all
	grep -vE '^(nvidia-|cuda-|triton=)' requirements/run.all > requirements/run.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.10 $(EXTRAS) $(DEV_EXTRAS) --group build --group dev -c requirements/run.all \
	  --no-header --no-annotate --quiet -o requirements/dev.all
	grep -vE '^(nvidia-|cuda-|triton=)' requirements/dev.all > requirements/dev.lock
	rm requirements/run.all requirements/dev.all

clean:  ## Remove what was built and run here; the virtual environment stays.
	rm -rf build artifacts .mypy_cache .ruff_cache .pytest_cache
