package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/memory/durable"
)

// TestRewrite: the key changes, and no other byte does.
func TestRewrite(t *testing.T) {
	const file = "# mine\nmodel: gpt-5   # the good one\n\nhistory:\n  # how many\n  max_messages: 0\n  max_bytes: 10MiB\n\nallow:\n  - shell(go *)\n  - \"shell(make)\" # build\ntheme: 'dark'\n# the end\n"
	for _, c := range []struct {
		name, in string
		edit     Edit
		want     string
	}{
		{"a value, its remark stays", file, Edit{"model", []string{"qwen 3"}}, strings.Replace(file, "gpt-5   #", "qwen 3   #", 1)},
		{"a quoted one", file, Edit{"theme", []string{"light"}}, strings.Replace(file, "'dark'", "light", 1)},
		{"a nested one", file, Edit{"history.max_messages", []string{"7"}}, strings.Replace(file, "max_messages: 0", "max_messages: 7", 1)},
		{"a new one", file, Edit{"max_turns", []string{"9"}}, file + "max_turns: 9\n"},
		{"a new one in a group", "retention:\n    archive_after: 9d\n\n# z\ntheme: dark\n", Edit{"retention.delete_raw_after", []string{"3w"}}, "retention:\n    archive_after: 9d\n    delete_raw_after: 3w\n\n# z\ntheme: dark\n"},
		{"a new group", "theme: dark", Edit{"history.max_messages", []string{"3"}}, "theme: dark\nhistory:\n  max_messages: 3\n"},
		{"an empty group", "history:\ntheme: dark\n", Edit{"history.max_messages", []string{"3"}}, "history:\n  max_messages: 3\ntheme: dark\n"},
		{"a dotted key", "history.max_messages: 1\n", Edit{"history.max_messages", []string{"3"}}, "history.max_messages: 3\n"},
		{"a list", file, Edit{"allow", []string{"shell(x)", "- odd: \"one\""}}, strings.Replace(file, "  - shell(go *)\n  - \"shell(make)\" # build\n", "  - shell(x)\n  - '- odd: \"one\"'\n", 1)},
		{"a list not further in", "allow:\n- a\n- b\ntheme: dark\n", Edit{"allow", []string{"c"}}, "allow:\n  - c\ntheme: dark\n"},
		{"an empty list", file, Edit{"allow", []string{}}, strings.Replace(file, "allow:\n  - shell(go *)\n  - \"shell(make)\" # build\n", "allow: []\n", 1)},
		{"taken out", file, Edit{"allow", nil}, strings.Replace(file, "allow:\n  - shell(go *)\n  - \"shell(make)\" # build\n", "", 1)},
		{"the last of a group", "a: 1\nhistory:\n  max_messages: 1\ntheme: dark\n", Edit{"history.max_messages", nil}, "a: 1\ntheme: dark\n"},
		{"an unknown one taken out", "modell: x\ntheme: dark\n", Edit{"modell", nil}, "theme: dark\n"},
		{"what is not there", file, Edit{"max_turns", nil}, file},
		{"no file", "", Edit{"theme", []string{"dark"}}, "theme: dark\n"},
		{"only remarks", "# nothing yet\n", Edit{"theme", []string{"dark"}}, "# nothing yet\ntheme: dark\n"},
		{"CRLF", "theme: dark\r\nmodel: x\r\n", Edit{"theme", []string{"light"}}, "theme: light\r\nmodel: x\r\n"},
		{"a block text", "model: |-\n  long\n  name\ntheme: dark\n", Edit{"model", []string{"m"}}, "model: m\ntheme: dark\n"},
		{"a block text with what looks like a remark", "check: |\n  make\n  # both\n# mine\ntheme: dark\n", Edit{"check", []string{"m"}}, "check: m\n# mine\ntheme: dark\n"},
		{"a list whose key has a remark", "allow: # mine\n  - a # of a\ntheme: dark\n", Edit{"allow", []string{"b"}}, "allow: # mine\n  - b\ntheme: dark\n"},
		{"text that is no text to YAML", "", Edit{"model", []string{"null"}}, "model: \"null\"\n"},
		{"an empty text", "", Edit{"model", []string{""}}, "model: \"\"\n"},
	} {
		got, err := Rewrite([]byte(c.in), c.edit)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
	for _, in := range []string{"{theme: dark}", "history: {max_messages: 1}\nx: &a 1\ny: *a\n", "- a\n", "theme: dark\n---\ntheme: light\n", "theme: [\n"} {
		if got, err := Rewrite([]byte(in), Edit{"history.max_messages", []string{"2"}}); err == nil {
			t.Errorf("%q became %q", in, got)
		} else if strings.HasPrefix(in, "{") && !errors.Is(err, ErrByHand) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestRewriteAny: of whatever file, either the key and nothing else changes, or
// it is refused; and a value is read back as it was given.
func TestRewriteAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"theme: dark", "model: \"a # b\"  # c", "history:", "  max_messages: 5", "  max_bytes: 1MiB", "allow:", "- a", "  - b # x", "", "# note", "  # note", "model: >-", "  folded", "deny: [a, b]", "'plain': true", "\ttabbed: 1", "...", "%YAML 1.2"})
		in := strings.Join(rapid.SliceOfN(line, 0, 9).Draw(t, "lines"), "\n")
		value := rapid.String().Draw(t, "value")
		if strings.ContainsRune(value, 0) {
			return
		}
		e := rapid.SampledFrom([]Edit{{"model", []string{value}}, {"theme", nil}, {"history.max_messages", []string{"3"}}, {"allow", []string{value, "z"}}}).Draw(t, "edit")
		out, err := Rewrite([]byte(in), e)
		if err != nil {
			return
		}
		before, err1 := decode([]byte(in))
		after, err2 := decode(out)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		was, is := flatten(before), flatten(after)
		if got := is[e.Key]; !reflect.DeepEqual(got, e.Values) {
			t.Fatalf("%q became %q in\n%s", e.Values, got, out)
		}
		delete(was, e.Key)
		delete(is, e.Key)
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%v became %v:\n%s\n---\n%s", was, is, in, out)
		}
		for l := range strings.Lines(in) {
			if e.Values != nil && !strings.Contains(in, ">-") && strings.HasPrefix(strings.TrimSpace(l), "# note") && strings.Count(string(out), "# note") < strings.Count(in, "# note") {
				t.Fatalf("a remark is lost:\n%s\n---\n%s", in, out)
			}
		}
	})
}

