# Needs Python 3.11 or later, pip and make. Every target makes the virtual environment it needs and renews it when pyproject.toml changes.
PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
BASE   := $(VENV)/.ready-base
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.ready-docs

.PHONY: help demo test test-slow bench bench-weights bench-images bench-learning lint format docs chromium clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(BASE) ## digits from three biased cameras: described, checked, weighed, reported, forecast, learned
	$(VENV)/bin/unskew demo

test: $(READY) chromium ## the tests and doctests that take seconds
	$(VENV)/bin/python -m pytest -m "not slow" -n 2 --dist loadfile

test-slow: $(READY) ## the tests that take minutes: statistical coverage, memory limits
	$(VENV)/bin/python -m pytest -m slow

bench: $(BENCH)/.ready ## speed and memory beside the peers; writes docs/performance.md
	$(BENCH)/bin/python benchmarks/solvers.py

bench-weights: $(READY) ## weights beside skada, adapt and balance on known truth (hours); writes docs/weights-performance.md
	$(VENV)/bin/python benchmarks/weights.py --resume

bench-learning: $(READY) ## what weights bring on CIFAR-10 (an hour); UNSKEW_DATA names its folder; writes docs/learning-performance.md
	$(VENV)/bin/python benchmarks/learning.py

bench-images: $(READY) ## what representations cost beside plain decoding; writes docs/images-performance.md
	$(VENV)/bin/python benchmarks/images.py --output docs/images-performance.md

lint: $(READY) ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY) ## let ruff rewrite what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(DOCS) ## build the site into site/
	$(VENV)/bin/mkdocs build --strict

# The page is tested in a real browser. Without root, or without apt, those tests are skipped and say so.
chromium: ## install the browser that the tests of the report need, where that is possible
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null) \
	  || echo "chromium could not be installed: the tests of the report in a browser are skipped"; \
	else echo "no chromium, and no root or apt-get to install it: the tests of the report in a browser are skipped"; fi

clean: ## remove environments, caches and built files
	rm -rf $(VENV) $(BENCH) unskew-demo .bench-cache site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a user installs; the demo needs no more.
$(BASE): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(READY): $(BASE)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(DOCS): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

$(BENCH)/.ready: pyproject.toml constraints.txt benchmarks/requirements.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . -r benchmarks/requirements.txt
	touch $@
