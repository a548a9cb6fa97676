# make demo: see Ralph do its main job, with nothing but Go and git.
# make test: prove it. The other targets are for those who work on Ralph.

GO      ?= go
PREFIX  ?= /usr/local
BIN     ?= bin/ralph
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    := $(shell date -u +%Y-%m-%dT%H:%M:%SZ)
LDFLAGS  = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
STATIC  := honnef.co/go/tools/cmd/staticcheck@v0.8.2
CC      ?= cc

# The race detector needs a C compiler.
HAVE_CC := $(shell command -v $(CC) >/dev/null 2>&1 && echo yes)
ifeq ($(HAVE_CC),yes)
RACE := -race
endif

# By default a program with the race detector sleeps for a second before it exits;
# tests start thousands.
export GORACE ?= atexit_sleep_ms=20

.PHONY: all build demo test race long check sweep sweep-state hostile bench fuzz cover update pictures release man install uninstall clean

all: build

build: $(BIN)

.PHONY: $(BIN)
$(BIN):
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o "$(BIN)" .

demo: build
	@"$(abspath $(BIN))" demo

# All tests but the long ones, each of which is then run a little of. What storms the
# machine with processes, and what says how soon processes are gone, comes after the
# others and one at a time. Tests wait more than they compute: -p 4 on two cores.
ALONE := ralph/scripts/hostile ralph/workers/exec ralph/workers/exec/supervise
test:
	$(GO) test -short -p 4 -timeout 30m $$($(GO) list ./... | grep -vxF $(ALONE:%=-e %))
	$(GO) test -short -p 1 -timeout 30m $(ALONE)

# The same with the race detector, which takes three times as long, but for the scripts
# of the root, the package publish and the tests named here, which wait for git and other
# programs, where the detector sees nothing; make sweep has those too.
PROGRAMS := HistoryWithoutMounts OrdinaryHistoryIsTakenOver HomeIsHidden GitMovesTheTreeWholeOrNot \
  AgentsCannotReachTheRepository ProgramsByAnyForm ProgramsOfGitsConfiguration ForgedChecks LinkedGitData \
  CompletedRepositories GitWorkWithoutMounts HardLinksToTheOutside WhatLinksLeadTo RepositoriesAnywhere \
  NamesThatActAreNotPlanted Toolchains ToolchainsOfAnotherHome HiddenRepositories MovedRepositories \
  NamesThatActAreNotTakenOver DotGit RefsOfAHostileAgent FilesThatGitRefuses WeirdRepositories NewRulesHideNothing \
  CachesAreFilledFromTheBase AssessAmongRuins WhatIsVerifiedIsMerged NamesThatActAreNotMerged UndoOfModes \
  AnotherProgramChangesNothingOfTheUsers UndoOfWhatTookAPlace UndoAfterTheProjectWasDestroyed CleanCheck \
  ACleanCheckIsOfACommit SubmoduleContentIsKept ARunKnowsItsBaseline UndoOfWhatWasIgnored FilteredWorkIsKept
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
race:
ifeq ($(RACE),)
	@echo "make race: no C compiler ($(CC)) was found"; exit 1
endif
	$(GO) test -race -short -p 4 -timeout 30m -skip '^Test($(subst $(SPACE),|,$(strip $(PROGRAMS))))$$' $$($(GO) list ./... | grep -vxF -e ralph -e ralph/workers/git/publish $(ALONE:%=-e %))
	$(GO) test -race -short -p 1 -timeout 30m $(ALONE)

# The tests that look at -short, whole; some do so in a helper.
SHORTENED = $$(grep -rl --include='*_test.go' 'testing\.Short()' .)
long:
	@names="$$(awk '/^func / {f = ""} /^func Test/ {f = $$2; sub(/\(.*/, "", f)} /testing\.Short\(\)/ && f {print f}' $(SHORTENED) | sort -u | paste -sd'|' -)" && \
	dirs="$$(for f in $(SHORTENED); do dirname "./$$f"; done | sort -u)" && set -x && \
	$(GO) test -p 1 -timeout 30m -run "^($$names|TestCorpus|TestRandomHistories|TestWhatIsVerifiedIsMerged|TestACleanCheckIsOfACommit)$$" $$dirs

check:
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -trimpath ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -trimpath ./...
	$(GO) run $(STATIC) ./...
	$(GO) test -count=1 -run 'TestImports|TestLadder|TestTopLevel|TestBudgets|TestInit' .

# What the suite does a little of, at length: every test five times in another
# order, and 2,000 cases of each property.
RAPID := $(GO) list -f '{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$$.ImportPath}}{{end}}{{end}} {{range .XTestImports}}{{if eq . "pgregory.net/rapid"}}{{$$.ImportPath}}{{end}}{{end}}' ./...

sweep:
	$(GO) test $(RACE) -timeout 60m -count=5 -shuffle=on ./...
	$(GO) test $(RACE) -timeout 60m -count=1 $$($(RAPID)) -rapid.checks=2000
	$(MAKE) sweep-state

