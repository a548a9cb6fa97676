package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/workers/exec/supervise"
)

// findings are what was found on disk.
type findings struct {
	files []found
}

// found is a file that the work left, and what it holds.
type found struct{ name, holds string }

// prove holds what is on disk against what was said and shown.
func (s *stage) prove(ctx context.Context) (findings, error) {
	var f findings
	for _, claim := range []func(context.Context) error{s.proveTests, s.proveCommits, s.proveMine, s.proveHeard, s.proveRest} {
		if err := claim(ctx); err != nil {
			return f, err
		}
	}
	return f, s.proveKept(&f)
}

// proveTests runs the tests anew.
func (s *stage) proveTests(ctx context.Context) error {
	if _, err := s.run(ctx, "go", "test", "-count=1", "./..."); err != nil {
		return fmt.Errorf("the work is done, and the tests do not pass: %w", err)
	}
	return nil
}

// wanted is what each agent has to change.
func wanted(id string) []string {
	switch id {
	case slug:
		return []string{"slug/slug.go"}
	case count:
		return []string{"CHANGELOG.md", "count/count.go"}
	}
	return []string{"wrap/wrap.go"}
}

// proveCommits holds what is said of the agents against the commits.
func (s *stage) proveCommits(ctx context.Context) error {
	log, err := s.run(ctx, "git", "rev-list", s.first+"..HEAD")
	if err != nil {
		return err
	}
	commits := strings.Fields(log)
	if len(commits) != 3 {
		return fmt.Errorf("there are %d commits, not one of each agent: %v", len(commits), commits)
	}
	told := slices.Sorted(slices.Values(s.totals.Commits))
	if slices.Sort(commits); !slices.Equal(told, commits) {
		return fmt.Errorf("the run reports the commits %v, git has %v", told, commits)
	}
	for _, id := range []string{slug, count, wrap} {
		a, ok := s.agent(id)
		if !ok || a.State != crew.Done || a.Landing != crew.Merged {
			return fmt.Errorf("%s is told to be %s, %s", id, a.State, a.Landing)
		}
		if !slices.Contains(commits, a.Commit) {
			return fmt.Errorf("the commit %s of %s is not on the branch", a.Commit, id)
		}
		files, err := s.run(ctx, "git", "show", "--format=", "--name-only", a.Commit)
		if err != nil {
			return err
		}
		if want := wanted(id); !slices.Equal(strings.Fields(files), want) || !slices.Equal(a.Files, want) {
			return fmt.Errorf("the commit of %s changes %s; it is told to change %s", id, strings.Fields(files), a.Files)
		}
	}
	return nil
}

// agent is an agent as it was told last.
func (s *stage) agent(id string) (a crew.Agent, ok bool) {
	for _, out := range s.acts {
		for _, x := range out.Children {
			if x.ID == id {
				a, ok = x, true
			}
		}
	}
	return a, ok
}

// proveMine holds that what the human did not commit is as it was.
func (s *stage) proveMine(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(s.root, notesFile))
	if err != nil || string(text) != notesText {
		return errors.Join(err, fmt.Errorf("%s of the human holds %q now", notesFile, text))
	}
	status, err := s.run(ctx, "git", "status", "--porcelain", "--", notesFile)
	if err != nil || status != "?? "+notesFile+"\n" {
		return errors.Join(err, fmt.Errorf("git says of %s of the human: %q", notesFile, status))
	}
	status, err = s.run(ctx, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil || status != "" {
		return errors.Join(err, fmt.Errorf("what the agents did is not all committed: %q", status))
	}
	return nil
}

// proveHeard holds that what the human said was delivered, once, and obeyed, and
// that the stop interrupted the one that it should.
func (s *stage) proveHeard(context.Context) error {
	first := s.acts[0]
	delivered := slices.DeleteFunc(slices.Clone(first.Messages), func(m interrupts.Message) bool { return m.Text != steer || m.State != interrupts.Delivered })
	if len(delivered) != 1 {
		return fmt.Errorf("the message to %s was delivered %d times: %+v", count, len(delivered), first.Messages)
	}
	for name, want := range map[string]string{"count/count.go": "func isWord(", "CHANGELOG.md": "count"} {
		text, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil || bytes.Count(text, []byte(want)) == 0 || string(text) == s.Project[name] {
			return errors.Join(err, fmt.Errorf("%s does not have what the human asked for", name))
		}
	}
	if i := slices.IndexFunc(first.Children, func(a crew.Agent) bool { return a.ID == wrap }); i < 0 || first.Children[i].State != crew.Interrupted {
		return fmt.Errorf("after the stop %s was not told to be interrupted: %+v", wrap, first.Children)
	}
	if last := s.acts[len(s.acts)-1]; last.Tasks != (result.TaskCount{Done: 3}) {
		return fmt.Errorf("not all tasks are done: %+v", last.Tasks)
	}
	return nil
}

// proveRest holds that nothing is left behind.
func (s *stage) proveRest(ctx context.Context) error {
	if left, _ := processes(s.root); len(left) > 0 {
		return fmt.Errorf("still running: %s", names(left))
	}
	if left := supervise.Leaks(); len(left) > 0 {
		return fmt.Errorf("still running: %v", left)
	}
	list, err := s.run(ctx, "git", "worktree", "list", "--porcelain")
	if err != nil {
		return err
	}
	for i, tree := range strings.Split(strings.TrimSpace(list), "\n\n") {
		// Only the user's own has a directory; what waits for the next agents is
		// out of git's sight.
		if i > 0 && !(strings.Contains(tree, "\ndetached") && strings.Contains(tree, "\nprunable")) {
			return fmt.Errorf("a worktree is left:\n%s", tree)
		}
	}
	dirs, err := os.ReadDir(filepath.Join(s.root, ".ralph", "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range dirs {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return fmt.Errorf("a worktree is left: %s", d.Name())
		}
	}
	branches, err := s.run(ctx, "git", "for-each-ref", "refs/heads/ralph")
	if err != nil || branches != "" {
		return errors.Join(err, fmt.Errorf("branches are left:\n%s", branches))
	}
	return nil
}

// proveKept looks at what was written about the work: the state in the project's
// root, the transcript of each agent.
func (s *stage) proveKept(f *findings) error {
	var names []string
	for _, out := range s.acts {
		names = append(names, out.StateFiles...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return errors.New("the work left no state files")
	}
	for _, id := range []string{slug, count, wrap} {
		a, _ := s.agent(id)
		name, err := filepath.Rel(s.root, a.Transcript)
		if err != nil || !filepath.IsLocal(name) {
			return fmt.Errorf("the transcript of %s is said to be %q", id, a.Transcript)
		}
		names = append(names, name)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil || len(text) == 0 {
			return errors.Join(err, fmt.Errorf("%s is empty", name))
		}
		f.files = append(f.files, found{filepath.ToSlash(name), fmt.Sprintf("%d lines", bytes.Count(text, []byte("\n")))})
		for id, said := range map[string]string{count: steer, wrap: hint} {
			if a, _ := s.agent(id); a.Transcript == filepath.Join(s.root, name) && !bytes.Contains(text, []byte(said)) {
				return fmt.Errorf("the transcript of %s does not have what the human said to it", id)
			}
		}
	}
	return nil
}
