# Two commands set up everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
LEROBOT := lerobot==0.6.1 diffusers==0.39.0
ORACLE := tests/certs/oracles/js
FUZZ := envelope statement roundtrip policy set index state dialect bundle

.DELETE_ON_ERROR:
.PHONY: demo test lint mutation mutation-verifier oracles fuzz format clean

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

test: $(VENV)/installed oracles
	$(BIN)/pytest -q -n 2 --dist loadfile -m "not alone" tests
	$(BIN)/pytest -m alone tests

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_layering.py
	$(BIN)/python tools/check_words.py
	$(BIN)/pytest -q tests/test_packaging.py

# About half an hour: changes every condition of gates, rules and measure, one at a time (docs/mutation.md).
mutation: $(VENV)/installed
	$(BIN)/python tools/mutate.py

# The same for what verifies certificates; hours, since most of its tests sign and verify.
mutation-verifier: $(VENV)/installed
	$(BIN)/python tools/mutate.py pytest_frt/certs/*.py pytest_frt/runtime/match.py

# Another implementation of our signature format, for one test; where npm finds nothing that test says so and is skipped.
oracles:
	@test $(ORACLE)/node_modules/.package-lock.json -nt $(ORACLE)/package-lock.json \
	  || npm ci --prefix $(ORACLE) --ignore-scripts --no-audit --no-fund --fetch-retries=0 --fetch-timeout=20000 \
	  || echo "oracles: npm is not here or could not install; the test that needs it is skipped"

# A minute and a half a reader; benchmarks/results/fuzz_certs.md says what was run and found.
fuzz: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	for target in $(FUZZ); do $(BIN)/python -m tests.fuzz.run $$target -max_total_time=90 || exit 1; done

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch goes first and pinned: where a CPU build of this release is at hand, pip then takes it.
$(VENV)/torch: $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	touch $@

$(VENV)/installed: $(VENV)/torch pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[hosts,vla,groot,report,dev]"
	$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python $(LEROBOT)
	$(BIN)/frt build csrc/w8a16_gemv || echo "build: the compiled kernel is NOT_SUPPORTED here"
	touch $@