# Every attack of the hostile corpus, with the defences and without: the table says
# how many of each family escaped, and how many succeed where nothing defends.
hostile:
	RALPH_HOSTILE=all $(GO) test -timeout 30m -count=1 -v -run TestCorpus ./scripts/hostile > hostile.log 2>&1 || { grep -E '^ *--- FAIL' hostile.log; exit 1; }
	@sed -n '/family/,$$p' hostile.log
	$(GO) test -timeout 30m -count=1 -v -run TestForgedChecks ./workers/accesspolicy >> hostile.log 2>&1 || { grep -E '^ *--- FAIL' hostile.log; exit 1; }
	@echo "forged checks: $$(grep -cE '^ +--- PASS: TestForgedChecks/' hostile.log) cases, 0 escapes, all succeed where check and agent share a cache; $$(grep -cE '^ +--- SKIP: TestForgedChecks/' hostile.log) left out: the program is not installed"

# Every crash, power cut and full disk that the state is tried with, and the
# merges: what the suite does a sample of. The counts are in the output.
sweep-state:
	RALPH_TEST_SWEEP=1 $(GO) test -timeout 60m -count=1 -v -p 1 $$($(GO) list ./memory/... ./coordinator) > sweep.log 2>&1 || { grep -E '^(---|    ---) FAIL|_test.go:' sweep.log; exit 1; }
	RALPH_TEST_SWEEP=1 $(GO) test -timeout 60m -count=1 -v -run TestRandomRuns ./scripts/lives >> sweep.log 2>&1 || { grep -E '^(---|    ---) FAIL|_test.go:' sweep.log; exit 1; }
	@grep -E '_test.go:[0-9]+: ' sweep.log

bench: build
	$(GO) run ./scripts/bench -ralph ./bin/ralph

FUZZTIME ?= 20s
fuzz:
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

cover:
	$(GO) test -coverprofile=cover.out ./...
	$(GO) tool cover -func=cover.out | tail -1

# Golden files and the demo's cassette are made anew; read the diff.
update:
	RALPH_TEST_UPDATE=1 $(GO) test ./...

# The pictures of the README, of the program as it is now: what the model says is
# recorded anew, then the scenes are played. One that says the same is left alone.
pictures:
	RALPH_TEST_UPDATE=1 $(GO) test -count=1 ./scripts/pictures

# What people download, for each target an archive with its checksum. The same commit
# gives the same bytes.
DIST    ?= dist
TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
STAMP   := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))
release: SHARE = $(DIST)/share
release: DATE = $(shell date -u -d @$(STAMP) +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r $(STAMP) +%Y-%m-%dT%H:%M:%SZ)
release:
	@rm -rf "$(DIST)/build" "$(SHARE)"; mkdir -p "$(DIST)" "$(SHARE)"
	@set -e; for t in $$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH) $(TARGETS); do \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o "$(DIST)/build/$$t/ralph" .; \
	done
	@set -e; ralph="$(DIST)/build/$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)/ralph"; mkdir -p "$(SHARE)/man/man1" "$(SHARE)/completions"; \
	"$$ralph" help --man > "$(SHARE)/man/man1/ralph.1"; \
	for s in bash zsh fish powershell; do "$$ralph" completion $$s > "$(SHARE)/completions/ralph.$$s"; done
	@$(GO) run ./scripts/release -out "$(DIST)" -version "$(VERSION)" -time "$(STAMP)" -share "$(SHARE)" -extra README.md,LICENSE $(foreach t,$(TARGETS),"$(t)=$(DIST)/build/$(t)/ralph")

man: build
	@"$(abspath $(BIN))" help --man

# What make install puts in place, below DESTDIR and PREFIX.
TO := "$(DESTDIR)$(PREFIX)"
BASHDIR := share/bash-completion/completions
ZSHDIR  := share/zsh/site-functions
FISHDIR := share/fish/vendor_completions.d

install: build
	install -d $(TO)/bin $(TO)/share/man/man1 $(TO)/$(BASHDIR) $(TO)/$(ZSHDIR) $(TO)/$(FISHDIR)
	install -m 755 "$(BIN)" $(TO)/bin/ralph
	@umask 022; set -e; ralph="$(abspath $(BIN))"; set -x; \
	"$$ralph" help --man > $(TO)/share/man/man1/ralph.1; \
	"$$ralph" completion bash > $(TO)/$(BASHDIR)/ralph; \
	"$$ralph" completion zsh > $(TO)/$(ZSHDIR)/_ralph; \
	"$$ralph" completion fish > $(TO)/$(FISHDIR)/ralph.fish

uninstall:
	rm -f $(TO)/bin/ralph $(TO)/share/man/man1/ralph.1 $(TO)/$(BASHDIR)/ralph $(TO)/$(ZSHDIR)/_ralph $(TO)/$(FISHDIR)/ralph.fish

clean:
	rm -rf bin dist cover.out sweep.log hostile.log
