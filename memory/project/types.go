package project

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
)

// kind is a kind of project: how it is recognised and worked on.
type kind struct {
	name    string
	markers []string // file names; one that begins with * is a suffix
	detail  func(d *detector, at dirInfo, marker string) string
	tools   func(d *detector, at dirInfo, marker string) []Command
}

func kinds() []kind {
	return []kind{
		{"Go", []string{"go.mod", "go.work"}, detailLine("module "), goTools},
		{"Rust", []string{"Cargo.toml"}, detailKey("name"), fixed("cargo build", "cargo test", "cargo clippy --all-targets")},
		{"Node", []string{"package.json"}, packageName, nodeTools},
		{"Deno", []string{"deno.json", "deno.jsonc"}, nil, fixed("", "deno test", "deno lint")},
		{"Python", []string{"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"}, detailKey("name"), pythonTools},
		{"Java (Maven)", []string{"pom.xml"}, nil, mavenTools},
		{"Java (Gradle)", []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}, nil, gradleTools},
		{"Scala", []string{"build.sbt"}, nil, fixed("sbt compile", "sbt test", "")},
		{"C/C++ (CMake)", []string{"CMakeLists.txt"}, nil, fixed("cmake -S . -B build && cmake --build build", "ctest --test-dir build --output-on-failure", "")},
		{"C/C++ (Meson)", []string{"meson.build"}, nil, fixed("meson setup build && meson compile -C build", "meson test -C build", "")},
		{"C/C++ (Autotools)", []string{"configure.ac"}, nil, fixed("./configure && make", "make check", "")},
		{".NET", []string{"*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj"}, nil, fixed("dotnet build", "dotnet test", "dotnet format --verify-no-changes")},
		{"Ruby", []string{"Gemfile", "*.gemspec"}, nil, rubyTools},
		{"PHP", []string{"composer.json"}, packageName, phpTools},
		{"Elixir", []string{"mix.exs"}, nil, fixed("mix compile", "mix test", "mix format --check-formatted")},
		{"Swift", []string{"Package.swift"}, nil, fixed("swift build", "swift test", "")},
		{"Dart", []string{"pubspec.yaml"}, nil, fixed("", "dart test", "dart analyze")},
		{"Haskell", []string{"stack.yaml", "*.cabal"}, nil, haskellTools},
		{"Zig", []string{"build.zig"}, nil, fixed("zig build", "zig build test", "")},
		{"Make", []string{"Makefile", "GNUmakefile", "makefile"}, nil, nil},
	}
}

// markerNames lists the markers that are whole names.
func markerNames() []string {
	var names []string
	for _, k := range kinds() {
		for _, m := range k.markers {
			if m[0] != '*' {
				names = append(names, m)
			}
		}
	}
	return names
}

// look finds the kinds of project that a directory holds, and their commands.
func (d *detector) look(at dirInfo) {
	commands := d.makeTargets(at)
	found := 0
	for _, k := range kinds() {
		marker := k.marker(at)
		if marker == "" || k.name == "Make" && (found > 0 || at.dir != ".") {
			continue
		}
		found++
		t := Type{Name: k.name, Dir: at.dir, Marker: marker}
		if k.detail != nil {
			t.Detail = k.detail(d, at, marker)
		}
		d.p.Types = append(d.p.Types, t)
		if k.tools == nil {
			continue
		}
		for _, c := range k.tools(d, at, marker) {
			if c.Text != "" {
				c.Dir, c.Source = at.dir, marker
				commands = append(commands, c)
			}
		}
	}
	d.p.Commands = append(d.p.Commands, commands...)
}

func (k kind) marker(at dirInfo) string {
	for _, m := range k.markers {
		switch {
		case m[0] == '*':
			if n := at.suffix(m[1:]); n != "" {
				return n
			}
		case at.has(m) && !at.names[m]:
			return m
		}
	}
	return ""
}

func fixed(build, test, lint string) func(*detector, dirInfo, string) []Command {
	return func(*detector, dirInfo, string) []Command { return three(build, test, lint) }
}

func three(build, test, lint string) []Command {
	return []Command{{Kind: "build", Text: build}, {Kind: "test", Text: test}, {Kind: "lint", Text: lint}}
}

