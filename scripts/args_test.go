package scripts

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ralph/coordinator/slash"
	"ralph/memory/config"
)

func TestTaskText(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"one argument", []string{"fix --this"}, "fix --this"},
		{"words are joined", []string{"fix", "the", "bug"}, "fix the bug"},
		{"flags before, among and after the words", []string{"-m", "x", "fix", "--quiet", "the", "bug", "--max-turns", "3"}, "fix the bug"},
		{"a value with an equals sign", []string{"fix", "the bug", "--max-turns=3", "-mx"}, "fix the bug"},
		{"a text that begins with a dash", []string{"- a list's item", "--json means what?"}, "- a list's item --json means what?"},
		{"also a command further on", []string{"explain", "version"}, "explain version"},
		{"dashes among the words end the flags", []string{"fix", "--quiet", "--", "the", "--bug"}, "fix the --bug"},
		{"a word of the chat after dashes", []string{"--", "goals"}, "goals"},
		{"a word of the chat quoted with more", []string{"tasks are slow"}, "tasks are slow"},
		{"after dashes", []string{"--", "run"}, "run"},
		{"after dashes, flags", []string{"--quiet", "--", "--json", "means", "what?"}, "--json means what?"},
		{"near miss after dashes", []string{"--", "statsu"}, "statsu"},
		{"a command quoted with more", []string{"run the tests"}, "run the tests"},
		{"a command after an empty word", []string{"", "chat"}, " chat"},
		{"short words are tasks", []string{"lint"}, "lint"},
		{"value of a flag is no command", []string{"--check", "version", "do it"}, "do it"},
		{"cluster value", []string{"-mversion", "do it"}, "do it"},
		{"equals", []string{"--check=chat", "do it"}, "do it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if code := b.run(c.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, b.err.String())
			}
			if got := b.fake.jobs[0].Task; got != c.want {
				t.Errorf("task %q, want %q", got, c.want)
			}
			if b.out.String() != "done\n" {
				t.Errorf("standard output %q", b.out.String())
			}
			if b.fake.closed != 1 || len(b.fake.records) != 1 {
				t.Errorf("closed %d times, %d records", b.fake.closed, len(b.fake.records))
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"no arguments", nil, []string{"ralph: error: no task given", "ralph --help"}},
		{"empty task", []string{""}, []string{"no task given"}},
		{"blank task", []string{" \n\t "}, []string{"no task given"}},
		{"near miss", []string{"statsu"}, []string{`"statsu"`, `"ralph status"`, "ralph -- statsu"}},
		{"near miss with a flag", []string{"docter", "--json"}, []string{`did you mean "ralph doctor"?`, "ralph -- docter"}},
		{"near miss with what it takes", []string{"shcema", "result"}, []string{`"ralph schema"`}},
		{"a beginning", []string{"ver"}, []string{`"ralph version"`}},
		{"upper case", []string{"Chat"}, []string{`"ralph chat"`}},
		{"unknown flag", []string{"--max-turn", "3", "x"}, []string{"unknown flag --max-turn; did you mean --max-turns?"}},
		{"unknown short flag", []string{"-z", "x"}, []string{"unknown flag -z"}},
		{"missing value", []string{"--model"}, []string{"--model needs a value"}},
		{"bad number", []string{"--max-turns", "many", "x"}, []string{"--max-turns", "many"}},
		{"bad enum", []string{"--sandbox", "of", "x"}, []string{"--sandbox", `"off"`}},
		{"bad duration", []string{"--timeout", "10", "x"}, []string{"--timeout", "unit"}},
		{"contradiction", []string{"--json", "--output", "text", "x"}, []string{"--json contradicts"}},
		{"json of what", []string{"--json=maybe", "x"}, []string{`--json: "maybe"`}},
		{"an unknown flag after the task", []string{"fix", "it", "--bug"}, []string{"unknown flag --bug", "ralph -- "}},
		{"an unknown letter after the task", []string{"add", "-1", "to", "x"}, []string{"unknown flag -1", "ralph -- "}},
		{"a word of other programs", []string{"ls"}, []string{`"ls"`, "ralph sessions", "ralph -- ls"}},
		{"a word of the chat", []string{"goals"}, []string{`"goals"`, "RALPH_GOALS.md", "ralph -- goals"}},
		{"a word of the chat with more", []string{"tasks", "are", "slow"}, []string{`"tasks"`, "ralph plan show", "ralph -- tasks are slow"}},
		{"a word of the chat with its slash", []string{"/why", "T-1"}, []string{`"/why"`, "ralph -- /why T-1"}},
		{"a word of another agent", []string{"login"}, []string{`"login"`, "OPENAI_API_KEY"}},
		{"a word of another agent behind a flag", []string{"--quiet", "Review"}, []string{`"Review"`, "ralph chat"}},
		{"an alias with what its command does not take", []string{"setup", "this", "machine"}, []string{`takes no "this"`}},
		{"directory", []string{"-C", "nowhere", "x"}, []string{"no such file or directory", "nowhere"}},
		{"dash with words", []string{"version", "now"}, []string{`takes no "now"`}},
		{"schema of what", []string{"schema", "reslt"}, []string{`did you mean "result"?`}},
		{"schema needs", []string{"schema"}, []string{"needs one of: result, events, status"}},
		{"undo", []string{"undo", "all"}, []string{`"all" is not a number`}},
		{"chat flags", []string{"chat", "--new", "--continue"}, []string{"exclude each other"}},
		{"a task that begins like a command", []string{"report", "the", "bug"}, []string{"one word too many", "to pass it as a task: ralph -- report the bug"}},
		{"one that has to be quoted", []string{"init", "it", "for $HOME"}, []string{`takes no "it"`, "ralph -- init …"}},
		{"sessions that are words", []string{"compare", "two", "parsers"}, []string{"no such session", "ralph -- compare two parsers"}},
		{"an unknown flag of a command", []string{"init", "--bogus"}, []string{"unknown flag --bogus", "ralph init --help"}},
		{"an empty message", []string{"chat", " "}, []string{"the message is empty"}},
		{"help", []string{"help", "reports"}, []string{`unknown command "reports"`}},
		{"no glob match", []string{"--files", "*.nope", "x"}, []string{"matches no file"}},
		{"glob outside", []string{"--files", "../*", "x"}, []string{"outside the project"}},
		{"schema file", []string{"--schema", "nope.json", "x"}, []string{"open schema", "no such file"}},
		{"not UTF-8", []string{"fix \xff"}, []string{"not valid UTF-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if code := b.run(c.args...); code != 2 {
				t.Errorf("exit %d, want 2", code)
			}
			json := slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "--json") })
			if b.out.Len() > 0 && !json {
				t.Errorf("standard output: %q", b.out.String())
			}
			b.wantErr(append(c.want, "ralph: error: ", "ralph: hint: ")...)
			if b.fake.opened > 0 {
				t.Error("the coordinator was opened")
			}
			// In JSON the same ends in a document, wherever the flag stands. A
			// task's text is no place for it.
			args := append([]string{"--output", "json"}, c.args...)
			if c.name == "contradiction" {
				args = c.args
			}
			if code := b.run(args...); code != 2 && c.name != "contradiction" {
				t.Errorf("JSON: exit %d, want 2", code)
			}
			if c.name == "contradiction" {
				return
			}
			doc := b.document()
			checkResult(t, lastLine(b.out.String()))
			if doc["status"] != "usage" || doc["exit_code"] != 2.0 || doc["ok"] != false || doc["error"] == nil {
				t.Errorf("document: %s", b.out.String())
			}
		})
	}
}

