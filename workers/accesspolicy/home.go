package accesspolicy

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
	"ralph/workers/tempdir"
)

// homeTools lists where toolchains keep themselves and what they have downloaded, one
// a line: the directory in a home, the variables that name another one, and what of it a
// command sees ("." is all of it but credentials). The source is each tool's manual.
const homeTools = `
go                        GOPATH             bin pkg
sdk                       -                  go*
.goenv                    GOENV_ROOT         .
.gvm                      -                  .
.cargo                    CARGO_HOME         bin registry git env
.rustup                   RUSTUP_HOME        .
.m2                       -                  repository wrapper
.sdkman                   SDKMAN_DIR         .
.jenv                     JENV_ROOT          .
.jabba                    -                  .
.jdks                     -                  .
.jbang                    -                  bin cache currentjdk
.konan                    -                  .
.ivy2                     -                  cache local
.sbt                      -                  boot launchers
.gradle                   GRADLE_USER_HOME   wrapper jdks
Android/Sdk               -                  .
.nvm                      NVM_DIR            .
.n                        -                  .
.nodenv                   NODENV_ROOT        .
.volta                    VOLTA_HOME         .
.fnm                      FNM_DIR            .
.local/share/fnm          -                  .
.bun                      BUN_INSTALL        bin install
.deno                     -                  bin
.yarn                     -                  bin releases berry
.npm-global               -                  bin lib
.npm-packages             -                  bin lib
.config/yarn/global       -                  node_modules
.config/yarn              -                  global/node_modules
.local/share/pnpm         PNPM_HOME          .
.cache/node/corepack      COREPACK_HOME      .
.pyenv                    PYENV_ROOT         .
.virtualenvs              -                  .
.local/share/virtualenvs  -                  .
.local/lib                -                  .
.local/bin                -                  .
.local/share/uv           -                  python tools
.local/share/pipx         -                  .
.local/pipx               -                  .
.local/share/pypoetry     POETRY_HOME        bin venv
.rye                      -                  shims py self tools uv
.pixi                     -                  bin envs
miniconda3                -                  .
anaconda3                 -                  .
miniforge3                -                  .
mambaforge                -                  .
.conda                    -                  envs pkgs
.asdf                     ASDF_DIR,ASDF_DATA_DIR .
.mise                     -                  .
.local/share/mise         MISE_DATA_DIR      .
.local/share/rtx          -                  .
.tool-versions            -                  .
.asdfrc                   -                  .
.proto                    -                  bin shims tools plugins
.linuxbrew                HOMEBREW_PREFIX    .
.nix-profile              -                  .
.local/state/nix          -                  profiles
.rbenv                    RBENV_ROOT         .
.rvm                      -                  .
.gem                      -                  ruby specs
.local/share/gem          -                  .
.bundle                   BUNDLE_USER_HOME   cache plugin
.phpenv                   -                  .
.composer                 COMPOSER_HOME      vendor
.config/composer          -                  vendor
.perlbrew                 -                  .
perl5                     -                  bin lib perlbrew
.plenv                    -                  .
.ghcup                    -                  .
.cabal                    CABAL_DIR          bin lib packages share store
.stack                    STACK_ROOT         bin programs pantry snapshots stack.sqlite3 setup-exe-cache
.opam                     -                  .
.elan                     -                  .
.juliaup                  -                  .
.julia                    JULIA_DEPOT_PATH   artifacts clones compiled environments juliaup packages registries scratchspaces
.nimble                   -                  bin pkgs pkgs2
.choosenim                -                  .
.zvm                      -                  .
.dotnet                   -                  .
.nuget                    -                  packages
.mix                      MIX_HOME           .
.hex                      HEX_HOME           packages registry
.kiex                     -                  .
.pub-cache                PUB_CACHE          bin global_packages hosted git
.luarocks                 -                  bin lib share
.swiftly                  -                  .
.swiftenv                 -                  .
.foundry                  -                  bin versions cache
.platformio               -                  packages penv platforms
.arduino15                -                  packages libraries
.venv                     VIRTUAL_ENV        .
`

// homeTool is a line of homeTools.
type homeTool struct {
	dir   string
	env   []string
	shows []string
	named []string // real paths of dir in the home, and of what env names; set by findTools
}

func parseHomeTools() []homeTool {
	var out []homeTool
	for line := range strings.Lines(homeTools) {
		if f := strings.Fields(line); len(f) > 2 {
			out = append(out, homeTool{dir: f[0], env: strings.Split(f[1], ","), shows: f[2:]})
		}
	}
	return out
}

// programParts returns what is seen of a directory that holds programs and more.
func programParts() []string {
	return strings.Fields("bin sbin shims cmd libexec lib lib64 share include pyvenv.cfg")
}

// homes returns the directories that are hidden but for what toolchains need: the user's
// home and what XDG's variables name, and the homes of others. What the tree lies at or
// above is left out.
func (s *Sandbox) homes() []string {
	all := []string{s.home, "/root", "/home", "/Users"}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		all = append(all, s.o.Getenv(name))
	}
	if u, err := user.Current(); err == nil {
		all = append(all, u.HomeDir) // where HOME names another
	}
	if s.home == "/" {
		entries, _ := os.ReadDir("/") // what cannot be listed is not there
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 {
				all = append(all, "/"+e.Name())
			}
		}
	}
	return slices.DeleteFunc(existing(all), func(p string) bool { return !filepath.IsAbs(p) || systems(p) || below(s.o.Root, p) })
}

