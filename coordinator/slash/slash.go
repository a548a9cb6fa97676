// Package slash is the table of the chat's slash commands. The table is data:
// the chat's help and completion, script files and the docs derive from it. It
// does nothing; what a command does is the business of whoever looks it up.
//
//	c, near, ok := slash.Find("/statsu") // near: [status]
package slash

import (
	"slices"
	"strings"

	"github.com/sahilm/fuzzy"

	"ralph/memory/text"
)

// Command describes one slash command, or a topic of help. It is a value.
type Command struct {
	Name    string // without the slash
	Args    string // as shown in help: "[N]"
	Summary string // one line
	Help    string // what /help NAME adds
	// WhileBusy says that it works while a turn is running.
	WhileBusy bool
	// Group is the heading below which help lists it; those of one group are
	// neighbours in the table.
	Group string
	// Aliases are other names that people type for it, without the slash.
	Aliases []string
	// Examples are lines as they can be typed.
	Examples []Example
}

// Example is a line that can be typed, or a key, and what it does.
type Example struct{ Line, Does string }

// Find looks up a command by its name or an alias, with or without the slash. When
// there is none, suggestions holds the few names that come close, the best first.
func Find(name string) (cmd Command, suggestions []string, ok bool) {
	name = strings.TrimPrefix(name, "/")
	var names []string
	for _, c := range Table() {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c, nil, true
		}
		names = append(names, c.Name)
	}
	if word := text.Closest(name, names); word != "" {
		suggestions = append(suggestions, word)
	}
	if name == "" {
		return Command{}, nil, false
	}
	for _, m := range fuzzy.Find(name, names) {
		if len(suggestions) < maxSuggestions && !slices.Contains(suggestions, m.Str) {
			suggestions = append(suggestions, m.Str)
		}
	}
	return Command{}, suggestions, false
}

// maxSuggestions is how many commands one mistyped name may have meant.
const maxSuggestions = 3

// Topic finds what /help has to say about a name: a command, or one of Topics.
func Topic(name string) (cmd Command, suggestions []string, ok bool) {
	for _, c := range Topics() {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c, nil, true
		}
	}
	return Find(name)
}

// Addressed takes a line apart that begins with the name of somebody it is for:
// "@fix_login: text" gives fix_login and text. A file that is mentioned has a dot
// or a slash in it, or no colon behind it: then ok is false.
func Addressed(line string) (to, text string, ok bool) {
	body, ok := strings.CutPrefix(strings.TrimSpace(line), "@")
	if !ok {
		return "", "", false
	}
	to, text, ok = strings.Cut(body, ":")
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if !ok || to == "" || strings.TrimFunc(to, plain) != "" || strings.HasPrefix(text, "//") {
		return "", "", false
	}
	return to, strings.TrimSpace(text), true
}
