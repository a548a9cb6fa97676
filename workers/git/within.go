package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/workers/exec"
)

// Starter runs a command to its end, as exec.Runner.Run does.
type Starter func(context.Context, exec.Spec) (exec.Result, error)

// Within is the same repository with all of git started by start, which confines
// it: for the clone of an agent, in which everything is the agent's. Nothing in it
// is read or written but by what start starts.
func (r *Repo) Within(start Starter) *Repo {
	return &Repo{place: place{proc: r.proc, gitDir: r.gitDir, commonDir: r.commonDir, workTree: r.workTree, within: start}}
}

// commitWithin is Commit for a repository that is only touched by confined
// commands.
func (r *Repo) commitWithin(ctx context.Context, message string, paths []string) (string, error) {
	if paths == nil {
		paths = []string{"."}
	}
	who, err := r.identity(ctx)
	if err != nil {
		return "", err
	}
	if _, err := r.run(ctx, call{args: append([]string{"add", "-A", "--"}, paths...)}); err != nil {
		return "", err
	}
	staged, err := r.run(ctx, call{args: append([]string{"diff", "--cached", "--name-only", "-z", "--"}, paths...)})
	if err != nil {
		return "", err
	}
	if len(staged) == 0 {
		return "", nothing(r.workTree, true)
	}
	args := append([]string{"commit", "-q", "--no-verify", "--no-gpg-sign", "-F", "-", "--only", "--"}, paths...)
	if _, err := r.run(ctx, call{args: args, stdin: []byte(message), env: who}); err != nil {
		return "", err
	}
	hash, _, err := r.headWithin(ctx)
	if err == nil && hash == "" {
		err = errors.New("there is no commit")
	}
	if err != nil {
		return "", fmt.Errorf("git commit in %q: %w", r.workTree, err)
	}
	return hash, nil
}

// headWithin asks git for HEAD.
func (p *place) headWithin(ctx context.Context) (commit, branch string, err error) {
	out, err := p.run(ctx, call{args: []string{"rev-parse", "-q", "--verify", "HEAD^{commit}"}, allow: []int{1}})
	if err != nil {
		return "", "", err
	}
	commit = strings.TrimSpace(string(out))
	if out, err = p.run(ctx, call{args: []string{"symbolic-ref", "-q", "--short", "HEAD"}, allow: []int{1}}); err != nil {
		return "", "", err
	}
	return commit, strings.TrimSpace(string(out)), nil
}