// named returns the paths that the user names in Options.Read or Write, as they are now.
func (s *Sandbox) named(paths []string) []string {
	out := slices.Clone(paths)
	for i, path := range out {
		if rest, found := strings.CutPrefix(path, "~/"); found {
			out[i] = filepath.Join(s.home, rest)
		}
	}
	return slices.DeleteFunc(existing(out), func(p string) bool { return !filepath.IsAbs(p) || p == "/" })
}

// systems reports whether a directory is one of the system's own, which is no home although
// HOME or the user database may say so.
func systems(dir string) bool {
	return slices.Contains(strings.Fields(`/ /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /lost+found /media /mnt /nix /nix/store /opt /proc /run /sbin /snap /sys /tmp /usr
 /usr/bin /usr/games /usr/lib /usr/local /usr/local/bin /usr/sbin /usr/share /usr/src /var /var/cache /var/lib /var/log /var/run /var/spool /var/tmp`), dir)
}

// made returns the files that a command sees in the home in place of the user's: of git's
// configuration the name of the user and the patterns to ignore, of mise's the versions of
// tools, of go's the settings that a command gets from the environment, too.
func (s *Sandbox) made() map[string]string {
	out := map[string]string{}
	put := func(path, text string) {
		if text != "" && slices.ContainsFunc(s.homes(), func(h string) bool { return below(h, path) }) {
			out[path] = text
		}
	}
	config := s.o.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(s.home, ".config")
	}
	if real, err := filepath.EvalSymlinks(config); err == nil {
		config = real
	}
	settings, ignore := git.UserSettings(context.Background(), s.o.Own, s.o.Root, s.o.Environ)
	put(filepath.Join(s.home, ".gitconfig"), settings)
	put(filepath.Join(config, "git", "ignore"), readOwn(ignore))
	mise, goenv := filepath.Join(config, "mise", "config.toml"), filepath.Join(config, "go", "env")
	put(mise, toolsTable(readOwn(mise)))
	from := goenv
	if path := s.o.Getenv("GOENV"); path != "" {
		from = path // "off" is no file
	}
	put(goenv, goEnv(readOwn(from)))
	return out
}

// makeHome makes a directory that takes the place of the home where no mount can show a home
// without what is hidden, with links to what a command sees of it and the files that are made
// for it, and returns the variables that lead tools to it. Commands cannot write to it. Tools that
// write where they lie into what they build are told their place in the real home.
func (s *Sandbox) makeHome() (env []string) {
	if s.home == "" || len(s.homes()) == 0 || s.layers().Active("mount namespace") {
		return nil
	}
	dir, err := tempdir.Make(tempBase(s.o.Getenv), plainName(s.o.Agent))
	if err != nil {
		return nil // a command then says which of its files it cannot read
	}
	s.mu.Lock()
	s.ownHome = dir
	s.mu.Unlock()
	env = []string{"HOME=" + dir.Path}
	put := func(path string, create func(string) error) {
		if name, found := strings.CutPrefix(path, s.home+"/"); found {
			name = filepath.Join(dir.Path, name)
			_ = os.MkdirAll(filepath.Dir(name), 0o700) // as for the directory
			_ = create(name)
		}
	}
	config, set := s.o.Getenv("XDG_CONFIG_HOME"), filepath.Join(s.home, ".config")
	if filepath.IsAbs(config) {
		env = append(env, "XDG_CONFIG_HOME="+filepath.Join(dir.Path, ".config"))
	}
	for path, text := range s.files() {
		if filepath.IsAbs(config) && below(config, path) {
			path = set + strings.TrimPrefix(path, config)
		}
		put(path, func(name string) error { return os.WriteFile(name, []byte(text), 0o600) })
	}
	shown := slices.Concat(s.tools().shown, s.tools().links, s.named(s.o.Read), s.named(s.o.Write), []string{s.o.Root, s.o.Project})
	slices.Sort(shown) // what is below a link is there already
	for _, path := range shown {
		put(path, func(name string) error { return os.Symlink(path, name) })
	}
	for _, tool := range [][2]string{{"GOPATH", "go"}, {"CARGO_HOME", ".cargo"}, {"RUSTUP_HOME", ".rustup"}} {
		if place := filepath.Join(s.home, tool[1]); s.o.Getenv(tool[0]) == "" && isDir(place) {
			env = append(env, tool[0]+"="+place)
		}
	}
	return env
}

// readOwn returns a file of the user's, which may be a link; "" without one.
func readOwn(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(real) {
		return ""
	}
	text, _ := readFile(real, maxConfigBytes) // one that cannot be read says nothing
	return string(text)
}

// toolsTable returns the table "tools" of a file of TOML.
func toolsTable(text string) string {
	out, in := "", false
	for line := range strings.Lines(text) {
		if head := strings.TrimSpace(line); strings.HasPrefix(head, "[") {
			in = strings.HasPrefix(head, "[tools]") || strings.HasPrefix(head, "[tools.")
		}
		if in {
			out += line
		}
	}
	return out
}

// goEnv returns the settings of `go env -w` that a command may know.
func goEnv(text string) string {
	out := ""
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if knownName(name) && !secretValue(name, value) && harmless(name, value) {
			out += name + "=" + value + "\n"
		}
	}
	return out
}
