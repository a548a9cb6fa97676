// Package prompt makes the texts that a model is given: the system prompt and
// the messages that Ralph writes in the human's place.
//
// The texts are templates beside this file; this package owns their data and
// nothing else. A template that names an unknown variable is an error, and
// foreign text (files of the project, standard input) always stands in a fence
// that it cannot close.
//
//	text, err := prompt.System(prompt.Facts{Root: "/src/app", Project: "a Go module"})
package prompt

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed *.md
var texts embed.FS

// Facts is what the system prompt tells about where the model works.
type Facts struct {
	Root    string // the project's root
	Project string // one paragraph about the project
	// Instructions are files of the repository that tell how to work on it; they
	// grant nothing.
	Instructions []Document
	Goals, Tasks string // the project's open goals and tasks, as Markdown
	Learned      string // what AGENT.md holds, bounded by its owner
	// Of a conversation, as it begins: the branch with what is not committed, the
	// newest of RALPH_PROGRESS.md, and RALPH_TODO.md.
	Git, Progress, Todo string
	Commands            string // how commands run: the sandbox, in one sentence
	Plan                bool   // only plan, change nothing
	Schema              string // the JSON Schema that the final answer must fit
	Chat                bool   // a human is in the conversation
}

// Document is a named piece of foreign text.
type Document struct {
	Name string
	Text string
}

// System renders the system prompt.
func System(f Facts) (string, error) { return render("system.md", f) }

// Task renders the first message of a piece of work: the human's words, then
// what came along.
func Task(text string, along []Document) (string, error) {
	if len(along) == 0 {
		return text, nil
	}
	return render("task.md", map[string]any{"Text": text, "Documents": along})
}

// CheckFailed renders what the model is told when the check fails.
func CheckFailed(c Check) (string, error) { return render("check.md", c) }

// SchemaMismatch renders what the model is told when its answer does not fit.
func SchemaMismatch(problem, schema string) (string, error) {
	return render("schema.md", map[string]any{"Problem": problem, "Schema": schema})
}

func render(name string, data any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"fence": Fence}).ParseFS(texts, name)
	if err != nil {
		return "", fmt.Errorf("parse prompt %q: %w", name, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("render prompt %q: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}
