package history_test

import (
	"testing"

	"pgregory.net/rapid"

	"ralph/memory/history"
)

func size(entries []history.Entry, actions []history.Action, tokens func(int) int) int {
	sum := 0
	for i, a := range actions {
		switch a {
		case history.Keep:
			sum += tokens(entries[i].Bytes)
		case history.Elide:
			sum += tokens(history.ElidedBytes)
		}
	}
	return sum
}

func bytes(n int) int { return n }

func TestPlanLeavesOutOldToolAnswersFirst(t *testing.T) {
	entries := []history.Entry{
		{Kind: history.KindSystem, Bytes: 100, Pinned: true},
		{Kind: history.KindUser, Bytes: 100, Pinned: true},
	}
	for range 6 {
		entries = append(entries, history.Entry{Kind: history.KindAssistant, Bytes: 50}, history.Entry{Kind: history.KindTool, Bytes: 1000}, history.Entry{Kind: history.KindTool, Bytes: 50})
	}
	actions := history.Plan(entries, bytes, 5900)
	want := map[int]history.Action{3: history.Elide, 4: history.Keep, 6: history.Keep}
	for i, a := range want {
		if actions[i] != a {
			t.Errorf("entry %d: %v, want %v (all: %v)", i, actions[i], a, actions)
		}
	}
	actions = history.Plan(entries, bytes, 4700)
	if actions[2] != history.Drop || actions[3] != history.Drop || actions[4] != history.Drop || actions[0] != history.Keep || actions[1] != history.Keep {
		t.Errorf("the oldest group is not dropped whole: %v", actions)
	}
	if actions := history.Plan(entries, bytes, 1_000_000); size(entries, actions, bytes) != 6*1100+200 {
		t.Errorf("something is left out though all fits: %v", actions)
	}
}

func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := []history.Entry{{Kind: history.KindSystem, Bytes: rapid.IntRange(0, 500).Draw(t, "system"), Pinned: true}}
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			entries = append(entries, history.Entry{
				Kind:   history.Kind(rapid.IntRange(1, 3).Draw(t, "kind")),
				Bytes:  rapid.IntRange(0, 2000).Draw(t, "bytes"),
				Pinned: rapid.IntRange(0, 9).Draw(t, "pin") == 0,
			})
		}
		budget := rapid.IntRange(0, 40_000).Draw(t, "budget")
		actions := history.Plan(entries, bytes, budget)
		whole := size(entries, make([]history.Action, len(entries)), bytes)
		if got := size(entries, actions, bytes); whole <= budget && got != whole {
			t.Fatalf("left out %d bytes though all fits", whole-got)
		}
		group := history.Keep
		for i, e := range entries {
			if e.Pinned && actions[i] != history.Keep {
				t.Fatalf("entry %d is pinned and %v", i, actions[i])
			}
			if e.Kind != history.KindTool && actions[i] == history.Elide {
				t.Fatalf("entry %d is no tool answer and elided", i)
			}
			if e.Kind != history.KindTool || i == 1 {
				group = actions[i]
				continue
			}
			if (actions[i] == history.Drop) != (group == history.Drop) {
				t.Fatalf("entry %d is parted from its call: %v", i, actions)
			}
		}
	})
}

func TestEstimateLearns(t *testing.T) {
	var e history.Estimate
	if got := e.Tokens(400); got != 100 {
		t.Errorf("400 bytes are %d tokens at first, want 100", got)
	}
	for range 30 {
		e.Learn(1000, 500)
	}
	if got := e.Tokens(1000); got < 490 || got > 510 {
		t.Errorf("after reports of 2 bytes a token, 1000 bytes are %d tokens", got)
	}
	e.Learn(1000, 1)
	e.Learn(1, 100_000)
	e.Learn(0, 0)
	if got := e.Tokens(1000); got < 490 || got > 510 {
		t.Errorf("absurd reports moved the estimate to %d tokens", got)
	}
	if e.Tokens(0) != 0 || e.Tokens(1) != 1 {
		t.Error("nothing is nothing, and anything is at least one token")
	}
}
