package scripts

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/memory/config"
	"ralph/memory/text"
)

// configDocument is what `ralph config --output json` prints.
type configDocument struct {
	Type     string        `json:"type"`
	Schema   string        `json:"schema"`
	Entries  []configEntry `json:"entries"`
	Profiles []string      `json:"profiles"`
	Warnings []string      `json:"warnings"`
}

type configEntry struct {
	Key    string  `json:"key"`
	Value  string  `json:"value"`
	Source string  `json:"source"`
	File   *string `json:"file"`
	Line   *int    `json:"line"`
	Flag   *string `json:"flag"`
	Env    string  `json:"env"`
	Help   string  `json:"help"`
}

func (inv *invocation) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config [KEY... | set KEY VALUE | unset KEY | edit]",
		Short: "print each setting and where it comes from, or change one",
		Long: "Print each setting, or those that are named, with the effective value and where that comes from: a flag, the environment, a file, or the default. Keys and tokens are never shown.\n" +
			"A key is spelled as in YAML (max_turns) or as its flag (max-turns); \"history\" stands for all that begin with \"history.\".\n" +
			"The user's file is ~/.config/ralph/config.yaml; what a project's .ralph/config.yaml says can only narrow.\nExample: ralph config\nExample: ralph config max_turns model\nExample: ralph config --json | jq '.entries[] | select(.source != \"default\")'\nExample: ralph config set max_turns 40",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := knownKeys(inv.keys, args); err != nil {
				return err
			}
			if err := inv.load(c); err != nil {
				return err
			}
			// Nothing was worked on: a result file is not for this command.
			inv.out.resultFile = ""
			entries := slices.DeleteFunc(inv.endpointEntries(inv.cfg.Entries()), func(e config.Entry) bool { return !asked(e.Key, args) })
			if inv.form == outputText {
				return inv.out.print(configTable(entries, inv.out.terminal))
			}
			return inv.out.printJSON(inv.configDocument(entries))
		},
	}
	c.AddCommand(inv.editConfig()...)
	return c
}

// endpointEntries completes the entries of the endpoint with what is in effect though
// no key of Ralph's sets it: the variables of the vendors, and the profile that is used.
func (inv *invocation) endpointEntries(entries []config.Entry) []config.Entry {
	end, ok := coordinator.Configured(inv.cfg, inv.Getenv)
	if !ok {
		return entries
	}
	from := end.Source
	for _, name := range []string{"OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"} {
		if end.Key != "" && inv.Getenv(name) == end.Key {
			from = name
			break
		}
	}
	for i := range entries {
		e := &entries[i]
		if e.Origin.Source != "default" {
			continue
		}
		value, source := "", from
		switch e.Key.Name {
		case "base_url":
			if value = end.BaseURL; inv.Getenv("OPENAI_BASE_URL") != "" && !strings.HasPrefix(end.Source, "profile ") {
				source = "OPENAI_BASE_URL"
			}
		case "model":
			value, source = end.Model, end.Source
		case "api_key":
			if end.Key != "" {
				value = config.Hidden(end.Key)
			}
		}
		if value == "" {
			continue
		}
		if e.Value = value; strings.Contains(source, "_") {
			source = "env " + source
		}
		e.Origin.Source = source
	}
	return entries
}

func keyNames(keys []config.Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// asked says that one of the words names a key or a group that it is in; no words
// name all.
func asked(k config.Key, words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		name := strings.ReplaceAll(strings.TrimLeft(w, "-"), "-", "_")
		return name == k.Name || strings.HasPrefix(k.Name, name+".") || k.Flag != "" && strings.TrimLeft(w, "-") == k.Flag
	})
}

// knownKeys refuses words that name no key, all of them at once.
func knownKeys(keys []config.Key, words []string) error {
	var unknown []string
	for _, w := range words {
		if slices.ContainsFunc(keys, func(k config.Key) bool { return asked(k, []string{w}) }) {
			continue
		}
		text := fmt.Sprintf("%q", w)
		switch best := nearest(strings.ReplaceAll(w, "-", "_"), keyNames(keys)); {
		case strings.Contains(w, "="):
			text += " (ralph config set changes one)"
		case best != "":
			text += fmt.Sprintf(" (did you mean %s?)", best)
		}
		unknown = append(unknown, text)
	}
	if unknown == nil {
		return nil
	}
	return usage("ralph config alone prints all settings", "ralph config: there is no setting %s", strings.Join(unknown, ", "))
}

func configTable(entries []config.Entry, terminal bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		// A list has a value a line; the table shows it on one.
		value := strings.ReplaceAll(e.Value, "\n", ", ")
		if value == "" {
			value = "-"
		}
		origin := e.Origin.String()
		if terminal {
			value, origin = text.Visible(value), text.Visible(origin)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Key.Name, strings.ReplaceAll(value, "\t", " "), origin)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

func (inv *invocation) configDocument(entries []config.Entry) configDocument {
	d := configDocument{Type: "config", Schema: "ralph.config/1", Entries: []configEntry{}, Profiles: []string{}, Warnings: orEmpty(inv.result.Warnings)}
	for _, e := range entries {
		x := configEntry{
			Key: e.Key.Name, Value: e.Value, Source: e.Origin.Source, File: optional(e.Origin.File),
			Env: e.Key.Env, Help: e.Key.Help,
		}
		if e.Origin.File != "" {
			x.Line = &e.Origin.Line
		}
		if e.Key.Flag != "" {
			x.Flag = optional("--" + e.Key.Flag)
		}
		d.Entries = append(d.Entries, x)
	}
	for _, p := range inv.cfg.Profiles {
		d.Profiles = append(d.Profiles, p.Name)
	}
	return d
}