func (d *detector) file(at dirInfo, name string) string {
	text, _ := d.read(path.Join(at.dir, name), maxFileBytes)
	return text
}

// detailLine takes what follows a prefix on the first line that has it.
func detailLine(prefix string) func(*detector, dirInfo, string) string {
	return func(d *detector, at dirInfo, marker string) string {
		for line := range strings.Lines(d.file(at, marker)) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return name(strings.TrimSpace(rest))
			}
		}
		return ""
	}
}

// detailKey takes the value of the first `key = "value"` line.
func detailKey(key string) func(*detector, dirInfo, string) string {
	return func(d *detector, at dirInfo, marker string) string {
		for line := range strings.Lines(d.file(at, marker)) {
			k, v, ok := strings.Cut(line, "=")
			if ok && strings.TrimSpace(k) == key {
				return name(strings.Trim(strings.TrimSpace(v), `"'`))
			}
		}
		return ""
	}
}

// name lets through only what names of packages consist of: it is shown, and
// put before the model.
func name(s string) string {
	if len(s) > 100 || strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x80 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@~+", r)
	}) {
		return ""
	}
	return s
}

func packageName(d *detector, at dirInfo, marker string) string {
	var p struct {
		Name string `json:"name"`
	}
	if json.Unmarshal([]byte(d.file(at, marker)), &p) != nil {
		return ""
	}
	return name(p.Name)
}

func goTools(_ *detector, at dirInfo, _ string) []Command {
	lint := "go vet ./..."
	if at.first(".golangci.yml", ".golangci.yaml", ".golangci.toml") != "" {
		lint = "golangci-lint run"
	}
	return three("go build ./...", "go test ./...", lint)
}

func nodeTools(d *detector, at dirInfo, marker string) []Command {
	var p struct {
		Scripts        map[string]string `json:"scripts"`
		PackageManager string            `json:"packageManager"`
	}
	if json.Unmarshal([]byte(d.file(at, marker)), &p) != nil {
		return nil
	}
	manager := "npm"
	switch {
	case at.has("pnpm-lock.yaml") || strings.HasPrefix(p.PackageManager, "pnpm"):
		manager = "pnpm"
	case at.has("yarn.lock") || strings.HasPrefix(p.PackageManager, "yarn"):
		manager = "yarn"
	case at.first("bun.lock", "bun.lockb") != "" || strings.HasPrefix(p.PackageManager, "bun"):
		manager = "bun"
	}
	var out []Command
	for _, s := range []struct{ kind, script string }{{"build", "build"}, {"test", "test"}, {"lint", "lint"}, {"lint", "typecheck"}} {
		text := p.Scripts[s.script]
		// What npm writes into a new package always fails.
		if text == "" || strings.Contains(text, "no test specified") {
			continue
		}
		run := manager + " run " + s.script
		if s.script == "test" && manager != "bun" {
			run = manager + " test"
		}
		out = append(out, Command{Kind: s.kind, Text: run})
	}
	return out
}

func pythonTools(d *detector, at dirInfo, marker string) []Command {
	text := d.file(at, marker)
	if marker != "pyproject.toml" {
		text += d.file(at, "setup.cfg")
	}
	run := ""
	switch {
	case at.has("uv.lock"):
		run = "uv run "
	case at.has("poetry.lock"):
		run = "poetry run "
	case at.has("Pipfile"):
		run = "pipenv run "
	}
	test := run + "python -m unittest"
	switch {
	case at.has("tox.ini"):
		test = run + "tox"
	case at.first("pytest.ini", "conftest.py") != "" || strings.Contains(text, "pytest") || strings.Contains(d.file(at, "requirements.txt"), "pytest"):
		test = run + "python -m pytest"
	case !at.names["tests"] && !at.names["test"]:
		test = ""
	}
	lint := ""
	switch {
	case at.has("ruff.toml") || strings.Contains(text, "[tool.ruff"):
		lint = run + "ruff check ."
	case at.has(".flake8") || strings.Contains(text, "[flake8]"):
		lint = run + "flake8"
	case at.has("mypy.ini") || strings.Contains(text, "[tool.mypy"):
		lint = run + "mypy ."
	}
	return three("", test, lint)
}

