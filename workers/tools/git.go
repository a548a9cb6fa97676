package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/git"
)

//go:embed git.md
var gitDoc string

type gitArgs struct {
	Action  string   `json:"action" enum:"status,diff,log,commit"`
	Message string   `json:"message,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Staged  bool     `json:"staged,omitempty"`
	Limit   int      `json:"limit,omitempty"`
}

func (b *box) git() spec {
	return define("git", gitDoc, `{"action":"commit","message":"fix: …","paths":["main.go"]}`, agent.EffectChange, b.runGit)
}

const (
	defaultCommits = 20
	maxCommits     = 500
)

func (b *box) runGit(ctx context.Context, a gitArgs) (agent.Result, error) {
	if b.Git == nil {
		return agent.Result{}, errors.New("git: this project is in no git repository (the user can make one with git init)")
	}
	prefix, err := b.gitPrefix()
	if err != nil {
		return agent.Result{}, fmt.Errorf("git: %w", err)
	}
	paths, err := b.gitPaths(prefix, a.Paths)
	if err != nil {
		return agent.Result{}, err
	}
	switch a.Action {
	case "status":
		return b.gitStatus(ctx, prefix)
	case "diff":
		return b.gitDiff(ctx, a, paths)
	case "log":
		return b.gitLog(ctx, a, paths)
	}
	return b.gitCommit(ctx, a, paths)
}

// gitPrefix is the root as seen from the top of its repository: "" when they are
// the same.
func (b *box) gitPrefix() (string, error) {
	loc, err := git.Find(b.Files.real)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(loc.Root, b.Files.real)
	if err != nil || rel == "." {
		return "", err
	}
	return filepath.ToSlash(rel), nil
}

// gitPaths turns paths of the project into paths of the repository. Without any
// the whole project is meant, which may be a part of the repository.
func (b *box) gitPaths(prefix string, given []string) ([]string, error) {
	var paths []string
	for _, p := range given {
		rel, err := b.Files.Rel(p)
		if err != nil {
			return nil, err
		}
		rel = filepath.ToSlash(filepath.Join(prefix, rel))
		if rel == "." {
			return nil, nil
		}
		paths = append(paths, rel)
	}
	if len(given) == 0 && prefix != "" {
		paths = []string{prefix}
	}
	return paths, nil
}

func (b *box) gitStatus(ctx context.Context, prefix string) (agent.Result, error) {
	branch, err := b.Git.Branch(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	list, err := b.Git.Status(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	var out strings.Builder
	for _, c := range list {
		fmt.Fprintf(&out, "%s\t%s", c.Kind, seenFrom(prefix, c.Path))
		if c.OldPath != "" {
			fmt.Fprintf(&out, " (was %s)", seenFrom(prefix, c.OldPath))
		}
		out.WriteByte('\n')
	}
	content, _ := visible([]byte(out.String()))
	content, notice := b.fit("git", content)
	first := fmt.Sprintf("on branch %s: %s changed", or(branch, "(detached)"), text.Count(len(list), "file"))
	if len(list) == 0 {
		first = fmt.Sprintf("on branch %s: nothing changed", or(branch, "(detached)"))
	}
	return agent.Result{Head: head(first, notice), Text: content, Brief: text.Count(len(list), "change")}, nil
}

// seenFrom is a path of the repository as seen from the project's root.
func seenFrom(prefix, p string) string {
	rel, err := filepath.Rel("/"+prefix, "/"+p)
	if err != nil {
		return p
	}
	return filepath.ToSlash(rel)
}

func (b *box) gitDiff(ctx context.Context, a gitArgs, paths []string) (agent.Result, error) {
	diff, err := b.Git.Diff(ctx, git.DiffOptions{Staged: a.Staged, Paths: paths})
	if err != nil {
		return agent.Result{}, err
	}
	if diff == "" {
		return agent.Result{Head: "no difference (untracked files are in status only)", Brief: "no difference"}, nil
	}
	diff, _ = visible([]byte(diff))
	content, notice := b.fit("git", diff)
	lines := text.Count(countLines(diff), "line")
	return agent.Result{Head: head("diff of "+lines, notice), Text: content, Brief: lines}, nil
}

func (b *box) gitLog(ctx context.Context, a gitArgs, paths []string) (agent.Result, error) {
	n := min(a.Limit, maxCommits)
	if n <= 0 {
		n = defaultCommits
	}
	list, err := b.Git.Log(ctx, git.LogOptions{N: n, Paths: paths})
	if err != nil {
		return agent.Result{}, err
	}
	var out strings.Builder
	for _, c := range list {
		fmt.Fprintf(&out, "%.12s %s %s: %s\n", c.Hash, c.Time.Format(time.DateOnly), c.Author, c.Subject)
	}
	content, _ := visible([]byte(out.String()))
	content, notice := b.fit("git", content)
	return agent.Result{Head: head(text.Count(len(list), "commit"), notice), Text: content, Brief: text.Count(len(list), "commit")}, nil
}

func (b *box) gitCommit(ctx context.Context, a gitArgs, paths []string) (agent.Result, error) {
	if strings.TrimSpace(a.Message) == "" {
		return agent.Result{}, errors.New(`git commit: missing field "message"; example: {"action":"commit","message":"fix: …"}`)
	}
	if b.Redact != nil { // a commit is for others to read
		a.Message = string(b.Redact([]byte(a.Message)))
	}
	hash, err := b.Git.Commit(ctx, git.CommitOptions{Message: a.Message, Paths: paths, All: len(paths) == 0})
	if errors.Is(err, git.ErrNothingToCommit) {
		return agent.Result{Failed: true, Head: "nothing to commit", Brief: "nothing to commit"}, nil
	}
	if err != nil {
		return agent.Result{}, err
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(a.Message), "\n")
	short := hash[:min(len(hash), 12)]
	return agent.Result{Head: fmt.Sprintf("committed %s: %s", short, subject), Brief: short}, nil
}
