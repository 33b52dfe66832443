# The commands of this repository. `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where rustup puts cargo, also in a shell that was opened before rustup ran; and where Debian puts nginx.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

.PHONY: help demo check test test-lab loom lint format tidy deny clippy bench bench-http bench-network bench-offload bench-migration bench-storage bench-codec bench-capacity bench-shifts bench-history bench-import image deb docs tools clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: ## Install what is missing, build, run one experiment and show its report
	@scripts/demo.sh

check: ## Run what answers within three minutes: format, house rules, clippy, and the tests that need no root
	@$(MAKE) --no-print-directory format tidy clippy
	@scripts/install-tools.sh nextest
	@cargo nextest run --workspace --cargo-quiet --profile check

test: ## Run every test but those of the laboratory; they install what they lack, and need ten minutes
	@scripts/install-tools.sh build systems tests nextest || echo "tests that need what is missing will be skipped"
	@code=0; $(MAKE) --no-print-directory loom || code=1; scripts/test.sh default || code=1; exit $$code

test-lab: ## Run the tests of the laboratory: a Kubernetes cluster, other hosts by ssh, a browser, the CSI driver
	@scripts/install-tools.sh build systems tests nextest lab || echo "tests that need what is missing will be skipped"
	@scripts/lab.sh scripts/test.sh lab

# A build of its own: under `--cfg loom`, the crates' locks and atomics are those of loom.
loom: ## Try every order of the steps of threads that share a budget, a window's end or a limiter
	@RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --profile loom --package plumb-pace --package plumb-volumes --lib loom_

# Separate targets, so that `make --keep-going lint` shows the findings of each. The quick ones come first.
lint: format tidy deny clippy ## Check format, house rules, the dependencies' licences and sources, clippy

format:
	@cargo fmt --all --check

tidy:
	@cargo xtask tidy

deny:
	@cargo deny --all-features check bans licenses sources

clippy:
	@cargo clippy --workspace --all-targets --keep-going -- -D warnings

bench: bench-http bench-network bench-offload bench-migration bench-storage bench-codec bench-capacity bench-shifts bench-history bench-import ## Measure against the peers, every data path

bench-http: ## Measure HTTP load against wrk, ab, k6, h2load and oha on the same nginx
	@scripts/bench-http.sh

bench-offload: ## Measure the multi-buffer device against software, and the embedded ingress against HAProxy
	@scripts/bench-offload.sh

bench-migration: ## Measure migration against QEMU, with the same memory, codec, channels and cap
	@scripts/bench-migration.sh

bench-storage: ## Measure storage load against fio, and the limiter against nbdkit's and QEMU's
	@scripts/bench-storage.sh
	@scripts/bench-limiter.sh

bench-network: ## Measure network load against qperf, sockperf and iperf3, on the same veth pair, and the link that plumb makes
	@scripts/bench-network.sh

bench-codec: ## Measure codecs against their libraries' own tools, in the units of a migration
	@scripts/bench-codec.sh

bench-capacity: ## Measure the search for a capacity beside stepping and bisection, and two known capacities compared
	@scripts/bench-capacity.sh

bench-shifts: ## Measure how soon level shifts are found, and how often there is none, beside E-divisive
	@scripts/bench-shifts.sh

bench-history: ## Measure a history of 10,000 runs: its size, and how long lists, trends and pages take
	@scripts/bench-history.sh

bench-import: ## Measure how fast and in how much memory a gigabyte of k6's points is read
	@scripts/bench-import.sh

image: ## Build a container image with plumb and the programs that experiments drive, in target/image
	@cargo build --release --package plumb-cli
	@scripts/image.sh

deb: ## Build a Debian package with plumb, its manual pages and its completions, in target/deb
	@cargo build --release --package plumb-cli
	@scripts/deb.sh

docs: ## Build the documentation as a book, in target/book
	@mdbook build docs

tools: ## Install the tools of tests, benchmarks and lints, from the registries of Debian, Rust, Python and Go
	@scripts/install-tools.sh build systems tests nextest lab lint

clean: ## Remove build products and the demo's runs; other runs are yours and stay
	@cargo clean
	@rm -rf plumb-runs/demo-*
