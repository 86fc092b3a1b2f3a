# Thin on purpose: each target is a command or two that can be typed by hand.

CARGO      ?= cargo
KUBECTL    ?= kubectl
ARGS       ?=
IMG        ?= joiner:latest
DOCKER     ?= docker
# Which of config/ is deployed: an image that is called kubenodesmith or leftover goes where their documents have it.
DEPLOY     ?= $(or $(findstring kubenodesmith,$(IMG)),$(findstring leftover,$(IMG)),default)
# API groups that no other controller has.
OUR_GROUPS := joiner\.dev|karpetrack\.io|kubenodesmith\.parawell\.cloud|gpu\.devplatforms\.io|karpenter\.ovhcloud\.sh
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help

##@ The two commands

.PHONY: demo
demo: ## Run the embedded cluster: nothing but a Rust toolchain is needed. The first time it compiles for some minutes.
	$(CARGO) run --package joiner -- demo $(ARGS)

.PHONY: test
test: lint controlplane ## Set up and pass every test.
	$(CARGO) test --workspace --doc
	$(CARGO) test --workspace --lib --bins --tests

##@ Build

.PHONY: build
build: ## Build bin/joiner; bin/controller is the same binary under its other name.
	$(CARGO) build --release --package joiner
	mkdir -p bin
	cp $(TARGET_DIR)/release/joiner bin/joiner
	cp $(TARGET_DIR)/release/joiner bin/controller

.PHONY: docker-build
docker-build: ## Build the image IMG.
	$(DOCKER) build --tag $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(DOCKER) push $(IMG)

##@ Check

.PHONY: fmt
fmt: ## Format the code.
	$(CARGO) fmt --all

.PHONY: vet
vet: ## Compile everything and let clippy complain.
	$(CARGO) clippy --workspace --all-targets -- --deny warnings

.PHONY: lint
lint: vet ## Formatting, clippy, the floor plan, generated files.
	$(CARGO) fmt --all --check
	$(CARGO) xtask check-rooms
	$(CARGO) xtask manifests --check

.PHONY: controlplane
controlplane: ## Build the real control plane for tests (once; kept in a cache outside the checkout).
	$(CARGO) xtask controlplane

.PHONY: e2e
e2e: controlplane ## Only the tests that run on the real control plane.
	$(CARGO) test --package joiner-testing
	$(CARGO) test --package joiner --test e2e

.PHONY: simulate
simulate: ## Two hundred worlds of six hours under every fault; ARGS="--seeds 17" for one of them.
	$(CARGO) run --release --package joiner -- simulate $(or $(ARGS),--seeds 0..200)

.PHONY: sabotage
sabotage: ## For each invariant of the auditor a Joiner that breaks it: every one must be caught.
	$(CARGO) test --package joiner --bin joiner sabotage -- --include-ignored

.PHONY: neighbours
neighbours: controlplane ## Ten minutes of churn beside Karpenter's kwok provider and beside another Joiner, on the real control plane.
	JOINER_E2E_NEIGHBOUR_SECONDS=600 $(CARGO) test --package joiner --test e2e -- neighbours

.PHONY: bench
bench: ## Measure the core; make bench ARGS="--referee DIR --karpenter" sets it beside Karpenter.
	$(CARGO) bench --package joiner-core
	$(if $(ARGS),$(CARGO) xtask bench $(ARGS))

.PHONY: versus
versus: build ## Run Joiner and Karpenter with its kwok provider, one after the other, on the real control plane.
	MALLOC_ARENA_MAX=1 $(CARGO) run --quiet --release --package joiner-testing --bin versus -- --joiner bin/joiner $(ARGS)

.PHONY: karpenter-suite
karpenter-suite: build controlplane ## Run Karpenter's own end-to-end suite on Joiner; ARGS="--focus Drift" for a part of it.
	$(CARGO) run --quiet --release --package joiner-testing --bin karpenter-suite -- --joiner bin/joiner $(ARGS)

.PHONY: scale
scale: ## Measure on 5,000 nodes and 50,000 pods: ledger, page, browser, restart. Wants a machine that does nothing else.
	$(CARGO) test --package joiner-controllers --test decisions_at_scale -- --include-ignored --nocapture --test-threads 1
	$(CARGO) test --package joiner-controllers --test restart -- --ignored --nocapture an_engine
	$(CARGO) test --package joiner --test page_at_scale -- --ignored --nocapture

.PHONY: screenshots
screenshots: ## Take pictures of the page for docs/images, from a running demo.
	$(CARGO) test --package joiner --test browser -- --ignored pictures

##@ Cluster

.PHONY: manifests
manifests: ## Write the CRDs to config/crd.
	$(CARGO) xtask manifests

.PHONY: generate
generate: manifests ## Write everything that is generated.

.PHONY: install
install: ## Install the CRDs into the current cluster; those that another controller brought stay as they are.
	@for crd in config/crd/*_*.yaml; do \
	  if said=$$($(KUBECTL) apply --server-side --filename $$crd 2>&1); then echo "$$said"; continue; fi; \
	  case "$$said" in \
	    *"conflict"*) echo "$$crd: installed by another controller, left as it is";; \
	    *) echo "$$said" >&2; exit 1;; \
	  esac; \
	done

.PHONY: uninstall
uninstall: no-machines ## Remove our CRDs and their objects; those of karpenter.sh and autoscaling.x-k8s.io stay, another may use them.
	$(KUBECTL) get customresourcedefinitions --output name | grep --extended-regexp '\.($(OUR_GROUPS))$$' \
	  | xargs --no-run-if-empty $(KUBECTL) delete --ignore-not-found

.PHONY: run
run: ## Run the controllers on the current cluster, from here: make run ARGS="--mock-mode".
	$(CARGO) run --release --package joiner -- run $(ARGS)

.PHONY: deploy
deploy: ## Install everything, with the image IMG.
	$(KUBECTL) kustomize config/$(DEPLOY) | sed 's|image: joiner:latest|image: $(IMG)|' | $(KUBECTL) apply --server-side --filename -

.PHONY: undeploy
undeploy: no-machines ## Remove what deploy installed, but no CRD; refuses while machines of ours are left.
	$(KUBECTL) kustomize config/$(DEPLOY) \
	  | awk 'BEGIN { RS = "---\n" } !/(^|\n)kind: CustomResourceDefinition\n/ { printf "---\n%s", $$0 }' \
	  | $(KUBECTL) delete --ignore-not-found --filename -

# Only Joiner takes its finalizers off, and only it gives machines back: while there are any, it must run.
.PHONY: no-machines
no-machines:
	@left=$$(for kind in nodeclaims.karpenter.sh spotnodes.karpetrack.io nodesmithclaims.kubenodesmith.parawell.cloud; do \
	  $(KUBECTL) get $$kind --all-namespaces --output jsonpath='{range .items[?(@.metadata.annotations.joiner\.dev/managed-by)]}{.kind}/{.metadata.name} {end}' 2>/dev/null; \
	done); \
	if [ -n "$$left" ]; then \
	  echo "Joiner still has machines: $$left"; \
	  echo "Delete their pools (NodePools, SpotNodePools, NodeSmithPools) while it runs, wait until they are gone, and try again."; \
	  exit 1; \
	fi

##@ Other

.PHONY: clean
clean: ## Remove build output; the cache of the control plane stays.
	$(CARGO) clean
	rm -rf bin demo.kubeconfig

.PHONY: help
help: ## Show this.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
