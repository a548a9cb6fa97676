package scripts

import (
	"errors"
	"testing"

	"ralph/memory/session"
)

func TestFindSession(t *testing.T) {
	list := []session.Info{
		{ID: "001", Dir: "session-001-chat", Meta: session.Metadata{SessionName: "chat"}},
		{ID: "003", Dir: "session-003-fix-login", Meta: session.Metadata{SessionName: "Fix login"}},
		{ID: "030", Dir: "session-030-fix-doors", Meta: session.Metadata{SessionName: "Fix doors"}},
		{ID: "031", Dir: "session-031-chat", Meta: session.Metadata{SessionName: "chat"}},
	}
	for word, want := range map[string]string{
		"001": "001", "1": "001", "3": "003", "session-030-fix-doors": "030", "fix login": "003", "FIX-D": "030", "fix-login": "003",
		"session-003": "003", "30": "030", "the-feature": "031",
	} {
		feature := ""
		if word == "the-feature" {
			feature = "session-031-chat"
		}
		if got, err := findSession(list, word, feature); err != nil || got.ID != want {
			t.Errorf("%q is %q, %v; want %q", word, got.ID, err, want)
		}
	}
	for word, want := range map[string]error{"fix": session.ErrAmbiguous, "chat": session.ErrAmbiguous, "nosuch": session.ErrNotFound, "4": session.ErrNotFound, "../x": session.ErrNotFound} {
		if got, err := findSession(list, word, ""); !errors.Is(err, want) {
			t.Errorf("%q is %+v, %v; want %v", word, got, err, want)
		}
	}
}
