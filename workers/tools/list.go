package tools

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ralph/memory/text"
	"ralph/workers/agent"
)

//go:embed list.md
var listDoc string

type listArgs struct {
	Path  string `json:"path,omitempty"`
	Depth int    `json:"depth,omitempty" jsonschema:"default 2"`
}

func (b *box) list() spec {
	return define("list", listDoc, `{"path":"src","depth":2}`, agent.EffectRead, b.runList)
}

const (
	defaultListDepth = 2
	maxListDepth     = 20
	maxListed        = 600 // entries shown
	maxListedPerDir  = 200 // of them in one directory below the base
)

// node is one entry of the tree that list shows.
type node struct {
	name     string
	children []*node
	hidden   int  // entries of this directory that are left out
	closed   bool // a directory that is not looked into
}

func (b *box) runList(ctx context.Context, a listArgs) (agent.Result, error) {
	dir, base, err := b.Files.OpenDir(or(a.Path, "."))
	if err != nil {
		return agent.Result{}, err
	}
	defer dir.Close()
	depth := a.Depth
	if depth <= 0 {
		depth = defaultListDepth
	}
	depth = min(depth, maxListDepth)
	top := &node{}
	dirs := map[string]*node{base: top}
	k, err := b.Files.walk(ctx, dir, base, func(e entry) error {
		parent := dirs[path.Dir(e.path)]
		n := &node{name: label(e.d)}
		if parent != top && len(parent.children) >= maxListedPerDir {
			parent.hidden++
			return errSkip
		}
		parent.children = append(parent.children, n)
		if !e.d.IsDir() {
			return nil
		}
		if below(base, e.path) >= depth {
			n.closed = true
			return errSkip
		}
		dirs[e.path] = n
		return nil
	})
	if err != nil {
		return agent.Result{}, fmt.Errorf("list %q: %w", base, err)
	}
	cut := prune(top)
	var out strings.Builder
	shown := top.print(&out, 0)
	content, notice := b.fit("list", out.String())
	if cut {
		notice = head(notice, fmt.Sprintf("cut at %d entries: directories ending in /… hold more; name one of them as path", maxListed))
	}
	name := base
	if name == "." {
		name = "the project's root"
	}
	return agent.Result{
		Head:  head(fmt.Sprintf("%s, %d deep: %s", name, depth, text.Count(shown, "entry")), k.notes(), notice),
		Text:  content,
		Brief: text.Count(shown, "entry"),
	}, nil
}

// label marks what is no plain file.
func label(d fs.DirEntry) string {
	switch t := d.Type(); {
	case t.IsDir():
		return d.Name() + "/"
	case t&fs.ModeSymlink != 0:
		return d.Name() + "@"
	case t&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0:
		return d.Name() + "|"
	}
	return d.Name()
}

// below is how many levels p lies below base.
func below(base, p string) int {
	if base == "." {
		return strings.Count(p, "/") + 1
	}
	return strings.Count(p, "/") - strings.Count(base, "/")
}

// prune keeps the first maxListed nodes by level, so that one large directory
// does not hide its neighbours, and says whether any was dropped.
func prune(top *node) (cut bool) {
	left := maxListed
	for level := []*node{top}; len(level) > 0; {
		var next []*node
		for _, n := range level {
			if len(n.children) > left {
				n.hidden += len(n.children) - left
				n.children = n.children[:left]
			}
			left -= len(n.children)
			cut = cut || n.hidden > 0
			next = append(next, n.children...)
		}
		level = next
	}
	return cut
}

func (n *node) print(out *strings.Builder, depth int) int {
	shown := 0
	for _, c := range n.children {
		name, _ := visible([]byte(c.name))
		name = strings.ReplaceAll(name, "\n", `\n`)
		out.WriteString(strings.Repeat("  ", depth) + name)
		if c.hidden > 0 {
			out.WriteString("…")
		}
		out.WriteByte('\n')
		shown += 1 + c.print(out, depth+1)
	}
	return shown
}

// or returns the first that is not empty.
func or(words ...string) string {
	if i := slices.IndexFunc(words, func(w string) bool { return w != "" }); i >= 0 {
		return words[i]
	}
	return ""
}
