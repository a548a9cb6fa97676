package proc

import (
	"os"
	"strings"
)

// tagName is the environment variable that marks what a command started. A
// Ralph inside a Ralph appends to the tag it was given, so that the outer one
// still knows its own.
const tagName = "RALPH_TAG"

// Environ is the environment for commands: base ("NAME=value") without what
// may be a secret (names with KEY, TOKEN, SECRET, PASSWORD, PASSWD, PASSPHRASE
// or CREDENTIAL in them, in any case), what loads code into every program
// (LD_PRELOAD, LD_AUDIT, DYLD_…), and what bends git (GIT_…). Of a name that
// comes twice the last counts. The order is kept.
func Environ(base []string) []string {
	last := make(map[string]int, len(base))
	for i, kv := range base {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" {
			last[name] = i
		}
	}
	out := make([]string, 0, len(base)+1)
	for i, kv := range base {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && last[name] == i && !withheld(name) {
			out = append(out, kv)
		}
	}
	return out
}

func withheld(name string) bool {
	up := strings.ToUpper(name)
	for _, part := range [...]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"} {
		if strings.Contains(up, part) {
			return true
		}
	}
	for _, prefix := range [...]string{"LD_PRELOAD", "LD_AUDIT", "DYLD_", "GIT_"} {
		if strings.HasPrefix(up, prefix) {
			return true
		}
	}
	return false
}

// environ is the environment of one command with its tag.
func environ(s Spec, tag string) []string {
	env := s.Env
	if env == nil {
		env = Environ(os.Environ())
	}
	out := make([]string, 0, len(env)+1)
	outer := os.Getenv(tagName)
	for _, kv := range env {
		if !strings.HasPrefix(kv, tagName+"=") {
			out = append(out, kv)
		}
	}
	if outer != "" {
		tag = outer + "/" + tag
	}
	return append(out, tagName+"="+tag)
}

// lookupEnv finds the last value of a name.
func lookupEnv(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
