package git

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"ralph/workers/exec"
)

// Programs are the files of which git's effective configuration has it run programs or
// read more configuration: that of the system, the user and the repository, with what they
// include.
type Programs struct {
	// Paths are absolute, may lie anywhere and need not exist. A directory stands for
	// all in it.
	Paths []string
	// Sources are the files on which Paths depend; those that do not exist would count.
	Sources []string
}

// Programs asks git for them. Env is added to the environment: the user's HOME and what
// names their configuration, see git-config(1).
func (p Plumbing) Programs(ctx context.Context, env []string) (Programs, error) {
	pl := &p.repo.place
	home := exec.Getenv(env, "HOME")
	found := Programs{Sources: []string{filepath.Join(pl.commonDir, "config"), filepath.Join(pl.gitDir, "config.worktree"), filepath.Join(pl.gitDir, "HEAD"), "/etc/gitconfig"}}
	for _, path := range []string{exec.Getenv(env, "GIT_CONFIG_GLOBAL"), exec.Getenv(env, "GIT_CONFIG_SYSTEM"), expandHome("~/.gitconfig", home), filepath.Join(configHome(env), "git", "config")} {
		if filepath.IsAbs(path) {
			found.Sources = append(found.Sources, path)
		}
	}
	if err := pl.checkOwner(ctx); err != nil {
		return found, err
	}
	out, _, err := pl.exec(ctx, call{args: []string{"config", "--list", "--includes", "--show-origin", "-z"}, env: env, plain: true}, nil, true)
	if err != nil {
		return found, err
	}
	fields := splitNul(out)
	for i := 0; i+1 < len(fields); i += 2 {
		origin, isFile := strings.CutPrefix(fields[i], "file:")
		if !isFile {
			continue // the command line's and the environment's are Ralph's own
		}
		if origin = absolute(pl.workTree, origin); i == 0 || fields[i] != fields[i-2] {
			found.Sources = append(found.Sources, origin)
		}
		key, value, _ := strings.Cut(fields[i+1], "\n")
		section, name := keyOf(key)
		value = expandHome(value, home)
		switch {
		case value == "":
		case section == "core" && name == "hookspath":
			if path.Base(value) == "_" { // husky's, whose programs run those above them
				value = path.Dir(value)
			}
			found.Paths = append(found.Paths, absolute(pl.workTree, value))
		case name == "path" && (section == "include" || section == "includeif"):
			target := absolute(filepath.Dir(origin), value)
			found.Paths, found.Sources = append(found.Paths, target), append(found.Sources, target)
		case runs(section, name):
			found.Paths = append(found.Paths, filesIn(pl.workTree, value)...)
		}
	}
	return found, nil
}

// expandHome replaces the beginning ~/ of a path, as git does.
func expandHome(path, home string) string {
	if rest, below := strings.CutPrefix(path, "~/"); below {
		return filepath.Join(home, rest)
	}
	return path
}

// configHome returns the directory of the user's configuration files, by the XDG Base
// Directory Specification.
func configHome(env []string) string {
	if dir := exec.Getenv(env, "XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(exec.Getenv(env, "HOME"), ".config")
}

func absolute(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// keyOf returns the section and the name of a key, without what is between them. Git
// lists both in lower case.
func keyOf(key string) (section, name string) {
	section, _, _ = strings.Cut(key, ".")
	return section, key[strings.LastIndexByte(key, '.')+1:]
}

// runs reports whether git runs the value of a key by itself, see git-config(1) and
// gitattributes(5). Those of aliases and of tools that the user calls by name are not among
// them.
func runs(section, name string) bool {
	names, known := map[string]string{
		"core": "fsmonitor sshcommand gitproxy editor pager askpass alternaterefscommand", "sequence": "editor", "pager": "*", "filter": "clean smudge process",
		"diff": "command textconv external", "merge": "driver", "credential": "helper", "gpg": "program defaultkeycommand", "trailer": "command cmd", "interactive": "difffilter",
		"submodule": "update", "remote": "uploadpack receivepack vcs", "uploadpack": "packobjectshook", "gc": "recentobjectshook", "hook": "command",
		"sendemail": "sendmailcmd tocmd cccmd headercmd", "web": "browser", "tar": "command", "lfs": "path args",
	}[section]
	return known && (names == "*" || strings.Contains(" "+names+" ", " "+name+" "))
}

// filesIn returns the words of a command that name files by a path, which the shell takes from
// the work tree.
func filesIn(workTree, command string) []string {
	var out []string
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`=!", r) })
	for _, word := range words {
		if !strings.Contains(word, "/") || strings.Contains(word, "://") || strings.HasPrefix(word, "-") {
			continue
		}
		word = absolute(workTree, word)
		if info, err := os.Stat(word); err != nil || !info.IsDir() {
			out = append(out, word)
		}
	}
	return out
}
