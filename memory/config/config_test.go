package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
)

// load runs Load on files in a real temporary directory.
func load(t *testing.T, user, project string, flags map[string][]string, env ...string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	s := Sources{Flags: flags, Environ: env, UserFile: filepath.Join(dir, "user.yaml"), ProjectFile: filepath.Join(dir, "project.yaml")}
	for path, text := range map[string]string{s.UserFile: user, s.ProjectFile: project} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(s)
}

func TestDefaults(t *testing.T) {
	c, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"max_turns": c.MaxTurns == 200, "max_agents": c.MaxAgents == 20, "max_depth": c.MaxDepth == 3, "children": c.MaxChildrenPerAgent == 10,
		"check_timeout": c.CheckTimeout == 10*time.Minute, "check_retries": c.CheckRetries == 2, "command_timeout": c.CommandTimeout == 2*time.Minute,
		"context_window": c.ContextWindow == 128000, "max_memory": c.MaxMemoryBytes == 1<<30, "output": c.Output == "text",
		"sandbox": c.Sandbox == "workspace", "on_ask": c.OnAsk == "ask", "iterations": c.Run.MaxIterations == 300,
		"confidence": c.Run.ConfidenceThreshold == 0.7, "learning": c.Run.LearningRate == 0.1, "risk": c.Run.RiskTolerance == 0.5,
		"archive": c.Retention.ArchiveAfter == 180*24*time.Hour, "theme": c.Theme == "auto", "edit": c.EditMode == "emacs",
	}
	for name, ok := range want {
		if ok != true {
			t.Errorf("default of %s is wrong", name)
		}
	}
	if o := c.Origin("max_agents"); o.String() != "default" {
		t.Errorf("origin = %q", o)
	}
}

// TestKeysCoverSettings proves that each field of Settings belongs to exactly
// one key, and that the names of keys, flags and variables are unique and well
// formed.
func TestKeysCoverSettings(t *testing.T) {
	var s Settings
	fields := map[uintptr]string{}
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			f := v.Field(i)
			name := prefix + v.Type().Field(i).Name
			if f.Kind() == reflect.Struct {
				walk(f, name+".")
				continue
			}
			fields[f.Addr().Pointer()] = name
		}
	}
	walk(reflect.ValueOf(&s).Elem(), "")
	names := map[string]bool{}
	unique := func(n string) {
		if n != "" && names[n] {
			t.Errorf("%q stands twice", n)
		}
		names[n] = true
	}
	for _, k := range Keys() {
		p := reflect.ValueOf(k.field(&s)).Pointer()
		if fields[p] == "" {
			t.Errorf("key %s: its field has another key too", k.Name)
		}
		delete(fields, p)
		unique(k.Name)
		unique("--" + k.Flag + map[bool]string{true: k.Name}[k.Flag == ""])
		unique(k.Env)
		if k.Help == "" || strings.HasSuffix(k.Help, ".") || !strings.HasPrefix(k.Env, "RALPH_") || k.Env != strings.ToUpper(k.Env) {
			t.Errorf("key %s: bad help or variable", k.Name)
		}
		if (k.Flag == "") != (k.Scope == scopeConfig) {
			t.Errorf("key %s: flag %q with scope %s", k.Name, k.Flag, k.Scope)
		}
		if (k.Kind == KindEnum) != (len(k.Values) > 0) {
			t.Errorf("key %s: kind %s with values %v", k.Name, k.Kind, k.Values)
		}
		if k.Project != (k.may != nil) {
			t.Errorf("key %s: Project without a rule", k.Name)
		}
		if k.Default != "" {
			var probe Settings
			if err := parse(k, k.field(&probe), []string{k.Default}); err != nil {
				t.Errorf("key %s: default: %v", k.Name, err)
			} else if got := show(k.field(&probe)); got != k.Default {
				t.Errorf("key %s: default %q shows as %q", k.Name, k.Default, got)
			}
		}
	}
	for _, name := range fields {
		t.Errorf("field %s has no key", name)
	}
}

