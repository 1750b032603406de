# make demo    the three lesson programs, compiled
# make test    the test-suite (the real JAX, from PyPI, is its oracle, in an environment of its own)
# make bench   workloads side by side with the real JAX (BENCH=folder, BENCH_ARGS=): ratios, parts of the machine's limits, memory, plots
# make bench-ratios, bench-roofline, bench-memory, bench-plot   one of these
# make fit-cost-model   measures the constants that the compiler decides by (FIT_ARGS=--write puts them into the file)
# make random-programs   20,000 random programs under every transformation (COUNT=, SEED=, JOBS=)
# make libraries   optax, flax, equinox, haiku, diffrax, numpyro, blackjax, optimistix on steno: their programs in tests/libraries
# make api-table   what is here of JAX's public names: docs/api.md, and the counts
# make stubs   what editors read of the faces: their .pyi files
# make lint    formatter, linter, order of imports, type checker
# make format  formats everything
# make wheel   a wheel, in dist/
# make clean   removes what these made

# The first Python from 3.11 on that can make virtual environments.
find = $(shell for p in $(1); do $$p -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
PYTHON ?= $(call find,python3 python3.13 python3.12 python3.11)
# The newest JAX needs a newer Python than steno; with an older one pip finds an older JAX.
JAX_PYTHON ?= $(call find,python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python) $(PYTHON))
VENV := .venv
JAX_VENV := .venv-jax
PY := $(VENV)/bin/python
PIP := -m pip install --quiet --disable-pip-version-check
BENCH ?= ../shared/bench
BENCH_OUT := build/bench
PAIR = --a $(CURDIR)/$(PY):steno --b $(CURDIR)/$(JAX_VENV)/bin/python:jax
LESSONS := jit_speed see_tracer value_branch
TESTS ?= tests
export STENO_JAX_PYTHON ?= $(CURDIR)/$(JAX_VENV)/bin/python

.PHONY: libraries demo test bench bench-ratios bench-roofline bench-memory bench-plot fit-cost-model random-programs api-table stubs lint format native wheel clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# make/make/p' Makefile

# An environment with everything pyproject.toml names; steno itself is this checkout, found by a .pth file.
$(VENV)/.made: pyproject.toml
	@test -n "$(PYTHON)" || { echo "steno needs Python 3.11 or newer with its venv module: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) tools/requirements.py test dev >$(VENV)/requirements.txt
	$(PY) $(PIP) -r $(VENV)/requirements.txt
	echo $(CURDIR)/src >"$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/steno.pth"
	touch $@

# What the plots need, only then.
$(VENV)/.bench: $(VENV)/.made
	$(PY) tools/requirements.py bench >$(VENV)/requirements-bench.txt
	$(PY) $(PIP) -r $(VENV)/requirements-bench.txt
	touch $@

$(JAX_VENV)/.made:
	$(JAX_PYTHON) -m venv $(JAX_VENV)
	$(JAX_VENV)/bin/python $(PIP) jax
	touch $@

# The native core, beside the package's sources; built again after a change of its sources.
native: $(VENV)/.made
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S . -B build/native -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) >/dev/null
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build build/native

demo: native
	@for f in $(LESSONS); do echo "== examples/lesson/$$f.py"; $(PY) -m steno run examples/lesson/$$f.py || exit 1; done

test: native $(JAX_VENV)/.made
	$(PY) -m pytest -n auto --maxprocesses 8 $(TESTS)

# One after the other, whatever -j says: what runs beside a measurement is measured.
bench:
	@$(MAKE) --no-print-directory bench-ratios
	@$(MAKE) --no-print-directory bench-roofline
	@$(MAKE) --no-print-directory bench-memory
	@$(MAKE) --no-print-directory bench-plot

bench-ratios: native $(JAX_VENV)/.made
	@test -f $(BENCH)/compare.py || { echo "the workloads are not at $(BENCH): make bench BENCH=/path/to/them" >&2; exit 1; }
	@mkdir -p $(BENCH_OUT)
	PYTHONPATH=src $(JAX_VENV)/bin/python $(BENCH)/compare.py $(PAIR) --json $(CURDIR)/$(BENCH_OUT)/ratios.json $(BENCH_ARGS)

bench-roofline: native
	@mkdir -p $(BENCH_OUT)
	$(PY) benchmarks/roofline.py --json $(BENCH_OUT)/roofline.json $(ROOFLINE_ARGS)

bench-memory: native $(JAX_VENV)/.made
	@test -f $(BENCH)/workloads.py || { echo "the workloads are not at $(BENCH): make bench BENCH=/path/to/them" >&2; exit 1; }
	@mkdir -p $(BENCH_OUT)
	$(PY) benchmarks/memory.py --workloads $(BENCH) $(PAIR) --json $(BENCH_OUT)/memory.json $(MEMORY_ARGS)

bench-plot: $(VENV)/.bench
	$(PY) benchmarks/plot.py --out $(BENCH_OUT) $(foreach n,ratios roofline,$(addprefix --$(n) ,$(wildcard $(BENCH_OUT)/$(n).json)))

fit-cost-model: native
	$(PY) tools/fit_cost_model.py $(FIT_ARGS)

libraries: native
	$(PY) tools/try_libraries.py

random-programs: native
	$(PY) tools/random_programs.py --count $(or $(COUNT),20000) --seed $(or $(SEED),0) --jobs $(or $(JOBS),1)

api-table: native
	$(PY) tools/api_table.py

stubs: native
	$(PY) tools/make_stubs.py

lint: $(VENV)/.made
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(PY) tools/check_imports.py
	$(VENV)/bin/pyright --pythonpath $(PY)

format: $(VENV)/.made
	$(VENV)/bin/ruff format

wheel: $(VENV)/.made
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) $(JAX_VENV) build dist src/steno/_native*.so
