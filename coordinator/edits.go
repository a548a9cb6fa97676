package coordinator

import (
	"fmt"
	"strings"
	"sync"

	"ralph/coordinator/transcript"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// edits is what somebody else did to the state files while Ralph is open: it
// tells the human at once and the model with its next request.
type edits struct {
	c      *Coordinator
	signal chan struct{} // the store noticed something
	quit   chan struct{}
	done   sync.WaitGroup

	// mu guards unseen.
	mu     sync.Mutex
	unseen []string // by the model
}

func newEdits(c *Coordinator) *edits {
	return &edits{c: c, signal: make(chan struct{}, 1), quit: make(chan struct{})}
}

// notice is called by the store, which must not wait.
func (e *edits) notice() {
	select {
	case e.signal <- struct{}{}:
	default:
	}
}

// watch tells of edits as they come, until close; a chat has somebody to tell.
func (e *edits) watch() {
	e.done.Go(func() {
		for {
			select {
			case <-e.quit:
				return
			case <-e.signal:
				e.look()
			}
		}
	})
}

// close ends watch. It is called once.
func (e *edits) close() {
	close(e.quit)
	e.done.Wait()
}

// look takes in what was edited and tells of it.
func (e *edits) look() {
	if e.c.host != nil {
		return // the host tells; a guest began with what the files say
	}
	for _, p := range e.c.book.edits() {
		if p.Lost != "" {
			e.c.warn(p.Lost)
		}
		brief, full := describe(p)
		if brief == "" {
			continue
		}
		full += e.c.nowSays(p.File)
		e.mu.Lock()
		e.unseen = append(e.unseen, full)
		e.mu.Unlock()
		e.c.start() // an event before any work is the first
		e.c.events.emit(agent.Event{Type: agent.EventInbox, Text: brief, Status: "picked up"})
	}
}

// tell has the model told something with its next request.
func (e *edits) tell(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unseen = append(e.unseen, text)
}

// inbox is the loop's: what the model must know before its next request.
func (e *edits) inbox() []agent.Message {
	text := e.news()
	if text == "" {
		return nil
	}
	return []agent.Message{{Role: agent.RoleUser, Text: transcript.NoteTitle + "\n" + text}}
}

// news is what was edited, and what the user ran, and the model was not told; it
// is told once.
func (e *edits) news() string {
	e.look()
	rules := e.c.newRules()
	e.mu.Lock()
	defer e.mu.Unlock()
	told := append(e.unseen, rules...)
	e.unseen = nil
	if ran := e.c.typed.text(true); ran != "" {
		told = append(told, ran)
	}
	return strings.Join(told, "\n\n")
}

// maxToldChanges bounds how many changes of a file are named.
const maxToldChanges = 20

// describe says what was edited: briefly for a person, in full for the model.
func describe(p memory.Pickup) (brief, full string) {
	var lines, words []string
	for i, ch := range p.Changes {
		if i == maxToldChanges {
			lines = append(lines, fmt.Sprintf("- and %d more changes: read the file", len(p.Changes)-i))
			break
		}
		line, word := describeChange(ch)
		if line != "" {
			lines, words = append(lines, line), append(words, word)
		}
	}
	for _, con := range p.Conflicts {
		lines = append(lines, fmt.Sprintf("- %s: you had set %s to %q, the user to %q: the user's stays, and yours is noted beside it", con.ID, con.Field, con.Ralph, con.User))
		words = append(words, fmt.Sprintf("%s %s: both sides changed it, yours stays", con.ID, con.Field))
	}
	if p.Text {
		lines, words = append(lines, "- its text was changed: read it again if it matters"), append(words, "text changed")
	}
	if len(lines) == 0 {
		return "", ""
	}
	if len(words) > 4 {
		words = append(words[:4:4], fmt.Sprintf("and %d more", len(words)-4))
	}
	return p.File + ": " + strings.Join(words, "; "),
		p.File + " was edited, by the user or by a command, not by your task tools. What the file says now holds.\n" + strings.Join(lines, "\n")
}

func describeChange(ch markdown.Change) (line, word string) {
	name := strings.TrimSpace(ch.ID + " " + text.ClipRunes(ch.Title, maxQuote))
	over := func(s markdown.Status) bool { return s != "" && !s.Open() }
	switch {
	case ch.Kind == markdown.Deleted:
		return "- deleted: " + name + ". Do not work on it any more.", ch.ID + " deleted"
	case ch.Kind == markdown.Added:
		return fmt.Sprintf("- new: %s (%s)", name, ch.To), ch.ID + " new"
	case over(ch.From) && ch.To != "" && ch.To.Open():
		return fmt.Sprintf("- reopened: %s (%s, was %s). It is to be worked on again.", name, ch.To, ch.From), ch.ID + " reopened"
	case ch.From != ch.To && ch.To != "":
		return fmt.Sprintf("- %s is %s now, was %s", name, ch.To, ch.From), fmt.Sprintf("%s %s", ch.ID, ch.To)
	case ch.Kind == markdown.Changed:
		return fmt.Sprintf("- %s: %s changed", name, strings.Join(ch.Fields, ", ")), fmt.Sprintf("%s %s", ch.ID, strings.Join(ch.Fields, ", "))
	}
	return "", "" // moved: nothing to do otherwise
}

// edits returns what the user did to the state files. A task that was deleted is
// not worked on any more.
func (b *book) edits() []memory.Pickup {
	b.mu.Lock()
	defer b.leave()
	if b.store == nil || b.dry {
		return nil
	}
	found := b.store.Edits()
	for _, p := range found {
		for _, ch := range p.Changes {
			if p.File == memory.TasksFile && ch.Kind == markdown.Deleted {
				delete(b.working, ch.ID)
			}
		}
	}
	return found
}
