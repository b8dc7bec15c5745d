# `make demo` and `make test` set up everything on a fresh Debian 12 machine (as root or with sudo).
BUILD := build
JOBS ?= $(shell nproc)
ifneq ($(shell command -v ccache),)
LAUNCHER := -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
endif

.PHONY: demo test setup build layers format-check format bench-cpu fuzz clean

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

fuzz: setup
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)

clean:
	rm -rf build build-*
