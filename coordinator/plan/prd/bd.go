package prd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan/beads"
	"ralph/workers/exec"
)

// ErrThere is matched when issues of the document are in the database already.
var ErrThere = errors.New("is in the database already")

// Maker makes issues with bd. It is used from one goroutine.
type Maker struct {
	// Client is open on the database.
	Client *beads.Client
	// Proc starts bd, Environ is the user's environment.
	Proc    *exec.Runner
	Environ []string
	// Program is bd; "" means the one in PATH.
	Program string
	// Timeout of each call; 0 is 10 s.
	Timeout time.Duration
	// Actor is who the issues are made by.
	Actor string
}

// Made is what became of a story.
type Made struct {
	Ref, ID string
	There   bool // it was there already
}

// Make makes the issues, in the order in which Issues lists them; those of which
// the external reference is in the database already are left as they are, and
// without merge an error that matches ErrThere, before anything is made. An error
// comes with what was made until then: another call with merge goes on.
func (m Maker) Make(ctx context.Context, issues []Issue, merge bool) ([]Made, error) {
	s, err := m.Client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]string{}
	for _, i := range s.Issues {
		if i.ExternalRef != "" && i.Status != "tombstone" && have[i.ExternalRef] == "" {
			have[i.ExternalRef] = i.ID
		}
	}
	var there []string
	for _, i := range issues {
		if id := have[i.Ref]; id != "" {
			there = append(there, i.Ref+" ("+id+")")
		}
	}
	if len(there) > 0 && !merge {
		return nil, fmt.Errorf("make issues in %q: %w: %s", m.Client.Dir(), ErrThere, strings.Join(there[:min(len(there), 10)], ", "))
	}
	var out []Made
	for _, i := range issues {
		if id := have[i.Ref]; id != "" {
			out = append(out, Made{i.Ref, id, true})
			continue
		}
		id, err := m.create(ctx, i, have)
		if err != nil {
			return out, err
		}
		have[i.Ref] = id
		out = append(out, Made{Ref: i.Ref, ID: id})
		if i.Done {
			if err := m.closed(ctx, i.Ref, id); err != nil {
				return out, err
			}
		}
	}
	return out, m.proven(ctx, issues, out, have)
}

// proven looks at the database once more: what was made has to wait for what the
// document says, and for nothing else.
func (m Maker) proven(ctx context.Context, issues []Issue, made []Made, ids map[string]string) error {
	s, err := m.Client.Snapshot(ctx)
	if err != nil {
		return err
	}
	found := map[string]beads.Issue{}
	for _, i := range s.Issues {
		found[i.ID] = i
	}
	for n, i := range issues {
		if made[n].There {
			continue
		}
		got, ok := found[made[n].ID]
		var want, have []string
		for _, a := range i.After {
			want = append(want, ids[a])
		}
		for _, d := range got.Dependencies {
			if d.Type == "blocks" {
				have = append(have, d.On)
			}
		}
		slices.Sort(want)
		slices.Sort(have)
		if !ok || !slices.Equal(want, have) || i.Parent != "" && got.Parent() != ids[i.Parent] || i.Done != got.Closed() {
			return &beads.Error{Op: "make an issue of " + i.Ref, Path: m.Client.Dir(), Err: beads.ErrNotProven,
				Said: fmt.Sprintf("%s waits for %q and not for %q, or its epic or status is another", made[n].ID, have, want), Hint: "look at it with bd show " + made[n].ID}
		}
	}
	return nil
}

func (m Maker) create(ctx context.Context, i Issue, ids map[string]string) (string, error) {
	op := "make an issue of " + i.Ref
	said, err := m.call(ctx, op, append(i.Args(func(ref string) string { return ids[ref] }), "--json")...)
	if err != nil {
		return "", err
	}
	var got struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if json.Unmarshal(said.stdout, &got) != nil || got.ID == "" || got.Title != i.Title {
		return "", m.failed(op, said)
	}
	return got.ID, nil
}

// closed closes an issue that is done already. What the document says counts,
// also when something before it is open.
func (m Maker) closed(ctx context.Context, ref, id string) error {
	op := "close " + id + " (" + ref + ")"
	said, err := m.call(ctx, op, "close", id, "--reason", "done already", "--force", "--json")
	if err != nil {
		return err
	}
	var list []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	if json.Unmarshal(said.stdout, &list) != nil || len(list) != 1 || list[0].ID != id || list[0].Status != "closed" {
		return m.failed(op, said)
	}
	return nil
}

type saying struct {
	exit   int
	stdout []byte
	stderr string
}

func (m Maker) call(ctx context.Context, op string, args ...string) (saying, error) {
	program, timeout := m.Program, m.Timeout
	if program == "" {
		program = "bd"
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	argv := []string{program}
	if m.Actor != "" {
		argv = append(argv, "--actor", m.Actor)
	}
	res, err := m.Proc.Run(ctx, exec.Spec{Argv: append(argv, args...), Dir: m.Client.Data().Work, Env: m.environ(), Split: true, MaxBytes: 4 << 20, Timeout: timeout})
	switch {
	case err != nil:
		return saying{}, &beads.Error{Op: op, Path: m.Client.Dir(), Err: fmt.Errorf("%w: %w", beads.ErrMissing, err), Hint: "ralph plan convert --to beads -o FILE writes a script that makes the issues"}
	case res.TimedOut:
		return saying{}, &beads.Error{Op: op, Path: m.Client.Dir(), Err: beads.ErrSlow, Hint: "another call with --merge goes on where this one stopped"}
	}
	return saying{res.ExitCode, append(res.Stdout.Head, res.Stdout.Tail...), res.Stderr.String()}, nil
}

// environ leads bd to this database and to no daemon.
func (m Maker) environ() []string {
	var out []string
	for _, e := range exec.Environ(m.Environ) {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "BD_") || strings.HasPrefix(name, "BEADS_") && !strings.HasPrefix(name, "BEADS_DOLT_") {
			continue
		}
		out = append(out, e)
	}
	return append(out, "BEADS_NO_DAEMON=1", "BEADS_DIR="+m.Client.Dir())
}

// failed is the error of a call that does not show what was asked for: the exit
// code of bd proves nothing.
func (m Maker) failed(op string, s saying) error {
	var e struct {
		Error string `json:"error"`
	}
	said := s.stderr
	if json.Unmarshal(s.stdout, &e) == nil && e.Error != "" {
		said = e.Error
	}
	said = strings.Join(strings.Fields(strings.ToValidUTF8(said, "")), " ")
	if len(said) > 400 {
		said = strings.ToValidUTF8(said[:400], "") + "…"
	}
	if said == "" {
		said = fmt.Sprintf("it ended with exit code %d and showed no issue", s.exit)
	}
	return &beads.Error{Op: op, Path: m.Client.Dir(), Said: said, Err: beads.ErrNotProven, Hint: "another call with --merge goes on where this one stopped"}
}