// TestSave: refusals, the mode, links, and two at a time.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ralph", "config.yaml")
	disk := afero.NewOsFs()
	for _, bad := range []Edit{{"modell", []string{"x"}}, {"max_turns", []string{"many"}}, {"theme", []string{"drak"}}, {"theme", []string{"dark", "light"}}} {
		if _, err := Save(disk, path, false, bad); err == nil || !strings.Contains(err.Error(), bad.Key) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := Save(disk, path, true, Edit{"base_url", []string{"http://evil"}}); err == nil {
		t.Error("a project's file names an endpoint")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refusal made a file")
	}
	var all sync.WaitGroup
	for _, e := range []Edit{{"theme", []string{"dark"}}, {"model", []string{"m"}}, {"max_turns", []string{"5"}}, {"notify", []string{"off"}}} {
		all.Go(func() {
			if changed, err := Save(disk, path, false, e); err != nil || !changed {
				t.Error(changed, err)
			}
		})
	}
	all.Wait()
	cfg, err := Load(Sources{UserFile: path})
	if err != nil || cfg.Theme != "dark" || cfg.Model != "m" || cfg.MaxTurns != 5 || cfg.Notify != "off" {
		t.Errorf("%+v %v", cfg.Settings, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if changed, err := Save(disk, path, false, Edit{"theme", []string{"dark"}}); changed || err != nil {
		t.Error(changed, err)
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(disk, link, false, Edit{"theme", []string{"light"}}); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if err := os.Symlink("nowhere", link+".2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(disk, link+".2", false, Edit{"max_turns", []string{"1"}}); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("a link to nothing: %v", err)
	}
	if _, err := Save(disk, link, true, Edit{"max_turns", []string{"1"}}); err == nil {
		t.Error("a link in a project was followed")
	}
}

// TestSaveBesideARalph: one that works in the project holds its state directory all
// the time, which keeps nobody from changing a setting.
func TestSaveBesideARalph(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, ".ralph")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := durable.LockDir(afero.NewOsFs(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if changed, err := Save(afero.NewOsFs(), filepath.Join(dir, "config.yaml"), true, Edit{"max_turns", []string{"1"}}); err != nil || !changed {
		t.Errorf("%t %v", changed, err)
	}
}

// TestSkeleton: with all its remarks taken away it is a valid file, in which
// nothing is refused and everything is as without it.
func TestSkeleton(t *testing.T) {
	for _, project := range []bool{false, true} {
		text := Skeleton(project)
		var lines []string
		for l := range strings.Lines(text) {
			if l, ok := strings.CutPrefix(l, "# "); ok && !strings.HasPrefix(strings.TrimSpace(l), "#") && strings.Contains(l, ":") && strings.ToLower(l[:1]) == l[:1] {
				lines = append(lines, l)
			}
		}
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		from := Sources{UserFile: path}
		if project {
			from = Sources{ProjectFile: path}
		}
		cfg, err := Load(from)
		plain, _ := Load(Sources{})
		if err != nil || !project && len(cfg.Warnings) > 0 || len(lines) < 10 {
			t.Errorf("project %t: %v %v of\n%s", project, err, cfg.Warnings, strings.Join(lines, ""))
		}
		for i, e := range cfg.Entries() {
			if e.Value != plain.Entries()[i].Value {
				t.Errorf("%s: %q, the default is %q", e.Key.Name, e.Value, plain.Entries()[i].Value)
			}
		}
		if out, err := Rewrite([]byte(text), Edit{"max_turns", []string{"5"}}); err != nil || !strings.HasPrefix(string(out), text) {
			t.Errorf("%v", err)
		}
	}
}