func TestFormOfEarlyErrors(t *testing.T) {
	for _, c := range []struct {
		args  []string
		env   string
		lines int
	}{
		{[]string{"--bogus", "x", "--json"}, "", 1},
		{[]string{"--bogus", "--output=json", "x"}, "", 1},
		{[]string{"--output", "jsonl", "--bogus"}, "", 2},
		{[]string{"--bogus"}, "json", 1},
		{[]string{"--bogus", "--", "--json"}, "", 0},
		{[]string{"--output", "yaml", "x"}, "", 0},
		{[]string{"-C", "nowhere", "fix", "--json"}, "", 1},
		// Whoever writes --json reads JSON, whatever else is wrong.
		{[]string{"--json", "--output", "text", "x"}, "", 1},
		{[]string{"--output", "xml", "--json", "x"}, "", 1},
		{[]string{"--json=maybe", "x"}, "", 1},
		{[]string{"--json", "--output", "jsonl", "x"}, "", 2},
		{[]string{"--json=false", "--bogus"}, "", 0},
		{[]string{"chat", "--json", "--bogus"}, "", 1},
	} {
		b := newBench(t)
		if c.env != "" {
			b.env["RALPH_OUTPUT"] = c.env
		}
		if code := b.run(c.args...); code != 2 {
			t.Errorf("%q: exit %d", c.args, code)
		}
		if n := strings.Count(b.out.String(), "\n"); n != c.lines {
			t.Errorf("%q: %d lines on standard output, want %d: %s", c.args, n, c.lines, b.out.String())
		}
	}
}

