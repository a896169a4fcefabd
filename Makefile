# Amnesia: what a person runs. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: soak-leak help build demo stack soak down test zoo torture bench bench-full lint vuln setup clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/amnesia and bin/chatapp
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: build ## show the whole idea on real processes: a sample app with a planted bug, and without
	./bin/amnesia demo $(AMNESIA_FLAGS)

stack: ## bring up the sample app on Redis, PostgreSQL and Chroma in containers; BUGS=name,name plants bugs
	@BUGS='$(BUGS)' HOMES='$(HOMES)' deploy/compose/up

soak: build ## run Amnesia on that stack until it is interrupted; CYCLES=30 bounds it, AMNESIA_FLAGS=... passes flags on
	@BUGS='$(BUGS)' HOMES='$(HOMES)' CYCLES='$(CYCLES)' AMNESIA_FLAGS='$(AMNESIA_FLAGS)' deploy/compose/soak

down: ## remove that stack with its data
	@deploy/compose/down

setup: ## install what the tests need (as root on Debian; elsewhere say what is missing)
	@.ci/setup

test: setup ## run every test, with the race detector on
	$(GO) test -race -timeout 20m $(TESTFLAGS) ./...

zoo: setup ## hold every verdict to the truth: each planted bug and control with ten seeds, 500 faults on a healthy target; writes zoo.json
	@mkdir -p bin
	$(GO) test -c -o bin/zoo.test ./pkg/zoo
	cd pkg/zoo && ../../bin/zoo.test -whole -test.timeout 20m

torture: build ## kill the daemon itself with SIGKILL, 200 times on processes and 50 times on containers, and hold that nothing is lost or left
	$(GO) test -c -o bin/torture.test ./pkg/torture
	cd pkg/torture && ../../bin/torture.test -whole -amnesia ../../bin/amnesia -test.timeout 60m $(TORTUREFLAGS)

soak-leak: setup build ## run thousands of cycles and hold goroutines, open files and memory of daemon, browser and driver level
	$(GO) test -c -o bin/leak.test ./pkg/leak
	cd pkg/leak && ../../bin/leak.test -whole -amnesia ../../bin/amnesia -test.timeout 3h

bench: build ## measure speed, as ratios within one run, what takes long in a smaller form; writes bench.json
	./bin/bench $(BENCHFLAGS)

bench-full: build ## the same with everything, at the sizes of the goals; BENCHFLAGS='-only cycle|judge' for some
	./bin/bench -full $(BENCHFLAGS)

lint: ## gofmt, go vet and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "fix: gofmt -w ."; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

vuln: ## look for known vulnerabilities in what is built; needs https://vuln.go.dev, or another database in GOVULNDB
	@out=$$($(GO) run $(GOVULNCHECK) $(if $(GOVULNDB),-db '$(GOVULNDB)') ./cmd/... 2>&1) && echo "$$out" || { echo "$$out"; \
	  ! grep -q 'fetching vulnerabilities' <<<"$$out" || \
	  echo "vuln: its database cannot be reached from here, so nothing was checked — fix: GOVULNDB=https://mirror or file:///copy of it"; exit 1; }

clean: ## remove what was built
	rm -rf bin amnesia-demo amnesia-soak bench.json zoo.json
