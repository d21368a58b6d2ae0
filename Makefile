# Claude Ops. `make` lists the targets.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
# What to do where Go is missing. Debian 13 has Go 1.24, which downloads the version that go.mod names; its backports have 1.26 and 1.27.
NO_GO   := Go 1.26 or later is missing. On Debian 13: apt install golang-go make git ca-certificates; elsewhere: https://go.dev/dl
ifeq ($(shell command -v $(GO) 2>/dev/null),)
ifneq ($(filter-out help clean image,$(MAKECMDGOALS)),)
$(error $(NO_GO))
endif
$(info $(NO_GO))
endif
BIN     := bin/claudeops
LINT    := tools/bin/golangci-lint
DEADCODE := tools/bin/deadcode
ACTIONLINT := tools/bin/actionlint
NFPM    := tools/bin/nfpm
GOVULNCHECK := tools/bin/govulncheck
# Without a tag it is on the way to the newest version of the change log.
VERSION ?= $(shell git describe --tags --dirty 2>/dev/null || { sed -n 's/^\#\# \([0-9.]*\).*/\1-dev/p;' CHANGELOG.md | sed q; git describe --always --dirty 2>/dev/null | sed 's/^/./'; } | tr -d '\n')
# SQLite's translated C has its own locks and none of our code. Watching it makes every test with a database more than twice as slow.
RACE    := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=modernc.org/memory=-race=false
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## print this list
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/claudeops
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/claudeops

.PHONY: image
image: ## build the container images claudeops and claudeops:slim
	docker build -t claudeops:slim --target slim --build-arg VERSION=$(VERSION) .
	docker build -t claudeops --build-arg VERSION=$(VERSION) .

.PHONY: demo
demo: build ## watch a three-tier incident on a small real service (no API key, no network)
	$(BIN) demo

# CONTRIBUTING.md says what runs where, and how long it takes. The tests that fill the machine with containers and systems of their own run
# after the others and without the race detector: what they test runs in other processes, or, in the simulation, one step at a time.
# Lint runs vet, but not on what needs failpoints.
WORLDS   := $(addprefix claudeops/test/,incidents imagetest packagetest simulation)
TESTED    = $(filter-out $(WORLDS),$(shell $(GO) list ./...))
# Goroutines meet in packages that start them or that lock: only those can race. The walls lock one list, and start a program for each
# command of a corpus, which takes the detector many times as long. `make test-all` watches them and the others as well, and the whole
# program from outside.
RACED     = $(addprefix claudeops/,$(filter-out internal/guard/wall,$(shell grep -rlE --include='*.go' --exclude='*_test.go' \
  '^\s+go [a-z]|\.Go.func|sync\.(Mutex|RWMutex|WaitGroup|Cond|Map)\b|"sync/atomic"' internal | xargs -n1 dirname | sort -u)))
KILLS    := Kill|Hit|TheEnvironment
# What is played one step at a time: hours of a service, and what both databases must do alike. No goroutines meet there (where hosts meet
# is a test of its own), and the race detector takes three times as long.
STAGED   := ^TestIncidentScenarios$$|^TestFlappingIsToldOnceUntilItWasStable$$|^TestConformanceOn(SQLite|PostgreSQL)$$
# What `make quick` runs: all but the walls around real programs, several hosts, and the whole program from outside.
QUICK     = $$($(GO) list ./internal/... | grep -v -E '/(guard/wall|guard/gate|engine/river|agent/claude)$$')
# What only `make test-all` runs, beside what `-short` leaves out: very many rows, what a CLI does that the other tests do
# with ours, what Claude Code does by itself, which only another version of it changes, the real CLI where fakes play the same, and the same once more through the browser.
LONG     := ^TestFaults$$|TestTheTablesSayWhatProgramsTake|TestTheTablesSayWhatDockerAndKubectlSay|VeryMany|AStormOfAlertsStarts|RealNPM|RealGatus|Promtool|^TestCLI_|ResumeRepeatsNoDiagnostics|ALocalModelAsDocumented|RealCodex_RunsAsNPM|RealCLI_(AChainByHandoff|TheServiceRuns|WallsAlone|CooldownsAre|IsTheOperators)|HostileWebhooks

