# make help          this list
# make demo          three ensembles of three ZooKeeper servers on this machine, and what ParKazoo does on them
# make test          every test, against real servers
# make quick         the core's tests without servers and a slice of the others, in less than two minutes
# make matrix        the tests without servers and some live ones on each Python that is found, the live ones on each
#                    ZooKeeper too; an hour; [PYTHONS="3.12 3.14t"] [ZOOKEEPERS=3.8.4] [KAZOO=2.12]
# make faults        servers and clients killed, frozen and cut off for 10 minutes; [MINUTES=30] [SEED=1] [GROW=1] [MOVE=1]
# make fuzz          the same random calls on kazoo and on ParKazoo for 10 minutes; [MINUTES=30] [SEED=1] [GROWN=1] [MOVE=1]
#                    [ASYNCIO=1]: with the asyncio client; [GATEWAY=1]: with kazoo's clients at a gateway
# make drill         an operator's steps, as a page of docs/operations has them, under a load that checks itself;
#                    NAME=rolling-restart, one-server-replaced, ensemble-away or restore; NAME=sick: a small cluster
#                    with a fault to be found, [FAULT=slow-disk] or [SEED=1], which is told at the end
# make lives         1,000 lost connections and 100 expired sessions of one client, and what it holds before and after
# make neighbours    programs in C, Go, Java, JavaScript and Rust, on their own clients, and a Kafka broker, at
#                    gateways; needs cc, go, javac, npm and cargo
# make explore       every pair of operations in every order, and threes at random, for 30 minutes; [MINUTES=5] [SEED=1]
# make bench-client  ParKazooClient beside KazooClient: ratios, goals, a plot; some ten minutes; [PAIRS=15] [SEED=1]
# make evaluate      the whole evaluation, its report in build/evaluation/; takes root; first it says what this
#                    machine lacks, and how long it takes; [INSTALL=1] installs that, on Debian; [SEED=1] [REPEAT=5]
# make check         ruff and mypy
# make site          the pages of docs/ as a site, with all public names and commands, in build/site/
# make clean         remove the environment and whatever was built
#
# The environment is .venv, made from python3. With another Python: make PYTHON=/path/to/python demo

PYTHON ?= python3

.PHONY: help demo test quick matrix faults drill fuzz lives neighbours explore bench-client evaluate check site clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: .venv/has-local
	@.venv/bin/python -m parkazoo.demo

test: .venv/has-dev
	@.venv/bin/python -m tests -j 3

quick: .venv/has-dev
	@.venv/bin/python -m tests -j 2 core slice

matrix: .venv/has-dev
	@.venv/bin/python -m tests.matrix $(if $(PYTHONS),--pythons "$(PYTHONS)") $(if $(ZOOKEEPERS),--zookeepers "$(ZOOKEEPERS)") $(if $(KAZOO),--kazoo $(KAZOO))

faults: .venv/has-dev
	@.venv/bin/python -m tests.faults $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(GROW),--grow) $(if $(MOVE),--move)

drill: .venv/has-dev
	@.venv/bin/python -m tests.drills $(or $(NAME),rolling-restart) $(if $(FAULT),--fault $(FAULT)) $(if $(SEED),--seed $(SEED))

fuzz: .venv/has-dev
	@.venv/bin/python -m tests.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(GROWN),--grown) $(if $(MOVE),--moves) $(if $(ASYNCIO),--asyncio) $(if $(GATEWAY),--gateway)

lives: .venv/has-dev
	@PARKAZOO_TEST_LIVES=1000 .venv/bin/nose2 --no-user-config tests.live.test_client_lives

neighbours: .venv/has-dev
	@.venv/bin/python -m tests neighbours

explore: .venv/has-dev
	@.venv/bin/python -m tests.explore $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

bench-client: .venv/has-bench
	@.venv/bin/python -m bench.client $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SEED),--seed $(SEED))

evaluate: .venv/has-bench
	@.venv/bin/python -m bench.scenarios all --emulate $(if $(SEED),--seed $(SEED)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(INSTALL),--install)

check: .venv/has-dev
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --quiet --check . || { echo "To put that right: .venv/bin/ruff format ." >&2; exit 1; }
	@.venv/bin/mypy --no-error-summary
	@echo "ruff and mypy find nothing to say"

site: .venv/has-site
	@.venv/bin/python -m sphinx -q -W --keep-going -c docs . build/site
	@echo "build/site/index.html"

clean:
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The file .venv/has-X says that the extra X is installed, as pyproject.toml is now.
.venv/has-%: pyproject.toml .venv/made
	@echo "Installing parkazoo[$*] into .venv; the first time, downloads take a minute or two"
	@if ! .venv/bin/python -m pip install --quiet --editable '.[$*]' >.venv/pip.log 2>&1; then \
	  grep ERROR .venv/pip.log | tail -n 2; \
	  echo "pip could not install what is needed. Is there a network? All it said is in .venv/pip.log"; \
	  exit 1; \
	fi >&2
	@touch $@

.venv/made:
	@if ! command -v '$(PYTHON)' >/dev/null; then \
	  echo "There is no $(PYTHON). Install Python 3.10 or later, or name one: make PYTHON=/path/to/python"; \
	  exit 1; \
	elif ! '$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then \
	  echo "$(PYTHON) is $$('$(PYTHON)' --version 2>&1); ParKazoo needs 3.10 or later. Name one: make PYTHON=/path/to/python"; \
	  exit 1; \
	elif ! '$(PYTHON)' -c 'import venv, ensurepip; ensurepip.version()' 2>/dev/null; then \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install python3-venv"; \
	  exit 1; \
	elif ! '$(PYTHON)' -m venv .venv >/dev/null 2>&1; then \
	  echo "'$(PYTHON) -m venv .venv' fails; see what it says"; \
	  exit 1; \
	fi >&2
	@touch $@
