package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/git"
)

// refs moves the refs in one transaction that demands their old values. Where one
// of them has another value by now it is tried again with that one kept aside.
func (p *publication) refs(ctx context.Context, pl *plan, repo git.Plumbing) error {
	var last error
	for range maxTries {
		now, err := p.h.reader.refs.read(pl.l.lower)
		if err != nil {
			return err
		}
		x := p.transaction(pl, now)
		if last = p.updateRefs(ctx, pl, repo, x.room.Bytes()); last == nil {
			p.h.step("room")
			last = p.updateRefs(ctx, pl, repo, x.moves.Bytes())
		}
		if last != nil {
			continue
		}
		p.rep.Late = append(p.rep.Late, x.late...)
		if x.room.Len()+x.moves.Len() > 0 {
			for _, c := range pl.kept {
				p.rep.Kept = append(p.rep.Kept, c.name)
			}
		}
		return p.remoteHeads(ctx, pl, repo)
	}
	return fmt.Errorf("move refs: %w", last)
}

// updateRefs has git carry out one transaction.
func (p *publication) updateRefs(ctx context.Context, pl *plan, repo git.Plumbing, input []byte) error {
	if len(input) == 0 {
		return nil
	}
	_, _, err := repo.Run(ctx, git.Call{Args: []string{"update-ref", "-m", pl.message, "--stdin", "-z"}, Stdin: input, Env: pl.env()})
	return err
}

// env has git record the committer of the command, in the repository itself.
func (pl *plan) env() []string {
	name, who, _ := strings.Cut(pl.who, " <")
	mail, _, _ := strings.Cut(who, ">")
	var env []string
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+role+"_NAME="+name, "GIT_"+role+"_EMAIL="+mail)
	}
	return append(env, "GIT_OBJECT_DIRECTORY="+filepath.Join(pl.l.lower, "objects"))
}

// moves is the input of git update-ref.
type moves struct {
	now refs
	// room deletes what is in the way of moves: git does not do both at once.
	room, moves bytes.Buffer
	late        []string
}

// keep makes a ref of Ralph's own, under another name where there is one.
func (x *moves) keep(name, id string) {
	switch x.now[name] {
	case id: // a publication that was killed made it
	case "":
		fmt.Fprintf(&x.moves, "create %s\x00%s\x00", name, id)
	default:
		fmt.Fprintf(&x.moves, "create %s.%d\x00%s\x00", name, time.Now().UnixNano(), id)
	}
}

// transaction moves what is as it was before, and makes what the user changed
// under another name. Work trees whose branch is among that are late.
func (p *publication) transaction(pl *plan, now refState) *moves {
	x := &moves{now: now.all()}
	dirs := x.now.dirs()
	gone := map[string]bool{} // what the plan deletes
	for _, c := range pl.claims {
		gone[c.name] = c.new == "" && x.now[c.name] == c.old
	}
	taken := func(c claim) bool {
		kept := func(name string) bool { return !gone[name] }
		return x.now[c.name] != c.new && (x.now[c.name] != c.old || c.old == "" && slices.ContainsFunc(x.now.inTheWay(c.name, dirs), kept))
	}
	for _, t := range pl.trees {
		t.late = t.late || slices.ContainsFunc(pl.claims, func(c claim) bool {
			return taken(c) && (c.name == t.branch() || c.name == t.after)
		})
	}
	late := map[string]bool{}
	for _, c := range pl.claims {
		held := slices.ContainsFunc(pl.trees, func(t *treeChange) bool { return t.late && t.branch() == c.name })
		late[c.name] = taken(c) || held && x.now[c.name] != c.new
	}
	for _, c := range pl.claims {
		// What is kept back may be in the way of others.
		late[c.name] = late[c.name] || c.old == "" && slices.ContainsFunc(x.now.inTheWay(c.name, dirs), func(n string) bool { return late[n] })
		switch {
		case x.now[c.name] == c.new:
		case late[c.name] && c.new == "":
			x.late = append(x.late, c.name+" (which it deleted)")
		case late[c.name]:
			x.late = append(x.late, p.lateName(c.name))
			x.keep(p.lateName(c.name), c.new)
		case c.old == "":
			fmt.Fprintf(&x.moves, "create %s\x00%s\x00", c.name, c.new)
		case c.new == "" && slices.ContainsFunc(pl.claims, func(o claim) bool { return o.new != "" && excludes(o.name, c.name) }):
			fmt.Fprintf(&x.room, "delete %s\x00%s\x00", c.name, c.old)
		case c.new == "":
			fmt.Fprintf(&x.moves, "delete %s\x00%s\x00", c.name, c.old)
		default:
			fmt.Fprintf(&x.moves, "update %s\x00%s\x00%s\x00", c.name, c.new, c.old)
		}
	}
	for _, c := range pl.kept {
		x.keep(c.name, c.new)
	}
	return x
}

