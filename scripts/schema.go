package scripts

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// schemas are the JSON Schemas of what this face writes, draft 2020-12. Consumers
// must expect fields that they do not know.
//
//go:embed *.schema.json
var schemas embed.FS

// schemaNames are the documents that have one, and the commands that print them.
func schemaNames() [][2]string {
	return [][2]string{
		{"result", "a task or a run: --json"},
		{"events", "what happens, a line each: --output jsonl"},
		{"status", "ralph status --json"},
		{"plan", "ralph plan show --json"},
		{"report", "ralph report --json"},
		{"analyze", "ralph analyze --json"},
		{"insights", "ralph insights --json"},
		{"compare", "ralph compare --json"},
		{"logs", "ralph logs --json"},
		{"check", "ralph sessions check --json"},
	}
}

// schema is the JSON Schema of a document.
func schema(name string) (string, error) {
	data, err := schemas.ReadFile(name + ".schema.json")
	if err != nil {
		return "", broken("internal", "", err, "find the schema of %s", name)
	}
	return string(data), nil
}

func (inv *invocation) schemaCommand() *cobra.Command {
	var names, about []string
	for _, n := range schemaNames() {
		names = append(names, n[0])
		about = append(about, fmt.Sprintf("%s — %s", n[0], n[1]))
	}
	return &cobra.Command{
		Use:       "schema DOCUMENT",
		Short:     "print the JSON Schema of a document",
		Long:      "Print the JSON Schema of a document:\n" + strings.Join(about, "\n") + "\nExample: ralph schema result > result.schema.json\nExample: ralph schema analyze | jq .properties",
		ValidArgs: names,
		Args:      wordsOf(1, 1, names...),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := schema(args[0])
			if err != nil {
				return err
			}
			return inv.out.print(text)
		},
	}
}
