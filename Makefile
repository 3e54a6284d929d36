# Two commands: ``make demo`` and ``make test``. Both make the environment first, where it is missing or out of date.
# Assumed: Python >= 3.11 with venv, make, and a C++ compiler. Another Python: make demo PYTHON=python3.12

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The newest supported Python that is there and works.
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.13; do \
	  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
TEST_JOBS ?= 2
CORES ?= $(shell nproc 2>/dev/null || echo 2)
TORCH := torch==2.13.0
GPU := $(if $(wildcard /dev/nvidia0),-r envs/gpu.txt)
STAMP := $(VENV)/.installed
CODE := src tests workflow benchmarks .ci

.PHONY: help setup demo test paper test-gpu test-slurm lint bench bench-compile bench-gpu mutants soak device-run forget tools clean

help:
	@echo 'make setup       set up $(VENV) and no more: kbverified check and kbverified doctor run in it'
	@echo 'make demo        set up, run config/config.yaml on $(CORES) cores, print the leaderboard'
	@echo 'make test        set up, run the tests (no GPU needed)'
	@echo 'make paper       [CONFIG=file] [OF=results/paper/tables/arms.md]  the paper from the tables that are there, planning nothing else'
	@echo 'make lint        formatting, ruff, mypy, snakefmt, snakemake --lint'
	@echo 'make test-gpu    the tests that need a GPU'
	@echo 'make test-slurm  the tests that need a SLURM: one is installed (Debian, root) and started for them alone'
	@echo 'make bench       what Snakemake itself costs with 250, 1,750 and 8,750 candidates'
	@echo 'make bench-compile  [FROM=folders]  CPU seconds of compiling, beside torch: bundled C++, or 48 real CUDA candidates'
	@echo 'make bench-gpu   KERNELBENCH=folder FROM=folders OUT=folder [MINUTES=9]  all that is measured on a GPU machine'
	@echo 'make mutants     [PER_PARENT=2]  faulty kernels from honest C++ ones through the gate: how many it catches'
	@echo 'make soak        [CANDIDATES=2000] [MINUTES=9]  bundled candidates under many names through all stages: leaks, leftovers, verdicts that differ'
	@echo 'make device-run  LIST=file OUT=folder [SHARD=1/4]  a list of candidates on a GPU machine, resumable'
	@echo 'make forget      VERDICT=timeout [STAGE=hidden-gate]  delete the records with a verdict, to run them again'

# --- set-up ---------------------------------------------------------------------------------------------------

tools:
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or newer is needed and was not found. Debian/Ubuntu: apt-get install python3 python3-venv, or name one: make PYTHON=/path/to/python3'; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo 'The module venv of $(PYTHON) is missing. Debian/Ubuntu: apt-get install python3-venv'; exit 2; }
	@command -v $${CXX:-c++} >/dev/null || { echo 'A C++ compiler is needed and was not found. Debian/Ubuntu: apt-get install g++, or name one: CXX=clang++ make'; exit 2; }

# One pip call with torch's exact version in it: otherwise a newer torch, or a larger build of it, may be chosen.
$(STAMP): pyproject.toml envs/constraints.txt envs/gpu.txt Makefile | tools
	@echo 'setting up $(VENV) with $(PYTHON); this takes some minutes the first time'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c envs/constraints.txt $(TORCH) $(GPU) -e '.[dev,slurm]'
	$(BIN)/python -m kbverified.page.vendor || true
	touch $@

setup: $(STAMP)

# --- the two commands -----------------------------------------------------------------------------------------

# The leaderboard is printed here, so that it is also shown where there is nothing left to run.
demo: $(STAMP)
	KBVERIFIED_SUMMARY=off $(BIN)/snakemake --cores $(CORES)
	$(BIN)/python -m kbverified leaderboard

test: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_JOBS) $(TESTS)

# --- the others -----------------------------------------------------------------------------------------------

# As ``snakemake paper``, but tables and records are taken as they are: planning them costs more than the paper.
PAPER_RULES = $(shell $(BIN)/python -c 'from kbverified.paper import build; print(*build.rules())')

paper: $(STAMP)
	KBVERIFIED_SUMMARY=off $(BIN)/snakemake --cores $(CORES) $(or $(OF),paper) --allowed-rules $(PAPER_RULES) \
	  $(if $(CONFIG),--configfile $(CONFIG))

lint: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/snakefmt -l 120 --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/python .ci/snakemake_lint.py

test-gpu: $(STAMP)
	$(BIN)/python tests/gpu/run.py

# Skipped, with the reason, where no SLURM can be had.
test-slurm: $(STAMP)
	KBV_TEST_SLURM=1 $(BIN)/python -m pytest -rs --durations=10 $(or $(TESTS),tests/slurm)

bench: $(STAMP)
	$(BIN)/python benchmarks/plan.py

# FROM: folders or git clones with the candidates of benchmarks/candidates.jsonl; what is missing is said.
bench-compile: $(STAMP)
	$(if $(FROM),$(BIN)/python -m benchmarks.candidates --from $(FROM) --into benchmarks/out/candidates)
	$(BIN)/python -m benchmarks.compile --out benchmarks/out/compile$(if $(FROM),,-bundled --bundled) \
	  $(if $(FROM),--candidates benchmarks/out/candidates) $(if $(MINUTES),--minutes $(MINUTES))

bench-gpu: $(STAMP)
	@test -n '$(KERNELBENCH)' -a -n '$(FROM)' -a -n '$(OUT)' || { echo 'say what and where: make bench-gpu KERNELBENCH=../KernelBench/KernelBench FROM="folders or git clones" OUT=folder [MINUTES=9]'; exit 2; }
	$(BIN)/python -m benchmarks.on_gpu --kernelbench $(KERNELBENCH) --from $(FROM) --out $(OUT) $(if $(MINUTES),--minutes $(MINUTES))

# On a GPU, and with public kernels as parents: python -m benchmarks.mutation --help
mutants: $(STAMP)
	$(BIN)/python -m benchmarks.mutation all --work benchmarks/out/mutation --per-parent $(or $(PER_PARENT),2) --jobs $(CORES)

# Ends within MINUTES, and goes on when it is called again.
soak: $(STAMP)
	$(BIN)/python -m benchmarks.soak --candidates $(or $(CANDIDATES),2000) --cores $(CORES) $(if $(MINUTES),--minutes $(MINUTES))

device-run: $(STAMP)
	@test -n '$(LIST)' -a -n '$(OUT)' || { echo 'say what and where: make device-run LIST=file OUT=folder [SHARD=1/4] [RESUME=archives] [CONFIG=file] [MINUTES=9]'; exit 2; }
	$(BIN)/python -m kbverified device-run --list $(LIST) --out $(OUT) $(if $(SHARD),--shard $(SHARD)) \
	  $(if $(RESUME),--resume $(RESUME)) $(if $(CONFIG),--config $(CONFIG)) $(if $(MINUTES),--minutes $(MINUTES))

# A longer time limit changes nothing for candidates that met the old one, so it reruns nothing by itself.
forget:
	@test -n '$(VERDICT)' || { echo 'say which: make forget VERDICT=timeout [STAGE=hidden-gate]'; exit 2; }
	@{ grep -rlE '"verdict": "$(VERDICT)"' --include='*.json' results/$(or $(STAGE),) || true; } | \
	  while read -r record; do echo "$$record"; rm -- "$$record"; done

clean:
	rm -rf .build .snakemake logs benchmarks/out
