package accesspolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// TestCredentialsThatTheEnvironmentNames has variables name files and directories outside the
// home, as vendors document them, and counts what a command reads of them.
func TestCredentialsThatTheEnvironmentNames(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "named-by-environment.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"", "session"} {
		t.Run("method "+method, func(t *testing.T) {
			base := plainPlace(t)
			w := newWorld(t, false)
			w.runner = exec.New(exec.Options{Init: exec.Self(), Method: method})
			defer w.runner.Close(t.Context())
			if st := accesspolicy.Check(w.runner); st.None() || method == "" && !st.Active("mount namespace") {
				t.Skip(st)
			}
			planted := map[string]string{} // the variable, by path
			plant := func(path, name string) string {
				w.file(path, "s3cret "+path+"\n")
				planted[path] = name
				return path
			}
			for line := range strings.Lines(string(list)) {
				f := strings.Fields(line)
				if len(f) < 3 || f[0] == "#" {
					continue
				}
				name, dir := f[0], filepath.Join(base, f[0])
				value, within, _ := strings.Cut(f[1], "=")
				if within == "" {
					within = "some/file"
				}
				value = strings.ReplaceAll(value, "+", " ")
				for mark, path := range map[string]string{"{f}": "f", "{g}": "g", "{d}": within} {
					if strings.Contains(value, mark) {
						plant(filepath.Join(dir, path), name)
						value = strings.ReplaceAll(value, mark, strings.TrimSuffix(filepath.Join(dir, path), "/"+within))
					}
				}
				w.env[name] = value
			}
			s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			script := "cat a.txt"
			for path := range planted {
				script += " '" + path + "'"
			}
			o := w.run(s, w.root, script+" 2>&1", accesspolicy.Call{})
			if !strings.Contains(o.out, "a\n") {
				t.Fatal(o.out)
			}
			var read []string
			for path, name := range planted {
				if strings.Contains(o.out, "s3cret "+path+"\n") {
					read = append(read, name)
				}
			}
			if len(read) > 0 {
				t.Errorf("%d of %d can be read: %q", len(read), len(planted), read)
			}
			t.Logf("%d planted", len(planted))
		})
	}
}

// TestWhatTheEnvironmentNamesBesides keeps in sight what variables name that holds no credentials:
// programs, what npm says of itself, what the project has, directories of data, and what the user
// names; in the place of what is hidden the result names the way out.
func TestWhatTheEnvironmentNamesBesides(t *testing.T) {
	base := plainPlace(t)
	w := newWorld(t, false)
	at := func(name string) string { return filepath.Join(base, name) }
	for _, name := range strings.Fields("bin/tool lib/node_modules/npm/bin/npm-cli.js data/x cargo/bin/x cargo/registry/x cargo/git/x venv/lib/x sdk/lib/x editor kube cargo/secret shown/x") {
		w.file(at(name), "data\n")
	}
	for _, name := range []string{"bin/tool", "editor"} {
		if err := os.Chmod(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.file(filepath.Join(w.root, "kube"), "data\n")
	for name, value := range map[string]string{
		"PATH": at("bin") + ":" + os.Getenv("PATH"), "npm_execpath": at("lib/node_modules/npm/bin/npm-cli.js"), "OLDPWD": at("data"), "EDITOR": at("editor"), "CARGO_HOME": at("cargo"), "VIRTUAL_ENV": at("venv"),
		"JAVA_HOME": at("sdk"), "KUBECONFIG": filepath.Join(w.root, "kube") + ":" + at("kube"), "AZURE_CONFIG_DIR": at("shown"), "FPATH": "/usr/share:/etc/hostname",
	} {
		w.env[name] = value
	}
	s := w.open(func(o *accesspolicy.Options) { o.Read = []string{at("shown")} })
	seen := "kube /etc/hostname"
	for _, name := range strings.Fields("bin/tool lib/node_modules/npm/bin/npm-cli.js data/x cargo/bin/x cargo/registry/x cargo/git/x venv/lib/x sdk/lib/x editor shown/x") {
		seen += " '" + at(name) + "'"
	}
	w.works(s, "cat "+seen)
	w.fails(s, "cat '"+at("cargo/secret")+"'", "--sandbox-read "+at("cargo/secret"))
	w.fails(s, "grep data '"+at("kube")+"' || ! echo '"+at("kube")+": permission denied'", "--sandbox-read "+at("kube"))
	w.works(w.open(func(o *accesspolicy.Options) { o.Write = []string{base} }), "echo x > '"+at("cargo/registry/y")+"' && ! grep data '"+at("kube")+"'")
}

// TestCredentialsInCaches has the caches of package managers, which a command sees, keep the URL
// that something was fetched by, with and without credentials.
func TestCredentialsInCaches(t *testing.T) {
	w := newWorld(t, false)
	for _, repo := range strings.Fields(`go/pkg/mod/cache/vcs/0a1 .cargo/git/db/x-0a1 .cargo/git/checkouts/x-0a1/b2c/.git .cargo/git/checkouts/x-0a1/b2c/.git/modules/sub .cargo/registry/index/x-0a1/.git .cargo/registry/index/x-0a1 .pub-cache/git/cache/x-0a1
 .julia/clones/123 .julia/registries/General/.git .gem/ruby/3.1.0/bundler/gems/x-0a1/.git .bundle/cache/git/x-0a1 .pyenv/plugins/x/.git`) {
		for name, text := range map[string]string{
			"config":     "[remote \"origin\"]\n\turl = https://ann:s3cret@example.com/x\n",
			"FETCH_HEAD": "0123456789012345678901234567890123456789\t\tbranch 'main' of https://s3cret@example.com/x\n",
			"logs/HEAD":  "0 1 Ann <ann@example.com> 1 +0000\tclone: from ssh://ann:s3cret@example.com/x\n",
		} {
			w.file(filepath.Join(w.home, repo, name), text)
			w.file(filepath.Join(w.home, strings.Replace(repo, "0a1", "open", 1), name), strings.NewReplacer("ann:s3cret@", "", "s3cret@", "").Replace(text))
		}
	}
	w.file(filepath.Join(w.home, ".cargo/registry/index/x-0a1/config.json"), `{"dl": "https://x:s3cret@example.com"}`)
	s := w.open(nil)
	if o := w.run(s, w.root, "grep -rs s3cret ~", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
		t.Error(o.out)
	}
	w.works(s, "cd ~ && grep url go/pkg/mod/cache/vcs/open/config .cargo/git/db/x-open/config .cargo/git/checkouts/x-open/b2c/.git/config .pub-cache/git/cache/x-open/config")
}
