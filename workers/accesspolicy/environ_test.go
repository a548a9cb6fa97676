package accesspolicy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
)

func TestEnvironIsAnAllowList(t *testing.T) {
	keep := []string{
		"PATH=/usr/bin:/bin", "HOME=/home/ann", "USER=ann", "LANG=de_DE.UTF-8", "LC_ALL=C", "TZ=Europe/Berlin", "TERM=xterm-256color", "GOPATH=/home/ann/go", "GOFLAGS=-mod=mod", "GOPROXY=https://proxy.golang.org,direct",
		"GOTOOLCHAIN=local", "JAVA_HOME=/usr/lib/jvm/21", "NODE_ENV=test", "NODE_OPTIONS=--max-old-space-size=4096 --no-warnings", "npm_config_registry=https://registry.npmjs.org/", "VIRTUAL_ENV=/opt/venv", "CARGO_HOME=/home/ann/.cargo",
		"RUSTFLAGS=-C target-cpu=native", "CC=clang", "CFLAGS=-O2 -g", "LDFLAGS=-L/opt/lib", "PKG_CONFIG_PATH=/opt/lib/pkgconfig", "CI=true", "NO_COLOR=1", "MAKEFLAGS=-j8", "SSL_CERT_FILE=/etc/ssl/ca.pem", "PYTHONPATH=/opt/py",
		"CGO_ENABLED=0", "CONDA_PREFIX=/opt/conda", "GEM_HOME=/home/ann/.gem", "SHELL=/bin/zsh",
	}
	drop := []string{
		"OPENAI_API_KEY=x", "RALPH_API_KEY=x", "RALPH_BASE_URL=http://x", "GITHUB_TOKEN=x", "GH_TOKEN=x", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_SESSION_TOKEN=x", "AWS_PROFILE=prod", "AWS_SHARED_CREDENTIALS_FILE=/x",
		"GOOGLE_APPLICATION_CREDENTIALS=/x", "AZURE_CLIENT_SECRET=x", "DATABASE_URL=postgres://u:p@h/d", "DATABASE_URL=postgres://h/d", "PGPASSWORD=x", "PGPASSFILE=/x", "MYSQL_PWD=x", "REDIS_URL=redis://h", "NPM_TOKEN=x", "NODE_AUTH_TOKEN=x",
		"npm_config__auth=x", "npm_config_//registry.npmjs.org/:_authToken=x", "npm_config_userconfig=/x", "PYPI_PASSWORD=x", "TWINE_PASSWORD=x", "CARGO_REGISTRY_TOKEN=x", "CARGO_REGISTRIES_X_TOKEN=x", "DOCKER_HOST=unix:///x",
		"DOCKER_CONFIG=/x", "KUBECONFIG=/x", "VAULT_ADDR=https://x", "VAULT_TOKEN=x", "SSH_AUTH_SOCK=/tmp/ssh/agent", "SSH_AGENT_PID=1", "SSH_ASKPASS=/x", "SUDO_ASKPASS=/x", "GPG_AGENT_INFO=x", "GNUPGHOME=/x", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus",
		"XDG_RUNTIME_DIR=/run/user/1", "DISPLAY=:0", "WAYLAND_DISPLAY=wayland-0", "XAUTHORITY=/x", "TMUX=/tmp/tmux-1/default,1,0", "STY=1", "VSCODE_IPC_HOOK_CLI=/x", "VSCODE_GIT_IPC_HANDLE=/x", "TERM_SESSION_ID=x", "LC_TOKEN=x",
		"LD_PRELOAD=/x.so", "LD_LIBRARY_PATH=/x", "LD_AUDIT=/x", "DYLD_INSERT_LIBRARIES=/x", "BASH_ENV=/x", "ENV=/x", "PROMPT_COMMAND=evil", "PS4=$(evil)", "SHELLOPTS=xtrace", "BASHOPTS=x", "BASH_FUNC_ls%%=() { evil; }", "ZDOTDIR=/x", "IFS=x", "CDPATH=/x",
		"GLOBIGNORE=x", "PERL5OPT=-Mevil", "PERL5DB=x", "RUBYOPT=-revil", "PYTHONSTARTUP=/x", "PYTHONINSPECT=1", "PYTHONHOME=/x", "JAVA_TOOL_OPTIONS=-javaagent:/x", "_JAVA_OPTIONS=-javaagent:/x", "JDK_JAVA_OPTIONS=-javaagent:/x", "MAVEN_OPTS=-javaagent:/x",
		"NODE_OPTIONS=--require /x.js", "NODE_OPTIONS=--max-old-space-size=1 -r /x.js", "NODE_PATH=/x", "RUSTC_WRAPPER=/x", "RUSTC=/x", "CARGO_TARGET_X_RUNNER=/x", "GOFLAGS=-toolexec=/x", "GOFLAGS=-overlay=/x", "MAKEFLAGS=--jobserver-auth=3,4", "MAKEFLAGS=--eval=x",
		"GIT_SSH_COMMAND=x", "GIT_DIR=/x", "GIT_CONFIG_COUNT=1", "GIT_EXTERNAL_DIFF=/x", "GIT_EXEC_PATH=/x", "GIT_ASKPASS=/x", "PAGER=evil", "LESSOPEN=|evil", "EDITOR=evil", "VISUAL=evil", "MANPAGER=evil", "BROWSER=evil", "HISTFILE=/x", "INPUTRC=/x",
		"SENTRY_DSN=https://x@y/1", "SLACK_WEBHOOK=https://x", "SESSION_COOKIE=x", "MY_JWT=x", "SOMETHING_ELSE=1", "npm_config_prefix=eyJhbGciOiJIUzI1NiJ9.e30.abc", "CI=ghp_0123456789abcdefghijABCDEFGHIJ", "USER=sk-abcdefghijklmnop", "HOSTNAME=AKIAIOSFODNN7EXAMPLE",
		"GOPROXY=https://ann:pw@proxy/", "GOPROXY=https://ann@proxy/", "npm_config_registry=https://t0ken@registry/", "HOSTNAME=Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MA", "HOSTNAME=0123456789abcdef0123456789abcdef", "CFLAGS=-DX=-----BEGIN RSA PRIVATE KEY-----",
		"CARGO_TERM_COLOR=gho_0123456789abcdef0123", "SHELL=./evil", "LANG=() { evil; }", "http_proxy=http://proxy:3128", "HTTPS_PROXY=http://u:p@proxy", "all_proxy=socks5://x", "=x", "broken",
	}
	for _, kv := range keep {
		if got := accesspolicy.Environ([]string{kv}, false); !slices.Equal(got, []string{kv}) {
			t.Errorf("%s is not kept: %q", kv, got)
		}
	}
	for _, kv := range drop {
		if got := accesspolicy.Environ([]string{kv}, false); len(got) != 0 {
			t.Errorf("%s is kept: %q", kv, got)
		}
	}
	proxies := []string{"http_proxy=http://proxy:3128", "NO_PROXY=localhost"}
	if got := accesspolicy.Environ(append(proxies, "HTTPS_PROXY=http://u:p@proxy", "ALL_PROXY=http://u@proxy"), true); !slices.Equal(got, proxies) {
		t.Errorf("proxies: %q", got)
	}
	if got := accesspolicy.Environ([]string{"LANG=a", "LANG=b"}, false); !slices.Equal(got, []string{"LANG=b"}) {
		t.Errorf("twice: %q", got)
	}
}

