# Everything a developer types. `make PYTHON=python3.12 ...` picks the Python.

PYTHON ?= python3
UV ?= uv
RUN := .venv/bin/python
INSTALL := $(RUN) -m pip install --disable-pip-version-check --quiet

.PHONY: install demo docs notebooks site test test-changed test-slow test-beam \
	lint format lock

# What the commands need, in .venv, and the commands as programs.
install: .venv/runtime.stamp
	$(INSTALL) --no-deps --no-build-isolation --editable .

# From the docstrings on this machine to a served model, and
# demo_output/report.html: a few minutes on two cores.
demo: .venv/runtime.stamp
	$(RUN) -m demo.run

test: lint
	$(RUN) -m pytest --numprocesses=2 --dist=worksteal

# The slow tests that matter most after a change, for ten minutes.
test-changed: .venv/dev.stamp
	$(RUN) -m tests.slow_selection

test-slow: .venv/dev.stamp .venv-transformers/stamp .venv-docs/stamp \
		.venv-jax/stamp
	ALBERT_TF_PEER_PYTHON="$(CURDIR)/.venv-transformers/bin/python" \
	ALBERT_TF_JAX_PYTHON="$(CURDIR)/.venv-jax/bin/python" \
	ALBERT_TF_DOCS_PYTHON="$(CURDIR)/.venv-docs/bin/python" \
		$(RUN) -m pytest -m slow

# Apache Beam lives without TensorFlow, and so do its tests.
test-beam: .venv-beam/stamp
	.venv-beam/bin/python -m pytest --noconftest -m beam tests/data/test_beam_runner.py

lint: .venv/dev.stamp
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

# The pages of docs/ that are generated from the code.
docs: .venv/dev.stamp
	$(RUN) docs/generate_flags.py

# The output of the notebooks, anew.
notebooks: .venv-docs/stamp
	.venv-docs/bin/python docs/run_notebooks.py

# All pages as build/site/index.html, to be read without a network. They keep
# their places below the repository, so that links are the same.
site: .venv-docs/stamp
	rm -rf build/pages build/site
	mkdir -p build/pages/tests/parity
	ln -s $(addprefix ../../,$(wildcard *.md) LICENSE docs examples recipes) \
		build/pages
	ln -s ../../../../tests/parity/README.md build/pages/tests/parity
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict

format: .venv/dev.stamp
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

# Newest versions that pyproject.toml allows, one set for every Python and
# machine it names. Needs uv, a package of its own; using the locks does not.
# The locks are replaced when all of them could be made.
NEW := build/locks
COMPILE = $(UV) pip compile --universal --generate-hashes --no-emit-index-url \
	--python-version 3.11 --fork-strategy fewest --no-annotate --quiet \
	--custom-compile-command "make lock" --upgrade
lock:
	rm -rf $(NEW)
	mkdir -p $(NEW)
	$(COMPILE) pyproject.toml --extra tensorflow \
		--output-file $(NEW)/requirements.lock
	$(COMPILE) pyproject.toml --extra tensorflow --extra dev \
		--constraint $(NEW)/requirements.lock \
		--output-file $(NEW)/requirements-dev.lock
	$(COMPILE) --group docs --constraint $(NEW)/requirements-dev.lock \
		--output-file $(NEW)/requirements-docs.lock
	$(COMPILE) pyproject.toml --extra jax \
		--constraint $(NEW)/requirements-dev.lock \
		--output-file $(NEW)/requirements-jax.lock
	$(COMPILE) --group transformers \
		--output-file $(NEW)/requirements-transformers.lock
	grep -oE '^($(BEAM_AND_DEV))==[^ ]+' $(NEW)/requirements-dev.lock \
		| $(COMPILE) --group beam --constraint - \
		--output-file $(NEW)/requirements-beam.lock
	mv $(NEW)/*.lock .

# What builds has its runtime version; the rest is as Beam wants it.
BEAM_AND_DEV = absl-py|backports-zstd|datasketch|filelock|fsspec|$\
	google-crc32c|mwparserfromhell|numpy|pytest|sentencepiece|sentencex|tqdm

# A stamp is older than its lock exactly when .venv does not hold the lock.
.venv/runtime.stamp: requirements.lock
	@echo "Installing into .venv (about 3 GB, once) ..."
	$(MAKE_VENV)
	$(INSTALL) --require-hashes --requirement requirements.lock
	touch $@

.venv/dev.stamp: requirements-dev.lock pyproject.toml .venv/runtime.stamp
	$(INSTALL) --require-hashes --requirement requirements-dev.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

.venv-beam/stamp: requirements-beam.lock
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/python -m pip install --disable-pip-version-check --quiet \
		--require-hashes --requirement requirements-beam.lock
	touch $@

# What some tests compare with, and nothing else needs.
.venv-transformers/stamp: requirements-transformers.lock
	$(PYTHON) -m venv .venv-transformers
	.venv-transformers/bin/python -m pip install --disable-pip-version-check \
		--quiet --require-hashes --requirement requirements-transformers.lock
	touch $@

# The package without TensorFlow; tests start programs in it.
.venv-jax/stamp: requirements-jax.lock
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python -m pip install --disable-pip-version-check --quiet \
		--require-hashes --requirement requirements-jax.lock
	touch $@

# What makes the site and runs the notebooks. It sees the packages of .venv:
# the last line names their folder.
.venv-docs/stamp: requirements-docs.lock .venv/dev.stamp
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --disable-pip-version-check --quiet \
		--require-hashes --requirement requirements-docs.lock
	$(RUN) -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$(.venv-docs/bin/python -c "import sysconfig; \
		print(sysconfig.get_path('purelib'))")/albert_tf.pth"
	touch $@

define MAKE_VENV
@$(PYTHON) -c "import sys; (3, 11) <= sys.version_info < (3, 14) or \
	sys.exit('error: Python 3.11 to 3.13 is needed, this is ' + \
	sys.version.split()[0] + '; try: make PYTHON=python3.12')"
$(PYTHON) -m venv .venv
endef
