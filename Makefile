# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
OUT ?= results

.PHONY: demo test test-slow test-browser lab lint bench gallery reference tutorials results picture clean

demo: .venv/ready
	$(BIN)/haarflow reproduce --tour --out $(OUT)

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/ready
	$(BIN)/python -m pytest -m slow

lab: .venv/ready
	$(BIN)/haarflow lab

# Installs Python packages only; where there is no Chromium, the tests say how to get one.
test-browser: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(BIN)/python -m pytest -m browser tests/browser

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

gallery: .venv/ready
	$(BIN)/haarflow reproduce --quick --out $(OUT)
	$(BIN)/python docs/make_gallery.py $(OUT)

picture: .venv/ready
	$(BIN)/haarflow reproduce --tour --only clouds --out $(OUT)
	$(BIN)/python docs/make_picture.py $(OUT)

results: .venv/ready
	for seed in 0 1; do $(BIN)/haarflow reproduce --quick --seed $$seed --out $(OUT); done
	$(BIN)/python docs/make_results.py $(OUT)

tutorials: .venv/ready
	$(BIN)/python docs/make_tutorials.py

reference: .venv/ready
	$(BIN)/python docs/make_reference.py

# On a quiet machine, a quarter of an hour; `make bench BENCH=--quick` shows in minutes that it works.
bench: .venv/ready
	$(BIN)/python benchmarks/run.py $(BENCH)

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "haarflow needs Python 3.11 or newer; none was found. Write: make PYTHON=/path/to/python3.11 demo"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis $(OUT)
