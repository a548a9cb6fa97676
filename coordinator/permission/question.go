package permission

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Question is something that only the human can decide.
type Question struct {
	// Kind is "permission", "check" or "question"; of a plan's run also "approval",
	// "confidence", "error", "breaker", "gate", "plan", "agent" and "save".
	Kind string `json:"kind"`
	// Agent is the one that asks; "" is a plan's run.
	Agent  string `json:"agent,omitempty"`
	TaskID string `json:"task_id,omitempty"`
	// Text is the question; that of a permission ends with the exact command or
	// the resolved target.
	Text string `json:"text"`
	// Options are the answers to choose from; empty means free text. The first
	// is the safe one.
	Options []string `json:"options"`
	// Asked is when it was put to the human.
	Asked time.Time `json:"asked"`

	// Open takes other text as an answer, too.
	Open bool `json:"-"`
	// Default is what an empty line answers where there are no options; "" nothing.
	Default string `json:"-"`
	// Of a permission: Tool is the tool that would run, Rule why it is asked for,
	// Target the whole command or the resolved path, Dir where a command runs,
	// absolute, and Outside that it would run without the sandbox.
	Tool    string `json:"-"`
	Rule    string `json:"-"`
	Target  string `json:"-"`
	Dir     string `json:"-"`
	Outside bool   `json:"-"`
}

// Answer returns what a line answers: the option that it names, by its number, its
// words or a beginning that no other option has; an empty line is the first option, or
// Default where there are none. Other text is an answer where the question is open. ok
// is false for what answers nothing; the answer may be empty where there are no options.
func (q Question) Answer(line string) (answer string, ok bool) {
	line = strings.TrimSpace(line)
	switch {
	case len(q.Options) == 0:
		return cmp.Or(line, q.Default), true
	case line == "":
		return q.Options[0], true
	}
	var found []string
	for _, o := range q.Options {
		if strings.EqualFold(o, line) {
			return o, true
		}
		if len(o) >= len(line) && strings.EqualFold(o[:len(line)], line) {
			found = append(found, o)
		}
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1], true
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case q.Open:
		return line, true
	}
	return "", false
}
