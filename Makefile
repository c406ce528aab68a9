# `make` prints what it can do.
.DEFAULT_GOAL := help
PYTHON ?= python3
PY := .venv/bin/python
.PHONY: help run test lint format clean

help:  ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-8s %s\n", $$1, $$2}'

.venv/ready: requirements.txt
	@PYTHON=$(PYTHON) sh scripts/environment requirements.txt
	@touch $@

.venv/ready-dev: requirements.txt requirements-dev.txt
	@PYTHON=$(PYTHON) sh scripts/environment requirements-dev.txt
	@touch .venv/ready $@

run: .venv/ready  ## start the farm at http://127.0.0.1:8000 (PORT=8000; Ctrl-C stops all of it)
	@exec $(PY) manage.py farm --with-worker

test: .venv/ready-dev  ## run every test, the browser's included
	@sh scripts/test-tools
	JOBFARM_DATA=$(CURDIR)/var/test $(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: .venv/ready-dev  ## style, types, layers, migrations
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	$(PY) manage.py check

format: .venv/ready-dev  ## put the code in its standard form
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean:  ## remove the virtual environment and the data of the embedded farm
	rm -rf .venv var
