# SPDX-License-Identifier: BSD-3-Clause
# Short names for what the scripts and meson do; nothing is decided here. NO_DEPS=1 leaves the installed packages alone.
DEPS = $(if $(NO_DEPS),@:,scripts/deps)

all: build/build.ninja
	meson compile -C build

build/build.ninja:
	scripts/deps --check build
	meson setup build

deps:
	scripts/deps test

demo:
	$(DEPS) build
	@$(MAKE) --no-print-directory all
	@scripts/demo

test:
	$(DEPS) test
	@tests/run

bench:
	$(DEPS) bench
	@$(MAKE) --no-print-directory all
	bench/run

fuzz:
	@tests/run --fuzz-seconds 60 fuzz

mutants:
	@tests/mutate $(MUTANTS)

soak: all
	build/simtest --soak $(SOAK)

soak-lab: all
	tests/soak/soak $(SOAK)

install: all
	meson install -C build

lint:
	scripts/lint

coverage:
	scripts/coverage

check-all:
	scripts/lint
	@WERROR=1 tests/run --fuzz-seconds 60 build clang asan tsan fuzz

clean:
	rm -rf build build-*

.PHONY: all deps demo test bench fuzz mutants soak soak-lab install lint coverage check-all clean
