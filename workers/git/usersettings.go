package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/exec"
)

// UserSettings returns what the user's own configuration says about the user (user.*), as
// a file of git's, with the path of the file of patterns that are ignored everywhere; ""
// for what is not configured, or cannot be asked for. dir is the tree by which
// conditional includes are decided, environ the user's environment.
func UserSettings(ctx context.Context, p *exec.Runner, dir string, environ []string) (settings, ignore string) {
	ignore = filepath.Join(configHome(environ), "git", "ignore")
	for _, path := range []string{filepath.Join(exec.Getenv(environ, "HOME"), ".gitconfig"), filepath.Join(configHome(environ), "git", "config")} {
		if bounded(path, maxConfigBytes, os.Stat) != nil {
			return "", ignore
		}
	}
	res, err := p.Run(ctx, exec.Spec{
		Argv: []string{"git", "--no-pager", "config", "-z", "--show-scope", "--get-regexp", `^(user\.|core\.excludesfile$)`},
		Dir:  dir, Env: gitEnviron(exec.Environ(environ), nil, nil), Split: true, MaxBytes: maxSmallFile, Timeout: timeout, Tool: true,
	})
	if err != nil || res.ExitCode != 0 || res.Stdout.Truncated() {
		return "", ignore
	}
	// Scope, then key and value.
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	list := splitNul(append(res.Stdout.Head, res.Stdout.Tail...))
	for i := 0; i+1 < len(list); i += 2 {
		key, value, _ := strings.Cut(list[i+1], "\n")
		name, ofUser := strings.CutPrefix(key, "user.")
		switch {
		case list[i] != "global":
		case !ofUser:
			ignore = expandHome(value, exec.Getenv(environ, "HOME"))
		case !strings.Contains(name, "."):
			settings += "\t" + name + " = \"" + quote.Replace(value) + "\"\n"
		}
	}
	if settings != "" {
		settings = "[user]\n" + settings
	}
	return settings, ignore
}