func mavenTools(_ *detector, at dirInfo, _ string) []Command {
	mvn := "mvn"
	if at.has("mvnw") {
		mvn = "./mvnw"
	}
	return three(mvn+" -B compile", mvn+" -B test", "")
}

func gradleTools(_ *detector, at dirInfo, _ string) []Command {
	gradle := "gradle"
	if at.has("gradlew") {
		gradle = "./gradlew"
	}
	return three(gradle+" assemble", gradle+" test", "")
}

func rubyTools(_ *detector, at dirInfo, _ string) []Command {
	test, lint := "", ""
	switch {
	case at.has(".rspec") || at.names["spec"]:
		test = "bundle exec rspec"
	case at.has("Rakefile"):
		test = "bundle exec rake test"
	}
	if at.has(".rubocop.yml") {
		lint = "bundle exec rubocop"
	}
	return three("", test, lint)
}

func phpTools(d *detector, at dirInfo, marker string) []Command {
	var p struct {
		Scripts map[string]any `json:"scripts"`
	}
	_ = json.Unmarshal([]byte(d.file(at, marker)), &p) // without scripts the rest holds
	var test, lint string
	switch {
	case p.Scripts["test"] != nil:
		test = "composer test"
	case at.first("phpunit.xml", "phpunit.xml.dist") != "":
		test = "vendor/bin/phpunit"
	}
	switch {
	case p.Scripts["lint"] != nil:
		lint = "composer lint"
	case at.first("phpstan.neon", "phpstan.neon.dist") != "":
		lint = "vendor/bin/phpstan analyse"
	}
	return three("", test, lint)
}

func haskellTools(_ *detector, _ dirInfo, marker string) []Command {
	if marker == "stack.yaml" {
		return three("stack build", "stack test", "")
	}
	return three("cabal build", "cabal test", "")
}

var makeTarget = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z0-9_-]+(?: +[A-Za-z0-9_-]+)*) *::?(?:[^=]|$)`)
})

// makeTargets returns the commands of a Makefile or a justfile: people put
// there what they really run, so these come first.
func (d *detector) makeTargets(at dirInfo) []Command {
	var out []Command
	for _, tool := range []struct {
		run   string
		files []string
	}{{"make", []string{"GNUmakefile", "makefile", "Makefile"}}, {"just", []string{"justfile", "Justfile"}}} {
		file := at.first(tool.files...)
		if file == "" {
			continue
		}
		var targets []string
		for line := range strings.Lines(d.file(at, file)) {
			if m := makeTarget().FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
				targets = append(targets, strings.Fields(m[1])...)
			}
		}
		for _, t := range []struct{ kind, target string }{{"build", "build"}, {"test", "test"}, {"test", "check"}, {"lint", "lint"}} {
			taken := slices.ContainsFunc(out, func(c Command) bool { return c.Kind == t.kind })
			if slices.Contains(targets, t.target) && !taken {
				out = append(out, Command{Kind: t.kind, Text: tool.run + " " + t.target, Dir: at.dir, Source: file, Whole: true})
			}
		}
	}
	return out
}

// ignore holds the patterns of a .gitignore, the last match counts.
type ignore []ignoreRule

type ignoreRule struct {
	pattern string
	negated bool
}

// parseIgnore reads the patterns of a root's .gitignore as they concern
// directories.
func parseIgnore(text string) ignore {
	var rules ignore
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' || len(rules) >= 1000 {
			continue
		}
		pattern, negated := strings.CutPrefix(line, "!")
		pattern = strings.TrimSuffix(pattern, "/")
		if !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		pattern = strings.TrimPrefix(pattern, "/")
		if doublestar.ValidatePattern(pattern) {
			rules = append(rules, ignoreRule{pattern, negated})
		}
	}
	return rules
}

func (g ignore) match(dir string) bool {
	for _, r := range slices.Backward(g) {
		if ok, err := doublestar.Match(r.pattern, dir); err == nil && ok {
			return !r.negated
		}
	}
	return false
}