func TestPrecedence(t *testing.T) {
	user, project := "max_turns: 50\nmax_agents: 9\ncheck: make user\n", "max_turns: 7\nmax_depth: 1\ncheck: make project\n"
	c, err := load(t, user, project, map[string][]string{"max_turns": {"1", "2"}}, "RALPH_MAX_TURNS=3", "RALPH_MAX_AGENTS=4", "RALPH_MAX_DEPTH=")
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxTurns != 2 || c.MaxAgents != 4 || c.MaxDepth != 1 || c.Check != "make user" {
		t.Errorf("got %d %d %d %q", c.MaxTurns, c.MaxAgents, c.MaxDepth, c.Check)
	}
	for name, want := range map[string]string{
		"max_turns": "flag --max-turns", "max_agents": "env RALPH_MAX_AGENTS", "max_depth": "project config", "check": "user config", "model": "default",
	} {
		if o := c.Origin(name); o.Source != want {
			t.Errorf("origin of %s = %q, want %q", name, o, want)
		}
	}
	if o := c.Origin("check"); o.Line != 3 || filepath.Base(o.File) != "user.yaml" {
		t.Errorf("origin of check = %+v", o)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	user := "max_agnets: 3\nmax_turns: many\ntimeout: 30\nsandbox: of\nmax-agents: 2\nretention:\n  archive_aftr: 1d\nmax_depth: 1\nmax_depth: 2\nconfidence_threshold: 7\nmodel: [a]\n"
	c, err := load(t, user, "", nil, "RALPH_MAX_COST=cheap", "RALPH_MAX_AGNETS=3", "RALPH_TAG=x")
	if !errors.Is(err, ErrConfig) || errors.Is(err, ErrFlag) {
		t.Fatalf("error = %v", err)
	}
	if c == nil || c.Output != "text" {
		t.Error("no config with the error")
	}
	for _, want := range []string{
		`user.yaml:1: key "max_agnets": unknown; did you mean "max_agents"?`,
		`user.yaml:2: key "max_turns": "many" is not a whole number`,
		`user.yaml:3: key "timeout": "30" has no unit: write 30s or 30m`,
		`user.yaml:4: key "sandbox": "of" is not one of workspace, read-only, off; did you mean "off"?`,
		`user.yaml:5: key "max-agents": unknown; did you mean "max_agents"?`,
		`user.yaml:7: key "retention.archive_aftr": unknown; did you mean "retention.archive_after"?`,
		`user.yaml:9: key "max_depth": stands here and in line 8`,
		`user.yaml:10: key "confidence_threshold": 7 is not between 0 and 1`,
		`user.yaml:11: key "model": must be a single value`,
		`environment variable RALPH_MAX_COST: "cheap" is not a number`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 10 {
		t.Errorf("%d problems:\n%v", n, err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `RALPH_MAX_AGNETS is not known to Ralph; did you mean "RALPH_MAX_AGENTS"?`) {
		t.Errorf("warnings = %q", c.Warnings)
	}
}

func TestFlagErrors(t *testing.T) {
	_, err := load(t, "", "", map[string][]string{"max_turns": {"-1"}, "api_key": {"x"}, "profile": {"nope"}})
	if !errors.Is(err, ErrFlag) || errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	for _, want := range []string{"flag --max-turns: -1 is less than 0", "flag --api-key: unknown", `profile "nope" (flag --profile)`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestProjectGrantsNothing(t *testing.T) {
	const granting = "model: evil\nbase_url: http://evil\napi_key: k\nprofile: p\nsandbox: \"off\"\nallow: ['true']\non_ask: ask\nmax_agents: 500\n" +
		"max_turns: 0\nprofiles: {p: {base_url: http://evil}}\nprices: {m: {input: 0}}\nrecord: /etc/x\nsession_dir: /tmp\nagent: evil\nrequire_check: false\nresult_file: /x\n"
	const narrowing = "deny: [\"tool == 'fetch'\"]\ncheck: make test\nmax_tokens: 1000\nrisk_tolerance: 0.1\n"
	c, err := load(t, "deny: [\"a\"]\n", granting+narrowing, map[string][]string{"deny": {"b", "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(granting, "\n"); len(c.Warnings) != n {
		t.Errorf("%d warnings, want %d:\n%s", len(c.Warnings), n, strings.Join(c.Warnings, "\n"))
	}
	if w := c.Warnings[0]; !strings.Contains(w, `project.yaml:1: key "model" is ignored`) {
		t.Error(w)
	}
	if c.Model+c.BaseURL+c.APIKey+c.Profile+c.Record+c.Run.Agent+c.ResultFile+c.Run.SessionDir != "" || c.Sandbox != "workspace" ||
		len(c.Allow) != 0 || c.MaxAgents != 20 || c.MaxTurns != 200 || len(c.Profiles) != 0 || len(c.prices) != 0 {
		t.Errorf("the project granted something: %+v", c.Settings)
	}
	if !slices.Equal(c.Deny, []string{"tool == 'fetch'", "a", "b"}) || c.ProposedCheck != "make test" || c.Check != "" || c.MaxTokens != 1000 || c.Run.RiskTolerance != 0.1 {
		t.Errorf("the project could not narrow: %+v", c.Settings)
	}
	c, err = load(t, "", "sandbox: read-only\non_ask: fail\n", nil)
	if err != nil || c.Sandbox != "read-only" || c.OnAsk != "fail" || len(c.Warnings) != 0 {
		t.Errorf("%v %+v %v", err, c.Settings, c.Warnings)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		dir:  "is not a regular file",
		fifo: "is not a regular file",
		link: "is a symbolic link",
		write("big", strings.Repeat("#", maxFileBytes+1)): "is larger than 1MiB",
		write("bad", "a: 1\nb: [1,\n"):                    "bad:3: is not valid YAML",
		write("tab", "a:\n\t- x\n"):                       "tab:2: is not valid YAML",
		write("list", "- a\n"):                            "list:1: must hold `key: value` lines",
		write("two", "output: json\n---\noutput: text\n"): "more than one document",
		write("nul", "check: \"a\\0b\"\n"):                "holds a NUL byte",
		write("bin", "\x00\x01\xff"):                      "is not valid YAML",
	} {
		if _, err := Load(Sources{ProjectFile: path}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", filepath.Base(path), err, want)
		}
	}
	for _, text := range []string{"", "# only a comment\n", "---\n", "null\n", "model:\n", "\ufeffoutput: json\n", "output: json\r\nmodel: x\r\n"} {
		if _, err := Load(Sources{UserFile: write("fine", text)}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Load(Sources{UserFile: link}); err == nil || strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a user's file may be a link: %v", err)
	}
}

func TestProfilesPricesSecrets(t *testing.T) {
	user := `api_key: sk-user-0123456789abcdef
profile: work
profiles:
  home: {model: llama, base_url: http://127.0.0.1:11434/v1}
  work:
    model: gpt-x
    base_url: https://api.example.com/v1
    api_key_env: WORK_KEY
prices:
  gpt-x: {input: 2, cached_input: 0.5, output: 8}
  cheap: {input: 1, output: 2}
`
	c, err := load(t, user, "", nil, "WORK_KEY=work-key-value", "MY_TOKEN=tok-0123456789", "KEYMAP=us", "SSH_KEY=/etc/passwd", "HOME=/x")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Profiles) != 2 || c.Profiles[0].Name != "home" {
		t.Fatalf("profiles = %+v", c.Profiles)
	}
	if a := c.Active(); len(a) != 1 || a[0] != (Profile{Name: "work", Model: "gpt-x", BaseURL: "https://api.example.com/v1", Key: "work-key-value", KeyFrom: "$WORK_KEY"}) {
		t.Errorf("active = %+v", a)
	}
	if p, ok := c.Price("openai/gpt-x"); !ok || p != (Price{2, 0.5, 8}) {
		t.Errorf("price = %v %v", p, ok)
	}
	if p, ok := c.Price("cheap"); !ok || p.CachedInput != 1 {
		t.Errorf("price = %v %v", p, ok)
	}
	if _, ok := c.Price("other"); ok {
		t.Error("a price from nowhere")
	}
	if got := c.Secrets(); !slices.Equal(got, []string{"sk-user-0123456789abcdef", "work-key-value", "tok-0123456789"}) {
		t.Errorf("secrets = %q", got)
	}
	for _, e := range c.Entries() {
		if strings.Contains(e.Value, "0123") {
			t.Errorf("%s shows a secret: %q", e.Key.Name, e.Value)
		}
		if e.Key.Name == "api_key" && e.Value != "set (…cdef)" {
			t.Errorf("api_key = %q", e.Value)
		}
	}
	_, err = load(t, "profiles:\n  a: {modle: x}\n  b: 3\nprices: {m: {input: x}}\nprofile: c\n", "", nil)
	for _, want := range []string{`:2: profile "a": key "modle": unknown; did you mean "model"?`, `:3: key "profiles": "b" must`, `:4: price of "m"`, `profile "c" (user config`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestReadableKeyWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]int{"api_key: abc\n": 1, "profiles: {a: {api_key: abc}}\n": 1, "model: x\n": 0} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Sources{UserFile: path})
		if err != nil || len(c.Warnings) != want {
			t.Errorf("%q: %v %q", text, err, c.Warnings)
		}
	}
}

func TestUserFile(t *testing.T) {
	for _, tc := range []struct{ xdg, home, want string }{
		{"/x/cfg", "/home/a", "/x/cfg/ralph/config.yaml"},
		{"", "/home/a", "/home/a/.config/ralph/config.yaml"},
		{"relative", "/home/a", "/home/a/.config/ralph/config.yaml"},
		{"", "", ""},
		{"", "rel", ""},
	} {
		env := map[string]string{"XDG_CONFIG_HOME": tc.xdg, "HOME": tc.home}
		if got := UserFile(func(n string) string { return env[n] }); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w": 168 * time.Hour} {
		if d, err := parseDuration(text); err != nil || d != want {
			t.Errorf("%s: %v %v", text, d, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "d", "1y", "99999999d", "-2d", "x"} {
		if d, err := parseDuration(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "1KiB": 1024, "1.5 GiB": 3 << 29, "2MB": 2e6, "1g": 1 << 30} {
		if n, err := parseBytes(text); err != nil || n != want {
			t.Errorf("%s: %v %v", text, n, err)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1XB", "1e40", "NaN"} {
		if n, err := parseBytes(text); err == nil {
			t.Errorf("%q is %v", text, n)
		}
	}
}

func TestListsFromEnvironment(t *testing.T) {
	c, err := load(t, "", "", nil, "RALPH_ALLOW=a, b\n\nc\n", "RALPH_QUIET=yes")
	if err != nil || !slices.Equal(c.Allow, []string{"a, b", "c"}) || !c.Quiet {
		t.Errorf("%v %q %v", err, c.Allow, c.Quiet)
	}
}

// countingFs counts the files opened.
type countingFs struct {
	afero.Fs
	opens int
}

func (f *countingFs) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f.opens++
	return f.Fs.OpenFile(name, flag, perm)
}

func TestNoFilesNoReads(t *testing.T) {
	fsys := &countingFs{Fs: afero.NewOsFs()}
	if _, err := Load(Sources{UserFile: "/nonexistent/a", ProjectFile: "/nonexistent/b", FS: fsys}); err != nil || fsys.opens != 0 {
		t.Errorf("%v, %d opens", err, fsys.opens)
	}
}

func BenchmarkLoadNoFiles(b *testing.B) {
	for b.Loop() {
		if _, err := Load(Sources{Environ: os.Environ(), UserFile: "/nonexistent/a", ProjectFile: "/nonexistent/b"}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzLoad: no project file, whatever it holds, ends Ralph or sets a key that
// would grant something.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"sandbox: off", "deny: [a, b]\n", "retention:\n  archive_after: 1d\n", "a: &x [*x]", "<<: {model: x}", "? [a]\n: b", "profiles: {}", "max_turns: 0x10", "\xff", "check: |\n  a\n  b\n", "model: !!binary aGk="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fsys := afero.NewMemMapFs()
		if err := afero.WriteFile(fsys, "/p.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _ := Load(Sources{ProjectFile: "/p.yaml", FS: fsys})
		if c.Model != "" || c.BaseURL != "" || c.APIKey != "" || c.Sandbox == "off" || len(c.Allow) > 0 || len(c.Profiles) > 0 || c.MaxAgents > 20 {
			t.Fatalf("granted by %q: %+v", text, c.Settings)
		}
	})
}

func ExampleLoad() {
	cfg, err := Load(Sources{Flags: map[string][]string{"max_turns": {"20"}}})
	if err != nil {
		panic(err)
	}
	fmt.Println(cfg.MaxTurns, cfg.Origin("max_turns"))
	// Output: 20 flag --max-turns
}

// A word that stands for "any key" is no secret.
func TestPlaceholderKeysAreNoSecrets(t *testing.T) {
	for key, secret := range map[string]bool{"ollama": false, "LM-Studio": false, "not-needed": false, "real-key": true} {
		c, err := load(t, "", "", nil, "RALPH_API_KEY="+key)
		if err != nil || (len(c.Secrets()) > 0) != secret {
			t.Errorf("%s: %q %v", key, c.Secrets(), err)
		}
	}
}

func TestFilesOfAProject(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/me"}
	getenv := func(k string) string { return env[k] }
	history, draft := HistoryFile(getenv, "/src/web"), DraftFile(getenv, "/src/web")
	if filepath.Dir(history) != "/home/me/.local/state/ralph/history" || filepath.Dir(draft) != "/home/me/.local/state/ralph/drafts" || filepath.Base(history) != filepath.Base(draft) {
		t.Errorf("history %q, drafts %q", history, draft)
	}
	if other := DraftFile(getenv, "/other/web"); other == draft {
		t.Errorf("two projects share %q", draft)
	}
	env["XDG_STATE_HOME"] = "/state"
	if got := DraftFile(getenv, "/src/web"); filepath.Dir(got) != "/state/ralph/drafts" {
		t.Errorf("drafts %q", got)
	}
	delete(env, "XDG_STATE_HOME")
	delete(env, "HOME")
	if got := DraftFile(getenv, "/src/web") + HistoryFile(getenv, "/src/web"); got != "" {
		t.Errorf("without a home: %q", got)
	}
}
