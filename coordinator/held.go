package coordinator

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/memory"
	"ralph/memory/durable"
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
		texts[at] = fmt.Sprintf("%s cannot be written: %s", few(g.names), g.first.Hint)
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

// unsaved says of a one-shot, whose process ends now, that what the model had
// it record is lost with it: it has not done all it was to do. mu is held.
func (b *book) unsaved(out *Outcome, j Job, err error) {
	held := slices.DeleteFunc(b.store.Held(), func(name string) bool { return name == memory.ProgressFile })
	if j.Chat || b.readOnly || err == nil || len(held) == 0 || errors.Is(err, durable.ErrSymlink) {
		return // what is in the log only is not lost, and what Ralph itself notes is no part of the work
	}
	text := "what was recorded in " + few(held) + " could not be saved: " + hinted(err)
	if out.Status != StatusCompleted {
		b.note(text)
		return
	}
	out.Status, out.Reason, out.Failure = StatusFailed, "", &Failure{Kind: "io", Message: text, Hint: "the work itself is done; what was not saved has to be recorded again"}
}
