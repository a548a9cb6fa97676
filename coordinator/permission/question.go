package coordinator

import (
	"cmp"
	"strconv"
	"strings"
)

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
