# make demo    the three lesson programs, compiled
# make test    the test-suite (the real JAX, from PyPI, is its oracle, in an environment of its own)
# make bench   workloads side by side with the real JAX
# make lint    formatter, linter, type checker
PYTHON ?= python3
# The newest JAX needs the newest Python; any from 3.11 will do.
JAX_PYTHON ?= $(shell for p in python3.13 python3.12 $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python $(PYTHON); do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import ensurepip' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
JAX_VENV := .venv-jax
PY := $(VENV)/bin/python
BENCH ?= ../shared/bench
export STENO_JAX_PYTHON ?= $(CURDIR)/$(JAX_VENV)/bin/python

.PHONY: demo test bench lint native clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# make/make/p' Makefile

$(VENV)/.made: pyproject.toml CMakeLists.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet 'scikit-build-core>=0.10' 'nanobind>=2.4' cmake ninja
	$(PY) -m pip install --quiet --no-build-isolation --editable '.[test,dev]'
	touch $@

$(JAX_VENV)/.made:
	$(JAX_PYTHON) -m venv $(JAX_VENV)
	$(JAX_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(JAX_VENV)/bin/python -m pip install --quiet jax jaxlib numpy scipy ml_dtypes
	touch $@

# Rebuilds the native core in place after a change of its sources.
native: $(VENV)/.made
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B build/native -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) >/dev/null
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build build/native

demo: native
	@for f in jit_speed see_tracer value_branch; do echo "== examples/lesson/$$f.py"; $(PY) -m steno run examples/lesson/$$f.py || exit 1; done

test: native $(JAX_VENV)/.made
	$(PY) -m pytest -n 2 tests

bench: native $(JAX_VENV)/.made
	PYTHONPATH=src $(JAX_VENV)/bin/python $(BENCH)/compare.py --a $(CURDIR)/$(PY):steno --b $(CURDIR)/$(JAX_VENV)/bin/python:jax $(BENCH_ARGS)

lint: $(VENV)/.made
	$(VENV)/bin/ruff format --check src tests examples
	$(VENV)/bin/ruff check src tests
	$(PY) tools/check_imports.py
	$(VENV)/bin/pyright src/steno/core src/steno/compiler

clean:
	rm -rf $(VENV) $(JAX_VENV) build src/steno/_native*.so
