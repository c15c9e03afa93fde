# Works on a fresh machine with Python 3.11+ and nothing else: each target makes .venv and installs
# what it needs. A stamp says what is installed, so that the second time is instant.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
SPEC := pyproject.toml constraints.txt

.PHONY: venv demo test check format docs acceptance bench-engine bench-overhead clean

venv: $(VENV)/.all

demo: $(VENV)/.core
	$(PY) -m stethoscope demo

test: $(VENV)/.all
	KERAS_BACKEND=jax OMP_NUM_THREADS=1 $(PY) -m pytest -n auto

check: $(VENV)/.all
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(VENV)/.check
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(VENV)/.core
	$(PY) -m stethoscope.pages docs

acceptance: $(VENV)/.all
	OMP_NUM_THREADS=1 $(PY) tests/acceptance/run.py

bench-engine: $(VENV)/.all
	PYTHONPATH=benchmarks KERAS_BACKEND=jax OMP_NUM_THREADS=1 \
	  XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(PY) -m table3 --write

bench-overhead: $(VENV)/.all
	OMP_NUM_THREADS=1 $(PY) benchmarks/overhead.py torch-cnn torch-transformer
	OMP_NUM_THREADS=1 KERAS_BACKEND=jax $(PY) benchmarks/overhead_keras.py keras-cnn
	OMP_NUM_THREADS=1 KERAS_BACKEND=torch $(PY) benchmarks/overhead_keras.py keras-cnn

clean:
	rm -rf $(VENV)

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(SPEC) | $(PY)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.check: $(SPEC) | $(PY)
	$(INSTALL) -e '.[check]'
	@touch $@

$(VENV)/.all: $(SPEC) | $(PY)
	$(INSTALL) -e '.[torch,keras,test,check]'
	@touch $@ $(VENV)/.core $(VENV)/.check
