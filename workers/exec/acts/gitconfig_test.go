package acts

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzUnsafeKey holds the reader of configurations against git's own: what it
// passes must hold nothing but harmless keys for git.
func FuzzUnsafeKey(f *testing.F) {
	for _, s := range []string{
		"[core]\n\tbare = false\n", "[core]\nfsmonitor = x", "[CORE]\nFsMonitor=x", "[core]bare=true\nfsmonitor=x", "[core] fsmonitor=x", "[user]\nname=a\\\n[core]\nfsmonitor=x", "[branch \"a]\"]\nremote=x", "[branch \"a\\\"]\"]\nremote=x",
		"[include]\npath=/x", "\ufeff[core]\nfsmonitor=x", "[core]\rfsmonitor=x", "[core]\n;x\n#y\nfsmonitor", "[core.x]\ny=z", "[remote \"x\"]\nurl=ext::sh", "[remote \"x\"]\nurl = \"ext:\":x", "[user]\nname = \"a\n[core]\nfsmonitor=x\"", "[core]\n\tfilemode = true # x \\\nfsmonitor=x",
		"[remote \"a\"] url=x\n", "[user]\n name=x [core] fsmonitor=y\n", "[a", "x=y", "[extensions]\nworktreeconfig=true", "[lfs]\nrepositoryformatversion=0\n",
	} {
		f.Add(s)
	}
	path := filepath.Join(f.TempDir(), "config")
	f.Fuzz(func(t *testing.T, text string) {
		if UnsafeKey([]byte(text), nil) != "" {
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := osexec.Command("git", "config", "--no-includes", "-z", "--list", "-f", path).Output()
		if err != nil {
			return // git does not take it either
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, _ := strings.Cut(entry, "\n")
			section, rest, ok := strings.Cut(key, ".")
			if !ok {
				continue
			}
			name := rest[strings.LastIndexByte(rest, '.')+1:]
			if !HarmlessKey(section+"."+name) || strings.HasSuffix(name, "url") && strings.Contains(value, "::") {
				t.Errorf("%q passes, but git reads %q = %q", text, key, value)
			}
		}
	})
}
