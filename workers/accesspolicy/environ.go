package accesspolicy

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"ralph/memory/text"
	"ralph/workers/buildcache"
	"ralph/workers/exec"
)

// environ is the environment of a confined command: what of the user's is known
// to be needed and holds no secret, the places where it may write, and settings
// without which tools stumble over what the sandbox leaves out.
func (s *Sandbox) environ(temp string, cache *buildcache.Cache, o Call) []string {
	env := Environ(s.o.Environ, o.Network)
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		// A virtual environment in the tree is the repository's, like an entry of PATH.
		return name == "PATH" || name == "VIRTUAL_ENV" && within(s.o.Root, s.o.Project, value)
	})
	if path := s.tools().path; path != "" {
		env = append(env, "PATH="+path)
	}
	env = append(env, "TMPDIR="+s.tempAsSeen(temp))
	env = append(env, s.own()...)
	env = append(env, s.cacheEnviron(cache, s.tempAsSeen(temp), o.Network)...)
	return append(env, gitSettings()...)
}

// gitSettings keep git from what cannot work inside: keys to sign with, helpers
// that know passwords, and background work that outlives the command. husky, which many
// projects run with each `npm install`, fails where it may not write hooks, but for HUSKY=0,
// with which its hooks do nothing.
func gitSettings() []string {
	return []string{
		"HUSKY=0",
		"GIT_CONFIG_COUNT=6",
		"GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0",
		"GIT_CONFIG_KEY_1=maintenance.auto", "GIT_CONFIG_VALUE_1=false",
		"GIT_CONFIG_KEY_2=commit.gpgSign", "GIT_CONFIG_VALUE_2=false",
		"GIT_CONFIG_KEY_3=tag.gpgSign", "GIT_CONFIG_VALUE_3=false",
		"GIT_CONFIG_KEY_4=core.fsmonitor", "GIT_CONFIG_VALUE_4=false",
		"GIT_CONFIG_KEY_5=credential.helper", "GIT_CONFIG_VALUE_5=",
	}
}

// Environ is what of an environment ("NAME=value") a confined command gets: the
// names that tools are known to need, without values that may be secrets.
// Proxies only come with the network, and without a password. Of a name that
// comes twice the last counts.
func Environ(base []string, network bool) []string {
	var out []string
	for _, kv := range exec.Environ(base) {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case proxyName(name):
			if network && !strings.Contains(value, "@") {
				out = append(out, kv)
			}
		case knownName(name) && !secretValue(name, value) && harmless(name, value):
			out = append(out, kv)
		}
	}
	return out
}

func proxyName(name string) bool {
	switch strings.ToLower(name) {
	case "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy":
		return true
	}
	return false
}