// The repository does not choose what a command is.
func TestPathHasNothingOfTheTree(t *testing.T) {
	w := newWorld(t, false)
	evil := filepath.Join(w.root, "bin")
	w.file(filepath.Join(evil, "ls"), "#!/bin/sh\necho evil\n")
	if err := os.Chmod(filepath.Join(evil, "ls"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(w.home, "link")
	if err := os.Symlink(evil, link); err != nil {
		t.Fatal(err)
	}
	w.env["PATH"] = strings.Join([]string{evil, "", ".", "bin", link, w.root, "/nowhere", os.Getenv("PATH")}, ":")
	w.env["VIRTUAL_ENV"] = filepath.Join(w.root, ".venv")
	s := w.open(nil)
	out := w.works(s, "cd bin && ls && echo \"[$PATH] ${VIRTUAL_ENV:-no venv}\"")
	if strings.Contains(out, "evil") || strings.Contains(out, w.root) || strings.Contains(out, "::") || strings.Contains(out, link) || !strings.Contains(out, "no venv") {
		t.Error(out)
	}
}

func TestSecretsAreNotInTheEnvironment(t *testing.T) {
	w := newWorld(t, false)
	w.env["ANTHROPIC_API_KEY"], w.env["MY_SECRET"], w.env["SSH_AUTH_SOCK"] = "v4lue", "v4lue", "/v4lue"
	s := w.open(nil)
	if out := w.works(s, "env; cat /proc/self/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n'; ps aux 2>/dev/null"); strings.Contains(out, "v4lue") {
		t.Error(out)
	}
}