.NOTPARALLEL:

# NO_SETUP=1 leaves out what is not installed; the tests are told by their environment.
export NO_SETUP

.PHONY: test
test: $(if $(NO_SETUP),,missing) unit ## install what is missing, run what a commit needs; NO_SETUP=1: run it with what is there

.PHONY: quick
quick: ## the tests that need no other program and no root, in about three minutes
	@NO_SETUP=1 $(GO) test -short -skip '$(LONG)' -vet=off $(QUICK)

.PHONY: missing
missing:
	@script/setup-tests

.PHONY: unit
unit: ## the same without installing anything
	$(GO) test $(RACE) -short -skip '$(LONG)|$(STAGED)' -vet=off -timeout 30m $(RACED)
	$(GO) test -short -run '$(STAGED)' -vet=off ./internal/watch ./internal/store
	$(GO) test -short -skip '$(LONG)' -vet=off -timeout 30m $(filter-out $(RACED),$(TESTED))
	$(GO) test -short -skip 'HistoricDefects|BrokenProduct|WithoutTheJudge|GreenProbe' -vet=off -timeout 10m ./test/incidents ./test/simulation
	$(GO) test -short -tags failpoint -run '$(KILLS)' ./internal/failpoint ./internal/store

.PHONY: test-all
test-all: ## install what is missing, run everything: what a release needs
	@script/setup-tests all
	$(GO) test $(RACE) -vet=off -timeout 60m $(TESTED)
	$(GO) test -vet=off -p 1 -timeout 30m ./test/incidents ./test/imagetest ./test/packagetest ./test/simulation
	$(GO) test -tags failpoint -run '$(KILLS)|VeryMany' ./internal/failpoint ./internal/store
	$(GO) test -vet=off -run 'VeryMany|Storm' ./internal/watch ./internal/web

.PHONY: check
check: fmt lint test ## format, lint, test

.PHONY: setup
setup: ## install what `make test` needs without asking (idempotent)
	@script/setup-tests --yes

.PHONY: lint
lint: $(LINT) $(DEADCODE) $(ACTIONLINT) ## lint: style, what each package may import, dead code, workflows, the budget
	$(ACTIONLINT)
	$(GO) build ./test/...
	$(LINT) run ./...
	script/check-product $(DEADCODE)
	script/check-budget
	$(GO) run ./test/licenses -check

.PHONY: licenses
licenses: ## collect the licences of everything the program contains into THIRD_PARTY_LICENSES
	$(GO) run ./test/licenses

.PHONY: fmt
fmt: $(LINT) ## format
	$(LINT) fmt ./...

$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(NFPM): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm

$(GOVULNCHECK): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/govulncheck golang.org/x/vuln/cmd/govulncheck

$(DEADCODE): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/deadcode golang.org/x/tools/cmd/deadcode

