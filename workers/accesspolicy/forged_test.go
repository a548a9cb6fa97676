package accesspolicy_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"ralph/workers/accesspolicy"
	"ralph/workers/buildcache"
)

// forgery is an attack on a check by way of what lies outside the tree; see
// testdata/forged/cases.yaml.
type forgery struct {
	Name, Source string
	Needs        []string
	Network      bool
	Files, User  map[string]string
	Agent, Check string
}

func forgeries(t *testing.T) []forgery {
	t.Helper()
	data, err := os.ReadFile("testdata/forged/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list []forgery
	if err := yaml.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// place makes the attack's project, and its programs in the user's PATH.
func (f forgery) place(t *testing.T) *world {
	t.Helper()
	for _, p := range f.Needs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(p, "is not installed")
		}
	}
	w := newWorld(t, true)
	bin := filepath.Join(w.home, "bin")
	for name, text := range f.User {
		w.file(filepath.Join(bin, name), text)
		if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.env["PATH"] = bin + string(filepath.ListSeparator) + w.env["PATH"]
	if home, err := os.UserHomeDir(); err == nil { // toolchains of the machine
		w.env["PYENV_ROOT"], w.env["RUSTUP_HOME"] = filepath.Join(home, ".pyenv"), filepath.Join(home, ".rustup")
	}
	for name, text := range f.Files {
		w.file(filepath.Join(w.root, name), text)
	}
	return w
}

// TestForgedChecks runs each attack twice: with a check that runs in the sandbox
// of the agent, where it must succeed, and with one in a fresh sandbox, where it
// must have no effect.
func TestForgedChecks(forged *testing.T) {
	var warm *buildcache.Store // with what a Go program of any project is built from
	for _, f := range forgeries(forged) {
		forged.Run(strings.ReplaceAll(f.Name, " ", "_"), func(t *testing.T) {
			w := f.place(t)
			var caches *buildcache.Store
			if slices.Contains(f.Needs, "go") {
				if warm == nil {
					warm = w.warmed(forged)
				}
				caches = warm
			}
			agent := w.open(func(o *accesspolicy.Options) { o.Caches = caches })
			for _, p := range f.Needs {
				if o := w.run(agent, w.root, "command -v "+p, accesspolicy.Call{}); o.code != 0 {
					t.Skip(p, " is not seen in the sandbox")
				}
			}
			check := func() outcome {
				s, err := agent.Fresh()
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				return w.run(s, w.root, f.Check, accesspolicy.Call{})
			}
			if o := check(); o.code == 0 {
				t.Fatalf("the check passes without an attack:\n%s", o.out)
			}
			attack := w.run(agent, w.root, f.Agent, accesspolicy.Call{Network: f.Network})
			if o := w.run(agent, w.root, f.Check, accesspolicy.Call{}); o.code != 0 {
				t.Errorf("the attack does not succeed where agent and check share everything: exit %d\n%s\n--- attack: exit %d\n%s", o.code, o.out, attack.code, attack.out)
			}
			if o := check(); o.code == 0 {
				t.Errorf("the check is forged:\n%s", o.out)
			}
		})
	}
}

// warmed makes a store that holds what the packages of a small Go program and its
// test are built from, taken from the cache with which this test was built: to
// compile that takes a minute. It is there as long as all.
func (w *world) warmed(all *testing.T) *buildcache.Store {
	w.t.Helper()
	store, err := buildcache.Open(filepath.Join(all.TempDir(), "caches"))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := store.Fill(false)
	if err != nil {
		w.t.Fatal(err)
	}
	host := w.host("go", "env", "GOCACHE")
	copied := func(from string) {
		data, err := os.ReadFile(from)
		if err != nil {
			w.t.Fatal(err)
		}
		rel, err := filepath.Rel(host, from)
		if err != nil {
			w.t.Fatal(err)
		}
		w.file(filepath.Join(c.Path, "go-build", rel), string(data))
	}
	for line := range strings.Lines(w.host("go", "list", "-export", "-deps", "-f", "{{.Export}} {{.BuildID}}", "testing", "os", "testing/internal/testdeps")) {
		object, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if object == "" {
			continue
		}
		copied(object)
		action, _, _ := strings.Cut(id, "/") // its first 15 bytes
		raw, err := base64.RawURLEncoding.DecodeString(action)
		if err != nil {
			w.t.Fatal(err)
		}
		name := hex.EncodeToString(raw)
		entries, err := filepath.Glob(filepath.Join(host, name[:2], name+"*-a"))
		if err != nil || len(entries) == 0 {
			w.t.Fatalf("no entry for %s", object)
		}
		copied(entries[0])
	}
	if err := c.Keep(); err != nil {
		w.t.Fatal(err)
	}
	return store
}

// host runs a program with the user's environment.
func (w *world) host(argv ...string) string {
	w.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%v: %v", argv, err)
	}
	return strings.TrimSpace(string(out))
}
