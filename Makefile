# The commands of this project; `make` lists them. The work is done by CMake and by the programs under scripts/.
.DEFAULT_GOAL := help
.PHONY: help setup configure build run test check test-long test-asan test-tsan fuzz bench figures format lint install deb wheel clean
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
# Tests wait more than they compute.
TEST_JOBS ?= 8
FUZZ_SECONDS ?= 60
FUZZ_SECONDS_QUICK ?= 5
FUZZ_SECONDS_LONG ?= 600
LINT ?= src
PREFIX ?= /usr/local
# `make run` takes build/ where there is one, else a tree with nothing but the main job, which is built in a third of the time.
RUN_PRESET := $(if $(wildcard build/CMakeCache.txt),dev,run)
RUN_BUILD := $(if $(filter dev,$(RUN_PRESET)),build,build-run)

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s  %s\n", $$1, $$2}' Makefile

setup:  ## install what is missing: Debian packages (root or sudo) and the Python environment .venv
	@scripts/setup

build: configure  ## compile everything into build/
	@cmake --build build -j $(JOBS)

configure:
	@cmake --preset dev >/dev/null

run:  ## set up, build what it takes, and run the main job: an MPI application that is killed and comes back
	@scripts/setup run
	@cmake --preset $(RUN_PRESET) >/dev/null
	@cmake --build $(RUN_BUILD) -j $(JOBS) --target main-job
	@examples/run --build $(RUN_BUILD)

test: setup build  ## set up, build, and pass all tests, the quick ones under sanitizers and a short fuzz before the others
	@scripts/sanitizer-tests address quick
	@scripts/fuzz $(FUZZ_SECONDS_QUICK)
	@scripts/sanitizer-tests thread quick
	@$(MAKE) check

check:  ## run the tests of build/ as it stands, without set-up
	@ctest --test-dir build -j $(TEST_JOBS) --label-exclude long --output-on-failure || { scripts/failed-tests build; scripts/run-again build; }

test-long: setup build  ## all tests with more seeds and longer runs, all of them under sanitizers, a long fuzz
	@scripts/setup long
	@cmake --preset dev -B build-each -DKEDGE_UNITY=OFF -DKEDGE_BUILD_TESTS=OFF >/dev/null && cmake --build build-each -j $(JOBS)
	@scripts/sanitizer-tests address
	@scripts/fuzz $(FUZZ_SECONDS_LONG)
	@scripts/sanitizer-tests thread
	@KEDGE_TEST_LONG=1 ctest --test-dir build -j $(TEST_JOBS) --output-on-failure

test-asan: setup  ## build with AddressSanitizer and UBSan in build-asan/, and run the tests there
	@scripts/sanitizer-tests address

test-tsan: setup  ## build with ThreadSanitizer in build-tsan/, and run the tests that load no MPI
	@scripts/sanitizer-tests thread

fuzz: setup  ## fuzz every decoder for FUZZ_SECONDS (60) seconds each
	@scripts/fuzz $(FUZZ_SECONDS)

bench: setup build  ## measure, and judge against the targets in docs/performance.md
	@bench/run

figures: setup build  ## make the figures of the documents again (MEASURE=no: without those that are measured)
	@scripts/figures

format:  ## format the C and C++ sources in place
	@git ls-files -z '*.h' '*.hpp' '*.c' '*.cc' | xargs -0 clang-format -i

lint: setup  ## run clang-tidy over src/, or over LINT (src/tools); all of it takes an hour of a core
	@cmake --preset dev -B build-lint -DKEDGE_UNITY=OFF >/dev/null
	@run-clang-tidy -quiet -p build-lint -j $(JOBS) "^$(CURDIR)/$(LINT)/"

deb: setup  ## make Debian packages of what is committed, in dist/
	@scripts/deb

wheel: setup  ## make a Python wheel that brings its libraries along, in dist/
	@scripts/wheel

install: build  ## install under PREFIX (/usr/local)
	@cmake --install build --prefix "$(PREFIX)"

clean:  ## remove the build trees
	@rm -rf build build-asan build-tsan build-lint build-run build-python build-deb build-wheel
