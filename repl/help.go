package repl

import (
	"fmt"
	"strings"

	"ralph/coordinator/slash"
	"ralph/repl/render"
)

const (
	// waitsMark stands behind the name of a command that waits while Ralph works.
	waitsMark = "*"
	// helpSide is the least room beside an example for what it does.
	helpSide = 24
)

// help does /help.
func (s *Shell) help(args string) {
	if args == "" {
		s.ink.say(helpAll)
		return
	}
	c, near, ok := slash.Topic(args)
	if !ok {
		s.unknown(strings.TrimPrefix(args, "/"), near)
		return
	}
	cols, _ := s.size()
	s.ink.say(func(r *render.Renderer) string { return helpOne(r, c, cols) })
}

// helpAll lists the commands below their headings.
func helpAll(r *render.Renderer) string {
	table, wide := slash.Table(), 0
	for _, c := range table {
		wide = max(wide, len("/"+c.Name+waitsMark))
	}
	var b strings.Builder
	row := func(name, text string) { b.WriteString(r.Rows(fmt.Sprintf("  %-*s  %s", wide, name, text), wide+4)) }
	group := ""
	for _, c := range table {
		if c.Group != group {
			group = c.Group
			b.WriteString("\n" + r.Rows(r.Dim(group), 0))
		}
		name := "/" + c.Name
		if !c.WhileBusy {
			name += waitsMark
		}
		row(name, c.Summary)
	}
	b.WriteString("\n" + r.Rows(r.Dim("and besides"), 0))
	row("TEXT", "is said to Ralph; while it works, after the tool that runs")
	for _, c := range slash.Topics() {
		if short, _, _ := strings.Cut(c.Args, " "); short != "" {
			row(c.Name+short, c.Summary)
		}
	}
	b.WriteString("\n" + r.Rows("  "+waitsMark+" not while Ralph works: typed then, it waits until the turn ends, or says why not.", 4))
	b.WriteString(r.Rows("  Ctrl-C stops the work and keeps what you typed; Ctrl-D leaves. /help COMMAND says more, /help keys what all the keys do.", 2))
	return b.String()
}

// helpOne is all about one command, or topic.
func helpOne(r *render.Renderer, c slash.Command, cols int) string {
	name := "/" + c.Name
	if isTopic(c) {
		name = c.Name
	}
	var b strings.Builder
	b.WriteString("\n" + r.Rows("  "+strings.TrimSpace(name+" "+c.Args), 4))
	b.WriteString(r.Rows("  "+c.Summary, 2))
	if c.Help != "" {
		b.WriteString("\n" + r.Rows("  "+c.Help, 2))
	}
	if len(c.Examples) > 0 {
		b.WriteString("\n" + examples(r, c.Examples, cols))
	}
	if !c.WhileBusy && !refusesWhileBusy(c.Name) {
		b.WriteString("\n" + r.Rows("  While Ralph works it waits until the turn ends.", 2))
	}
	if len(c.Aliases) > 0 && !isTopic(c) {
		b.WriteString(r.Rows("  The same: /"+strings.Join(c.Aliases, ", /"), 2))
	}
	return b.String()
}

func isTopic(c slash.Command) bool { return c.Group == "" }

// examples are lines with what they do: beside them, or below where that is too
// narrow.
func examples(r *render.Renderer, list []slash.Example, cols int) string {
	wide := 0
	for _, e := range list {
		wide = max(wide, len([]rune(e.Line)))
	}
	var b strings.Builder
	for _, e := range list {
		if wide+6+helpSide < cols {
			b.WriteString(r.Rows(fmt.Sprintf("    %-*s  %s", wide, e.Line, e.Does), wide+6))
			continue
		}
		b.WriteString(r.Rows("    "+e.Line, 6))
		b.WriteString(r.Rows("      "+e.Does, 6))
	}
	return b.String()
}

// refusesWhileBusy says that a command is refused while Ralph works, where others
// wait: what it is about would not be the same any more.
func refusesWhileBusy(name string) bool { return name == "handoff" }
