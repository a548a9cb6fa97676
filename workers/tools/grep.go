package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"syscall"

	"ralph/workers/agent"
)

//go:embed grep.md
var grepDoc string

type grepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty"`
	Glob       string `json:"glob,omitempty"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Context    int    `json:"context,omitempty" jsonschema:"lines around"`
	Limit      int    `json:"limit,omitempty" jsonschema:"matches, default 100"`
}

func (b *box) grep() spec {
	return define("grep", grepDoc, `{"pattern":"func \\w+Error","glob":"*.go","context":2}`, agent.EffectRead, b.runGrep)
}

const (
	defaultMatches  = 100
	maxMatches      = 1000
	maxAround       = 20
	maxGreppedBytes = 16 << 20 // larger files are left to shell
	maxShownBytes   = 400      // of one line
)

func (b *box) runGrep(ctx context.Context, a grepArgs) (agent.Result, error) {
	s, err := newSearch(a)
	if err != nil {
		return agent.Result{}, err
	}
	s.most = b.MaxOutputBytes
	var g *pattern
	if a.Glob != "" {
		p, err := b.Files.newGlob(a.Glob)
		if err != nil {
			return agent.Result{}, fmt.Errorf("grep: %w", err)
		}
		g = &p
	}
	notes := ""
	f, name, err := b.Files.Open(or(a.Path, "."))
	switch {
	case err == nil:
		s.file(ctx, opened{f: f, name: name}, nil)
		if ctx.Err() != nil {
			err = fmt.Errorf("grep %q: %w", s.re, context.Cause(ctx))
		}
	case errors.Is(err, syscall.EISDIR):
		notes, err = b.grepTree(ctx, s, or(a.Path, "."), g)
	}
	if err != nil {
		return agent.Result{}, err
	}
	return s.result(notes), nil
}

// grepTree searches the files below base, side by side.
func (b *box) grepTree(ctx context.Context, s *search, base string, g *pattern) (string, error) {
	dir, base, err := b.Files.OpenDir(base)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.start(ctx, cancel)
	k, err := b.Files.walk(ctx, dir, base, func(e entry) error {
		if !e.d.Type().IsRegular() || g != nil && !g.match(g.subject(base, e.path)) {
			return nil
		}
		f, _, err := openRegular(e.dir, e.d.Name())
		if err != nil {
			s.unread.Add(1)
			return nil
		}
		return s.add(ctx, f, e.path)
	})
	s.finish()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !s.full.Load() {
		return "", fmt.Errorf("grep %q: %w", s.re, err)
	}
	return k.notes(), nil
}

// subject is the path that the pattern is about.
func (p pattern) subject(base, path string) string {
	if p.fromRoot {
		return path
	}
	return relTo(base, path)
}
