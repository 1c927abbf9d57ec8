# make demo: fit GSPPCA on built-in data; pictures and a report go to demo-output/
# make test: lint, types, the site, tests
# make docs: the site, in build/docs/index.html; a warning is an error
# Each makes its own virtual environment; a bare machine with Python 3.11+ is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs test lint bench results clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/python -m prosparse.app.demo demo-output

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed
	rm -rf build/docs docs/gallery docs/api/generated
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going \
	  --nitpicky --quiet --doctree-dir build/doctrees docs build/docs

test: lint docs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

bench: $(VENV)/installed
	$(BIN)/python benchmarks/gsppca.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/peers.py

results: $(VENV)/installed # with the data sets in the folder PROSPARSE_DATA
	$(BIN)/prosparse reproduce --all --jobs 2 --output docs

clean:
	rm -rf $(VENV) demo-output build dist docs/gallery docs/api/generated
