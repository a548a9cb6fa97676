package exec

import (
	"slices"
	"strings"
)

// Environ returns the environment for commands: base ("NAME=value") without what
// may be a secret (see secretName, and URLs with a password but those of
// proxies), what loads code into every program or shell (LD_PRELOAD, LD_AUDIT,
// DYLD_…, BASH_ENV, ENV, PROMPT_COMMAND, exported functions), what changes how a
// shell reads a command (SHELLOPTS, BASHOPTS), and what changes git (GIT_…). Of a
// name that comes twice the last counts. The order is kept.
func Environ(base []string) []string {
	return slices.DeleteFunc(Last(base), func(kv string) bool {
		name, value, ok := strings.Cut(kv, "=")
		return !ok || name == "" || withheld(name) || holdsPassword(name, value)
	})
}

// Last returns an environment with the last value of each name only: programs differ in
// which one they take.
func Last(env []string) []string {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		last[name] = i
	}
	out := make([]string, 0, len(env)+1)
	for i, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); last[name] == i {
			out = append(out, kv)
		}
	}
	return out
}

func withheld(name string) bool {
	up := strings.ToUpper(name)
	switch up {
	case "BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "PS4":
		return true
	}
	for _, prefix := range [...]string{"LD_PRELOAD", "LD_AUDIT", "DYLD_", "GIT_", "BASH_FUNC_"} {
		if strings.HasPrefix(up, prefix) {
			return true
		}
	}
	return secretName(up)
}

// secretName reports whether a variable is named like a secret: KEY, TOKEN, SECRET,
// PASS, CREDENTIAL, COOKIE or WEBHOOK anywhere, or a whole word such as PWD
// (but not the shell's own), AUTH, JWT, PAT, PIN or DSN. SSH_AUTH_SOCK names a
// socket.
func secretName(up string) bool {
	if up == "PWD" || up == "OLDPWD" || up == "SSH_AUTH_SOCK" {
		return false
	}
	for _, part := range [...]string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "COOKIE", "WEBHOOK"} {
		if strings.Contains(up, part) {
			return true
		}
	}
	for word := range strings.SplitSeq(up, "_") {
		switch word {
		case "PWD", "AUTH", "JWT", "PAT", "PIN", "DSN", "CREDS", "BEARER":
			return true
		}
	}
	return false
}

// holdsPassword reports whether a value is a URL with a password. Proxies are kept:
// without their password nothing is reached.
func holdsPassword(name, value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	if !ok || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
		return false
	}
	host, _, _ := strings.Cut(rest, "/")
	user, _, at := strings.Cut(host, "@")
	_, password, _ := strings.Cut(user, ":")
	return at && password != ""
}

// Getenv returns the last value of a name in an environment; "" for none.
func Getenv(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
