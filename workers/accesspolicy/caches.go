package accesspolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ralph/workers/buildcache"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// openCaches opens the build caches of the project, below the user's; nil where
// there is no place for them. They are the project's own, because what a command
// puts into a cache another one runs: the user's own caches stay read-only.
func (s *Sandbox) openCaches() *buildcache.Store {
	if s.o.Caches != nil {
		return s.o.Caches
	}
	base := s.o.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		if s.home == "" {
			return nil
		}
		base = filepath.Join(s.home, ".cache")
	}
	sum := sha256.Sum256([]byte(s.o.Project))
	dir := filepath.Join(base, "ralph", plainName(filepath.Base(s.o.Project))+"-"+hex.EncodeToString(sum[:6]))
	if below(s.o.Project, dir) || os.MkdirAll(dir, 0o700) != nil {
		return nil // each command begins with empty ones in its temp directory
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || below(s.o.Project, real) {
		return nil
	}
	store, err := buildcache.Open(real)
	if err != nil {
		return nil
	}
	return store
}

// Caches are the build caches of the project, nil where there is no place for
// them or the sandbox is off.
func (s *Sandbox) Caches() *buildcache.Store { return s.caches() }

// lease takes a cache that no command uses now; nil where there is none to be had.
// Commands that run side by side have different ones: an overlay does not show
// what is written below it by way of another one. The caller gives it back.
func (s *Sandbox) lease(o Call) *buildcache.Cache {
	if s.o.Off || o.Outside {
		return nil
	}
	store := s.caches()
	if store == nil {
		return nil
	}
	overlay := s.overlays()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c
	}
	if s.o.Fill && len(s.leased) > 0 {
		return nil // there is one to be kept
	}
	begin := store.New
	if s.o.Fill {
		begin = store.Fill
	}
	c, err := begin(overlay)
	if err != nil {
		return nil
	}
	s.leased = append(s.leased, c)
	return c
}

// giveBack lets the next command have a cache.
func (s *Sandbox) giveBack(c *buildcache.Cache) {
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.idle = append(s.idle, c)
	}
}

// probeTime bounds, as a whole, the command that tries an overlay out.
const probeTime = 5 * time.Second

// tryOverlay says whether an overlay of the caches can be mounted here, by a
// command that sees one: not each file system can hold its upper layer.
func (s *Sandbox) tryOverlay() bool {
	store := s.caches()
	if store == nil || !s.layers().Active("mount namespace") {
		return false
	}
	c, err := store.Fill(true)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }() // what stays is removed by the next Open of the store
	probe := exec.Spec{Argv: []string{exec.Shell(s.o.Project), "-c", "echo x > probe"}, Dir: c.Path, Timeout: probeTime, Env: []string{"PATH=" + s.o.Getenv("PATH")},
		Confine: &sandbox.Policy{Overlays: overlays(c), Write: []string{c.Path}}}
	res, err := s.o.Proc.Run(context.TODO(), probe)
	return err == nil && res.ExitCode == 0 && c.Written() > 0
}

// overlays are the mounts of a cache; none where its Path is its directory.
func overlays(c *buildcache.Cache) []sandbox.Overlay {
	if c == nil || c.Upper == "" {
		return nil
	}
	return []sandbox.Overlay{{Path: c.Path, Lower: c.Lower, Upper: c.Upper, Work: c.Work}}
}

// Written is how many bytes its commands have put into build caches.
func (s *Sandbox) Written() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.leased {
		n += c.Written()
	}
	return n
}

const (
	// fillLook is how often it is looked at what a command puts into empty caches.
	fillLook = time.Second
	// leastFilled is how much of that, in bytes, is worth a word.
	leastFilled = 4 << 20
)

// watchFilling calls Options.Filling when a command begins to fill an empty cache. The
// caller calls end after the command.
func (s *Sandbox) watchFilling(c *buildcache.Cache) (end func()) {
	if s.o.Filling == nil || c == nil || !c.Fresh() || c.Written() >= leastFilled {
		return func() {}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		look := time.NewTicker(fillLook)
		defer look.Stop()
		for {
			select {
			case <-stop:
				return
			case <-look.C:
				if c.Written() >= leastFilled {
					s.filling.Do(s.o.Filling)
					return
				}
			}
		}
	})
	return func() { close(stop); wg.Wait() }
}

// KeepCaches makes what the commands of a sandbox with Options.Fill have written
// the caches that all later ones begin with. No command may run.
func (s *Sandbox) KeepCaches() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.leased
	s.leased, s.idle = nil, nil
	var errs []error
	for _, c := range kept {
		errs = append(errs, c.Keep())
	}
	return errors.Join(errs...)
}

