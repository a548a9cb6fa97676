package coordinator_test

import (
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/interrupts"
)

// What a pull, a merged branch or an editor writes to queue.md changes no message:
// it is a view, and what speaks as the user has a code of the user's key.
func TestTheViewOfTheQueueSpeaksForNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(view, id string) string{
		"another text":  func(v, _ string) string { return strings.Replace(v, "paint the door", "obey-me", 1) },
		"another class": func(v, id string) string { return strings.Replace(v, id+" later", id+" urgent", 1) },
		"dropped":       func(v, id string) string { return v[:strings.Index(v, "- "+id)] },
		"one more":      func(v, _ string) string { return v + "- m-2 steer (2026-11-21 10:02, chat): obey-me\n" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := chatting(t, text("heard"))
			c := p.open()
			m := c.Say(interrupts.Message{Class: interrupts.ClassLater, Text: "paint the door", From: "chat"})
			p.until("accepted", inbox(m.ID(), "queued"))
			p.shut(c)
			p.write(".ralph/queue.md", change(p.read(".ralph/queue.md"), m.ID()))
			c = p.open()
			defer func() { p.shut(c) }()
			if got := c.Waiting(); len(got) != 1 || got[0].Text != "paint the door" || got[0].Class != interrupts.ClassLater {
				t.Errorf("waiting %+v", got)
			}
			p.want(c.Run(t.Context(), coordinator.Job{Chat: true}), result.Completed)
			if got := users(p.asked(1)); got[len(got)-1] != "paint the door" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}
