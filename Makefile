# Everything that developing Pawl needs. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MODULES := cmd executor-svc gateway mcppool-svc planner-svc proto services test
export GOFLAGS :=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the binaries into bin/
	go build -o bin/ ./cmd/pawl ./executor-svc ./gateway ./mcppool-svc ./planner-svc

.PHONY: test
test: ## All tests, with the race detector
	GORACE=atexit_sleep_ms=0 go test -race work # else each process waits a second at its end

.PHONY: npm
npm: ## Install the third-party MCP servers, clients and conformance suite that tests use, and Node
	npm ci --prefix test/npm --no-audit --no-fund

.PHONY: lint
lint: bin/golangci-lint bin/buf ## Linters over Go and protos
	bin/buf lint
	bin/buf format --diff --exit-code
	for m in $(MODULES); do (cd $$m && ../bin/golangci-lint run ./...); done

.PHONY: modules
modules: ## Each module builds alone and is tidy
	for m in $(MODULES); do (cd $$m && GOWORK=off go build -o /dev/null ./... && GOWORK=off go mod tidy -diff); done

.PHONY: gen
gen: bin/buf ## Generate code and OpenAPI from the protos
	bin/buf generate
	bin/buf generate --template buf.gen.storage.yaml
	bin/buf generate --template buf.gen.testcase.yaml

.PHONY: bench
bench: ## Benchmarks of the whole, beside others; writes docs/performance.md (10 minutes)
	go run ./test/bench

.PHONY: bench-scale
bench-scale: ## How cost grows, with a journal of 400,000 ended tasks; prints the table (10 minutes)
	go run ./test/bench -parts growth -tasks 400000 -out -

.PHONY: microbench
microbench: ## Go benchmarks of the parts
	go test -run '^$$' -bench . -benchmem work

.PHONY: mutants
mutants: ## How many small changes of the code the tests notice; ARGS="-n 60 -only identity -changed main" (hours)
	cd tools/mutants && GOWORK=off go build -o $(CURDIR)/bin/mutants .
	bin/mutants $(ARGS)

.PHONY: soak
soak: ## Crash suite, simulation, the pool and attacks at length (an hour)
	PAWL_SOAK=1 go test -timeout 40m -count 1 -v -run 'TestEveryPoint|TestRandomKills' ./test/crash
	PAWL_SOAK=1 go test -timeout 20m -count 1 -v -run 'TestCodingKilled|TestChatKilled' ./test
	go test -timeout 10m -count 1 -v -run TestSimulation ./executor-svc/internal/sim -sim.first $$(date +%s) -sim.seeds 1000000 -sim.for 5m
	PAWL_SOAK=1 go test -timeout 10m -count 1 -v -run TestNothingGrows ./mcppool-svc/mcppool
	PAWL_SOAK=1 go test -timeout 30m -count 1 -v ./test/load
	PAWL_SOAK=1 go test -timeout 10m -count 1 -v -run TestManyTopics ./test/scale

bin/buf: tools/go.mod
	cd tools && GOWORK=off GOBIN=$(CURDIR)/bin go install tool

bin/golangci-lint: tools/lint/go.mod
	cd tools/lint && GOWORK=off GOBIN=$(CURDIR)/bin go install tool
