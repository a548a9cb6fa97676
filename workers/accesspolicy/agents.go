package accesspolicy

import (
	"path/filepath"
	"strings"

	"ralph/workers/git"
)

// An agent of the coordinator works in a tree of its own with a private clone in
// it, which borrows the objects of a snapshot beside the tree. Its commands write
// both, and see neither the user's repository nor the tree of another agent.

// child says that the sandbox is that of such an agent.
func (s *Sandbox) child() bool { return s.o.Root != s.o.Project }

// clone is the git directory of the agent's tree, if it is where Ralph made it:
// what a command put in its place opens nothing.
func (s *Sandbox) clone() []string {
	if loc := s.repository(); loc != nil && loc.GitDir == filepath.Join(loc.Root, ".git") && below(loc.Root, s.o.Root) {
		return []string{loc.GitDir}
	}
	return nil
}

// trees is the directory of the agents' trees, "" for what is no agent's.
func (s *Sandbox) trees() string {
	dir := filepath.Join(s.o.Project, ".ralph", "worktrees")
	if !s.child() || !below(dir, s.o.Root) {
		return ""
	}
	return dir
}

// concealed are the repository of the user, and the trees of other agents with
// what Ralph knows of them.
func (s *Sandbox) concealed() []string {
	if !s.child() {
		return nil
	}
	var list []string
	if dir := s.trees(); dir != "" {
		list = append(list, dir)
	}
	if loc := s.users(); loc != nil {
		list = append(list, loc.CommonDir)
	}
	return list
}

// snapshots are the directories with the objects that clones borrow, and what the
// user's repository itself borrows objects from.
func (s *Sandbox) snapshots() []string {
	dir := s.trees()
	if dir == "" {
		return nil
	}
	list, _ := filepath.Glob(filepath.Join(dir, ".objects-*")) // the pattern is ours
	var borrowed []string
	for _, snapshot := range list {
		text, err := readFile(filepath.Join(snapshot, ".git", "objects", "info", "alternates"), maxConfigBytes)
		if err != nil {
			continue // there mostly are none
		}
		for line := range strings.Lines(string(text)) {
			if path := strings.TrimSpace(line); filepath.IsAbs(path) {
				borrowed = append(borrowed, path)
			}
		}
	}
	return append(list, borrowed...)
}

// hooks are what git's configuration for the user's repository takes from the tree as
// programs and further configuration, as the agent's tree has it.
func (s *Sandbox) hooks() []string {
	users, own := s.users(), s.repository()
	if users == nil || own == nil {
		return nil
	}
	var list []string
	for _, path := range s.programs(users) {
		if rel, err := filepath.Rel(users.Root, path); err == nil && filepath.IsLocal(rel) {
			list = append(list, filepath.Join(own.Root, rel))
		}
	}
	return list
}

// findUsers finds the repository that the project is in, nil for none.
func (s *Sandbox) findUsers() *git.Location {
	loc, err := git.Find(s.o.Project)
	if err != nil {
		return nil
	}
	return &loc
}

// checkClone looks at an agent's clone after a command: what git would run for
// whoever enters the tree is taken away.
func (s *Sandbox) checkClone(say func(string, ...any)) {
	for _, gitDir := range s.clone() {
		s.tame(gitDir, say)
	}
}