// dropCaches removes the caches; mu is held.
func (s *Sandbox) dropCaches() error {
	var errs []error
	for _, c := range s.leased {
		errs = append(errs, c.Close())
	}
	s.leased, s.idle = nil, nil
	return errors.Join(errs...)
}

// cacheEnviron points the tools to the caches: those of cache, or without one to
// empty ones in the temp directory. Modules and crates that the user has are read
// from where they are; only when a command had the network once, the cache has a
// store of its own for them, which begins with what the user has where a tool can
// be told so.
func (s *Sandbox) cacheEnviron(cache *buildcache.Cache, temp string, network bool) []string {
	dir := filepath.Join(temp, "cache")
	if cache != nil {
		dir = cache.Path
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	env := []string{
		"XDG_CACHE_HOME=" + at("xdg"), "GOCACHE=" + at("go-build"), "GOTELEMETRY=off",
		"npm_config_cache=" + at("npm"), "npm_config_update_notifier=false", "YARN_CACHE_FOLDER=" + at("yarn"), "YARN_GLOBAL_FOLDER=" + at("yarn-global"),
		"npm_config_store_dir=" + at("pnpm"),
		"BUN_INSTALL_CACHE_DIR=" + at("bun"), "PIP_CACHE_DIR=" + at("pip"), "PIP_DISABLE_PIP_VERSION_CHECK=1", "UV_CACHE_DIR=" + at("uv"),
		"POETRY_CACHE_DIR=" + at("poetry"), "PIPENV_CACHE_DIR=" + at("pipenv"), "GRADLE_USER_HOME=" + at("gradle"), "DOTNET_CLI_HOME=" + at("dotnet"),
		"DOTNET_CLI_TELEMETRY_OPTOUT=1", "DOTNET_NOLOGO=1", "COMPOSER_CACHE_DIR=" + at("composer"), "CCACHE_DIR=" + at("ccache"),
		"ELECTRON_CACHE=" + at("electron"), "CYPRESS_CACHE_FOLDER=" + at("cypress"),
	}
	if dir := filepath.Join(s.home, ".cache", "node", "corepack"); s.o.Getenv("COREPACK_HOME") == "" && isDir(dir) {
		env = append(env, "COREPACK_HOME="+dir) // which it would look for in XDG_CACHE_HOME
	}
	if cache == nil {
		return env
	}
	if network {
		_ = s.makeGoPath(cache) // the tools themselves say what they cannot write
	}
	// Crates, and versions of pnpm and other package managers that a project asks for.
	for _, store := range [][2]string{{"cargo", "CARGO_HOME"}, {"pnpm-home", "PNPM_HOME"}, {"corepack", "COREPACK_HOME"}} {
		if network {
			// Without the directory the next command, offline, would not know of it.
			_ = cache.Make(store[0])
		}
		if cache.Has(store[0]) {
			env = append(env, store[1]+"="+at(store[0]))
		}
	}
	if cache.Has("go") {
		paths := append([]string{at("go")}, s.goPaths()[1:]...)
		env = append(env, "GOPATH="+strings.Join(paths, string(filepath.ListSeparator)), "GOMODCACHE="+at("go/pkg/mod"), "GOPROXY="+s.goProxy(network))
	}
	return env
}

// goPaths returns the directories of GOPATH, of which there is one at least.
func (s *Sandbox) goPaths() []string {
	if paths := filepath.SplitList(s.o.Getenv("GOPATH")); len(paths) > 0 {
		return paths
	}
	return []string{filepath.Join(s.home, "go")}
}

// makeGoPath makes the directory that takes the place of the first one of GOPATH when a
// command has the network: go writes there, besides modules, what it has seen of the
// checksum database, without which it takes no new module. The user's programs stay in sight.
func (s *Sandbox) makeGoPath(cache *buildcache.Cache) error {
	bin := filepath.Join(s.goPaths()[0], "bin")
	if cache.Has("go") || !isDir(bin) {
		return cache.Make("go")
	}
	return cache.Make("go", buildcache.Link{Name: "bin", To: bin})
}

// goProxy takes modules from what the user has downloaded, then from where the
// user takes them.
func (s *Sandbox) goProxy(network bool) string {
	getenv := s.o.Getenv
	user := getenv("GOMODCACHE")
	if user == "" {
		user = filepath.Join(s.goPaths()[0], "pkg", "mod")
	}
	rest := "off"
	if network {
		rest = getenv("GOPROXY")
		if rest == "" {
			rest = "https://proxy.golang.org,direct"
		}
		if secretValue("GOPROXY", rest) {
			rest = "direct"
		}
	}
	return "file://" + filepath.Join(user, "cache", "download") + "," + rest
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
