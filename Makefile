# make demo: select variables of built-in data; plots and a report go to demo-output/
# make quick: lint, types, the fast tests and the tests of changed files
# make test: lint, types, all tests of the library
# make test-docs: build the site and test its pages, examples and links in a browser
# make docs: build the site in build/docs/index.html; a warning is an error
# make bench: measure fits against the minimum time that the hardware allows
# make release: build and test the release files in dist/; nothing is uploaded
# Each target creates its virtual environment; Python 3.11 or newer is the only requirement.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo

.PHONY: demo docs quick test test-docs lint hooks release bench results clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The demonstration uses a small environment without development tools.
$(DEMO)/installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	@echo "$$(du -sh $(DEMO) | cut -f1) in $(DEMO) before the installation"
	@start=$$(date +%s) \
	  && $(DEMO)/bin/python -m pip install --quiet --no-compile --editable '.[plot,cli]' 'pandas>=2.2.2' \
	  && echo "$$(du -sh $(DEMO) | cut -f1) after it, which took $$(($$(date +%s) - start)) s"
	touch $@

demo: $(DEMO)/installed
	@start=$$(date +%s) \
	  && $(DEMO)/bin/python -m prosparse demo demo-output \
	  && echo "the demonstration took $$(($$(date +%s) - start)) s"

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

quick: $(VENV)/installed
	PYTHON=$(BIN)/python .ci/quick

hooks: $(VENV)/installed # lint and types at every commit
	$(BIN)/pre-commit install

docs: $(VENV)/installed
	rm -rf build/docs docs/benchmarks docs/gallery docs/api/generated
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going \
	  --nitpicky --quiet --doctree-dir build/doctrees docs build/docs

test: lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/docs

test-docs: docs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests/docs

release:
	PYTHON=$(PYTHON) .ci/release

bench: $(VENV)/installed # twelve fit times with lower bounds, then details
	$(BIN)/python -m benchmarks.track
	$(BIN)/python -m benchmarks.gsppca
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.competing_methods

results: $(VENV)/installed # with the data sets in the folder PROSPARSE_DATA
	$(BIN)/python -m papers --all --jobs 2 --output papers/results

clean:
	rm -rf $(VENV) $(DEMO) demo-output build dist docs/benchmarks docs/gallery docs/api/generated
