# Claude Ops. `make` prints what there is.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin/claudeops
LINT    := tools/bin/golangci-lint
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# SQLite's translated C does pointer arithmetic of its own; checking it makes every test of the store three times as slow.
RACE    := -race -gcflags=modernc.org/sqlite/lib=-d=checkptr=0 -gcflags=modernc.org/libc=-d=checkptr=0
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/claudeops
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/claudeops

.PHONY: demo
demo: build ## watch a three-tier incident on a small real service (no key, no network)
	$(BIN) demo

.PHONY: test
test: setup lint ## install what the tests need, lint, run every test with the race detector
	$(GO) test $(RACE) -timeout 45m ./...
	$(GO) test -tags failpoint ./internal/failpoint ./internal/store

.PHONY: check
check: fmt test ## format, then everything `make test` does

.PHONY: unit
unit: ## the tests alone, without set-up and lint
	$(GO) test $(RACE) ./...

.PHONY: setup
setup: ## install what the tests need (idempotent)
	@script/setup-tests

.PHONY: lint
lint: $(LINT) ## lint, layers included
	$(LINT) run ./...

.PHONY: fmt
fmt: $(LINT) ## format
	$(LINT) fmt ./...

$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: bench
bench: build ## measure speed and memory; the report goes to stdout
	$(GO) run ./test/bench -binary $(BIN)

.PHONY: fault
fault: ## break a running supervisor in every way it is meant to survive (needs root for the full disk; an hour)
	$(GO) run ./test/fault $(FAULT)

.PHONY: fuzz
fuzz: ## fuzz the decoders of what agents write, and the guard against bash
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 60s -fuzzminimizetime 5x ./internal/decide/handoff
	$(GO) test -run '^$$' -fuzz FuzzOutcome -fuzztime 60s -fuzzminimizetime 5x ./internal/decide/outcome
	$(GO) test -run '^$$' -fuzz FuzzStream -fuzztime 60s -fuzzminimizetime 5x ./internal/agent/claude
	$(GO) test -run '^$$' -fuzz FuzzCheck -fuzztime 60s -fuzzminimizetime 5x ./internal/guard
	$(GO) test -run BashRuns -v -timeout 0 ./internal/guard -differential 10m
	$(GO) test -run '^$$' -fuzz FuzzDifferential -fuzztime 5m -fuzzminimizetime 5x ./internal/guard

.PHONY: docs
docs: ## write the generated documents again
	$(GO) test ./internal/config -run Reference -update

.PHONY: record
record: ## play the recorded chains again and keep what is decided now; read the diff before you commit it
	$(GO) test ./internal/cycle -count=1 -run '^TestChainsThroughTheRealStore$$' -record

.PHONY: screenshots
screenshots: ## write the pictures of the documentation again, from the demo
	$(GO) test -tags pictures -count=1 ./test/browsertest -run '^TestPicturesOfTheDemo$$'

.PHONY: clean
clean: ## remove what was built
	rm -rf bin tools/bin
