# `make demo` and `make test` set up everything on a fresh Debian 12 machine (as root or with sudo).
BUILD := build
JOBS ?= $(shell nproc)
ifneq ($(shell command -v ccache),)
LAUNCHER := -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
endif

.PHONY: demo test setup build package gpu layers format-check format bench-cpu bench-gpu gpu-test fuzz clean

demo: build
	tools/demo.sh $(BUILD)/src/cli/attacca

test: build layers format-check
	ctest --preset release -j $(JOBS)
	cmake --preset sanitize $(LAUNCHER)
	cmake --build --preset sanitize -j $(JOBS)
	ctest --preset sanitize -j $(JOBS)

setup:
	tools/setup.sh

build: setup
	cmake --preset release $(LAUNCHER)
	cmake --build --preset release -j $(JOBS)

# All kernel templates, into build/templates (`make build` makes the few that the tests need).
gpu: setup
	cmake --preset release $(LAUNCHER) -DATTACCA_TEMPLATES=all
	cmake --build --preset release -j $(JOBS) --target attacca_kernel_templates

# build/packages: a tarball and a Debian package with the templates that are built (`make gpu`: all).
package: build
	cpack --config $(BUILD)/CPackConfig.cmake -B $(BUILD)/packages

layers:
	python3 tools/check_layers.py

format-check:
	tools/format.sh --check

format:
	tools/format.sh

bench-cpu: setup
	cmake --preset bench $(LAUNCHER)
	cmake --build --preset bench -j $(JOBS)
	build-bench/bench/cpu_bench
	build-bench/bench/cpu_table docs/benchmarks/cpu.md

# On a machine with a GPU: every template, every op, random epilogues and graphs, whole plans.
gpu-test: gpu
	cmake --build --preset release -j $(JOBS) --target gpu_test attacca
	ATTACCA_TUNE_WORKER=$(BUILD)/src/cli/attacca $(BUILD)/tests/gpu/gpu_test

# On a machine with a GPU, PyTorch and what `make gpu` built; within ten minutes. PAGES="gpu-gates gpu-mixed"
# measures these pages of docs/benchmarks instead, SCALE=3 for three times as long.
bench-gpu:
	$(or $(PYTHON),python3) bench/gpu/run.py --attacca $(BUILD)/src/cli/attacca --pages $(PAGES) --scale $(or $(SCALE),1)

fuzz: setup
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)

clean:
	rm -rf build build-*
