package scripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/memory/config"
	"ralph/workers/exec/exectest"
	"ralph/workers/external"
)

// An entry of the user's configuration is what the package takes that runs it,
// and each form that may stand there can be read.
func TestAgentsOfTheConfiguration(t *testing.T) {
	for _, format := range []string{"text", "claude", "codex", "gemini", "opencode", "pi", "jsonl-claude", ""} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		text := "agents: {a: {command: [tool], format: '" + format + "', input: stdin, timeout: 1m}}\n"
		if format == "" {
			text = "agents: {a: {command: [tool], input: stdin, timeout: 1m}}\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Sources{UserFile: file})
		if err != nil {
			t.Fatal(err)
		}
		all, err := external.Adapters([]external.Custom{external.Custom(cfg.Agents[0])})
		if err != nil {
			t.Fatal(err)
		}
		a, err := external.Find(all, "a")
		if err != nil || a.Timeout != time.Minute || a.Input != "stdin" || a.From != file+":1" {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// doctor --agents says what is installed, of which version, and whether it
// answers.
func TestDoctorTellsOfAgents(t *testing.T) {
	b := newBench(t)
	bin := t.TempDir()
	program := func(name, script string) {
		if err := exectest.WriteProgram(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const help = "--help|'exec --help') echo '--json -s -C --skip-git-repo-check -o -m -p --output-format --verbose --permission-mode --allowedTools --model';;"
	const promise = "<promise>COMPLETE</promise>"
	program("codex", `case "$*" in --version) echo codex-cli 0.169.0;; `+help+` *) pwd > `+bin+`/where; echo '{"type":"item.completed","item":{"type":"agent_message","text":"`+promise+`"}}'; echo '{"type":"turn.completed","usage":{}}';; esac`)
	program("claude", `case "$*" in --version) echo '2.1.197 (Claude Code)';; `+help+` *) echo 'Not logged in · Please run /login' >&2; exit 1;; esac`)
	program("pi", `echo 'pi: broken' >&2; exit 3`)
	program("my-tool", `cat > /dev/null; echo '`+promise+`'`)
	b.env["PATH"] = bin + ":/usr/bin:/bin"
	b.env["XDG_CONFIG_HOME"] = t.TempDir()
	user := filepath.Join(b.env["XDG_CONFIG_HOME"], "ralph", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(user), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user, []byte("agents:\n  mine: {command: [my-tool], input: stdin}\n  lost: {command: [no-such-tool]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.run("doctor", "--agents", "--json"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, b.out.String(), b.err.String())
	}
	doc := b.document()
	got := map[string]map[string]any{}
	for _, a := range doc["agents"].([]any) {
		m := a.(map[string]any)
		got[m["name"].(string)] = m
	}
	for name, want := range map[string]struct {
		installed, answering bool
		version, detail      string
	}{
		"codex": {true, true, "0.169.0", "answered in"}, "claude": {true, false, "2.1.197", "refused the credentials"}, "pi": {true, false, "", "exit 3: pi: broken"},
		"mine": {true, true, "", "answered in"}, "lost": {false, false, "", "not installed"}, "gemini": {false, false, "", "not installed"}, "opencode": {false, false, "", "not installed"},
	} {
		m := got[name]
		if m["installed"] != want.installed || m["answering"] != want.answering || m["version"] != want.version || !strings.Contains(m["detail"].(string), want.detail) ||
			(m["hint"] == nil) != want.answering || (m["path"] != "") != want.installed {
			t.Errorf("%s: %v", name, m)
		}
	}
	if len(got) != 7 || !strings.HasPrefix(got["mine"]["from"].(string), user) {
		t.Errorf("%v", got)
	}
	where, err := os.ReadFile(filepath.Join(bin, "where"))
	if dir := strings.TrimSpace(string(where)); err != nil || strings.HasPrefix(dir, b.dir) {
		t.Errorf("it worked in %q, %v", dir, err)
	} else if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left", dir)
	}
	if code := b.run("doctor", "--agents"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	for _, line := range []string{"ok    codex     " + bin + "/codex 0.169.0: answered in", "warn  claude ", "warn  lost ", "ok    agents    installed: claude, codex, mine, pi; not installed: gemini, opencode", "hint: npm install"} {
		if strings.Contains(b.out.String(), line) == (line == "hint: npm install") {
			t.Errorf("%q:\n%s", line, b.out.String())
		}
	}
	// Without the flag nothing is asked.
	if code := b.run("doctor", "--json"); code != 0 || b.document()["agents"] != nil {
		t.Errorf("exit %d: %s", code, b.out.String())
	}
	// An entry that cannot be is said, and nothing runs.
	if err := os.WriteFile(user, []byte("agents: {nope: {model: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.run("doctor", "--agents"); code != 1 || !strings.Contains(b.out.String(), `agent "nope": has no "command"`) {
		t.Errorf("exit %d: %s", code, b.out.String())
	}
}