// excludes reports whether git cannot have refs of both names.
func excludes(a, b string) bool { return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") }

// setAside keeps what the command left of work trees that the user changed: a
// detached HEAD, and the index as a commit on top of its HEAD.
func (p *publication) setAside(ctx context.Context, pl *plan, repo git.Plumbing) error {
	now, err := p.h.reader.refs.read(pl.l.lower)
	if err != nil {
		return err
	}
	x := &moves{now: now.all()}
	for _, t := range pl.trees {
		if !t.late || !t.changed() {
			continue
		}
		head := pl.after[t.after]
		if t.after == "" {
			_, head, _ = parseHead([]byte(t.nowHead()))
		}
		switch {
		case t.head == "":
		case t.after == "":
			name := p.lateName(path.Join(t.name, "HEAD"))
			x.late = append(x.late, name)
			x.keep(name, head)
		default:
			p.rep.Late = append(p.rep.Late, path.Join(t.name, "HEAD")+" (which it put on "+strings.TrimPrefix(t.after, "refs/heads/")+")")
		}
		if t.index != nil {
			name := p.lateName(path.Join(t.name, "index"))
			id, err := p.commitIndex(ctx, pl, repo, *t.index, head, "what a command of Ralph staged")
			switch {
			case err != nil:
				p.rep.Late = append(p.rep.Late, path.Join(t.name, "index")+" (which is not kept: "+err.Error()+")")
			case id == "": // nothing is staged
			case p.again && x.now[name] != "":
			default:
				x.late = append(x.late, name)
				x.keep(name, id)
			}
		}
		for _, s := range t.states {
			if slices.Contains(passing(), s.name) {
				continue
			}
			p.rep.Late = append(p.rep.Late, path.Join(t.name, s.name)+" (which is not kept)")
		}
	}
	p.rep.Late = append(p.rep.Late, x.late...)
	return p.updateRefs(ctx, pl, repo, x.moves.Bytes())
}

// commitIndex makes a commit of an index; "" when it has nothing that head does not
// have.
func (p *publication) commitIndex(ctx context.Context, pl *plan, repo git.Plumbing, x gitIndex, head, message string) (string, error) {
	at := filepath.Join(p.dir, "index")
	if err := os.WriteFile(at, x.encode(pl.oidLen), 0o600); err != nil {
		return "", err
	}
	out, _, err := repo.Run(ctx, git.Call{Args: []string{"write-tree", "--missing-ok"}, Index: at, Env: pl.env()})
	tree := strings.TrimSpace(string(out))
	if err != nil {
		return "", errors.New("it has conflicts")
	}
	args := []string{"commit-tree", tree, "-m", message}
	if head != "" {
		out, _, err := repo.Run(ctx, git.Call{Args: []string{"rev-parse", head + "^{tree}"}})
		if err != nil || strings.TrimSpace(string(out)) == tree {
			return "", err
		}
		args = append(args, "-p", head)
	}
	out, _, err = repo.Run(ctx, git.Call{Args: args, Env: pl.env()})
	return strings.TrimSpace(string(out)), err
}

func (p *publication) lateName(ref string) string { return lateRefs + p.id + "/" + short(ref) }
