# The commands of the house. Everything is installed into .venv, nothing outside this folder.
PYTHON ?= python3
BIN := .venv/bin
# What emitted programs run on. The package index's newest torch for Linux brings gigabytes of CUDA;
# this release is what the tests were written with. make test RUNTIMES= does without, and skips.
RUNTIMES ?= torch==2.13.0 jax mpi4py mpich
# Slow tests wait for processes that they start for two fifths of their time, so more of them run at
# once than there are processors.
WAITING := $(shell $(PYTHON) -c "import os; print((3 * (os.cpu_count() or 1) + 1) // 2)")
# Tests start hundreds of processes: each would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo serve test quick slow exhaustive check wheel docs pictures bench results fidelity second-opinion testbed load kills mutants coverage clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "collsynth needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/core: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/jax: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[jax]'
	@touch $@ .venv/core

.venv/server: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[server]'
	@touch $@ .venv/core

.venv/dev: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,results,server,postgres,cluster]' $(RUNTIMES)
	@touch $@ .venv/core .venv/server

demo: .venv/jax  ## install, and plan a model's training step on a machine of the catalogue
	$(BIN)/collsynth plan dgx-h100:4 --model llama3-8b

test: quick slow  ## run all tests, the quick ones first

quick: .venv/dev  ## run the quick tests
	$(BIN)/python -m pytest -n auto -m "not slow"

slow: .venv/dev  ## run the tests that take longer than half a second
	$(BIN)/python -m pytest -n $(WAITING) -m "slow and not exhaustive"

exhaustive: .venv/dev  ## run every case of what the tests sample, and note that in tests/exhaustive.toml
	$(BIN)/python -m pytest -n auto -m exhaustive --record-exhaustive

check: .venv/dev wheel  ## format, lint, types, import directions, and an installed wheel
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

EDITION = from synth.ask.identity.edition import edition; print(edition())
wheel: .venv/dev  ## build wheel and sdist, and try the wheel far from the checkout
	rm -rf dist build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --outdir dist . > build/wheel/log || { cat build/wheel/log; exit 1; }
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(PYTHON) -m zipfile -l dist/*.whl > build/wheel/files
	for file in show/report/page.css show/report/templates/report.html \
	    service/page/templates/form.html service/page/docs/page.md service/page/static/vendor/cytoscape/LICENSE; do \
	  grep -q "synth/$$file" build/wheel/files || { echo "$$file is not in the wheel"; exit 1; }; done
	test "$$($(BIN)/python -c '$(EDITION)')" = "$$(cd build/wheel && venv/bin/python -c '$(EDITION)')"
	cd build/wheel && venv/bin/collsynth top dgx-h100:2 --axes data=16 --reduce data -k 1
	cd build/wheel && venv/bin/collsynth check "all-reduce root inside" --tree 2,8
	cd build/wheel && venv/bin/python -c "import synth; print(synth.place('dgx-h100:1', axes={'data': 8}).count)"

pictures: .venv/dev  ## take the pictures of the page for the docs, with Debian's Chromium
	PYTHONPATH=tests $(BIN)/python tests/shoot_pages.py

serve: .venv/server  ## serve every verb over HTTP, and a page, on http://127.0.0.1:8000/
	$(BIN)/collsynth serve

docs: .venv/dev  ## build the pages under docs/ as a site, into build/site
	$(BIN)/zensical build --strict

bench: .venv/dev  ## measure what the project promises, into results/
	$(BIN)/python -m results.bench

results: .venv/dev  ## put the paper's claims to the simulator, into results/
	$(BIN)/python -m results.claims

fidelity: .venv/dev  ## judge calibrated prices by the measurements in ../shared, into results/
	$(BIN)/python -m results.fidelity

second-opinion: .venv/dev  ## put prices to SimGrid, into results/ (Debian: apt-get install python3-simgrid)
	$(BIN)/python -m results.opinions

testbed: .venv/dev  ## repeat a small part of what was measured on a test network (Linux, root)
	$(BIN)/python -m results.testbed again

load: .venv/dev  ## put the service under load, into results/ (Linux)
	$(BIN)/python -m results.service.load

kills: .venv/dev  ## kill the service and its workers under load, into results/ (Linux)
	$(BIN)/python -m results.service.kills

mutants: .venv/dev  ## make mistakes on purpose, and see that the tests of their rooms notice
	$(BIN)/python tests/mutants.py

coverage: .venv/dev  ## which lines the quick tests reach
	$(BIN)/coverage run -m pytest -m "not slow" && $(BIN)/coverage report

clean:  ## remove what the commands above made
	rm -rf .venv build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
