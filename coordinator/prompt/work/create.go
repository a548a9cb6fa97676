package work

import (
	"fmt"
	"strings"
	"text/template"
)

// CreateFacts is what a conversation that makes a plan is told.
type CreateFacts struct {
	About   string // what the user wants, in their words; "" when they did not say
	Target  string // the file that the plan is written to, relative to the root
	Check   string // the project's check, as detected; "" for none
	Project string // one sentence about the project
	Exists  bool   // Target is there already
}

// Create renders the opening instruction of a conversation that makes a
// plan: questions first, then a document that ralph plan convert reads whole.
func Create(f CreateFacts) (string, error) {
	t, err := template.New("create.md").Option("missingkey=error").Funcs(workFuncs()).ParseFS(texts, "create.md")
	if err != nil {
		return "", fmt.Errorf("parse prompt %q: %w", "create.md", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, f); err != nil {
		return "", fmt.Errorf("render prompt %q: %w", "create.md", err)
	}
	return strings.TrimSpace(b.String()), nil
}