func TestNoEarlyTouch(t *testing.T) {
	b := newBench(t)
	// A broken configuration and a directory that is gone do not matter here.
	b.env["XDG_CONFIG_HOME"] = b.dir
	b.file("ralph/config.yaml", "nonsense: [")
	b.dir += "/gone"
	for _, args := range [][]string{{"version"}, {"--help"}, {"help"}, {"help", "chat"}, {"chat", "--help"}, {"schema", "result"},
		{"schema", "events"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"}} {
		if code := b.run(args...); code != 0 || b.out.Len() == 0 || b.err.Len() > 0 {
			t.Errorf("%q: exit %d, %d bytes out, standard error %q", args, code, b.out.Len(), b.err.String())
		}
	}
	if code := b.run("version"); code != 0 || !strings.HasPrefix(b.out.String(), "ralph 1.2.3 (commit abc, ") {
		t.Errorf("version: %q", b.out.String())
	}
	b.run("version", "--json")
	if doc := b.document(); doc["version"] != "1.2.3" || doc["type"] != "version" {
		t.Errorf("version --json: %v", doc)
	}
	if code := b.run("__complete", "doc"); code != 0 || !strings.Contains(b.out.String(), "doctor") {
		t.Errorf("completion of commands: %q", b.out.String())
	}
	if code := b.run("__complete", "--output", ""); code != 0 || !strings.Contains(b.out.String(), "jsonl") {
		t.Errorf("completion of values: %q", b.out.String())
	}
}

func TestNearest(t *testing.T) {
	names := append([]string{"monitor", "logs", "report", "analyze", "insights", "compare", "init"}, "run", "status", "send", "stop", "pause", "resume", "attach", "chat", "version", "config", "doctor", "demo", "undo", "schema", "completion", "help")
	for word, want := range map[string]string{
		"statsu": "status", "stauts": "status", "verison": "version", "chta": "chat", "hlep": "help", "demon": "demo", "undoo": "undo",
		"lint": "", "fix": "", "test": "", "refactor": "", "commit": "", "build": "", "x": "", "improve": "", "format": "", "hello": "", "explain": "", "shell": "", "runs": "run", "docs": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// FuzzFirstWord checks that a task's text is never parsed: the word that ends
// the flags, found before parsing, is the one at which the parser stops.
func FuzzFirstWord(f *testing.F) {
	for _, seed := range []string{
		"fix\nthe\n--bug", "-m\nx\nfix", "-mx\nfix\n--json", "--json\n--\n--fix", "--check\n--\nfix", "-\nfix", "--model=a\nb\n-C", "-C", "--quiet\n\nx",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\n")
		fs := pflag.NewFlagSet("ralph", pflag.ContinueOnError)
		fs.SetInterspersed(false)
		addFlags(fs, config.Keys(), config.ScopeCommon)
		index, dashed := firstWord(args, fs)
		if err := fs.Parse(args); err != nil {
			return // an error of usage, whatever the words are
		}
		want := strings.Join(fs.Args(), "\n")
		got := ""
		if index <= len(args) {
			got = strings.Join(args[index:], "\n")
		}
		if got != want {
			t.Errorf("%q: words %q, the parser has %q (dashed %v)", args, got, want, dashed)
		}
	})
}

// TestOtherWords runs every word that stands for something else: as a command, or as a
// usage error that names one; never as a task. No command of Ralph is among them.
func TestOtherWords(t *testing.T) {
	commands := newInvocation(App{}).tree()
	for _, c := range slash.Table() { // a command of the chat is one here, or has a meaning
		if _, ok := otherWords()[c.Name]; !ok && !isCommand(commands, c.Name) && strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz") == "" {
			t.Errorf("%s, a command of the chat, would be a task", c.Name)
		}
	}
	for word, m := range otherWords() {
		if isCommand(commands, word) {
			t.Errorf("%s is a command", word)
		}
		if m.run != nil {
			if c, _, err := commands.Find(m.run); err != nil || c == commands {
				t.Errorf("%s stands for %q, which is no command: %v", word, m.run, err)
			}
			continue
		}
		for _, args := range [][]string{{word}, {strings.ToUpper(word)}, {"/" + word, "x"}, {"--quiet", word, "the", "thing"}} {
			b := newBench(t)
			if code := b.run(args...); code != 2 || b.fake.opened > 0 {
				t.Errorf("%q: exit %d, opened %d times", args, code, b.fake.opened)
			}
			b.wantErr("is no command of ralph", "ralph -- ")
		}
	}
}

// TestVersionFlag prints the version wherever the flag is.
func TestVersionFlag(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"-v"}, {"--json", "-v"}, {"--version", "--output", "json"}} {
		b := newBench(t)
		if code := b.run(args...); code != 0 || !strings.Contains(b.out.String(), "ralph") && !strings.Contains(b.out.String(), `"version"`) || b.fake.opened > 0 {
			t.Errorf("%q: exit %d: %s%s", args, code, b.out.String(), b.err.String())
		}
	}
}
