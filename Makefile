# `make` prints what it can do.
.DEFAULT_GOAL := help
PYTHON ?= python3
PY := .venv/bin/python
.PHONY: help run test test-landing test-all test-fast test-django6 chaos locks soak schedules lint format docs constraints screenshots clean bench

help:  ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-12s %s\n", $$1, $$2}'

.venv/ready: requirements.txt constraints.txt
	@PYTHON=$(PYTHON) sh scripts/environment requirements.txt
	@touch $@

.venv/ready-dev: requirements.txt requirements-dev.txt constraints.txt
	@PYTHON=$(PYTHON) sh scripts/environment requirements-dev.txt
	@touch .venv/ready $@

run: .venv/ready  ## start the farm at http://127.0.0.1:8000 (PORT=8000; Ctrl-C stops all of it)
	@exec $(PY) manage.py farm --with-worker

# Python keeps what it compiled, whatever the caller's environment says: the tests start hundreds of processes. With
# three at a time two processors were idle for a quarter of the run, while files wait for leases, polls and processes.
# A test that hangs is tried by one more process, and ends the run where that one hangs too.
TESTED = PYTHONDONTWRITEBYTECODE= JOBFARM_DATA=$(CURDIR)/var/test JOBFARM_EFFORT=$(EFFORT) $(PY) -m pytest -n 4 --durations=10
TESTED += --max-worker-restart=1

test: .venv/ready-dev  ## run the tests, the browser's included, but those marked `landing` or `long`
	@sh scripts/test-tools
	$(TESTED) $(MARKED) --dist loadfile --no-loadscope-reorder

# Every page in each theme and width, all rounds of a race, all sequences of a model (tests/effort.py).
test-landing test-all: EFFORT = whole

test-landing: MARKED = -m 'not long'
test-landing: test  ## run what a landing must pass: those marked `landing` too

test-all: MARKED = -m '' -o faulthandler_timeout=0
test-all: test test-django6  ## run every test, those marked `long` too, and under Django 6

# No browser, no process that is killed (tests/architecture/test_fast.py sees to that), and no program to install.
FAST := tests/architecture tests/*/unit
NOT_FAST := tests/worker/unit/test_worker_cli.py tests/worker/unit/own_handlers.py tests/core/unit/test_forked.py
test-fast: .venv/ready-dev  ## run the rules alone, in a minute: no browser, no killed process
	$(TESTED) --dist worksteal $(FAST) $(NOT_FAST:%=--ignore=%)

SECOND := $(CURDIR)/var/django6
$(SECOND)/ready: .venv/ready-dev requirements.txt requirements-dev.txt scripts/environment-django6 scripts/newest-python
	@sh scripts/environment-django6 $(SECOND)
	@touch $@

# What is left out is long and asks the same of PostgreSQL whoever sends the statements: plans, and tables of sums.
OF_POSTGRES := scheduling/integration/test_plans ratelimits/integration/test_vectors
OF_POSTGRES += $(addprefix jobs/integration/,test_plans test_why_plans test_why_is_true)
UNDER_6 = PYTHONDONTWRITEBYTECODE= JOBFARM_DATA=$(SECOND)/data $(SECOND)/environment/bin/python
test-django6: $(SECOND)/ready  ## run the tests of the scheduler, the limits and the jobs under Django 6
	$(UNDER_6) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(OF_POSTGRES:%=--ignore=tests/%.py) \
	    $(addsuffix /integration,$(addprefix tests/,scheduling ratelimits jobs jobs/limits)) \
	    $(addprefix tests/scheduling/concurrency/test_clusters.py::,TestClustersSideBySide TestDjangoQsOwn)
	$(UNDER_6) manage.py check  # its check of generated columns asks the server, which the tests have made
	JOBFARM_DATA=$(CURDIR)/var/test JOBFARM_SITE_PYTHON=$(SECOND)/environment/bin/python $(PY) -m pytest -q \
	    tests/client/integration/test_django_site.py
	PYTHONPATH=$(SECOND)/oldest $(UNDER_6) manage.py check
	PYTHONPATH=$(SECOND)/oldest $(UNDER_6) -m pytest -q \
	    $(patsubst %,tests/scheduling/integration/test_%.py,backend task_results two_interfaces mutations)

MINUTES ?= 3
CHAOS ?=
FAILOVER ?=
HOURS ?= 2
chaos: .venv/ready-dev  ## break a farm in every way (MINUTES=3, or FAILOVER=20: rounds), and search the models (docs/chaos.md)
ifneq ($(FAILOVER),)
	$(PY) -m tests.chaos.failover --rounds $(FAILOVER) $(CHAOS)
	$(PY) -m tests.chaos.failover --rounds $(FAILOVER) --asynchronous $(CHAOS)
else
	$(PY) -m tests.chaos --minutes $(MINUTES) $(CHAOS)
	JOBFARM_DATA=$(CURDIR)/var/test JOBFARM_MODEL_EXAMPLES=$$(($(MINUTES) * 40)) $(PY) -m pytest -q tests/models
	JOBFARM_DATA=$(CURDIR)/var/test JOBFARM_FUZZ_EXAMPLES=$$(($(MINUTES) * 40)) $(PY) -m pytest -q tests/fuzz
endif

LOCKED := $(addprefix tests/,jobs scheduling webhooks outbox ratelimits metering openai_api)
locks: .venv/ready-dev  ## note in which order the transactions of the suite take locks, and fail on a circle (docs/chaos.md)
	rm -rf var/locks
	# What counts round trips or buffers fails meanwhile: there are more of them.
	-JOBFARM_LOCKS=$(CURDIR)/var/locks JOBFARM_DATA=$(CURDIR)/var/test $(PY) -m pytest -q -m 'not long' -n 2 \
	    --dist loadfile $(LOCKED)
	$(PY) -m tests.lockorders var/locks

soak: .venv/ready-dev  ## break a farm for HOURS=2, and chart what it needs meanwhile (var/soak.html; docs/chaos.md)
	$(PY) -m tests.chaos --minutes $$(( $(HOURS) * 60 )) $(CHAOS)

schedules: .venv/ready-dev  ## let real statements meet in every order (MINUTES=3; docs/chaos.md)
	JOBFARM_DATA=$(CURDIR)/var/test SCHEDULES_MINUTES=$(MINUTES) $(PY) -m pytest -q -s -m '' tests/schedules

EXAMPLES := examples.chat,examples.imagegame,examples.translation
lint: .venv/ready-dev  ## style, types, layers, migrations
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	JOBFARM_APPS=$(EXAMPLES) $(PY) manage.py makemigrations --check --dry-run
	JOBFARM_APPS=$(EXAMPLES) $(PY) manage.py check

bench: .venv/ready-dev  ## measure beside the peers; writes benchmarks/RESULTS.md (long, needs the network once)
	JOBFARM_DATA=$(CURDIR)/var/bench $(PY) -m benchmarks

format: .venv/ready-dev  ## put the code in its standard form
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

docs: .venv/ready-dev  ## write docs/python.md, docs/settings.md, alerts.yml, jobs/migrations/functions.sql from the code
	$(PY) -m scripts.python_docs
	$(PY) -m scripts.generated

constraints: .venv/ready-dev  ## write constraints.txt anew: a version for each package that the requirements bring along
	$(PY) scripts/install.py --constraints

screenshots: .venv/ready-dev  ## take the pictures in docs/screenshots anew
	@sh scripts/test-tools
	JOBFARM_DATA=$(CURDIR)/var/test $(PY) -m pytest -q tests/browser/screenshots.py

clean:  ## remove the virtual environment and the data of the embedded farm
	rm -rf .venv var
