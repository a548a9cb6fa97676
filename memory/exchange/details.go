package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// RoleHandoff is the role of a message that is the context of another session.
const RoleHandoff = "handoff"

// Message is what was said in a session.
type Message struct {
	Time time.Time `json:"time"`
	Role string    `json:"role"`
	Text string    `json:"text"`
}

// Details are what a session says of itself, for show and for a handoff.
type Details struct {
	Session retention.Session
	Data    folder.Data
	Spent   retention.Spent
	// Files are those that tools changed, relative to the root, the last ones.
	Files []string
	// Messages are the last ones that people or models said, and contexts that came
	// by a handoff.
	Messages []Message
	// Given are the contexts that came by a handoff.
	Given    []string
	Warnings []string
}

const (
	// tailBytes is how much of a journal's end is looked at.
	tailBytes   = 2 << 20
	maxMessages = 10
)

// Look reads a session, of its journal the end only. What cannot be read is a
// warning.
func Look(o Options, s retention.Session) (Details, error) {
	o = o.withDefaults()
	d := Details{Session: s}
	dir := filepath.Join(o.StateDir, filepath.FromSlash(s.Path))
	var err error
	if d.Data, err = folder.Read(o.FS, dir); err != nil {
		return d, err
	}
	for _, p := range d.Data.Problems {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%s: %v", p.File, p.Err))
	}
	if d.Spent, err = retention.Usage(o.FS, dir, maxFileBytes); err != nil {
		d.Warnings = append(d.Warnings, err.Error())
	}
	tail, _, err := durable.ReadTail(o.FS, filepath.Join(dir, session.JournalFile), tailBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.Warnings = append(d.Warnings, err.Error())
	}
	for text := range strings.Lines(string(tail)) {
		d.record(text)
	}
	d.Messages = d.Messages[max(0, len(d.Messages)-maxMessages):]
	return d, nil
}

// journalLine is the part of a record that is shown.
type journalLine struct {
	Time    time.Time
	Kind    string
	Payload struct {
		Role, Text, Type, Tool string
		Args                   json.RawMessage
		OK                     *bool
	}
}

func (d *Details) record(text string) {
	var r journalLine
	if json.Unmarshal([]byte(text), &r) != nil {
		return
	}
	p := r.Payload
	switch {
	case r.Kind == RecordHandoff && strings.TrimSpace(p.Text) != "":
		d.Given = append(d.Given, strings.TrimSpace(p.Text))
		d.Messages = append(d.Messages, Message{r.Time, RoleHandoff, strings.TrimSpace(p.Text)})
	case r.Kind == "message" && (p.Role == "user" || p.Role == "assistant") && strings.TrimSpace(p.Text) != "":
		d.Messages = append(d.Messages, Message{r.Time, p.Role, strings.TrimSpace(p.Text)})
	case r.Kind == "event" && p.Type == "tool_start" && changes(p.Tool):
		var args struct{ Path string }
		raw := p.Args
		var quoted string
		if json.Unmarshal(raw, &quoted) == nil {
			raw = json.RawMessage(quoted)
		}
		if json.Unmarshal(raw, &args) == nil && args.Path != "" {
			d.Files = slices.DeleteFunc(d.Files, func(f string) bool { return f == args.Path })
			d.Files = append(d.Files, args.Path)
		}
	}
}

// changes says that a tool changes the file that its path names.
func changes(tool string) bool {
	for _, word := range []string{"write", "edit", "patch", "create", "delete", "move"} {
		if strings.Contains(tool, word) {
			return true
		}
	}
	return false
}
