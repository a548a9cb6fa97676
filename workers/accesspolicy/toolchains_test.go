package accesspolicy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	rexec "ralph/workers/exec"
)

// install is a toolchain of another user, laid out as its manual has it.
type install struct {
	name    string
	path    string   // its entries of PATH, below the other home, separated by blanks
	command string   // prints "data" as often as it has files to read
	reads   string   // those files
	scripts string   // programs that read them all
	links   string   // "link=target"; a relative target as in ln -s
	secrets string   // must stay out of sight
	lines   []string // "script=interpreter" below the other home, instead of /bin/sh
}

func installs() []install {
	return []install{
		{name: "rustup", path: ".cargo/bin", command: "cargo", scripts: ".cargo/bin/rustup", links: ".cargo/bin/cargo=rustup", reads: ".rustup/toolchains/stable/lib/x .cargo/registry/x",
			secrets: ".cargo/credentials .cargo/credentials.toml"},
		{name: "pyenv", path: ".pyenv/shims .pyenv/bin", command: "python9", scripts: ".pyenv/shims/python9", reads: ".pyenv/libexec/pyenv .pyenv/versions/3.11/lib/x"},
		{name: "nvm", path: ".nvm/versions/node/v20/bin", command: "npm9", scripts: ".nvm/versions/node/v20/lib/node_modules/npm/bin/cli.js", reads: ".nvm/alias/default .nvm/versions/node/v20/lib/node_modules/npm/x",
			links: ".nvm/versions/node/v20/bin/npm9=../lib/node_modules/npm/bin/cli.js", secrets: ".npmrc"},
		{name: "sdkman", path: ".sdkman/candidates/java/current/bin", command: "java9", scripts: ".sdkman/candidates/java/17.0.1/bin/java9", links: ".sdkman/candidates/java/current=17.0.1",
			reads: ".sdkman/candidates/java/17.0.1/lib/x .sdkman/candidates/java/17.0.1/conf/y", secrets: ".m2/settings.xml .gradle/gradle.properties"},
		{name: "volta", path: ".volta/bin", command: "node9", scripts: ".volta/bin/volta-shim", links: ".volta/bin/node9=volta-shim", reads: ".volta/tools/image/node/x"},
		{name: "fnm", path: "run/fnm_multishells/1_2/bin", command: "node9", scripts: ".local/share/fnm/node-versions/v20/installation/bin/node9", reads: ".local/share/fnm/aliases/x",
			links: "run/fnm_multishells/1_2=../../.local/share/fnm/node-versions/v20/installation", secrets: ".local/share/keyrings/login"},
		{name: "asdf", path: ".asdf/shims", command: "node9", scripts: ".asdf/shims/node9", reads: ".asdf/installs/node/x .tool-versions"},
		{name: "mise", path: ".local/share/mise/shims", command: "node9", scripts: ".local/bin/mise", links: ".local/share/mise/shims/node9=../../../bin/mise", reads: ".local/share/mise/installs/x",
			secrets: ".local/share/keyrings/login .config/gh/hosts.yml"},
		{name: "homebrew", path: ".linuxbrew/bin .linuxbrew/sbin", command: "brewed", scripts: ".linuxbrew/Cellar/b/1/bin/brewed", links: ".linuxbrew/bin/brewed=../Cellar/b/1/bin/brewed .linuxbrew/opt/b=../Cellar/b/1",
			reads: ".linuxbrew/Cellar/b/1/lib/x .linuxbrew/etc/x"},
		{name: "go's archive", path: "sdk/go1.22/bin go/bin", command: "go9", scripts: "sdk/go1.22/bin/go9 go/bin/gopls9", reads: "sdk/go1.22/src/x sdk/go1.22/VERSION go/pkg/mod/x", secrets: "sdk/secret go/.netrc .config/ralph/x .ssh/id"},
		{name: "conda", path: "miniconda3/condabin", command: "conda9", scripts: "miniconda3/condabin/conda9", lines: []string{"miniconda3/condabin/conda9=miniconda3/bin/python"}, links: "miniconda3/bin/python=/bin/sh",
			reads: "miniconda3/lib/python3.11/x", secrets: "miniconda3/.condarc"},
		{name: "pipx", path: ".local/bin", command: "black9", scripts: ".local/share/pipx/venvs/black/bin/black9", lines: []string{".local/share/pipx/venvs/black/bin/black9=.local/share/pipx/venvs/black/bin/python"},
			links:   ".local/bin/black9=../share/pipx/venvs/black/bin/black9 .local/share/pipx/venvs/black/bin/python=../../../../../../.pyenv/versions/3/bin/python .pyenv/versions/3/bin/python=/bin/sh",
			reads:   ".local/share/pipx/venvs/black/lib/x .pyenv/versions/3/lib/y",
			secrets: ".local/share/keyrings/login .pypirc"},
		{name: "uv", path: ".local/bin", command: "ruff9", scripts: ".local/share/uv/tools/ruff/bin/ruff9", links: ".local/bin/ruff9=../share/uv/tools/ruff/bin/ruff9", reads: ".local/share/uv/python/cpython/lib/x",
			secrets: ".local/share/uv/credentials/x"},
		{name: "pip install --user", path: ".local/bin", command: "tool9", scripts: ".local/bin/tool9", reads: ".local/lib/python3.11/site-packages/x", secrets: ".local/share/keyrings/login .local/state/zsh/history"},
		{name: "rbenv", path: ".rbenv/shims", command: "ruby9", scripts: ".rbenv/shims/ruby9", reads: ".rbenv/libexec/rbenv .rbenv/versions/3/x"},
		{name: "rvm", path: ".rvm/gems/ruby-3/bin", command: "rails9", scripts: ".rvm/gems/ruby-3/bin/rails9", reads: ".rvm/rubies/ruby-3/x"},
		{name: "ghcup", path: ".ghcup/bin", command: "ghc9", scripts: ".ghcup/ghc/9.4/bin/ghc9", links: ".ghcup/bin/ghc9=../ghc/9.4/bin/ghc9", reads: ".ghcup/ghc/9.4/lib/x .cabal/packages/x", secrets: ".cabal/config"},
		{name: "juliaup", path: ".juliaup/bin", command: "julia9", scripts: ".juliaup/bin/julia9", reads: ".julia/juliaup/x", secrets: ".julia/servers/pkg/auth.toml"},
		{name: "opam", path: ".opam/default/bin", command: "ocaml9", scripts: ".opam/default/bin/ocaml9", reads: ".opam/default/lib/x .opam/repo/x"},
		{name: "npm's prefix", path: ".npm-global/bin", command: "tsc9", scripts: ".npm-global/lib/node_modules/t/cli.js", links: ".npm-global/bin/tsc9=../lib/node_modules/t/cli.js", reads: ".npm-global/lib/node_modules/u/x", secrets: ".npmrc .npm-global/.npmrc"},
		{name: "pnpm", path: ".local/share/pnpm", command: "tsc9", scripts: ".local/share/pnpm/tsc9", reads: ".local/share/pnpm/global/5/x", secrets: ".config/pnpm/rc"},
		{name: "yarn's global", path: ".config/yarn/global/node_modules/.bin", command: "tsc9", scripts: ".config/yarn/global/node_modules/t/cli.js", links: ".config/yarn/global/node_modules/.bin/tsc9=../t/cli.js",
			reads: ".config/yarn/global/node_modules/u/x", secrets: ".config/gcloud/x"},
		{name: "node_modules", path: "tools/node_modules/.bin", command: "tsc9", scripts: "tools/node_modules/t/cli.js", links: "tools/node_modules/.bin/tsc9=../t/cli.js", reads: "tools/node_modules/u/x", secrets: "tools/.env"},
		{name: "dotnet", path: ".dotnet .dotnet/tools", command: "ef9", scripts: ".dotnet/tools/ef9", reads: ".dotnet/shared/x .dotnet/tools/.store/x", secrets: ".nuget/NuGet/NuGet.Config"},
		{name: "composer", path: ".config/composer/vendor/bin", command: "pint9", scripts: ".config/composer/vendor/l/pint", links: ".config/composer/vendor/bin/pint9=../l/pint", reads: ".config/composer/vendor/l/x", secrets: ".config/composer/auth.json"},
		{name: "gem", path: ".gem/ruby/3/bin", command: "rake9", scripts: ".gem/ruby/3/bin/rake9", reads: ".gem/ruby/3/gems/x", secrets: ".gem/credentials"},
		{name: "maven's archive", path: "apache-maven-3.9/bin", command: "mvn9", scripts: "apache-maven-3.9/bin/mvn9", reads: "apache-maven-3.9/lib/x apache-maven-3.9/conf/y", secrets: ".m2/settings.xml .m2/settings-security.xml"},
		{name: "the home's bin", path: "bin", command: "tool9", scripts: "bin/tool9", reads: "lib/x", secrets: ".ssh/id work/notes"},
		{name: "a bin among documents", path: "Documents/bin", command: "tool9", scripts: "Documents/bin/tool9", secrets: "Documents/taxes.txt"},
		{name: "a bin among projects", path: "code/bin", command: "tool9", scripts: "code/bin/tool9", secrets: "code/other/main.c code/other/.env.local"},
		{name: "the home itself", path: ".", command: "tool9", scripts: "tool9", secrets: ".ssh/id work/notes notes"},
		{name: "docker desktop", path: ".docker/bin", command: "tool9", scripts: ".docker/bin/tool9", secrets: ".docker/config.json"},
		{name: "foundry", path: ".foundry/bin", command: "forge9", scripts: ".foundry/bin/forge9", reads: ".foundry/versions/x", secrets: ".foundry/keystores/k"},
		{name: "perlbrew", path: "perl5/perlbrew/perls/perl-5/bin", command: "perl9", scripts: "perl5/perlbrew/perls/perl-5/bin/perl9", reads: "perl5/perlbrew/perls/perl-5/lib/x", secrets: "perl5/notes"},
		{name: "android", path: "Android/Sdk/cmdline-tools/latest/bin", command: "sdkmanager9", scripts: "Android/Sdk/cmdline-tools/latest/bin/sdkmanager9", reads: "Android/Sdk/cmdline-tools/latest/lib/x", secrets: ".android/debug.keystore"},
	}
}

