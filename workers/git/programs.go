package git

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/exec/acts"
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
	args := []string{"config", "--list", "--includes", "--show-origin", "-z"}
	read := map[string]bool{}
	for files := []string{""}; len(files) > 0 && len(read) < maxConditional; files = files[1:] {
		if read[files[0]] {
			continue
		}
		read[files[0]] = true
		if files[0] != "" { // of a condition that does not hold now
			args = append(args[:5:5], "--file", files[0])
		}
		out, _, err := pl.exec(ctx, call{args: args, env: env, plain: true}, nil, true)
		if err != nil && files[0] == "" {
			return found, err
		}
		files = append(files, found.add(pl.workTree, home, splitNul(out))...)
	}
	return found, nil
}

// maxConditional bounds how many files are read that configurations include on a condition.
const maxConditional = 20

// add adds what a configuration has as git lists it, with its origins, and returns the files
// that it includes on a condition.
func (found *Programs) add(tree, home string, fields []string) (conditional []string) {
	for i := 0; i+1 < len(fields); i += 2 {
		origin, isFile := strings.CutPrefix(fields[i], "file:")
		if !isFile {
			continue // the command line's and the environment's are Ralph's own
		}
		if origin = absolute(tree, origin); i == 0 || fields[i] != fields[i-2] {
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
			found.Paths = append(found.Paths, absolute(tree, value))
		case name == "path" && (section == "include" || section == "includeif"):
			target := absolute(filepath.Dir(origin), value)
			found.Paths, found.Sources = append(found.Paths, target), append(found.Sources, target)
			if section == "includeif" {
				conditional = append(conditional, target)
			}
		case acts.HarmlessKey(section+"."+name) || onlyRead(section, name):
		case name == "path" || name == "templatedir" || strings.HasSuffix(name, "file"):
			found.Paths = append(found.Paths, absolute(tree, value))
		default:
			if section == "alias" && !strings.HasPrefix(value, "!") {
				value = "git " + value
			}
			c := command{tree: tree, home: home, bases: []string{tree}}
			found.Paths = append(found.Paths, c.files(value, 0)...)
		}
	}
	return conditional
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

// onlyRead reports whether a key that may name a file, ref or address of any content has git run
// nothing, see git-config(1). A key that is not known is taken to.
func onlyRead(section, name string) bool {
	switch section {
	case "blame", "branch", "commit", "format", "i18n", "log", "mailmap", "maintenance", "notes", "safe", "url":
		return true
	case "core":
		return name == "excludesfile" || name == "notesref"
	}
	return false
}
