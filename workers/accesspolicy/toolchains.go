package accesspolicy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// maxPrograms bounds how many programs of a directory on PATH are followed to
	// where they lie and to their interpreter.
	maxPrograms = 4096
	// maxHops bounds the chain from a program by links and interpreters.
	maxHops = 8
	// maxShown bounds the programs that are shown one by one.
	maxShown = 64
)

// besideRoots returns what the programs of a toolchain read beside its root, by the
// end of the root's path. The source is each tool's manual.
func besideRoots() map[string][]string {
	return map[string][]string{
		".cargo":            {".rustup"},
		".asdf":             {".tool-versions", ".asdfrc"},
		".local/share/mise": {".tool-versions"},
		".juliaup":          {".julia"},
		".ghcup":            {".cabal"},
		".nimble":           {".choosenim"},
		".choosenim":        {".nimble"},
	}
}

// toolchainEnv returns the variables that name a toolchain or what it reads, besides
// those of homeTools.
func toolchainEnv() []string {
	return strings.Fields(`GOROOT GOBIN GOMODCACHE npm_config_prefix NPM_CONFIG_PREFIX JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME ANT_HOME ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME KOTLIN_HOME N_PREFIX
 COREPACK_HOME CONDA_PREFIX DOTNET_ROOT DOTNET_ROOT_X64 GEM_HOME GEM_PATH OPAM_SWITCH_PREFIX FLUTTER_ROOT HOMEBREW_CELLAR HOMEBREW_REPOSITORY
 SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NIX_SSL_CERT_FILE`)
}

// secretsOfRoot returns the names, some of them patterns, under which tools keep
// credentials in an installation of theirs. The source is each tool's manual: npmrc(5),
// pip's and conda's on configuration, Maven's on settings, Gradle's on init scripts, gem's
// on its environment, git-fetch(1), dotnet dev-certs.
func secretsOfRoot() []string {
	return strings.Fields(`.npmrc .yarnrc.yml .netrc .env .envrc .pypirc .git-credentials .ssh .aws .gnupg credentials credentials.* auth.json auth.toml token tokens.json
 etc/npmrc lib/node_modules/npm/npmrc pip.conf .condarc condarc condarc.d conf/settings.xml gradle.properties init.d etc/gemrc .bundle/config .git/config .git/FETCH_HEAD .git/logs
 corefx/cryptography`)
}

// installations returns a directory that a command sees of a toolchain with those below it in
// which version managers and package managers keep installations, each with its own
// configuration.
func installations(root string) []string {
	list := []string{root}
	for _, pattern := range strings.Fields(`* versions/* versions/*/* versions/*/envs/* installs/*/* candidates/*/* envs/* venvs/* plugins/* node-versions/*/installation
 tools/image/*/* global/* dists/* dists/*/* dists/*/*/* Library/Taps/*/*`) {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // as for hide
		list = append(list, slices.DeleteFunc(found, func(p string) bool { return !isDir(p) })...)
	}
	return list
}

func binNames() []string { return []string{"bin", "sbin", "shims", "cmd", "libexec", ".bin"} }

// tools are the toolchains that PATH and the environment name, as far as they lie
// where a command sees nothing.
type tools struct {
	shown   []string // files and directories, real paths, to be in sight read-only
	secrets []string // below shown
	links   []string // symbolic links on the way to shown
	path    string   // PATH as a command gets it
}

// search collects tools.
type search struct {
	tools
	s      *Sandbox
	hidden []string // real paths that commands do not see, besides what is covered
	open   []string // real paths below which they see all: the project's and those that the user names
	homes  []string
	known  []homeTool
	done   map[string]bool   // programs and, with a slash behind, directories that were followed
	places map[string]string // real paths of directories
}

func (s *Sandbox) findTools() tools {
	open := append(s.named(slices.Concat(s.o.Read, s.o.Write)), s.o.Root, s.o.Project)
	f := search{s: s, hidden: existing(s.hiddenPlaces()), open: open, homes: append(s.homes(), s.home), known: parseHomeTools(), done: map[string]bool{}, places: map[string]string{}}
	for i, t := range f.known {
		dirs := []string{filepath.Join(s.home, t.dir)}
		for _, name := range t.env {
			dirs = append(dirs, filepath.SplitList(s.o.Getenv(name))...)
		}
		f.known[i].named = existing(dirs)
		for _, dir := range dirs {
			f.tool(dir, t.shows)
		}
	}
	var dirs []string
	if path := cleanPath(s.o.Getenv("PATH"), s.o.Root, s.o.Project); path != "" {
		dirs = filepath.SplitList(path)
	}
	for _, dir := range dirs {
		f.directory(dir)
	}
	for _, name := range toolchainEnv() {
		for _, dir := range filepath.SplitList(s.o.Getenv(name)) {
			if real := f.follow(dir); real != "" {
				f.show(real)
			}
		}
	}
	for i, dir := range dirs {
		// The link in the middle of an entry may be out of sight; where it leads is not.
		if real, err := filepath.EvalSymlinks(dir); err == nil && f.unseen(dir) && !f.isShown(dir) {
			dirs[i] = real
		}
	}
	f.path = strings.Join(dirs, string(filepath.ListSeparator))
	return f.tools
}

