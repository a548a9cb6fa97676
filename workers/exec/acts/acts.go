// Package acts lists the names of files and directories that programs of a user run or
// obey by themselves: when a directory is entered or opened, at the next call of a program
// in it, or at a push. What an ordinary build of the project runs, such as a Makefile or a
// package.json, is not among them.
//
// The package is data and pure functions; it reads no file.
//
//	n, ok := acts.Rules{}.Match("sub/.envrc") // n.Class == acts.Shell
package acts

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// The classes of names, as the variable acts of rules has them.
const (
	Git    = "git"
	Hook   = "hook"
	Editor = "editor"
	Shell  = "shell"
	Agent  = "agent"
	Build  = "build"
	CI     = "ci"
)

// Classes returns all classes.
func Classes() []string { return []string{Git, Hook, Editor, Shell, Agent, Build, CI} }

// Why says what runs or obeys the names of a class.
func Why(class string) string {
	switch class {
	case Git:
		return "is git's own"
	case Hook:
		return "is what git runs"
	case Editor:
		return "is what editors run and obey"
	case Shell:
		return "is a start-up or access file"
	case Agent:
		return "is what other agents run and obey"
	case Build:
		return "is what build tools run or obey by themselves"
	case CI:
		return "is run by continuous integration"
	}
	return ""
}

// Opening returns the rule that allows a path of a class, "" where none does: of git and hooks
// it allows those that exist.
func Opening(class string, exists bool) string {
	if class == "" || (class == Git || class == Hook) && !exists {
		return ""
	}
	return fmt.Sprintf("--allow 'acts == %q' allows it", class)
}

// Name is a file or directory that acts, with all that is below it.
type Name struct {
	// Path has one or more names, folded by Fold and separated by slashes. One that begins
	// with an asterisk is a single name, and stands for all that end in what follows.
	Path string
	// Class is one of Classes.
	Class string
	// Root has the name act only at the root of a repository, otherwise at any depth.
	Root bool
	// Repo has the name act in every git repository, also in one of a dependency.
	Repo bool
}

// Rules say which names act in a project. The zero value has all of them act.
type Rules struct {
	// Allow lists classes whose names are taken not to act.
	Allow []string
	// Roots lists the roots of repositories below that of the project, relative to it.
	Roots []string
	// Free lists directories in which no names act but those of repositories: by their
	// folded name at any depth, or relative to the root where it begins with a slash.
	Free []string
	// Paths lists files and directories, relative to the root and folded, that act by what
	// leads to them: git's configuration, or a link by a name that acts.
	Paths []Name
}

// Match returns the first name that a path, relative to the root of the project, lies at
// or below.
func (r Rules) Match(rel string) (Name, bool) {
	parts := folded(rel)
	free := r.freeAt(parts)
	if len(r.Paths) > 0 {
		at := strings.Join(parts, "/")
		for _, p := range r.Paths {
			if (at == p.Path || strings.HasPrefix(at, p.Path+"/")) && !slices.Contains(r.Allow, p.Class) {
				return p, true
			}
		}
	}
	for i := range parts {
		acts := func(n Name) bool {
			return (!n.Root || i == 0 || slices.Contains(r.Roots, strings.Join(parts[:i], "/"))) && (i <= free || n.Repo) && !slices.Contains(r.Allow, n.Class)
		}
		if n, ok := byEnd(parts[i]); ok && acts(n) {
			return n, true
		}
		for _, n := range all().first[parts[i]] {
			if acts(n) && (n.Path == parts[i] || strings.HasPrefix(strings.Join(parts[i:], "/")+"/", n.Path+"/")) {
				return n, true
			}
		}
	}
	return Name{}, false
}

// byEnd returns the pattern that a folded name matches.
func byEnd(name string) (Name, bool) {
	for _, n := range all().pattern {
		if strings.HasSuffix(name, n.Path[1:]) {
			return n, true
		}
	}
	return Name{}, false
}

// Candidate reports whether the path of some name ends in a name.
func Candidate(name string) bool {
	name = Fold(name)
	_, found := byEnd(name)
	return found || all().last[name]
}

// HookNames returns the names of git's hooks in a directory of them.
func HookNames() []string {
	var out []string
	for _, n := range all().list {
		if name, ok := strings.CutPrefix(n.Path, ".git/hooks/"); ok {
			out = append(out, name)
		}
	}
	return out
}

// Parents returns the directories that names of two parts lie in.
func Parents() []string {
	var out []string
	for _, n := range all().list {
		if dir := path.Dir(n.Path); dir != "." && !n.Repo && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// Leads returns the first name of more than one part that begins with the last name of a
// path: a directory that comes there may bring it along.
func (r Rules) Leads(rel string) (Name, bool) {
	for _, n := range all().first[Fold(path.Base(rel))] {
		if strings.Contains(n.Path, "/") {
			return n, true
		}
	}
	return Name{}, false
}

// IsFree reports whether a path lies at or below a directory of Free.
func (r Rules) IsFree(rel string) bool {
	parts := folded(rel)
	return r.freeAt(parts) < len(parts)
}

// Frees reports whether a path, and none that it lies in, acts but for Free.
func (r Rules) Frees(rel string) bool {
	if !r.IsFree(rel) {
		return false
	}
	r.Free = nil
	_, acts := r.Match(rel)
	_, above := r.Match(path.Dir(rel))
	return acts && !above
}

// freeAt returns the index of the first of the parts of a path that is a directory of
// Free; their number where none is.
func (r Rules) freeAt(parts []string) int {
	if len(r.Free) == 0 {
		return len(parts)
	}
	for i, part := range parts {
		if slices.Contains(r.Free, part) || slices.Contains(r.Free, "/"+strings.Join(parts[:i+1], "/")) {
			return i
		}
	}
	return len(parts)
}

// folded returns the parts of a path, folded.
func folded(rel string) []string {
	parts := strings.Split(strings.Trim(path.Clean("/"+rel), "/"), "/")
	for i, p := range parts {
		parts[i] = Fold(p)
	}
	return parts
}

// FoldPath folds each part of a path with slashes, which it takes as relative.
func FoldPath(rel string) string { return strings.Join(folded(rel), "/") }

// Fold maps the spellings that some filesystem takes for the same name to one:
// case is dropped, and so are the code points that HFS+ and the casefold of ext4
// and f2fs ignore, and the dots and spaces that Windows cuts from the end.
func Fold(name string) string {
	if plain(name) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r < 0x80:
		case r == 'ſ':
			return 's'
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		}
		return r
	}, name)
	if cut := strings.TrimRight(name, ". "); cut != "" {
		name = cut
	}
	return strings.ToLower(strings.ToUpper(name))
}

// plain reports whether a name is one that Fold returns as it is; most are.
func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= 0x80 || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, " ")
}
