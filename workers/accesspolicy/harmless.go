package accesspolicy

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// This file knows which settings of git's configuration are harmless.

// unreadable stands for a setting that settings cannot read.
const unreadable = "a line that cannot be read"

// unsafeKey is the first key of a configuration that is not known to be
// harmless, or unreadable; what was set before is passed over.
func unsafeKey(text []byte, before []string) string {
	for _, set := range settings(text) {
		key, value, _ := strings.Cut(set, "=")
		switch {
		case slices.Contains(before, set):
		case strings.HasPrefix(set, unreadable):
			return unreadable
		case !harmlessKey(key), (strings.HasSuffix(key, "url") || strings.HasSuffix(key, "remote")) && (strings.Contains(value, "::") || strings.ContainsAny(value, "\"\\") || strings.HasPrefix(strings.TrimSpace(value), "-")):
			return key
		}
	}
	return ""
}

// settings are the lines of a configuration as section.key=value. From one on
// that cannot be read, or goes on in the next, all the rest is one of them.
func settings(text []byte) []string {
	var out []string
	section := ""
	for i := 0; i < len(text); {
		start := i
		line, _, _ := bytes.Cut(text[i:], []byte{'\n'})
		i += len(line) + 1
		l := strings.TrimSpace(string(line))
		if l == "" || l[0] == '#' || l[0] == ';' {
			continue
		}
		head, rest, ok := strings.Cut(l[1:], "]")
		header := l[0] == '['
		if strings.HasSuffix(l, `\`) || header && (!ok || strings.TrimSpace(rest) != "") {
			return append(out, unreadable+"\n"+string(text[start:]))
		}
		if header {
			section, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(head)), " ")
			continue
		}
		key, value, _ := strings.Cut(l, "=")
		out = append(out, section+"."+strings.ToLower(strings.TrimSpace(key))+"="+value)
	}
	return out
}

func harmlessKey(key string) bool {
	section, name, _ := strings.Cut(key, ".")
	switch section {
	case "init":
		return name == "defaultbranch" // templatedir holds hooks
	case "gc":
		return name != "recentobjectshook"
	case "user", "author", "committer", "color", "advice", "push", "fetch", "rebase", "rerere", "pack", "index", "feature", "extensions", "lfs":
		return section != "lfs" || name == "repositoryformatversion"
	case "branch":
		return slices.Contains([]string{"remote", "merge", "rebase", "description", "pushremote", "sort"}, name)
	case "remote":
		return slices.Contains([]string{"url", "fetch", "pushurl", "push", "tagopt", "prune", "mirror", "promisor", "partialclonefilter"}, name)
	case "submodule":
		return slices.Contains([]string{"url", "active", "branch", "path", "recurse", "shallow", "ignore"}, name)
	case "core":
		return slices.Contains([]string{"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf",
			"eol", "safecrlf", "quotepath", "splitindex", "untrackedcache", "abbrev", "compression", "sharedrepository", "longpaths", "protecthfs", "protectntfs", "whitespace", "checkstat", "trustctime", "bigfilethreshold"}, name)
	}
	return slices.Contains([]string{"commit.gpgsign", "tag.gpgsign", "merge.conflictstyle", "merge.ff", "pull.rebase", "pull.ff", "diff.renames", "diff.algorithm", "diff.colormoved",
		"log.date", "status.showuntrackedfiles", "safe.directory", "merge.renames", "diff.context", "diff.indentheuristic", "diff.mnemonicprefix", "diff.noprefix",
		"commit.cleanup", "receive.denynonfastforwards", "receive.denydeletes", "receive.denycurrentbranch", "commit.verbose", "tag.sort"}, key)
}

// workTrees returns the settings of a submodule's repository that name its work tree
// as git does: by a relative path, in the tree.
func (s *Sandbox) workTrees(gitDir string, text []byte) []string {
	if !strings.Contains(gitDir, string(filepath.Separator)+"modules"+string(filepath.Separator)) {
		return nil
	}
	var inside []string
	for _, set := range settings(text) {
		path, ok := strings.CutPrefix(set, "core.worktree=")
		path = strings.TrimSpace(path)
		if ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, `"`) && below(s.o.Root, filepath.Join(gitDir, path)) {
			inside = append(inside, set)
		}
	}
	return inside
}

// harmlessConfig is a configuration without the lines that unsafeKey refuses, up to
// the first that cannot be read.
func harmlessConfig(text []byte, allowed []string) []byte {
	out := []byte{}
	section := ""
	for line := range bytes.Lines(text) {
		l := strings.TrimSpace(string(line))
		if strings.HasPrefix(l, "[") {
			section = l + "\n"
		}
		switch set := settings([]byte(section + l)); {
		case len(set) > 0 && strings.HasPrefix(set[0], unreadable):
			return out
		case unsafeKey([]byte(section+l), allowed) == "":
			out = append(append(out, bytes.TrimRight(line, "\n")...), '\n')
		}
	}
	return out
}
