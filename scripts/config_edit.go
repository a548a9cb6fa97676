package scripts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/desk"
	"ralph/coordinator/policy"
	"ralph/coordinator/result"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/text"
	"ralph/workers/exec"
)

// changeDocument is what the commands that edit a configuration file print.
type changeDocument struct {
	Type    string        `json:"type"`
	Schema  string        `json:"schema"`
	File    string        `json:"file"`
	Changed bool          `json:"changed"`
	Entries []configEntry `json:"entries"` // as they are effective now
	// Warnings say, too, which of what was set does not count.
	Warnings []string `json:"warnings"`
}

// maxValueBytes bounds a value from standard input.
const maxValueBytes = 64 << 10

func (inv *invocation) editConfig() []*cobra.Command {
	var project bool
	set := &cobra.Command{
		Use:   "set KEY VALUE...",
		Short: "change a setting in a file",
		Long: "Write a setting into your own file, or with --project into the project's, where it can only narrow. What stands in the file beside it stays as it is, with its comments. " +
			"A list takes all its values. KEY=VALUE is another way to say it, and - as the value reads it from standard input, which keeps a key out of your shell's history.\n" +
			"A value that is not valid changes nothing (exit 3), nor does --dry-run. Where something stronger says otherwise, a warning tells.\n" +
			"Example: ralph config set max_turns 40\nExample: ralph config set --project check=\"make test\"\nExample: ralph config set allow 'tool == \"shell\" && argv[0] == \"make\"'\nExample: pass show openai | ralph config set api_key -",
		RunE: func(c *cobra.Command, args []string) error { return inv.setConfig(c, args, project) },
	}
	unset := &cobra.Command{
		Use:   "unset KEY...",
		Short: "take settings out of a file",
		Long: "Take settings out of your own file, or with --project out of the project's: then what is weaker counts again. An unknown key that stands there goes, too.\n" +
			"Example: ralph config unset max_turns\nExample: ralph config unset --project history.max_messages",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("ralph config unset --help", "ralph config unset needs the KEY of a setting")
			}
			var edits []config.Edit
			for _, a := range args {
				edits = append(edits, config.Edit{Key: inv.keyName(a)})
			}
			return inv.saveConfig(c, project, edits)
		},
	}
	edit := &cobra.Command{
		Use:   "edit",
		Short: "open a file of settings in your editor",
		Long: "Open your own file of settings, or with --project the project's, in $VISUAL or $EDITOR. What you save is checked before it counts: with a mistake in it the file stays as it was, " +
			"the mistakes are told with their lines (exit 3), and so is where what you wrote is kept.\nExample: ralph config edit\nExample: EDITOR=nano ralph config edit --project",
		Args: wordsOf(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return inv.openConfig(c, project) },
	}
	for _, c := range []*cobra.Command{set, unset, edit} {
		c.Flags().BoolVar(&project, "project", false, "the project's .ralph/config.yaml in place of your own file")
	}
	return []*cobra.Command{set, unset, edit}
}

// keyWords are the settings: with --project those that a project may have.
func (inv *invocation) keyWords(c *cobra.Command, _ []string) []string {
	f := c.Flags().Lookup("project")
	var words []string
	for _, k := range inv.keys {
		if f == nil || !f.Changed || k.Project {
			words = append(words, choice(k.Name, k.Help))
		}
	}
	return words
}

// settingWords are the settings, and then the values of the one that is named.
func (inv *invocation) settingWords(c *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return inv.keyWords(c, args)
	}
	at := slices.IndexFunc(inv.keys, func(k config.Key) bool { return k.Name == inv.keyName(args[0]) })
	switch {
	case at < 0 || len(args) > 1:
		return nil
	case inv.keys[at].Kind == config.KindBool:
		return []string{"true", "false"}
	}
	return inv.keys[at].Values
}

// keyName is the name of a setting as it was meant: flags are spelled otherwise.
func (inv *invocation) keyName(word string) string {
	name := strings.ReplaceAll(strings.TrimLeft(word, "-"), "-", "_")
	for _, k := range inv.keys {
		if k.Name == name || k.Env == word || k.Flag != "" && k.Flag == strings.TrimLeft(word, "-") {
			return k.Name
		}
	}
	return word
}

