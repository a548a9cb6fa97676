package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tree makes files; a name that ends in / is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else if err == nil {
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func detect(t *testing.T, root string) Project {
	t.Helper()
	p, err := Detect(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTypesAndCommands(t *testing.T) {
	for _, tc := range []struct {
		name     string
		files    map[string]string
		types    []string
		commands []string
	}{
		{"go", map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n"}, []string{"Go example.com/x ."}, []string{"build: go build ./...", "test: go test ./...", "lint: go vet ./..."}},
		{"go with make", map[string]string{"go.mod": "module x", ".golangci.yml": "", "Makefile": "VAR := 1\n.PHONY: test\nbuild test: x\n\tgo x\nlint::\n"},
			[]string{"Go x ."}, []string{"build: make build", "test: make test", "lint: make lint", "build: go build ./...", "test: go test ./...", "lint: golangci-lint run"}},
		{"node pnpm", map[string]string{"package.json": `{"name":"@a/b","scripts":{"test":"vitest","build":"tsc","lint":"eslint","evil":"rm"}}`, "pnpm-lock.yaml": ""},
			[]string{"Node @a/b ."}, []string{"build: pnpm run build", "test: pnpm test", "lint: pnpm run lint"}},
		{"node new", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, []string{"Node  ."}, nil},
		{"node bun", map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "bun.lock": ""}, []string{"Node  ."}, []string{"test: bun run test"}},
		{"node broken", map[string]string{"package.json": `{`}, []string{"Node  ."}, nil},
		{"python", map[string]string{"pyproject.toml": "[project]\nname = \"p\"\n[tool.pytest.ini_options]\n[tool.ruff]\n", "uv.lock": ""}, []string{"Python p ."}, []string{"test: uv run python -m pytest", "lint: uv run ruff check ."}},
		{"rust", map[string]string{"Cargo.toml": "[package]\nname = 'r'\n"}, []string{"Rust r ."}, []string{"build: cargo build", "test: cargo test", "lint: cargo clippy --all-targets"}},
		{"maven", map[string]string{"pom.xml": "", "mvnw": ""}, []string{"Java (Maven)  ."}, []string{"build: ./mvnw -B compile", "test: ./mvnw -B test"}},
		{"dotnet", map[string]string{"a.sln": ""}, []string{".NET  ."}, []string{"build: dotnet build", "test: dotnet test", "lint: dotnet format --verify-no-changes"}},
		{"ruby", map[string]string{"Gemfile": "", "Rakefile": ""}, []string{"Ruby  ."}, []string{"test: bundle exec rake test"}},
		{"php", map[string]string{"composer.json": `{"name":"v/p","scripts":{"test":["x"]}}`}, []string{"PHP v/p ."}, []string{"test: composer test"}},
		{"make alone", map[string]string{"Makefile": "check:\n\ttrue\n"}, []string{"Make  ."}, []string{"test: make check"}},
		{"mixed", map[string]string{"web/package.json": `{"scripts":{"test":"x"}}`, "go.mod": "module x", "packages/a/Cargo.toml": "", "node_modules/z/package.json": "{}", "gen/go.mod": "module gen", ".gitignore": "/gen/\n"},
			[]string{"Go x .", "Rust  packages/a", "Node  web"}, []string{"build: go build ./...", "test: go test ./...", "lint: go vet ./...", "build: cargo build", "test: cargo test", "lint: cargo clippy --all-targets", "test: npm test"}},
		{"nothing", map[string]string{"a.txt": ""}, nil, nil},
	} {
		p := detect(t, tree(t, tc.files))
		var types, commands []string
		for _, x := range p.Types {
			types = append(types, fmt.Sprintf("%s %s %s", x.Name, x.Detail, x.Dir))
		}
		for _, c := range p.Commands {
			commands = append(commands, c.Kind+": "+c.Text)
		}
		if diff := cmp.Diff(tc.types, types) + cmp.Diff(tc.commands, commands); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestSummary(t *testing.T) {
	root := tree(t, map[string]string{"go.mod": "module x", "cmd/": "", "internal/": "", "RALPH_TASKS.md": "", "Dockerfile": "", "AGENTS.md": strings.Repeat("é", maxInstructions),
		".git/HEAD": "ref: refs/heads/feature/a\n", "CLAUDE.md": "also"})
	p := detect(t, root)
	want := "Go x, git repository on feature/a.\nBuild: `go build ./...`. Test: `go test ./...`. Lint: `go vet ./...`. Directories: cmd, internal. Configuration: Dockerfile. Ralph's state: RALPH_TASKS.md. AGENTS.md is longer than what is shown of it."
	if got := p.Summary(); got != want {
		t.Errorf("%s", got)
	}
	tests, _ := Script(p.Tests())
	if len(p.Instructions) != 1 || len(p.Instructions[0].Text) != maxInstructions || tests != "go test ./..." {
		t.Errorf("%d instructions, check %q", len(p.Instructions), tests)
	}
	sub := detect(t, filepath.Join(root, "cmd"))
	if !sub.Git || sub.Branch != "feature/a" || !strings.HasPrefix(sub.Summary(), "A directory of no known kind, git") {
		t.Errorf("%+v", sub)
	}
}

// TestHostile: links out of the root, FIFOs and names with control characters
// are neither read nor shown.
func TestHostile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	root := tree(t, map[string]string{"go.mod": "module \x1b[31mred", "d\x1b]0;x\x07/": "", "real.md": "rules"})
	if err := errors.Join(os.WriteFile(secret, []byte("token"), 0o600), os.Symlink(secret, filepath.Join(root, "AGENTS.md")),
		os.Symlink("real.md", filepath.Join(root, "CLAUDE.md")), syscall.Mkfifo(filepath.Join(root, "package.json"), 0o600), os.Symlink("/", filepath.Join(root, "up"))); err != nil {
		t.Fatal(err)
	}
	p := detect(t, root)
	if len(p.Instructions) != 1 || p.Instructions[0].Text != "rules" {
		t.Errorf("%+v", p.Instructions)
	}
	if s := p.Summary(); strings.ContainsAny(s, "\x1b\x07") {
		t.Errorf("%q", s)
	}
}

func TestErrors(t *testing.T) {
	if _, err := Detect(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Detect(ctx, tree(t, map[string]string{"a/": ""})); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestIgnore(t *testing.T) {
	g := parseIgnore("# c\n*.tmp\n/gen\nlogs/\n!logs\na/b\n[bad\n")
	for dir, want := range map[string]bool{"x.tmp": true, "gen": true, "sub/gen": false, "logs": false, "a/b": true, "src": false, "src/x.tmp": true} {
		if got := g.match(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}

// TestLargeRepository: tens of thousands of files cost no scan.
func TestLargeRepository(t *testing.T) {
	files := map[string]string{"go.mod": "module x"}
	for i := range 4100 {
		files[fmt.Sprintf("f%d.txt", i)] = ""
	}
	for i := range 210 {
		files[fmt.Sprintf("dir%d/a.go", i)] = ""
	}
	root := tree(t, files)
	begin := time.Now()
	p := detect(t, root)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if !p.Partial || len(p.Types) != 1 || len(p.Commands) != 3 {
		t.Errorf("%v %+v", p.Partial, p.Types)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("test: a\n", "*.x\n!y\n")
	f.Fuzz(func(_ *testing.T, makefile, ignored string) {
		for line := range strings.Lines(makefile) {
			makeTarget().FindStringSubmatch(line)
		}
		parseIgnore(ignored).match("a/b")
		name(makefile)
	})
}
