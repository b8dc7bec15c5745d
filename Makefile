# `make demo` builds only the library and the command line, and runs them on real blocks.
# `make test` installs, builds and tests everything. Both need a Debian 12 machine, as root or with
# sudo.
BUILD := build
JOBS ?= $(shell nproc)
ifneq ($(shell command -v ccache),)
LAUNCHER := -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
# Otherwise it caches nothing that is compiled with precompiled headers.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
endif
# The rules and types of the Python files, which pyproject.toml configures.
LINT = .deps/venv/bin/ruff check --quiet && .deps/venv/bin/mypy --no-error-summary
BUILD_RELEASE = cmake --preset release $(LAUNCHER) && cmake --build --preset release -j $(JOBS)
BUILD_SANITIZE = cmake --preset sanitize $(LAUNCHER) && cmake --build --preset sanitize -j $(JOBS)

.PHONY: demo test setup build wheel package gpu layers lint format-check format bench-cpu \
        bench-onnx bench-gpu bench-references gpu-test fuzz clean

demo:
	@tools/stages.sh \
	  'packages=tools/setup.sh library' \
	  'configure=cmake --preset demo --log-level=WARNING $(LAUNCHER)' \
	  'build=cmake --build --preset demo -j $(JOBS)' \
	  'demo=tools/demo.sh build-demo/src/cli/attacca'

test:
	@tools/stages.sh \
	  'setup=tools/setup.sh test' \
	  'layers=python3 tools/check_layers.py' \
	  'format=tools/format.sh --check' \
	  'lint=$(LINT)' \
	  'build=$(BUILD_RELEASE)' \
	  'tests=ctest --preset release -j $(JOBS)' \
	  'sanitizer build=$(BUILD_SANITIZE)' \
	  'sanitizer tests=ctest --preset sanitize -j $(JOBS)'

setup:
	tools/setup.sh test

build: setup
	$(BUILD_RELEASE)

# All kernel templates, into build/templates (`make build` makes the few that the tests need).
gpu: setup
	cmake --preset release $(LAUNCHER) -DATTACCA_TEMPLATES=all
	cmake --build --preset release -j $(JOBS) --target attacca_template_index

# build/wheels: the Python package with every library that it needs and the templates that were
# built (`make gpu`: all), for any Debian 12 machine.
wheel:
	tools/setup.sh wheel
	tools/wheel.sh $(BUILD)/wheels $(LAUNCHER:-D%=--config-settings=cmake.define.%)

# build/packages: a tarball and a Debian package, with the templates that were built
# (`make gpu`: all).
package: build
	cpack --config $(BUILD)/CPackConfig.cmake -B $(BUILD)/packages

layers:
	python3 tools/check_layers.py

lint: setup
	$(LINT)

format-check:
	tools/format.sh --check

format:
	tools/format.sh

bench-cpu:
	tools/setup.sh bench
	cmake --preset bench $(LAUNCHER)
	cmake --build --preset bench -j $(JOBS)
	build-bench/bench/cpu_bench
	build-bench/bench/cpu_table docs/benchmarks/cpu.md

# Small ONNX models beside ONNX Runtime: docs/benchmarks/onnx.md. Needs PyTorch for the exports.
bench-onnx: setup
	cmake --preset release $(LAUNCHER)
	cmake --build --preset release -j $(JOBS) --target attacca_python onnx_regions
	PYTHONPATH=$(BUILD)/python:bench:bench/onnx .deps/venv/bin/python bench/onnx/run.py \
	  $(BUILD)/bench/onnx/onnx_regions

# On a machine with a GPU: tests every template and op, random epilogues and graphs, whole plans.
gpu-test: gpu
	cmake --build --preset release -j $(JOBS) --target device_test attacca
	ATTACCA_TUNE_WORKER=$(BUILD)/src/cli/attacca $(BUILD)/tests/device/device_test

# On a machine with a GPU, PyTorch and what `make gpu` built; within ten minutes.
# PAGES="gpu-gates gpu-mixed" measures these pages of docs/benchmarks instead, SCALE=3 for three
# times as long.
bench-gpu:
	$(or $(PYTHON),python3) bench/gpu/run.py --attacca $(BUILD)/src/cli/attacca \
	  --pages $(PAGES) --scale $(or $(SCALE),1)

# The pages with the benchmarks of the systems that Attacca is compared with, each beside its peers
# in turns; half an hour.
bench-references:
	$(or $(PYTHON),python3) bench/gpu/run.py --attacca $(BUILD)/src/cli/attacca --references \
	  --scale $(or $(SCALE),1)

# SECONDS of fuzzing for each reader; then the corpora in tests/fuzz are packed afresh.
SECONDS ?= 60
fuzz:
	tools/setup.sh fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	tests/fuzz/run.sh build-fuzz $(SECONDS)

clean:
	rm -rf build build-*