// lay makes the install below a home.
func (in install) lay(w *world, home string) {
	w.t.Helper()
	for _, name := range strings.Fields(in.reads) {
		w.file(filepath.Join(home, name), "data\n")
	}
	for _, name := range strings.Fields(in.secrets) {
		w.file(filepath.Join(home, name), "s3cret\n")
	}
	for _, name := range strings.Fields(in.scripts) {
		text := "#!/bin/sh\necho started\n"
		for _, l := range in.lines {
			if script, line, _ := strings.Cut(l, "="); script == name {
				text = strings.Replace(text, "/bin/sh", filepath.Join(home, line), 1)
			}
		}
		for _, r := range strings.Fields(in.reads) {
			text += "cat '" + filepath.Join(home, r) + "' || exit 1\n"
		}
		w.file(filepath.Join(home, name), text)
		if err := os.Chmod(filepath.Join(home, name), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, l := range strings.Fields(in.links) {
		link, to, _ := strings.Cut(l, "=")
		link = filepath.Join(home, link)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			w.t.Fatal(err)
		}
	}
}

// What PATH names is in sight with what it needs, also in another user's home, and
// nothing else of that home is.
func TestToolchainsOfAnotherHome(t *testing.T) {
	for _, in := range installs() {
		t.Run(in.name, func(t *testing.T) {
			w := newWorld(t, false)
			other := filepath.Join(filepath.Dir(w.home), "other")
			in.lay(w, other)
			w.file(filepath.Join(other, ".bashrc"), "s3cret\n")
			w.file(filepath.Join(other, "project", "main.go"), "s3cret\n")
			path := ""
			for _, dir := range strings.Fields(in.path) {
				path += filepath.Join(other, dir) + ":"
			}
			w.env["PATH"] = path + w.env["PATH"]
			s := w.open(nil)
			want := "started" + strings.Repeat("\ndata", len(strings.Fields(in.reads)))
			if got := strings.TrimSpace(w.works(s, in.command)); got != want {
				t.Errorf("%q", got)
			}
			if o := w.run(s, w.root, "grep -rs s3cret '"+other+"'", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
				t.Errorf("in sight:\n%s", o.out)
			}
			w.fails(s, "echo x > '"+filepath.Join(other, strings.Fields(in.scripts)[0])+"'", "")
			beside := filepath.Join(other, strings.Fields(in.path)[0], "beside")
			w.run(s, w.root, "echo x > '"+beside+"'", accesspolicy.Call{})
			w.gone(beside)
		})
	}
}

// A link to the program in a directory that is in sight is enough.
func TestLinkToAToolchain(t *testing.T) {
	w := newWorld(t, false)
	other := filepath.Join(filepath.Dir(w.home), "other")
	for _, in := range installs() {
		if in.name == "rustup" {
			in.lay(w, other)
		}
	}
	link := filepath.Join(w.home, "tools", "cargo")
	w.file(filepath.Join(w.home, "tools", "x"), "")
	if err := os.Symlink(filepath.Join(other, ".cargo", "bin", "cargo"), link); err != nil {
		t.Fatal(err)
	}
	w.env["PATH"] = filepath.Dir(link) + ":" + w.env["PATH"]
	if out := w.works(w.open(nil), "cargo"); strings.Count(out, "data") != 2 {
		t.Error(out)
	}
}

// Each program of a language on PATH gives the same answer inside as outside,
// whatever the home is.
func TestProgramsOfThisMachine(t *testing.T) {
	for _, home := range []string{"", os.Getenv("HOME")} {
		w := newWorld(t, false)
		for _, name := range []string{"PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "GOROOT", "JAVA_HOME"} {
			if v := os.Getenv(name); v != "" {
				w.env[name] = v
			}
		}
		if home != "" {
			w.env["HOME"] = home
			w.env["XDG_CACHE_HOME"] = filepath.Join(w.home, "cache")
		} else if cargo, err := exec.LookPath("cargo"); err == nil && w.env["RUSTUP_HOME"] == "" {
			// The home says nothing of it, and without it no proxy of rustup starts.
			if dir := filepath.Join(filepath.Dir(cargo), "..", "..", ".rustup"); strings.HasSuffix(filepath.Dir(cargo), "/.cargo/bin") {
				w.env["RUSTUP_HOME"] = filepath.Clean(dir)
			}
		}
		s := w.open(nil)
		n := 0
		for _, command := range []string{"cargo --version", "rustc --version", "python3 --version", "python --version", "pip --version", "go version", "node --version", "npm --version", "java -version",
			"ruby --version", "perl -v", "gcc --version", "make --version", "git --version", "deno --version", "bun --version", "php --version", "ghc --version", "dotnet --version"} {
			cmd := exec.Command("/bin/sh", "-c", command+" 2>&1")
			cmd.Dir, cmd.Env = w.root, w.environ()
			out, err := cmd.Output()
			if err != nil {
				continue // it does not work outside either
			}
			n++
			if got := w.works(s, command+" 2>&1"); got != string(out) {
				t.Errorf("%s: inside %q, outside %q", command, got, out)
			}
		}
		t.Logf("HOME=%s: %d programs", w.env["HOME"], n)
	}
}

// TestCargoBuildsWithGit has cargo, whose git reads ~/.gitconfig by itself and follows what that
// includes, build with a dependency in git, and with what the user has downloaded of it, where a
// command can only be kept from reading that file, too.
func TestCargoBuildsWithGit(t *testing.T) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		t.Skip("no cargo here")
	}
	for _, method := range []string{"", "session"} {
		t.Run("method "+method, func(t *testing.T) {
			w := newWorld(t, false)
			if w.env["RUSTUP_HOME"] = os.Getenv("RUSTUP_HOME"); w.env["RUSTUP_HOME"] == "" && strings.HasSuffix(filepath.Dir(cargo), "/.cargo/bin") {
				w.env["RUSTUP_HOME"] = filepath.Join(filepath.Dir(cargo), "..", "..", ".rustup")
			}
			w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n[include]\n\tpath = more\n[http]\n\textraHeader = s3cret\n")
			w.file(filepath.Join(w.home, "more"), "[alias]\n\tx = s3cret\n")
			dep := filepath.Join(filepath.Dir(w.root), "dep")
			w.file(filepath.Join(dep, "src", "lib.rs"), "pub fn f() {}\n")
			w.file(filepath.Join(dep, "Cargo.toml"), "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
			w.gitIn(dep, "init", "-q")
			w.gitIn(dep, "add", "-A")
			w.gitIn(dep, "-c", "commit.gpgSign=false", "commit", "-qm", "x")
			w.file(filepath.Join(w.root, "src", "main.rs"), "fn main() { dep::f() }\n")
			w.file(filepath.Join(w.root, "Cargo.toml"), "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndep = { git = \"file://"+dep+"\" }\n")
			w.shell("cargo fetch -q", w.root)
			w.runner = rexec.New(rexec.Options{Init: rexec.Self(), Method: method})
			defer w.runner.Close(t.Context())
			st := accesspolicy.Check(w.runner)
			if st.None() || method == "" && !st.Active("mount namespace") {
				t.Skip(st)
			}
			s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: w.root, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			w.works(s, "cargo build --offline && target/debug/app && test \"$(git config user.name)\" = Ann")
			if o := w.run(s, w.root, "cat ~/.gitconfig ~/more '"+w.home+"/.gitconfig' '"+w.home+"/more'", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
				t.Error(o.out)
			}
		})
	}
}