// knownName is the allow-list.
func knownName(name string) bool {
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "COLUMNS", "LINES", "HOSTNAME", "HOSTTYPE", "OSTYPE",
		"TERMINFO", "TERMINFO_DIRS", "LOCALE_ARCHIVE", "MANPATH", "INFOPATH", "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
		"SOURCE_DATE_EPOCH", "DEBIAN_FRONTEND", "MAKEFLAGS", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NIX_SSL_CERT_FILE",
		// Go
		"GOPATH", "GOROOT", "GOBIN", "GOFLAGS", "GOTOOLCHAIN", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOOS", "GOARCH", "GOARM",
		"GOARM64", "GOAMD64", "GO386", "GOEXPERIMENT", "GOWORK", "GODEBUG", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GO111MODULE", "GOMODCACHE",
		"GOENV_ROOT", "CGO_ENABLED", "CGO_CFLAGS", "CGO_CPPFLAGS", "CGO_CXXFLAGS", "CGO_LDFLAGS",
		// C, C++ and what builds it
		"CC", "CXX", "CPP", "AR", "AS", "RANLIB", "STRIP", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH",
		"CPLUS_INCLUDE_PATH", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "ACLOCAL_PATH", "CMAKE_PREFIX_PATH", "CMAKE_GENERATOR",
		"CMAKE_BUILD_TYPE", "CMAKE_BUILD_PARALLEL_LEVEL", "CTEST_OUTPUT_ON_FAILURE", "SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET",
		// Java and Android
		"JAVA_HOME", "JDK_HOME", "M2_HOME", "MAVEN_HOME", "GRADLE_HOME", "ANT_HOME", "MAVEN_OPTS", "GRADLE_OPTS", "ANDROID_HOME", "ANDROID_SDK_ROOT",
		"ANDROID_NDK_HOME", "KOTLIN_HOME", "SDKMAN_DIR", "SDKMAN_CANDIDATES_DIR", "JENV_ROOT",
		// JavaScript
		"NODE_ENV", "NODE_OPTIONS", "NODE_VERSION", "NVM_DIR", "NVM_BIN", "NVM_INC", "FNM_DIR", "FNM_MULTISHELL_PATH", "VOLTA_HOME", "NODENV_ROOT", "N_PREFIX",
		"PNPM_HOME", "BUN_INSTALL", "COREPACK_HOME", "COREPACK_ENABLE_STRICT", "npm_config_registry", "npm_config_prefix", "npm_config_fund",
		"npm_config_audit", "npm_config_loglevel", "npm_config_progress", "npm_config_yes",
		// Python
		"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_SHLVL", "CONDA_PYTHON_EXE", "PYENV_ROOT", "PYENV_VERSION", "PYENV_SHELL",
		"POETRY_HOME", "UV_PYTHON", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONHASHSEED",
		// Rust
		"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "CARGO_INCREMENTAL", "CARGO_TERM_COLOR",
		"CARGO_BUILD_JOBS", "CARGO_BUILD_TARGET", "CARGO_NET_OFFLINE",
		// others
		"DOTNET_ROOT", "DOTNET_ROOT_X64", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "RBENV_ROOT", "RBENV_VERSION", "RUBY_VERSION", "RAILS_ENV", "RACK_ENV",
		"COMPOSER_HOME", "MIX_ENV", "HEX_HOME", "MIX_HOME", "OPAM_SWITCH_PREFIX", "GHCUP_INSTALL_BASE_PREFIX", "STACK_ROOT", "FLUTTER_ROOT", "DENO_DIR",
		"HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "NIX_PATH", "NIX_PROFILES":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// harmless says that a value does not do more than its name says: what loads
// code, reads other configuration or reaches into another process is left out.
func harmless(name, value string) bool {
	switch name {
	case "MAKEFLAGS":
		return !strings.Contains(value, "jobserver") && !strings.Contains(value, "eval")
	case "MAVEN_OPTS", "GRADLE_OPTS":
		return !strings.Contains(value, "agent")
	case "GOFLAGS":
		return !strings.Contains(value, "exec") && !strings.Contains(value, "overlay")
	case "NODE_OPTIONS":
		for word := range strings.FieldsSeq(value) {
			flag, _, _ := strings.Cut(word, "=")
			if !slices.Contains([]string{"--max-old-space-size", "--max_old_space_size", "--max-semi-space-size", "--openssl-legacy-provider", "--no-warnings", "--enable-source-maps"}, flag) {
				return false
			}
		}
	case "SHELL":
		return filepath.IsAbs(value)
	}
	return !strings.HasPrefix(value, "() {")
}

// secretValue says that a value looks like a secret whatever it is called: a
// known kind of token, a URL with somebody's name in it, a private key, or a long
// string of random letters.
func secretValue(name, value string) bool {
	if text.NewRedactor(nil).String(value) != value {
		return true
	}
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" \t\n,;|\"'=", r) }) {
		if u, err := url.Parse(word); strings.Contains(word, "://") && (err != nil || u.User != nil) {
			return true
		}
	}
	if strings.Contains(value, "-----BEGIN ") {
		return true
	}
	// Paths and flags are long and mixed, too.
	return !strings.ContainsAny(value, "/: -") && len(value) >= 24 && mixed(value) && !strings.HasPrefix(name, "LC_")
}

// mixed says that letters of both cases and digits take turns, as they do in
// what no person wrote.
func mixed(s string) bool {
	var upper, lower, digit int
	for _, r := range s {
		switch {
		case r >= 'A' && r <= 'Z':
			upper++
		case r >= 'a' && r <= 'z':
			lower++
		case r >= '0' && r <= '9':
			digit++
		}
	}
	hex := upper == 0 && lower > 0 && digit >= 6 && len(s) >= 32
	return hex || upper > 2 && lower > 2 && digit > 2
}

// cleanPath leaves of a PATH the absolute entries that are not in the agent's
// tree or the project, also not by way of a link: the repository does not choose
// what `ls` is.
func cleanPath(path string, roots ...string) string {
	var keep []string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
			continue
		}
		dir = filepath.Clean(dir)
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || slices.Contains(keep, dir) {
			continue
		}
		if slices.ContainsFunc(roots, func(root string) bool { return root != "/" && (below(root, dir) || below(root, real)) }) {
			continue
		}
		keep = append(keep, dir)
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

// below says that path is dir or in it; both are absolute and clean.
func below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// within says that a path, which may be spelled by links, is in one of two trees.
func within(root, project, path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = filepath.Clean(path)
	}
	return below(root, real) || below(project, real)
}
