# Needs Python 3.11 or later, pip and make. Every target makes the virtual environment it needs and
# updates it when pyproject.toml changes.
PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
# One environment for each package that our code is tried with: tests/packages/NAME.txt lists what
# it holds, tests/packages/test_NAME.py runs in it.
PACKAGES := .venv-packages
PACKAGE_TESTS := $(patsubst tests/packages/%.txt,test-package-%,$(wildcard tests/packages/*.txt))
BASE   := $(VENV)/.ready-base
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.ready-docs
PIP    := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What `make test-lowest` runs: rooms whose tests need no extra.
LOWEST := .venv-lowest
LOWEST_ROOMS := bias choosing cli config debiasing diagnosis estimators evaluation files forecasting monitoring \
  records report runs scenarios simulation solve sources splits target weigh

# Of `make figures` and `make tables`: where CIFAR is (DOWNLOAD=1 fetches it there), and where to write.
DATA   ?= cifar
OUT    ?= $@
# Of `make fuzz`: mutants of each format, and which ones.
MUTANTS ?= 3000
SEED    ?= 0
# Of `make soak`.
RUNS    ?= 50
SDIST_TESTS := tests/docs tests/benchmarks tests/test_architecture.py

# Both workers, and the processes that tests start, load what one of them has compiled to bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-slow test-packages test-lowest test-cluster fuzz soak lint format docs notebooks test-docs dist figures tables
.PHONY: bench bench-weights bench-images bench-learning chromium clean
.DEFAULT_GOAL := help
.SECONDARY:

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(BASE) ## the demo: digits from three biased cameras, from folders to a trained model
	$(VENV)/bin/unskew demo

test: $(READY) chromium ## the tests and doctests that take seconds
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -m "not slow" -n 2 --dist loadfile

fuzz: $(READY) ## thousands of damaged files of every format that we read (MUTANTS=3000, SEED=0)
	UNSKEW_MUTANTS=$(MUTANTS) UNSKEW_SEED=$(SEED) $(VENV)/bin/python -m pytest -q tests/fuzz

test-slow: $(READY) ## the tests that take minutes: statistical coverage, memory limits
	$(VENV)/bin/python -m pytest -m slow

test-packages: $(PACKAGE_TESTS) ## recipes with Hugging Face, Lightning, WebDataset, XGBoost …, each package by itself

test-lowest: $(LOWEST)/.ready ## tests with the lowest versions of the dependencies that pyproject.toml allows
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -W default -p no:cacheprovider -m "not slow" $(addprefix tests/,$(LOWEST_ROOMS))

# Warnings of other packages are not ours to mend.
test-package-%: $(PACKAGES)/%/.ready
	PYTHONPATH=src:. $(PACKAGES)/$*/bin/python -m pytest -q -W default -p no:cacheprovider tests/packages/test_$*.py

test-cluster: test-package-dask ## weights over Parquet parts on real Dask clusters, with workers and drivers killed

soak: $(PACKAGES)/dask/.ready ## RUNS=50 runs over Parquet parts, on threads, processes and Dask, killed at random
	OMP_NUM_THREADS=1 $(PACKAGES)/dask/bin/python tests/soak.py --runs $(RUNS) --seed $(SEED)

lint: $(READY) ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY) ## let ruff rewrite what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

test-docs: $(READY) ## every block of Python in the docs, and the tutorials, whose output has to be that of their pages
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -q tests/docs
	OMP_NUM_THREADS=1 $(VENV)/bin/python tools/tutorials.py --check

docs: $(DOCS) ## build the site into site/
	$(VENV)/bin/mkdocs build --strict

notebooks: ## the tutorials as Jupyter notebooks, with their output, into notebooks/
	$(PYTHON) tools/tutorials.py --notebooks notebooks

# The wheel is built from the sdist, and runs in an environment that has nothing else; the sdist's own
# quick tests run in its unpacked folder.
dist: $(READY) ## wheel and sdist into dist/, tried out
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist .
	@if $(PYTHON) -m zipfile -l dist/*.whl | grep -E '^(paper|tests|benchmarks)/'; \
	then echo "these files do not belong in the wheel"; exit 1; fi
	@set -e; python=$(abspath $(VENV))/bin/python; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder/venv"; "$$folder/venv/bin/python" $(PIP) dist/*.whl; \
	tar -xzf dist/*.tar.gz -C "$$folder"; cd "$$folder"; \
	venv/bin/unskew --version; venv/bin/unskew demo; \
	cd unskew-*/; export PYTHONPATH="$$PWD/src:$$PWD"; \
	$$python -m pytest -q -p no:cacheprovider -m "not slow" $(SDIST_TESTS)

figures: $(READY) ## the article's figures from DATA=cifar into OUT=figures
	$(VENV)/bin/python -m paper figures --data "$(DATA)" $(if $(DOWNLOAD),--download) --output "$(OUT)"

tables: $(READY) ## the article's tables from DATA=cifar into OUT=tables
	$(VENV)/bin/python -m paper tables --data "$(DATA)" $(if $(DOWNLOAD),--download) --output "$(OUT)"

bench: $(BENCH)/.ready ## speed and memory compared with other packages; writes docs/performance.md
	$(BENCH)/bin/python benchmarks/solvers.py

bench-weights: $(READY) ## weights compared with skada, adapt and balance (hours); writes docs/weights-performance.md
	$(VENV)/bin/python benchmarks/weights.py --resume

bench-learning: $(READY) ## what weights bring on CIFAR-10 (an hour; UNSKEW_DATA names its folder); writes docs/ways-performance.md
	$(VENV)/bin/python benchmarks/learning.py

bench-images: $(READY) ## what representations cost compared with decoding; writes docs/images-performance.md
	$(VENV)/bin/python benchmarks/images.py --output docs/images-performance.md

# The page is tested in a real browser. Without root or apt those tests are skipped, with the reason.
chromium: ## install the browser that the tests of the report need, where that is possible
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null) \
	  || echo "chromium could not be installed: the tests of the report in a browser are skipped"; \
	else echo "no chromium, and no root or apt-get to install it: the tests of the report in a browser are skipped"; fi

clean: ## remove environments, caches and built files
	rm -rf $(VENV) $(BENCH) $(LOWEST) $(PACKAGES) unskew-demo .bench-cache site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOWEST)/.ready: pyproject.toml tools/lowest.py
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt -e . pytest hypothesis mpmath
	touch $@

# What a user installs; the demo needs no more.
$(BASE): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP) -e .
	touch $@

$(READY): $(BASE)
	$(VENV)/bin/python $(PIP) -e '.[dev]'
	touch $@

$(DOCS): $(READY)
	$(VENV)/bin/python $(PIP) -e '.[docs]'
	touch $@

$(BENCH)/.ready: pyproject.toml constraints.txt benchmarks/requirements.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python $(PIP) -e . -r benchmarks/requirements.txt
	touch $@

$(PACKAGES)/%/.ready: pyproject.toml constraints.txt tests/packages/%.txt
	test -x $(PACKAGES)/$*/bin/python || $(PYTHON) -m venv $(PACKAGES)/$*
	$(PACKAGES)/$*/bin/python $(PIP) -e . pytest hypothesis -r tests/packages/$*.txt
	touch $@
