package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// caches are the build caches of a project. They are the project's own, because
// what a command puts into a cache another one runs: the user's own caches stay
// read-only.
type caches struct {
	dir  string // "" where there is no place for them
	home string
}

// makeCaches makes the directory of the project's caches, below the user's.
func (s *Sandbox) makeCaches() caches {
	base := s.o.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		if s.home == "" {
			return caches{}
		}
		base = filepath.Join(s.home, ".cache")
	}
	sum := sha256.Sum256([]byte(s.o.Project))
	dir := filepath.Join(base, "ralph", plainName(filepath.Base(s.o.Project))+"-"+hex.EncodeToString(sum[:6]))
	if below(s.o.Project, dir) || os.MkdirAll(dir, 0o700) != nil {
		return caches{home: s.home} // each command begins with empty ones in its temp directory
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || below(s.o.Project, real) {
		return caches{home: s.home}
	}
	return caches{dir: real, home: s.home}
}

// environ points the tools to the caches. Modules and crates that the user has
// are read from where they are; only when a command had the network once, the
// project has a store of its own for them, which begins with what the user has
// where a tool can be told so.
func (c caches) environ(temp string, network bool, getenv func(string) string) []string {
	own := c.dir != ""
	if !own {
		c.dir = filepath.Join(temp, "cache")
	}
	at := func(name string) string { return filepath.Join(c.dir, name) }
	env := []string{
		"XDG_CACHE_HOME=" + at("xdg"), "GOCACHE=" + at("go-build"), "GOTELEMETRY=off",
		"npm_config_cache=" + at("npm"), "npm_config_update_notifier=false", "YARN_CACHE_FOLDER=" + at("yarn"), "npm_config_store_dir=" + at("pnpm"),
		"BUN_INSTALL_CACHE_DIR=" + at("bun"), "PIP_CACHE_DIR=" + at("pip"), "PIP_DISABLE_PIP_VERSION_CHECK=1", "UV_CACHE_DIR=" + at("uv"),
		"POETRY_CACHE_DIR=" + at("poetry"), "PIPENV_CACHE_DIR=" + at("pipenv"), "GRADLE_USER_HOME=" + at("gradle"), "DOTNET_CLI_HOME=" + at("dotnet"),
		"DOTNET_CLI_TELEMETRY_OPTOUT=1", "DOTNET_NOLOGO=1", "COMPOSER_CACHE_DIR=" + at("composer"), "CCACHE_DIR=" + at("ccache"),
		"ELECTRON_CACHE=" + at("electron"), "CYPRESS_CACHE_FOLDER=" + at("cypress"),
	}
	if network && own {
		// Without the directory the next command, offline, would not know of it.
		for _, name := range []string{"go-mod", "cargo"} {
			_ = os.MkdirAll(at(name), 0o700) // the tool itself says what it cannot write
		}
	}
	if isDir(at("go-mod")) {
		env = append(env, "GOMODCACHE="+at("go-mod"), "GOPROXY="+c.goProxy(network, getenv))
	}
	if isDir(at("cargo")) {
		env = append(env, "CARGO_HOME="+at("cargo"))
	}
	return env
}

// goProxy takes modules from what the user has downloaded, then from where the
// user takes them.
func (c caches) goProxy(network bool, getenv func(string) string) string {
	user := getenv("GOMODCACHE")
	if user == "" {
		gopath, _, _ := strings.Cut(getenv("GOPATH"), string(filepath.ListSeparator))
		if gopath == "" {
			gopath = filepath.Join(c.home, "go")
		}
		user = filepath.Join(gopath, "pkg", "mod")
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

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