func (inv *invocation) setConfig(c *cobra.Command, args []string, project bool) error {
	const help = "ralph config set KEY VALUE"
	if len(args) == 0 {
		return usage(help, "ralph config set needs a KEY and a VALUE")
	}
	name, values := args[0], args[1:]
	if key, value, ok := strings.Cut(name, "="); ok {
		name, values = key, append([]string{value}, values...)
	}
	if len(values) == 0 {
		return usage(help+", or ralph config unset "+name, "ralph config set %s: needs a VALUE", name)
	}
	e := config.Edit{Key: inv.keyName(name), Values: values}
	if len(values) == 1 && values[0] == "-" {
		data, err := io.ReadAll(io.LimitReader(inv.Stdin, maxValueBytes+1))
		if err != nil || len(data) > maxValueBytes {
			return broken("io", "a value is a line of text", err, "read the value of %s from standard input", name)
		}
		e.Values = []string{strings.TrimRight(string(data), "\r\n")}
		if at := slices.IndexFunc(inv.keys, func(k config.Key) bool { return k.Name == e.Key }); at >= 0 && inv.keys[at].Kind == config.KindList {
			e.Values = strings.Split(e.Values[0], "\n")
		}
	}
	if !slices.ContainsFunc(inv.keys, func(k config.Key) bool { return k.Name == e.Key }) {
		return knownKeys(inv.keys, []string{name})
	}
	if err := ruleFault(e); err != nil {
		return err
	}
	return inv.saveConfig(c, project, []config.Edit{e})
}

// ruleFault refuses rules that do not compile: a task would not begin with them.
func ruleFault(e config.Edit) error {
	if e.Key != "allow" && e.Key != "deny" {
		return nil
	}
	if _, err := policy.Compile(policy.Rules{Allow: e.Values}); err != nil {
		return &fault{status: result.ConfigError, kind: "config", text: fmt.Sprintf("key %q: %v", e.Key, err), hint: ruleHint}
	}
	return nil
}

const ruleHint = `a rule is an expression over tool, command, argv, path, network and acts, such as 'tool == "shell" && argv[0] == "make"'`

// configFile is the file that is to be edited.
func (inv *invocation) configFile(project bool) (string, error) {
	if project {
		return filepath.Join(inv.stateDir(), "config.yaml"), nil
	}
	path := config.UserFile(inv.Getenv)
	if path == "" {
		return "", inv.badConfig("set HOME or XDG_CONFIG_HOME, or edit the project's file: --project", errors.New("there is no place for your own settings: HOME is not set"))
	}
	return path, nil
}

func (inv *invocation) saveConfig(c *cobra.Command, project bool, edits []config.Edit) error {
	if err := inv.lightly(c); err != nil {
		return err
	}
	path, err := inv.configFile(project)
	if err != nil {
		return err
	}
	for _, e := range edits {
		if err := e.Check(project); err != nil {
			return inv.badConfig("ralph config "+e.Key+" shows what counts now", err)
		}
	}
	if inv.cfg.DryRun {
		return inv.tellConfig(path, false, edits)
	}
	changed, err := config.Save(durable.Disk(), path, project, edits...)
	if err != nil {
		hint := "see to the permissions of the file and its directory"
		if errors.Is(err, config.ErrByHand) || strings.Contains(err.Error(), "YAML") {
			hint = "ralph config edit opens the file"
		}
		return inv.badConfig(hint, err)
	}
	return inv.tellConfig(path, changed, edits)
}

