package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// Crew is what the tools of the coordinator ask about its children. Each method
// answers in text for the model; its error is shown to the model too, also next
// to an answer. An id that is not known is an error which names those that are.
// It must be safe for concurrent use.
type Crew interface {
	// Spawn begins all of list or, with an error, none. The tools have checked it:
	// see SpawnAgent.
	Spawn(ctx context.Context, list []SpawnAgent) (string, error)
	// Status tells of the agent id, or of all when it is empty. With a wait it
	// returns when one of them ends, after the wait, or soon after ctx ends with
	// what is known then. alive reports that one of them has not ended.
	Status(ctx context.Context, id string, wait time.Duration) (text string, alive bool, err error)
	Message(ctx context.Context, id, text string) (string, error)
	Stop(ctx context.Context, id, reason string) (string, error)
	Merge(ctx context.Context, id string) (string, error)
}

// SpawnAgent is one child as the model asked for it and the tools have checked
// it: Task is not empty; Name is empty, for the Crew to make one from the task,
// or consists of a-z, 0-9 and _, has at most 40 bytes and is the only such one in
// its call; After holds no name twice, and
// between the names of one call it has no cycle.
type SpawnAgent struct {
	Name string `json:"name,omitempty" jsonschema:"like implement_auth"`
	Task string `json:"task" jsonschema:"all it needs to know: it sees nothing else"`
	// After are names in the same call or ids of existing agents.
	After []string `json:"after,omitempty" jsonschema:"names or ids whose merged work it needs"`
	// Check is a command that must pass before its work is merged.
	Check string `json:"check,omitempty" jsonschema:"command that must pass before the merge"`
	// Files are globs of what it is expected to touch, a hint shown to the user.
	Files []string `json:"files,omitempty" jsonschema:"globs it should stay in"`
}

// Bounds of what one call may hand to other agents.
const (
	maxSpawned   = 50
	maxNameBytes = 40
	maxTaskBytes = 100_000
	maxHints     = 100
)

// told is the result of a tool that asked the Crew. What children said may be in
// the answer: it is data, and stays in Text.
func (b *box) told(tool, answer string, err error) (agent.Result, error) {
	answer, _ = visible([]byte(answer))
	text, notice := b.fit(tool, answer)
	r := agent.Result{Head: notice, Text: text, Brief: firstSentence(text)}
	if err != nil {
		r.Brief = ""
		return r, fmt.Errorf("%s: %w", tool, err)
	}
	return r, nil
}

// maxBriefBytes bounds what a person is shown of an answer.
const maxBriefBytes = 100

// firstSentence is the beginning of a text, for a person.
func firstSentence(content string) string {
	line := text.FirstLine(content)
	line, _, _ = strings.Cut(line, ". ")
	if short := cutText(line, maxBriefBytes); short != line {
		return short + "…"
	}
	return line
}

// agentID checks the id that a tool of one agent was given.
func agentID(tool, id string) (string, error) {
	id = strings.TrimPrefix(strings.TrimSpace(id), "@")
	switch {
	case id == "":
		return "", fmt.Errorf("%s: the id is empty; agent_status lists them", tool)
	case len(id) > 200:
		return "", fmt.Errorf("%s: an id of %d bytes is none; agent_status lists them", tool, len(id))
	}
	return id, nil
}

// handed checks a text that another agent will read.
func handed(what, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("the %s is empty", what)
	case len(text) > maxTaskBytes:
		return fmt.Errorf("the %s has %d bytes; %d are allowed: put it into a file of the project and name that", what, len(text), maxTaskBytes)
	case strings.ContainsRune(text, 0):
		return errors.New("the " + what + " holds a NUL byte")
	}
	return nil
}
