# SPDX-License-Identifier: MIT
# A thin front for tools/dev; the real build is meson's. `make help` lists the targets.

.DEFAULT_GOAL := build
.PHONY: help build demo check check-long bench fuzz fmt lint clean install

help:
	@echo "make build       compile; the program is build/pghush"
	@echo "make demo        a backup under load and a restore to a moment, in a scratch folder, in minutes"
	@echo "make check       compilers, sanitizers, checkers, unit tests, quick integration tests"
	@echo "make check-long  everything: all majors of PostgreSQL, fault loops, fuzzing"
	@echo "make bench       measurements against peers"
	@echo "make install     into PREFIX (default /usr/local)"

build:
	@tools/dev setup --demo
	@tools/dev program

demo:
	@tools/dev setup --demo
	@tools/dev program >/dev/null
	@tools/demo.sh

check:
	@tools/dev setup
	@tools/dev check

check-long:
	@tools/dev setup
	@tools/dev check --long

bench:
	@tools/dev setup
	@tools/dev build >/dev/null
	@tools/dev bench

fuzz:
	@tools/dev setup
	@tools/dev fuzz

fmt:
	@tools/dev fmt

lint:
	@tools/dev lint --tidy --analyse-all

PREFIX ?= /usr/local
install: build
	@meson configure build -Dprefix=$(PREFIX)
	@meson install -C build --no-rebuild

clean:
	@rm -rf build build-asan build-tsan build-fuzz
