# clusterset: `make run` and `make test` need Go and nothing else. `make help` lists the rest.

GO      ?= go
BIN     := bin
PORT    ?= 1053
BENCH   ?=
FUZZ    ?= 30s
OUT     ?= dist/manifests
DIST    ?= dist
REGISTRY ?= docker.io/clusterset
VALUES  ?=
KUBE_VERSION ?=

# The race detector needs a C compiler. Without one the tests run without it, and say so.
RACE    := $(if $(shell command -v gcc 2>/dev/null || command -v cc 2>/dev/null),-race,)
# The race detector is compiled with cgo.
RACY    := $(if $(RACE),CGO_ENABLED=1)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Programs are built as a release builds them (image/build.go), so that what is tested is what is shipped, and is compiled once.
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath
LDFLAGS := -s -w -X github.com/clusterset/clusterset/internal/version.release=$(VERSION)

# All modules, and those with code of ours besides the main one.
MODULES := go.mod $(wildcard */go.mod */*/go.mod */*/*/go.mod)
TESTED  := test/chart test/gateway/envoy image tools

# The tests of other modules use files that Go's test cache doesn't track (the chart, the binaries), so they run uncached. They start
# what they test as processes: the race detector would see nothing, and Helm's library would compile with it for minutes.
CHART_TESTS := $(GO) -C test/chart test -timeout 20m -count=1 ./...

# Packages whose tests start a hub and members, with agents and DNS as processes. test/chaos is for make chaos.
FLEET_TESTS := ./test/e2e ./test/random ./test/gateway

# Packages whose tests only start our programs. They run uncached and without the race detector, for the same reasons. The programs are
# built once: tests use the ones in CLUSTERSET_BINARIES, if it is set. Those of FIRST_TESTS take as long as all others together.
FIRST_TESTS   := $(FLEET_TESTS) ./test/datapath
PROGRAM_TESTS := ./test/docs ./test/console ./test/chaos ./test/hostile
# More such packages, for tools that are run by hand. They and test/load run nightly.
TOOL_TESTS := ./hack/benchsync ./hack/demo
# All others: with -short they start nothing. LIST_TESTS begins a line with them as $all, or ends it if go list fails.
LIST_TESTS = all=$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) || exit 1; \
  all=$$(echo "$$all" | grep -vE '/(hack/(benchsync|demo)|test/(chaos|console|datapath|docs|e2e|gateway|hostile|load|random))$$');
# Of these, what runs with the race detector. Here, too, the longest come first.
OTHER_TESTS = ./importer ./plugin ./cli ./hub/peers $$(echo "$$all" | grep -vE '/(cmd/coredns|cli/explain|internal/statefile)$$')

# Two packages at a time keep two processors busy: make test runs one of FIRST_TESTS beside one of the others. With four there were 21 control
# planes, each of which takes 4 % of a processor when it is idle, and what is done in 3 s alone took 9 s.
PARALLEL := -p 1

.DEFAULT_GOAL := help

##@ Use

.PHONY: run
run: build-coredns ## Serve examples/ from files on port 1053 (PORT=…), no Kubernetes needed
	@! bash -c 'exec 3<>/dev/tcp/127.0.0.1/$(PORT)' 2>/dev/null || \
	  { echo "Something serves port $(PORT) already, perhaps another make run, and would get a part of the queries; PORT=1054 takes another" >&2; exit 1; }
	@echo
	@echo "Answering as Xicheng, in zone beijing of region north. Try, in another terminal:"
	@echo
	@echo "  dig @127.0.0.1 -p $(PORT) nginx.default.svc.global"
	@echo "  dig @127.0.0.1 -p $(PORT) web.shop.svc.clusterset.local"
	@echo "  dig @127.0.0.1 -p $(PORT) _pg._tcp.db.shop.svc.clusterset.local SRV"
	@echo
	@$(BIN)/coredns -quiet -conf examples/Corefile -dns.port $(PORT)

.PHONY: demo
demo: ## Show a hub and three clusters at work on this machine; DEMO=keep leaves them up
	@test -x $(BIN)/demo || echo "The first run compiles all that it shows: the demo, CoreDNS with the plugin and clusterset (two to five minutes" \
	  "on two cores), then etcd and kube-apiserver (four to ten). That is cached; afterwards it takes about a minute."
	@$(GO) build -v -o $(BIN)/demo ./hack/demo 2>&1 | awk '!/^go: / && ++n % 100 == 0 { print "  compiling the demo: " n " packages so far"; fflush() }'
	@$(GO) build -o $(BIN)/demo ./hack/demo
	@$(BIN)/demo -ldflags "$(LDFLAGS)" $(if $(filter keep,$(DEMO)),-keep) $(if $(TRANSCRIPT),-transcript $(TRANSCRIPT))

.PHONY: build
build: build-coredns build-clusterset ## Build both binaries into bin/

.PHONY: build-coredns
build-coredns:
	@test -x $(BIN)/coredns || echo "Compiling CoreDNS: one to four minutes the first time, seconds after that."
	@$(BUILD) -ldflags "$(LDFLAGS)" -o $(BIN)/coredns ./cmd/coredns

.PHONY: build-clusterset
build-clusterset:
	@$(BUILD) -ldflags "$(LDFLAGS)" -o $(BIN)/clusterset ./cmd/clusterset

##@ Test

.PHONY: check
check: lint ## Run lint, and the tests that start nothing: no control plane, no program
	$(LIST_TESTS) $(GO) test -short -vet=off $$all

.PHONY: test
test: export CLUSTERSET_BINARIES := $(CURDIR)/$(BIN)/test
# Whatever a test compiles is compiled as the programs are. Otherwise most of it would be compiled three times, with that for the race detector.
# make lint runs go vet, once for each package and not once more for each way to compile it.
test: export CGO_ENABLED := 0
test: export GOFLAGS := $(strip $(GOFLAGS) -trimpath -vet=off)
test: kube ## Run the tests of each change, on a real etcd and kube-apiserver
	$(if $(RACE),,@echo "No C compiler: the tests run without the race detector.")
	$(BUILD) -ldflags "-s -w" -o $(CLUSTERSET_BINARIES)/ ./cmd/clusterset ./cmd/coredns
	@# The tests begin when everything is compiled. Those of programs wait for what takes seconds, and compilers beside them make that minutes.
	@$(GO) list -export -test -deps $(FIRST_TESTS) $(PROGRAM_TESTS) ./cmd/coredns >/dev/null
	@for module in test/chart image; do $(GO) -C $$module list -export -test -deps ./... >/dev/null || exit 1; done
	@for module in test/docs/commands test/datapath/nats; do $(GO) -C $$module list -export -deps tool >/dev/null || exit 1; done
	@$(LIST_TESTS) $(RACY) $(GO) list $(RACE) -export -test -deps $(OTHER_TESTS) >/dev/null
	@$(MAKE) --no-print-directory --keep-going -j2 test-first test-others test-chart test-image test-bounds test-programs

.PHONY: test-first test-programs test-others test-image test-bounds
test-first:
	$(GO) test $(PARALLEL) -timeout 60m -count=1 $(FIRST_TESTS)

test-programs:
	$(GO) test $(PARALLEL) -timeout 60m -count=1 $(PROGRAM_TESTS)

test-others:
	$(LIST_TESTS) $(RACY) $(GO) test $(RACE) $(PARALLEL) -timeout 60m $(OTHER_TESTS)

# What large sets may allocate, and what computes long in a single goroutine, is tested without the race detector, which allocates
# itself and makes it take minutes. What -short skips is left to the others. With the race detector,
# cmd/coredns would have all plugins of CoreDNS compiled again.
test-bounds:
	$(GO) test -short ./importer ./importer/desired ./cli/console
	$(GO) test ./cmd/coredns ./cli/explain ./internal/statefile

test-image:
	$(GO) -C image test -timeout 30m -count=1 ./...

.PHONY: test-long
test-long: export CLUSTERSET_BINARIES := $(CURDIR)/$(BIN)/race
test-long: export CLUSTERSET_LONG := 1
test-long: kube ## Run the end-to-end tests at length on programs with the race detector, then load and chaos (three hours)
	$(GO) build $(RACE) -o $(CLUSTERSET_BINARIES)/ ./cmd/clusterset ./cmd/coredns
	CGO_ENABLED=0 $(GO) -C test/gateway/envoy tool -n envoy-gateway >/dev/null
	$(GO) test $(RACE) $(PARALLEL) -timeout 60m -count=1 $(FLEET_TESTS) ./cmd/coredns
	$(MAKE) test-image test-datapath test-tools load chaos CLUSTERSET_BINARIES=

# How long connections go on failing is measured, so without the race detector, and with nothing else beside it.
.PHONY: test-datapath
test-datapath: kube ## Run the tests through a real kube-proxy at length (an hour)
	CLUSTERSET_LONG=1 $(GO) test -timeout 2h -count=1 -v ./test/datapath

.PHONY: test-tools
test-tools: kube ## Run the tests of the demo and of the benchmarks
	$(GO) test -p 1 -timeout 30m -count=1 $(TOOL_TESTS)

# What members and hubs do most, as processes on real API servers.
BASIC_E2E := TestFabDNSFourCities|TestHeadlessHostnames|TestNamespaceDeletion|TestLeftAndLost

.PHONY: test-oldest
test-oldest: ## Run what matters most on the oldest Kubernetes that is supported, and on a hub and members of different minors
	CLUSTERSET_KUBE_RELEASE=oldest $(GO) run ./test/kube/build >/dev/null
	CLUSTERSET_KUBE_RELEASE=oldest $(GO) test -timeout 60m -count=1 ./test/kube ./cli/join ./hub
	CLUSTERSET_KUBE_RELEASE=oldest $(GO) -C test/chart test -timeout 20m -count=1 -run 'TestOnARealCluster/(CRDs|agents|members|heartbeats)' .
	CLUSTERSET_KUBE_RELEASE=oldest $(GO) test -timeout 60m -count=1 -run '$(BASIC_E2E)' ./test/e2e
	CLUSTERSET_HUB_RELEASE=oldest $(GO) test -timeout 60m -count=1 -run '$(BASIC_E2E)' ./test/e2e
	CLUSTERSET_KUBE_RELEASE=oldest CLUSTERSET_HUB_RELEASE=newest $(GO) test -timeout 60m -count=1 -run '$(BASIC_E2E)' ./test/e2e

.PHONY: e2e
e2e: kube ## Run only the end-to-end tests: a hub, members, agents and DNS as processes
	$(GO) test -p 1 -timeout 30m -count=1 -v $(FLEET_TESTS)

.PHONY: load
load: kube ## Load a server for ten minutes, and beyond what it can answer (LOAD=10m)
	LOAD=$(or $(LOAD),10m) $(GO) test -timeout 90m -count=1 -v ./test/load

.PHONY: chaos
chaos: kube ## Let faults happen to a fleet for TIME (20m), each at least once, then upgrade one (SEED=…, FAULT="agent: SIGKILL;NOSPACE", PREVIOUS=commit)
	CLUSTERSET_LONG=1 CLUSTERSET_CHAOS=$(or $(TIME),20m) CLUSTERSET_SEED=$(SEED) CLUSTERSET_CHAOS_FAULT="$(FAULT)" CLUSTERSET_PREVIOUS=$(PREVIOUS) \
	  CLUSTERSET_CHAOS_TABLE=$(if $(UPDATE),$(CURDIR)/docs/reliability.md) \
	  $(GO) test -timeout 4h -count=1 -v -run '$(if $(FAULT),TestChaos$$$$,TestChaos$$$$|TestUpgrade)' ./test/chaos
	$(if $(FAULT),,CLUSTERSET_CHAOS=$(or $(TIME),20m) $(GO) test -timeout 30m -count=1 -v -run 'TestUpgrade$$' ./test/datapath)

.PHONY: hostile
hostile: kube ## Measure what one stolen member credential costs the others: 600 MiB of hostile records
	CLUSTERSET_LONG=1 CLUSTERSET_HOSTILE_TABLE=$(if $(UPDATE),$(CURDIR)/docs/security.md) $(GO) test -timeout 2h -count=1 -v ./test/hostile

.PHONY: kube
kube: ## Build the tests' etcd, kube-apiserver and controller manager (about five minutes, once)
	$(GO) run ./test/kube/build >/dev/null

.PHONY: golden
golden: kube ## Rewrite the golden answers from what the plugin answers now; review the diff
	UPDATE=1 $(GO) test -count=1 -run 'TestGolden' ./plugin

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZ (30s) each
	@# Before Go 1.27, a target may fail with "context deadline exceeded" when its time is up (go.dev/issue/75804), so one that fails runs again.
	@# An input that was found fails it then, too: it is in testdata.
	@targets=$$(grep -r --include='*_test.go' '^func Fuzz' .) || { echo "There is no fuzz target" >&2; exit 1; }; \
	echo "$$targets" | sed -E 's,/[^/]*:func ([A-Za-z0-9_]+).*, \1,' | sort | while read -r pkg target; do \
	  fuzz() { echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$pkg; }; \
	  fuzz || fuzz || exit 1; \
	done

# Packages without clients and clocks, whose own tests say what they do.
PURE := exporter/membership hub/liveness internal/communities internal/damping internal/merge internal/namespaces internal/topology internal/verdict

.PHONY: mutate
mutate: ## Change conditions and arithmetic of the pure packages one by one: fail if the tests don't notice (PKG=internal/merge)
	@mkdir -p $(BIN); code=0; gremlins=$$($(GO) tool -modfile=tools/mutate/go.mod -n gremlins) || exit 1; \
	for pkg in $(or $(PKG),$(PURE)); do \
	  $$gremlins unleash --timeout-coefficient 20 --output $(BIN)/mutants.json ./$$pkg >$(BIN)/mutants.log 2>&1 || { cat $(BIN)/mutants.log; exit 1; }; \
	  $(GO) run ./hack/mutants $(BIN)/mutants.json $$pkg || code=1; \
	done; exit $$code

.PHONY: lint
lint: ## Run golangci-lint, go vet of the other modules, actionlint, and see that every go.mod is tidy (compiled on first use)
	$(GO) tool -modfile=tools/lint/go.mod golangci-lint run ./...
	$(GO) tool -modfile=tools/go.mod actionlint
	@for module in $(TESTED); do echo "go -C $$module vet ./..."; $(GO) -C $$module vet ./... || exit 1; done
	@for mod in $(MODULES); do $(GO) -C $$(dirname $$mod) mod tidy -diff || { echo "$$mod isn't tidy: go -C $$(dirname $$mod) mod tidy"; exit 1; }; done

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in all code that we build on, where vuln.go.dev can be reached (in CI it has to be)
	@$(GO) build -modfile=tools/go.mod -o $(BIN)/govulncheck golang.org/x/vuln/cmd/govulncheck
	@for module in . $(TESTED); do \
	  echo "$$module:"; out=$$(cd $$module && $(CURDIR)/$(BIN)/govulncheck ./... 2>&1); code=$$?; echo "$$out"; \
	  case "$$code $$out" in \
	    0\ *) ;; \
	    *": fetching vulnerabilities: "*) echo "The database of vulnerabilities can't be reached, so nothing was checked."; test -z "$$CI"; exit;; \
	    *) exit 1;; \
	  esac; \
	done

.PHONY: bench
bench: build-coredns ## Measure against CoreDNS's own plugins, turn about in one run; needs dnsperf (BENCH="-only udp")
	@$(BUILD) -o $(BIN)/coredns-stock ./hack/bench/stock
	$(GO) run ./hack/bench $(BENCH)

.PHONY: bench-sync
bench-sync: kube ## Measure the way of a change from cluster to cluster
	$(GO) run ./hack/benchsync $(BENCH)

.PHONY: bench-scale
bench-scale: kube ## Measure what a large set costs a member (CLUSTERS=250 SERVICES=100 ENDPOINTS=10 RATE=50 TIME=5m)
	$(GO) run ./hack/benchsync -only scale

##@ Ship

.PHONY: image
image: ## Write dist/clusterset-image.tar, an OCI image of both binaries for amd64 and arm64
	$(GO) -C image run . -image $(CURDIR)/dist/clusterset-image.tar -version $(VERSION)

.PHONY: release
release: ## Write the release VERSION (v1.2.3) into dist/: binaries, image, chart, SBOM, notes, checksums
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(GO) -C image run . -version $(VERSION) -o $(abspath $(DIST))

.PHONY: push
push: ## Push the image and the chart of the release VERSION in dist/ to REGISTRY (docker.io/clusterset)
	@set -e; for part in image=clusterset:$(VERSION) chart=chart:$(VERSION:v%=%); do \
	  layout=$$(mktemp -d); tar -xf $(DIST)/$(VERSION)/clusterset-$${part%%=*}.tar -C $$layout; \
	  $(GO) -C image tool crane push $$layout $(REGISTRY)/$${part#*=}; rm -rf $$layout; \
	done

.PHONY: manifests
manifests: ## Render the chart with VALUES=file as plain YAML into dist/manifests (OUT=…), for kubectl apply -k (KUBE_VERSION=…)
	@$(GO) -C test/chart run ./manifests -o $(abspath $(OUT)) $(if $(VALUES),-f $(abspath $(VALUES))) $(if $(KUBE_VERSION),-kube-version $(KUBE_VERSION))
	@echo "kubectl apply --server-side -k $(OUT)"

.PHONY: test-chart
test-chart: kube ## Run the chart's tests: goldens, a real API server, the rendered roles (Helm's library is fetched)
	$(CHART_TESTS)

##@ Develop

.PHONY: generate
generate: ## Regenerate deepcopy functions and CRDs, the chart's copies, the tests' roles, docs/api.md, flags.md and metrics.md, and the README's pictures
	$(GO) tool -modfile=tools/go.mod controller-gen object crd paths=./api/... output:crd:dir=api/crds
	UPDATE=1 $(GO) -C test/chart test -count=1 -run 'AreFresh|AreThoseOf' .
	UPDATE=1 $(GO) test -count=1 -run 'PageIsFresh' ./api/crds ./cli ./test/docs ./test/metrics

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*##/ {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
