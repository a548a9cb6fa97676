package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestTalkIsWhole: the tokens are the text, and none is empty or cuts a rune.
func TestTalkIsWhole(t *testing.T) {
	list := talkTokens()
	if strings.Join(list, "") != talkText {
		t.Error("the tokens are not the text")
	}
	for _, text := range list {
		if text == "" || strings.ToValidUTF8(text, "") != text {
			t.Errorf("the token %q", text)
		}
	}
	if each := float64(len(talkText)) / float64(len(list)); each < 3 || each > 6 {
		t.Errorf("a token has %.1f bytes", each)
	}
}

// Time that is spent is seen.
func TestBusyOf(t *testing.T) {
	before, err := busyOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Second); time.Now().Before(late); {
		if after, err := busyOf(os.Getpid()); err != nil {
			t.Fatal(err)
		} else if after > before {
			return
		}
	}
	t.Error("ten seconds of work are not seen")
}
