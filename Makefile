# Everything runs from .venv, which `setup` makes from the hashed requirements; nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: setup demo run test check bench bench-frontier bench-feeds bench-extract bench-pdf bench-pipeline bench-search bench-stories bench-pages fuzz soak audit docs screenshots lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup   make .venv with everything pinned (quick when nothing changed)"
	@echo "make demo    set up, then run the whole flow offline on a small web of its own (ARGS=--serve keeps it up)"
	@echo "make run     set up, then start Headwater for real (Ctrl-C stops it)"
	@echo "make test    set up, then run all tests"
	@echo "make check   set up, then lint, types, import rules, prose and docker/"
	@echo "make bench   set up, then measure everything beside its target; bench-frontier, -feeds, -extract, -pdf, -pipeline, -search, -stories and -pages measure a part"
	@echo "make fuzz    set up, then read changed inputs with each parser (ARGS=\"--target feed --seconds 300\")"
	@echo "make soak    set up, then crawl for 10 minutes with kills and faults, and count what is lost (ARGS=\"--seconds 30\")"
	@echo "make audit   set up, then list the licences of the locked packages, and their known faults from a folder of advisories"
	@echo "make docs    write the generated parts of docs/ anew"
	@echo "make screenshots   save a picture of each page of the demo in docs/img (needs Chromium)"
	@echo "make lock    pin the newest versions into requirements*.txt (needs uv)"

setup: $(STAMP)

$(STAMP): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or newer; name one: make setup PYTHON=/path/to/python3.11"; exit 2; }
	@echo "setup: creating .venv"
	@$(PYTHON) -m venv .venv
	@echo "setup: installing pinned packages (a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	@echo "setup: installing headwater itself"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "setup: done"

demo: setup
	@$(BIN)/headwater demo $(ARGS)

run: setup
	@$(BIN)/headwater up

# Hundreds of programs are started: none is to compile the sources anew, whatever the environment says.
test: setup
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m tools.check_prose
	$(BIN)/hadolint --failure-threshold warning docker/Dockerfile*
	$(BIN)/yamllint --strict docker

bench: bench-frontier bench-feeds bench-extract bench-pdf bench-pipeline bench-search bench-stories bench-pages

bench-frontier: setup
	@$(BIN)/python -m bench.frontier $(ARGS)

bench-feeds: setup
	@$(BIN)/python -m bench.feeds $(ARGS)

bench-extract: setup
	@$(BIN)/python -m bench.extract $(ARGS)

bench-pdf: setup
	@$(BIN)/python -m bench.pdfs $(ARGS)

bench-pipeline: setup
	@$(BIN)/python -m bench.pipeline $(ARGS)

fuzz: setup
	@$(BIN)/python -m tools.fuzz $(ARGS)

audit: setup
	@$(BIN)/python -m tools.audit $(ARGS)

soak: setup
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.faults.soak $(ARGS)

bench-search: setup
	@$(BIN)/python -m bench.search $(ARGS)

bench-stories: setup
	@$(BIN)/python -m bench.stories $(ARGS)

docs: setup
	@$(BIN)/headwater config --markdown > docs/settings.md
	@$(BIN)/python -m tools.write_glossary

bench-pages: setup
	@$(BIN)/python -m bench.pages $(ARGS)

screenshots: setup
	@$(BIN)/python -m tools.screenshots $(ARGS)

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade pyproject.toml -o requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade pyproject.toml --group dev -o requirements-dev.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-crawlee.in -o bench/requirements-crawlee.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-feeds.in -o bench/requirements-feeds.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-extract.in -o bench/requirements-extract.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-pipeline.in -o bench/requirements-pipeline.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-rs-trafilatura.in -o bench/requirements-rs-trafilatura.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade bench/requirements-learn.in -o bench/requirements-learn.txt

clean:
	rm -rf .venv .venv-bench
