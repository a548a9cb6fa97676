package acts

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// This file knows which settings of git's configuration are harmless.

// unreadable stands for a setting that Settings cannot read.
const unreadable = "a line that cannot be read"

// UnsafeKey returns the first key of a configuration of git that is not known to be
// harmless, or what says that it cannot be read; what was set before is passed over.
func UnsafeKey(text []byte, before []string) string {
	for _, set := range Settings(text) {
		key, value, _ := strings.Cut(set, "=")
		switch {
		case slices.Contains(before, set):
		case strings.HasPrefix(set, unreadable):
			return unreadable
		case !HarmlessKey(key), (strings.HasSuffix(key, "url") || strings.HasSuffix(key, "remote")) && (strings.Contains(value, "::") || strings.ContainsAny(value, "\"\\") || strings.HasPrefix(strings.TrimSpace(value), "-")):
			return key
		}
	}
	return ""
}

// Settings returns the lines of a configuration as section.key=value. From one on
// that cannot be read, or goes on in the next, all the rest is one of them.
func Settings(text []byte) []string {
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

// HarmlessKey reports whether a key of git's configuration, its section and name in lower case,
// is known to have git run, read or follow nothing.
func HarmlessKey(key string) bool {
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
		if name == "mode" || strings.ContainsAny(name, "_-") && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_-") == "" {
			return true // of ostree.repo-config(5): git has no such key
		}
		return slices.Contains([]string{"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf",
			"eol", "safecrlf", "quotepath", "splitindex", "untrackedcache", "abbrev", "compression", "sharedrepository", "longpaths", "protecthfs", "protectntfs", "whitespace", "checkstat", "trustctime", "bigfilethreshold"}, name)
	}
	return slices.Contains([]string{"commit.gpgsign", "tag.gpgsign", "merge.conflictstyle", "merge.ff", "pull.rebase", "pull.ff", "diff.renames", "diff.algorithm", "diff.colormoved",
		"log.date", "status.showuntrackedfiles", "safe.directory", "merge.renames", "diff.context", "diff.indentheuristic", "diff.mnemonicprefix", "diff.noprefix",
		"commit.cleanup", "receive.denynonfastforwards", "receive.denydeletes", "receive.denycurrentbranch", "commit.verbose", "tag.sort"}, key)
}

// WorkTrees returns the settings of a submodule's repository that name its work tree
// as git does: by a relative path, in the tree at root.
func WorkTrees(root, gitDir string, text []byte) []string {
	if !strings.Contains(gitDir, string(filepath.Separator)+"modules"+string(filepath.Separator)) {
		return nil
	}
	var inside []string
	for _, set := range Settings(text) {
		path, ok := strings.CutPrefix(set, "core.worktree=")
		path = strings.TrimSpace(path)
		if ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, `"`) && strings.HasPrefix(filepath.Join(gitDir, path), root+"/") {
			inside = append(inside, set)
		}
	}
	return inside
}

// HarmlessConfig returns a configuration without the lines that UnsafeKey refuses, up to
// the first that cannot be read.
func HarmlessConfig(text []byte, allowed []string) []byte {
	out := []byte{}
	section := ""
	for line := range bytes.Lines(text) {
		l := strings.TrimSpace(string(line))
		if strings.HasPrefix(l, "[") {
			section = l + "\n"
		}
		switch set := Settings([]byte(section + l)); {
		case len(set) > 0 && strings.HasPrefix(set[0], unreadable):
			return out
		case UnsafeKey([]byte(section+l), allowed) == "":
			out = append(append(out, bytes.TrimRight(line, "\n")...), '\n')
		}
	}
	return out
}

// What git-config(1) has git run, read or be led by: sections, and settings of others.
var (
	actingSections = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\[\s*(alias|browser|credential|difftool|filter|guitool|imap|include|includeif|instaweb|interactive|man|mergetool|pager|protocol|sendemail|sequence|tar|trailer|url|web)[\s."\]]`)
	})
	actingKeys = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?is)\[\s*(core|diff|fsck|gc|gpg|help|http|init|merge|receive|remote|submodule|svn-remote|transfer|upload-?pack)[\s."\]].*` +
			`(fsmonitor|hook|command|proxy|editor|pager|askpass|worktree|attributesfile|excludesfile|alternaterefs|notesref|replacerefs|external|textconv|driver|program|helper|templatedir|` +
			`procreceive|skiplist|browser|signers|uploadpack|receivepack|vcs|ssl|cookiefile|update|cmd|::)`)
	})
	leadsAway = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[/\s])(\.?ralph-(tmp|history|private)-|proc/([0-9]+|self|thread-self)/(task/[0-9]+/)?(root|cwd|fd)(/|\s|$))`)
	})
)

// MayAct reports whether a text, read as a configuration of git, may have git run something.
func MayAct(text []byte) bool { return actingSections().Match(text) || actingKeys().Match(text) }

// LeadsAway reports whether a path, alone or in a text, leads to what only commands write, by
// where it is for the user: there no name is judged.
func LeadsAway(path string) bool { return leadsAway().MatchString(path) }