// unseen reports whether a command does not see a path.
func (f *search) unseen(path string) bool {
	if slices.ContainsFunc(f.open, func(dir string) bool { return below(dir, path) }) {
		return false
	}
	return covered(path) || slices.ContainsFunc(f.hidden, func(h string) bool { return below(h, path) })
}

func (f *search) isShown(path string) bool {
	return slices.ContainsFunc(f.shown, func(p string) bool { return below(p, path) })
}

// directory shows a directory on PATH and follows its programs. Where the directory
// is in sight, only links lead out of it and, but for the system's own, the first
// lines of scripts.
func (f *search) directory(dir string) {
	real := f.place(dir)
	if real == "" || f.done[real+"/"] {
		return
	}
	f.done[real+"/"] = true
	entries, err := os.ReadDir(real)
	if err != nil {
		return // the shell finds nothing there either
	}
	for _, e := range entries[:min(len(entries), maxPrograms)] {
		if e.Type()&os.ModeSymlink != 0 || e.Type().IsRegular() && !ofSystem(real) {
			f.program(filepath.Join(real, e.Name()), 0)
		}
	}
}

// ofSystem reports whether the distribution installs what is in a directory.
func ofSystem(dir string) bool {
	return !below("/usr/local", dir) && slices.ContainsFunc([]string{"/usr", "/bin", "/sbin", "/lib", "/etc"}, func(d string) bool { return below(d, dir) })
}

// program shows where a program lies, with what a link leads to and the interpreter
// that its first line names.
func (f *search) program(path string, hops int) {
	path = filepath.Clean(path)
	if f.done[path] || hops > maxHops || !filepath.IsAbs(path) {
		return
	}
	f.done[path] = true
	dir := f.place(filepath.Dir(path))
	if dir == "" {
		return
	}
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		f.program(to, hops+1)
		return
	}
	if ofSystem(dir) {
		return
	}
	real := filepath.Join(dir, filepath.Base(path))
	if info, err := os.Lstat(real); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return
	}
	if f.unseen(real) && !f.isShown(real) && len(f.shown) < maxShown {
		f.shown = append(f.shown, real) // its directory is not shown as a whole
	}
	f.program(interpreter(real), hops+1)
}

// interpreter returns the program that the first line of a script names; "" without
// one.
func interpreter(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read from
	head := make([]byte, 256)
	n, _ := file.Read(head) // what cannot be read has no first line
	line, found := bytes.CutPrefix(head[:n], []byte("#!"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if words := strings.Fields(string(line)); found && len(words) > 0 {
		return words[0]
	}
	return ""
}

// place shows a directory of programs with the root of its toolchain, where they
// are out of sight, and returns its real path; "" when there is none.
func (f *search) place(dir string) string {
	if real, known := f.places[dir]; known {
		return real
	}
	real := f.follow(dir)
	f.places[dir] = real
	if real != "" && f.unseen(real) {
		f.show(toolRoot(real))
		if slices.Contains(binNames(), filepath.Base(real)) {
			f.show(filepath.Dir(real))
		}
		f.show(real)
	}
	return real
}

// follow returns the real path of path, "" when there is none, and notes the links on the
// way that are out of sight.
func (f *search) follow(path string) string {
	const hops = 40
	for range hops {
		if !filepath.IsAbs(path) {
			return ""
		}
		path = filepath.Clean(path)
		to := ""
		for i := 1; i <= len(path) && to == ""; i++ {
			if i < len(path) && path[i] != '/' {
				continue
			}
			if target, err := os.Readlink(path[:i]); err == nil {
				if f.unseen(path[:i]) {
					f.links = append(f.links, path[:i])
				}
				if to = target; !filepath.IsAbs(to) {
					to = filepath.Join(filepath.Dir(path[:i]), to)
				}
				to = filepath.Join(to, path[i:])
			}
		}
		if to == "" {
			if _, err := os.Lstat(path); err != nil {
				return ""
			}
			return path
		}
		path = to
	}
	return ""
}

// toolRoot returns the root of the toolchain that has programs in dir: the first
// directory on the way there that begins with a dot, as version managers have it,
// that lies in a directory many programs share, or that is node_modules. Otherwise
// it is the installation prefix, the directory that holds bin.
func toolRoot(dir string) string {
	for i, c := range dir + "/" {
		if c != '/' || i == 0 || shared(dir[:i]) {
			continue
		}
		at := dir[:i]
		switch name := filepath.Base(at); {
		case shared(filepath.Dir(at)) && slices.Contains(binNames(), name):
			return filepath.Dir(at)
		case shared(filepath.Dir(at)), name == "node_modules", strings.HasPrefix(name, ".") && name != ".bin":
			return at
		}
	}
	if slices.Contains(binNames(), filepath.Base(dir)) {
		return filepath.Dir(dir)
	}
	return dir
}

// shared reports whether a directory of a home holds the files of many programs.
func shared(dir string) bool {
	return endsIn(dir, strings.Fields(".local .local/share .local/state .config .cache .var .var/app")...)
}

// endsIn reports whether the last elements of a path are one of names.
func endsIn(path string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(path, "/"+n) })
}