$(ACTIONLINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o bin/actionlint github.com/rhysd/actionlint/cmd/actionlint

.PHONY: release
release: $(NFPM) $(GOVULNCHECK) ## make a release in dist/; SIGNING_KEY=file signs it, IMAGES=--images or --no-images
	VERSION='$(VERSION)' SIGNING_KEY='$(SIGNING_KEY)' script/release $(IMAGES) dist

.PHONY: bench
bench: build ## measure speed and memory; prints a report
	$(GO) run ./test/bench -binary $(BIN)

.PHONY: mutations
mutations: ## break the product on purpose in 36 places; a test must notice each (takes half an hour)
	$(GO) run ./test/mutations $(ONLY)

.PHONY: fault
fault: ## inject every fault the supervisor must survive (takes an hour; the full-disk trial needs root)
	$(GO) run ./test/fault $(FAULT)

.PHONY: incidents
incidents: setup ## benchmark the supervisor on real faults (root); FULL=1 QUICK=1 FAULTS=a,b MODELS=a,b CONTENDERS=a,b ONLY=fault/model/contender REPEAT=5 JSON=file KEEP=1 ATIF=folder HARBOR=folder FAULTS_DIR=folder BINARY=file UPSTREAM=url
	$(GO) build -o .cache/incidents ./test/incidents
	.cache/incidents $(if $(FULL),-full) $(if $(QUICK),-quick) $(if $(ONLY),-only '$(ONLY)') $(if $(REPEAT),-repeat $(REPEAT)) $(if $(JSON),-json '$(JSON)') \
	  $(if $(KEEP),-keep) $(if $(FAULTS),-faults '$(FAULTS)') $(if $(MODELS),-models '$(MODELS)') $(if $(CONTENDERS),-contenders '$(CONTENDERS)') \
	  $(if $(FAULTS_DIR),-faults-dir '$(FAULTS_DIR)') $(if $(ATIF),-atif '$(ATIF)') $(if $(HARBOR),-harbor '$(HARBOR)') $(if $(UPSTREAM),-upstream '$(UPSTREAM)') $(if $(SLOTS),-slots $(SLOTS)) $(if $(BINARY),-binary '$(BINARY)')

.PHONY: incidents-docs
incidents-docs: ## write docs/incidents.md again, from JSON=file or from the results beside it, and the schemas of the benchmark's files
	$(GO) run ./test/incidents -docs $(or $(JSON),docs/incidents.jsonl.gz)
	$(GO) test ./test/incidents -count=1 -run '^TestTheSchemasHold$$' -update

.PHONY: fuzz
fuzz: ## fuzz the decoders of agent output, and compare the guard with bash
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 60s -fuzzminimizetime 5x ./internal/decide/report
	$(GO) test -run '^$$' -fuzz FuzzOutcome -fuzztime 60s -fuzzminimizetime 5x ./internal/decide/report
	$(GO) test -run '^$$' -fuzz FuzzStream -fuzztime 60s -fuzzminimizetime 5x ./internal/agent/claude
	$(GO) test -run '^$$' -fuzz FuzzString -fuzztime 60s -fuzzminimizetime 5x ./internal/guard/redact
	$(GO) test -run '^$$' -fuzz FuzzVerify -fuzztime 60s -fuzzminimizetime 5x ./internal/notice/answer
	$(GO) test -run '^$$' -fuzz FuzzParseTargets -fuzztime 60s -fuzzminimizetime 5x ./internal/watch/notify
	$(GO) test -run '^$$' -fuzz FuzzApply -fuzztime 60s -fuzzminimizetime 5x ./internal/config/edit
	$(GO) test -run '^$$' -fuzz FuzzMarkdown -fuzztime 60s -fuzzminimizetime 5x ./internal/web
	$(GO) test -run '^$$' -fuzz FuzzCheck -fuzztime 60s -fuzzminimizetime 5x ./internal/guard
	$(GO) test -run BashRuns -v -timeout 0 ./internal/guard -differential 10m
	$(GO) test -run '^$$' -fuzz FuzzDifferential -fuzztime 5m -fuzzminimizetime 5x ./internal/guard

.PHONY: docs
docs: ## regenerate the generated documents
	$(GO) test ./internal/config -run Reference -update
	$(GO) test ./internal/ops -run Events -update
	$(GO) test ./test/surface -run Surface -update

.PHONY: record
record: ## record the decisions of the test chains again; read the diff before you commit it
	$(GO) test ./internal/cycle -count=1 -run '^TestChainsThroughTheRealStore$$' -record

.PHONY: screenshots
screenshots: ## take the screenshots of the documentation again, from the demo
	$(GO) test -tags pictures -count=1 ./test/browsertest -run '^TestPicturesOfTheDemo$$'

.PHONY: clean
clean: ## remove build output
	rm -rf bin dist tools/bin
