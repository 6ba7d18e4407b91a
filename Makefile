# `make` alone lists the targets. `make run` needs Go and nothing else; `make test` installs redis-server with apt-get
# when it is missing; `make check` is what CI runs.

GO       ?= go
ARGS     ?=
BENCH    ?= .
COUNT    ?= 1
FUZZTIME ?= 20s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

GOLANGCI := $(GO) tool -modfile=tools/go.mod golangci-lint
SHELL    := bash

.DEFAULT_GOAL := help
.PHONY: help run build test race lint bench fuzz soak check fmt vet scripts clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## start the daemon with an embedded Redis: nothing to set up, nothing survives it (ARGS="--listen :9000")
	./bin/offstage serve $(ARGS)

build: ## build bin/offstage
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/offstage ./cmd/offstage

test: ## run the tests, each package on a redis-server of its own
	@bash scripts/install-redis.sh
	@bash scripts/install-cc.sh
	$(GO) test ./...

race: ## run the tests with the race detector
	@bash scripts/install-redis.sh
	@bash scripts/install-cc.sh
	CGO_ENABLED=1 $(GO) test -race ./...

lint: ## run the linters; the first run builds them
	$(GO) test ./internal/lint
	$(GOLANGCI) run ./...

bench: ## run the benchmarks (BENCH=Enqueue COUNT=6 for benchstat)
	@bash scripts/install-redis.sh
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

fuzz: ## fuzz every target for FUZZTIME (20s)
	@bash scripts/install-redis.sh
	@GO="$(GO)" bash scripts/fuzz.sh $(FUZZTIME)

soak: ## run the long fault tests; each prints the seed that repeats it
	@bash scripts/install-redis.sh
	$(GO) test -tags=soak -count=1 -timeout 60m -run Soak -v ./...

# The tests come last, so that a run ends with their result.
check: scripts vet lint race ## everything CI checks

fmt: ## format the code and sort its imports
	$(GOLANGCI) fmt ./...

vet: ## check the format and run go vet
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted, run 'make fmt':"; echo "$$bad"; exit 1; fi
	$(GO) vet -tags=soak ./...

scripts: ## check the syntax of the shell scripts
	@find .ci/run . -name .git -prune -o \( -name '*.sh' -o -path .ci/run \) -type f -print0 | xargs -0 -n1 bash -n

clean: ## remove what was built
	rm -rf bin