// tool shows parts of the directory of a known toolchain, some of them patterns.
func (f *search) tool(dir string, parts []string) {
	real := f.follow(dir)
	if real == "" || !f.unseen(real) {
		f.withhold(real)
		return
	}
	for _, part := range parts {
		found, _ := filepath.Glob(filepath.Join(real, part)) // the patterns are ours
		for _, path := range found {
			if path := f.follow(path); path != "" && !f.isShown(path) && f.unseen(path) && !slices.ContainsFunc(f.homes, func(h string) bool { return h != "" && below(path, h) }) {
				f.whole(path)
			}
		}
	}
}

// show puts a file or directory into sight, but not the credentials in it. Of a known
// toolchain it shows what homeTools lists, and of a directory that holds more than a
// toolchain, or that no list knows and that a program keeps in a home for itself, the
// programs and libraries.
func (f *search) show(path string) {
	if !f.unseen(path) {
		f.withhold(path) // a toolchain beside the homes
		return
	}
	if f.isShown(path) || endsIn(path, secretNames()...) {
		return
	}
	_, err := os.Lstat(filepath.Join(path, "VERSION")) // of Go's archive, which may have the name of a GOPATH
	i := slices.IndexFunc(f.known, func(t homeTool) bool {
		return slices.Contains(t.named, path) || endsIn(path, t.dir) && (t.dir != "go" || err != nil)
	})
	switch {
	case i >= 0:
		f.tool(path, f.known[i].shows)
		f.beside(path)
	case f.holdsMore(path) || strings.HasPrefix(filepath.Base(path), ".") && filepath.Base(path) != ".bin" || shared(filepath.Dir(path)):
		for _, name := range programParts() {
			if sub := filepath.Join(path, name); f.follow(sub) == sub {
				f.show(sub)
			}
		}
	default:
		f.whole(path)
	}
}

// whole shows a file or directory without the credentials in it.
func (f *search) whole(path string) {
	f.shown = append(f.shown, path)
	f.withhold(path)
}

// withhold notes the credentials in the directory of a toolchain that is not the project's.
func (f *search) withhold(path string) {
	if path == "" || below(f.s.o.Root, path) || below(f.s.o.Project, path) {
		return
	}
	f.secrets = append(f.secrets, cachedSecrets(path)...)
	hide := func(dir, name string) {
		found, _ := filepath.Glob(filepath.Join(dir, name)) // the patterns are ours; a path that looks like one matches nothing
		f.secrets = append(f.secrets, found...)
	}
	for _, dir := range installations(path) {
		for _, name := range secretsOfRoot() {
			hide(dir, name)
		}
	}
	for _, name := range secretNames() {
		for i, c := range name {
			if c == '/' && endsIn(path, name[:i]) {
				hide(path, name[i+1:])
			}
		}
	}
}

// beside shows what the programs of a toolchain read beside its root.
func (f *search) beside(path string) {
	for root, names := range besideRoots() {
		for _, name := range names {
			if base, found := strings.CutSuffix(path, "/"+root); found {
				if real := f.follow(filepath.Join(base, name)); real != "" {
					f.show(real)
				}
			}
		}
	}
}

// secretNames returns where secrets are in a home.
func secretNames() []string {
	out := secretsOfHome()
	for _, name := range secretsOfConfig() {
		out = append(out, ".config/"+name)
	}
	return out
}

// holdsMore reports whether a directory holds more than a toolchain: a home, what
// looks like one, what programs share, a project, or programs without what they are run with,
// which may lie among documents.
func (f *search) holdsMore(dir string) bool {
	if shared(dir) || below(dir, f.s.o.Root) || below(dir, f.s.o.Project) || slices.ContainsFunc(f.homes, func(h string) bool { return h != "" && below(dir, h) }) {
		return true
	}
	has := func(names string) bool {
		return slices.ContainsFunc(strings.Fields(names), func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return err == nil
		})
	}
	return has(".profile .bashrc .bash_profile .zshrc .ssh .gnupg .config .local .gitconfig .git .env package.json go.mod Cargo.toml pyproject.toml") ||
		has("bin sbin") && !has("lib lib64 libexec jmods pkg VERSION")
}
