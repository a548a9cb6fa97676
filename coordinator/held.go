package coordinator

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/text"
)

const (
	kindUnsaved = "unsaved"
	hintUnsaved = "make room on the filesystem; the changes to the project's files are there, what Ralph had to note of them is lost"
)

// hinted says in one line what could not be stored and what can be done about
// it: what failed for the same reason is told together.
func hinted(err error) string {
	type group struct {
		first *durable.Error
		names []string
	}
	var groups []*group
	var texts []string
	for _, leaf := range leaves(err) {
		var d *durable.Error
		if !errors.As(leaf, &d) || d.Hint == "" {
			texts = append(texts, leaf.Error())
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.first.Hint == d.Hint })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{first: d})
			texts = append(texts, fmt.Sprintf("%v (%s)", leaf, d.Hint))
		}
		if name := filepath.Base(d.Path); !slices.Contains(groups[i].names, name) {
			groups[i].names = append(groups[i].names, name)
		}
	}
	for _, g := range groups {
		if len(g.names) < 2 {
			continue
		}
		at := slices.IndexFunc(texts, func(t string) bool { return strings.HasSuffix(t, "("+g.first.Hint+")") })
		texts[at] = fmt.Sprintf("%s cannot be written: %s", text.List(g.names, maxNamed), g.first.Hint)
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// leaves are the errors that were joined, without what only marks them.
func leaves(err error) []error {
	if err == nil || err == memory.ErrHeld {
		return nil
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, leaves(e)...)
	}
	return out
}

func heldText(err error) string { return memory.ErrHeld.Error() + ": " + hinted(err) }

// storedError is an error of storing, told with what can be done about it.
type storedError struct{ err error }

func (e *storedError) Error() string { return hinted(e.err) }
func (e *storedError) Unwrap() error { return e.err }

func stored(err error) error {
	if err == nil {
		return nil
	}
	return &storedError{err}
}

// unsaved fails the outcome of work whose process ends now when a record of it is
// nowhere but in memory: in no journal, or in a state file that could not be written.
// err is why; mu is held.
func (b *book) unsaved(out *result.Outcome, j Job, err error) {
	lost := b.store.Held()
	if b.held {
		lost = append(lost, session.JournalFile)
	}
	if j.Chat || b.readOnly || len(lost) == 0 || errors.Is(err, durable.ErrSymlink) {
		return
	}
	content := text.List(lost, maxNamed) + " could not be saved"
	if err != nil {
		content += ": " + hinted(err)
	}
	if out.Status != result.Completed {
		b.note(content)
		return
	}
	out.Status, out.Reason, out.Failure = result.Failed, "", &result.Failure{Kind: kindUnsaved, Message: content, Hint: hintUnsaved}
}
