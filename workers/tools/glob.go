package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"ralph/memory/text"
	"ralph/workers/agent"
)

//go:embed glob.md
var globDoc string

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
}

func (b *box) glob() spec {
	return define("glob", globDoc, `{"pattern":"**/*_test.go","path":"src"}`, agent.EffectRead, b.runGlob)
}

const (
	maxGlobbed      = 300
	maxPatternBytes = 1000
)

type found struct {
	path string
	when time.Time
}

func (b *box) runGlob(ctx context.Context, a globArgs) (agent.Result, error) {
	g, err := b.Files.newGlob(a.Pattern)
	if err != nil {
		return agent.Result{}, fmt.Errorf("glob: %w", err)
	}
	dir, base, err := b.Files.OpenDir(or(a.Path, "."))
	if err != nil {
		return agent.Result{}, err
	}
	defer dir.Close()
	if g.fromRoot && base != "." {
		base = "."
		_ = dir.Close()
		if dir, _, err = b.Files.OpenDir("."); err != nil {
			return agent.Result{}, err
		}
		defer dir.Close()
	}
	var all []found
	k, err := b.Files.walk(ctx, dir, base, func(e entry) error {
		if e.d.IsDir() || !g.match(relTo(base, e.path)) {
			return nil
		}
		f := found{path: e.path}
		if info, err := e.dir.Lstat(e.d.Name()); err == nil {
			f.when = info.ModTime()
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		return agent.Result{}, fmt.Errorf("glob %q: %w", a.Pattern, err)
	}
	slices.SortStableFunc(all, func(x, y found) int {
		if c := y.when.Compare(x.when); c != 0 {
			return c
		}
		return strings.Compare(x.path, y.path)
	})
	var out strings.Builder
	shown := 0
	for _, f := range all[:min(len(all), maxGlobbed)] {
		name, _ := visible([]byte(f.path))
		if out.Len()+len(name)+1 > b.MaxOutputBytes {
			break
		}
		out.WriteString(strings.ReplaceAll(name, "\n", `\n`) + "\n")
		shown++
	}
	lines := []string{text.Count(len(all), "file") + " match " + a.Pattern, k.notes()}
	if shown < len(all) {
		lines = append(lines, fmt.Sprintf("cut: the %d changed last are shown; narrow the pattern or the path", shown))
	}
	return agent.Result{Head: head(lines...), Text: out.String(), Brief: text.Count(len(all), "file")}, nil
}

// pattern is a compiled glob over paths relative to a base.
type pattern struct {
	text     string
	fromRoot bool // it was absolute: the base is the root
}

// newGlob checks a pattern. One without a slash matches names at any depth.
func (w *Workspace) newGlob(text string) (pattern, error) {
	p := pattern{text: strings.TrimPrefix(text, "./")}
	if strings.HasPrefix(text, "/") {
		rel, err := w.Rel(text)
		if err != nil {
			return p, err
		}
		p = pattern{text: rel, fromRoot: true}
	}
	switch {
	case p.text == "":
		return p, errors.New(`the pattern is empty; example: "**/*.go"`)
	case len(p.text) > maxPatternBytes:
		return p, fmt.Errorf("the pattern has %d bytes; %d are allowed", len(p.text), maxPatternBytes)
	case !doublestar.ValidatePattern(p.text):
		return p, fmt.Errorf("pattern %q: a bracket or brace is not closed", text)
	case expansions(p.text) > maxExpansions:
		return p, fmt.Errorf("pattern %q: its braces stand for more than %d patterns", text, maxExpansions)
	case slices.Contains(strings.Split(p.text, "/"), ".."):
		return p, fmt.Errorf("pattern %q: .. is not allowed; give the directory as path", text)
	}
	if !p.fromRoot && !strings.Contains(p.text, "/") {
		p.text = "**/" + p.text
	}
	return p, nil
}

// maxExpansions bounds the patterns that one with braces stands for: each is
// tried on its own, with each path.
const maxExpansions = 256

// expansions counts the patterns that the braces of a valid pattern stand for, up
// to a little more than maxExpansions.
func expansions(text string) int {
	// An open brace holds what stood before it, what the alternatives so far add
	// up to, and what the one that is being read stands for.
	type open struct{ before, sum int }
	var stack []open
	now := 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '{':
			stack, now = append(stack, open{before: now}), 1
		case c == ',' && len(stack) > 0:
			stack[len(stack)-1].sum += now
			now = 1
		case c == '}' && len(stack) > 0:
			o := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			now = o.before * (o.sum + now)
		}
		now = min(now, maxExpansions+1)
	}
	return now
}

func (p pattern) match(rel string) bool {
	ok, err := doublestar.Match(p.text, rel)
	return ok && err == nil
}

// relTo is p as seen from base, which holds it.
func relTo(base, p string) string {
	if base == "." {
		return p
	}
	return strings.TrimPrefix(p, base+"/")
}