// tellConfig says what counts now that a file was saved.
func (inv *invocation) tellConfig(path string, changed bool, edits []config.Edit) error {
	now, err := config.Load(config.Sources{Environ: inv.Environ, UserFile: config.UserFile(inv.Getenv), ProjectFile: filepath.Join(inv.stateDir(), "config.yaml")})
	if err != nil { // something else in it, which was there before
		inv.warning(err.Error())
	}
	for _, w := range now.Warnings {
		inv.warning(w)
	}
	if _, err := policy.Compile(policy.Rules{Allow: now.Allow, Deny: now.Deny}); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		inv.warning("no task can begin: " + first + "; " + ruleHint)
	}
	inv.cfg.Profiles = now.Profiles
	var content strings.Builder
	var entries []config.Entry
	for _, e := range now.Entries() {
		at := slices.IndexFunc(edits, func(x config.Edit) bool { return x.Key == e.Key.Name })
		if at < 0 {
			continue
		}
		entries = append(entries, e)
		value := orWord(strings.ReplaceAll(e.Value, "\n", ", "), "-")
		fmt.Fprintf(&content, "%s  %s  %s\n", e.Key.Name, text.Visible(value), text.Visible(e.Origin.String()))
		if !inv.cfg.DryRun && edits[at].Values != nil && e.Origin.File != path && !e.Key.Secret {
			inv.warning(fmt.Sprintf("%s is set in %s, and %s counts more", e.Key.Name, path, e.Origin))
		}
	}
	if inv.form != outputText {
		d := inv.configDocument(entries)
		return inv.out.printJSON(changeDocument{"config_change", "ralph.config.change/1", path, changed, d.Entries, orEmpty(inv.result.Warnings)})
	}
	how := "saved in "
	switch {
	case inv.cfg.DryRun:
		how = "--dry-run: nothing was saved in "
	case !changed:
		how = "nothing to change in "
	}
	inv.note(how + path)
	return inv.out.print(content.String())
}

// openConfig has the user edit a copy, which takes the file's place once it is
// sound.
func (inv *invocation) openConfig(c *cobra.Command, project bool) error {
	if err := inv.lightly(c); err != nil {
		return err
	}
	path, err := inv.configFile(project)
	if err != nil {
		return err
	}
	if inv.cfg.DryRun {
		return usage("ralph config prints what counts", "ralph config edit takes no --dry-run")
	}
	tty, ok := inv.Stdin.(*os.File)
	if !ok || !isTerminal(inv.Stdin) || !isTerminal(inv.Stdout) {
		return usage("ralph config set KEY VALUE needs none", "ralph config edit needs a terminal")
	}
	argv, err := desk.Editor(inv.Getenv, inv.Dir)
	if err != nil {
		return broken("editor", desk.EditorHint, err, "open editor")
	}
	before, err := config.Text(durable.Disk(), path, project)
	if err != nil {
		return inv.badConfig("see what stands there", err)
	}
	start := before
	if len(before) == 0 {
		start = []byte(config.Skeleton(project))
	}
	draft, err := newDraft(start)
	if err != nil {
		return broken("io", "make room in the directory for temporary files", err, "edit %q", path)
	}
	exit, err := exec.OnTerminal(context.WithoutCancel(c.Context()), append(argv, draft), tty, inv.Dir, nil)
	if err == nil && exit != 0 {
		err = fmt.Errorf("%s ended with exit %d", argv[0], exit)
	}
	after, gone := os.ReadFile(draft)
	same := gone != nil || bytes.Equal(after, start)
	if same {
		_ = os.RemoveAll(filepath.Dir(draft)) // nothing was written
	}
	hint := "nothing was saved; what you wrote is in " + draft
	switch {
	case err == nil && gone != nil:
		err = errors.New("the editor left no file")
		fallthrough
	case err != nil && same:
		return broken("editor", "the file is as it was", err, "edit %q", path)
	case err != nil:
		return broken("editor", hint, err, "edit %q", path)
	case same:
		return inv.tellConfig(path, false, nil)
	}
	if err := config.Put(durable.Disk(), path, project, before, after); err != nil {
		return inv.badConfig(hint, errors.New(strings.ReplaceAll(err.Error(), path+":", draft+":")))
	}
	_ = os.RemoveAll(filepath.Dir(draft)) // it was saved
	return inv.tellConfig(path, true, nil)
}

// newDraft makes a file for an editor in a directory of its own.
func newDraft(text []byte) (string, error) {
	dir, err := os.MkdirTemp("", "ralph-config-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// badConfig is the error of a setting or a file that is not valid.
func (inv *invocation) badConfig(hint string, err error) error {
	return &fault{status: result.ConfigError, kind: "config", text: err.Error(), hint: hint}
}
