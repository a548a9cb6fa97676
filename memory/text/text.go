// Package text holds the rules by which text is shortened, counted, compared and made safe to show
// and to keep, the same in messages, reports, logs and files.
//
// Visible makes text of models, tools and files harmless to a terminal. A Redactor takes secrets
// out of what is kept. Clip, Head, Tail, FirstLine and OneLine shorten; Count and Length write
// numbers and durations; Closest finds the word that a mistyped one was probably meant to be.
// All of it is for English, knows no colours, and is safe for concurrent use.
//
//	text.Visible("a\x1b[31mb")               // "a␛[31mb"
//	text.Count(1200, "retry")                // "1,200 retries"
//	text.Closest("statsu", []string{"status"}) // "status"
package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// cut marks where text was shortened.
const cut = "…"

// Head returns the longest beginning of s of at most n bytes that ends with a whole character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Tail returns the longest end of s of at most n bytes that begins with a whole character.
func Tail(s string, n int) string {
	at := max(len(s)-max(n, 0), 0)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// Clip returns s, or its beginning with an ellipsis, in at most n bytes.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n-len(cut)) + cut
}

// ClipRunes returns s, or its beginning with an ellipsis, in at most n characters.
func ClipRunes(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	at := 0
	for range max(n-1, 0) {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s[:at] + cut
}

// FirstLine returns s up to its first newline.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// OneLine returns the words of s with one space between them.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// List joins names with commas; of more than n it gives the first n and the number of the others.
func List(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
}
