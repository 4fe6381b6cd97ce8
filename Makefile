# make demo       a comparison on data inside the package: a table, what it comes to, a page; under two minutes
# make reproduce  every study of the paper on German, Bail and Credit, on one page; hours, and after a stop it goes on
# make test       the whole test suite                make check  lint, format, types
# make bench      the measurements, minutes to an hour

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo reproduce test check bench clean

help:
	@sed -n 's/^# \(make\)/\1/p' Makefile

# Installed again only when what is to be installed has changed.
$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/fairsad compare german --methods gcn,fairsad,constant,threshold --seeds 5 --jobs $(JOBS) --out demo/german

reproduce: $(INSTALLED)
	$(BIN)/fairsad reproduce all --jobs $(JOBS)

test: $(INSTALLED)
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.interval_coverage

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
