package scripts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ralph/coordinator/plan"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/exchange"
	"ralph/memory/feature"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/external"
)

// What a key press waits for has to be small: of large files only this much is
// read, and of long lists only so many are offered.
const (
	maxCompletionBytes = 4 << 20
	maxCompletions     = 200
)

// choices are what could stand in one place: words, each with what it is about.
// They are found without a network, a lock or a program, and without a word on
// standard error; what cannot be read is left out.
type choices func(c *cobra.Command, args []string) []string

// complete gives each flag and each command what the shell offers for it. Only
// a press of the key needs it.
func (inv *invocation) complete(root *cobra.Command) {
	root.InitDefaultHelpCmd() // else it comes too late
	unquote(root)
	inv.completeFlags(root, root.PersistentFlags())
	inv.completeBelow(root)
}

// unquote drops the backquotes around the names of values: a shell shows the
// usage of a flag as it is.
func unquote(c *cobra.Command) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, sub := range c.Commands() {
		unquote(sub)
	}
}

func (inv *invocation) completeBelow(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		inv.completeFlags(c, c.LocalNonPersistentFlags())
		if c.HasSubCommands() {
			c.ValidArgs = nil // the same words, without what they are about
		}
		if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
			if words, files := inv.wordsFor(strings.TrimPrefix(c.CommandPath(), "ralph ")); !files {
				c.ValidArgsFunction = inv.quietly(words)
			}
		}
		inv.completeBelow(c)
	}
}

// completeFlags registers what the values of flags are. A flag that is not named
// here takes a file.
func (inv *invocation) completeFlags(c *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		var words choices
		switch f.Name {
		case "dir", "session-dir":
			_ = flags.SetAnnotation(f.Name, cobra.BashCompSubdirsInDir, []string{}) // the flag exists
			return
		case "plan", "prompt", "schema", "last-message", "result-file", "files", "record", "replay", "out", "check":
			return
		case "model":
			words = inv.models
		case "profile":
			words = inv.profiles
		case "agent", "fallback-agent":
			words = inv.adapters
		case "tracker":
			words = these(trackers()...)
		case "epic":
			words = inv.epics
		case "feature":
			words = inv.featureNames
		case "resume":
			words = inv.sessionIDs
		case "sessions":
			words = inv.sessionIDs
		case "session":
			words = func(c *cobra.Command, args []string) []string {
				return append([]string{"new\tbegin one", "last\tthe newest"}, inv.sessionIDs(c, args)...)
			}
		case "format":
			words = these(exchange.Formats()...)
		case "from":
			words = these(sourceKinds()...)
		case "to":
			if words = these("json", "markdown", "beads"); c.Name() == "send" {
				words = inv.atWork
			}
		default:
			words = these(inv.valuesOf(f)...)
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, inv.quietly(words)) // the flag exists, and is named once
	})
}

// valuesOf are the values of a flag that takes one of a few; none for others.
func (inv *invocation) valuesOf(f *pflag.Flag) []string {
	for _, k := range inv.keys {
		if k.Flag == f.Name && k.Kind == config.KindEnum {
			return k.Values
		}
	}
	return nil
}

// wordsFor is what a command takes; files says that the shell knows better.
func (inv *invocation) wordsFor(command string) (words choices, files bool) {
	first := func(list choices) choices {
		return func(c *cobra.Command, args []string) []string {
			if len(args) > 0 {
				return nil
			}
			return list(c, args)
		}
	}
	switch command {
	case "help":
		return helpWords, false
	case "chat":
		// --resume has its ID behind a blank: to the parser that is a word.
		return first(func(c *cobra.Command, args []string) []string {
			if f := c.Flags().Lookup("resume"); f == nil || !f.Changed {
				return nil
			}
			return inv.sessionIDs(c, args)
		}), false
	case "config", "config unset":
		return inv.keyWords, false
	case "config set":
		return inv.settingWords, false
	case "stop":
		return first(inv.atWork), false
	case "resume":
		return first(func(c *cobra.Command, args []string) []string {
			return append(inv.sessionIDs(c, args), inv.featureNames(c, args)...)
		}), false
	case "plan prompt":
		return first(inv.planTasks), false
	case "sessions show", "report", "analyze", "insights", "logs", "monitor", "status":
		return first(inv.sessionIDs), false
	case "compare":
		return inv.sessionIDs, false
	case "sessions archive", "sessions check":
		return inv.sessionIDs, false
	case "sessions handoff", "sessions merge":
		return func(c *cobra.Command, args []string) []string {
			if len(args) > 1 {
				return nil
			}
			return inv.sessionIDs(c, args)
		}, false
	case "sessions export":
		return first(inv.sessionIDs), false
	case "script", "sessions import", "plan convert":
		return nil, true
	}
	return these(), false // it takes no words, or words that nobody can guess
}

// helpWords are the commands that help explains.
func helpWords(c *cobra.Command, args []string) []string {
	at := c.Root()
	for _, word := range args {
		i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
		if i < 0 {
			return nil
		}
		at = at.Commands()[i]
	}
	var out []string
	for _, sub := range at.Commands() {
		if !sub.Hidden && !strings.HasPrefix(sub.Name(), "_") {
			out = append(out, choice(sub.Name(), sub.Short))
		}
	}
	return out
}

// these are always the same words.
func these(words ...string) choices {
	return func(*cobra.Command, []string) []string { return words }
}

// shellSigns do something in a shell: of several words it puts the common beginning
// into the command line as it is. A word with one, from a plan of somebody else, is
// not offered.
const shellSigns = "$`;|&<>()\\\"'\n"

// quietly asks for choices in such a way that nothing but they are printed.
func (inv *invocation) quietly(list choices) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		inv.Stderr = io.Discard
		var out []string
		for _, word := range list(c, args) {
			name, _, _ := strings.Cut(word, "\t")
			if strings.HasPrefix(name, typed) && name != "" && !strings.ContainsAny(name, shellSigns) && !slices.Contains(args, name) && len(out) < maxCompletions {
				out = append(out, word)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// choice is a word with what it is about, which both may hold anything.
func choice(word, about string) string {
	return strings.TrimSuffix(text.VisibleLine(word)+"\t"+oneLine(about, 60), "\t")
}

func (inv *invocation) sessionIDs(c *cobra.Command, _ []string) []string {
	if inv.lightly(c) != nil {
		return nil
	}
	list, err := session.Newest(durable.Disk(), inv.stateDir(), maxCompletions)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range slices.Backward(list) { // the newest first
		about := strings.Join(nonEmpty(s.Meta.SessionName, string(s.Meta.Status), s.Meta.StartTime.Local().Format("2006-01-02 15:04")), ", ")
		out = append(out, choice(s.ID, about))
	}
	return out
}

// featureNames are the runs that are there already.
func (inv *invocation) featureNames(c *cobra.Command, _ []string) []string {
	if inv.lightly(c) != nil {
		return nil
	}
	list, err := feature.List(inv.features(nil))
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range list {
		if l.Err == nil {
			out = append(out, choice(l.Name, string(l.Status)+", "+text.Count(l.Tasks.Completed, "task")+" done"))
		}
	}
	return out
}

// atWork are the agents, background calls and jobs of the Ralph that runs here.
func (inv *invocation) atWork(c *cobra.Command, _ []string) []string {
	if inv.lightly(c) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
	defer cancel()
	caller, err := inv.call(ctx)
	if err != nil {
		return nil
	}
	defer caller.close()
	var out []string
	for _, a := range caller.live.Agents {
		out = append(out, choice(a.ID, a.Label))
	}
	for _, b := range caller.live.Background {
		out = append(out, choice(b.ID, b.Command))
	}
	return out
}

// settled loads the configuration as far as it can be read.
func (inv *invocation) settled(c *cobra.Command) bool {
	_ = inv.load(c) // what is wrong with it is said by the command itself
	return inv.cfg != nil
}

func (inv *invocation) profiles(c *cobra.Command, _ []string) []string {
	if !inv.settled(c) {
		return nil
	}
	var out []string
	for _, p := range inv.cfg.Profiles {
		out = append(out, choice(p.Name, strings.Join(nonEmpty(p.Model, p.BaseURL), ", ")))
	}
	return out
}

func (inv *invocation) adapters(c *cobra.Command, _ []string) []string {
	if !inv.settled(c) {
		return nil
	}
	custom := make([]external.Custom, len(inv.cfg.Agents))
	for i, a := range inv.cfg.Agents {
		custom[i] = external.Custom(a)
	}
	all, err := external.Adapters(custom)
	if err != nil {
		return nil
	}
	out := []string{choice("ralph", "the agent that Ralph itself is")}
	for _, a := range all {
		about := strings.Join(a.Argv[:min(1, len(a.Argv))], " ")
		if about == a.Name {
			about = ""
		}
		out = append(out, choice(a.Name, about))
	}
	return out
}

// models are those of the profiles, and those of the last runs in this project:
// the endpoint is not asked.
func (inv *invocation) models(c *cobra.Command, _ []string) []string {
	if !inv.settled(c) {
		return nil
	}
	var out []string
	seen := map[string]bool{"": true}
	add := func(name, about string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, choice(name, about))
		}
	}
	add(inv.Getenv("RALPH_MODEL"), "RALPH_MODEL")
	for _, p := range inv.cfg.Profiles {
		add(p.Model, "profile "+p.Name)
	}
	f, err := openQuickly(filepath.Join(inv.stateDir(), "runs.jsonl"))
	if err != nil {
		return out
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(-min(size(f), 1<<20), io.SeekEnd); err != nil {
		return out
	}
	var used []string
	eachLine(f, func(line []byte) {
		var r struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(line, &r) == nil {
			used = append(used, r.Model)
		}
	})
	for _, name := range slices.Backward(used) {
		add(name, "used here")
	}
	return out
}

// openQuickly opens a file to read it; a pipe is not waited for.
func openQuickly(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func size(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// eachLine hands over the lines of a file, up to the bound.
func eachLine(r io.Reader, do func(line []byte)) {
	s := bufio.NewScanner(io.LimitReader(r, maxCompletionBytes))
	s.Buffer(nil, maxCompletionBytes)
	for s.Scan() {
		do(bytes.TrimSpace(s.Bytes()))
	}
}

// planned are the tasks of the plan. Beads are read from the file that bd keeps
// beside its database: to ask bd itself takes too long for a key press.
func (inv *invocation) planned(c *cobra.Command) []plan.Task {
	if !inv.settled(c) {
		return nil
	}
	o := inv.planOptions()
	o.Warn, o.Proc, o.Epics = func(string) {}, nil, nil
	tracker, path, _, err := plan.Detect(o)
	if err != nil {
		return nil
	}
	if strings.HasPrefix(tracker, "beads") {
		return beadsOf(filepath.Join(inv.root, filepath.FromSlash(path)))
	}
	if info, err := os.Stat(filepath.Join(inv.root, filepath.FromSlash(path))); err == nil && info.Size() > maxCompletionBytes {
		return nil
	}
	t, err := plan.Open(c.Context(), o)
	if err != nil {
		return nil
	}
	p, err := t.Load(c.Context())
	if err != nil {
		return nil
	}
	return p.Tasks
}

func beadsOf(dir string) []plan.Task {
	f, err := openQuickly(filepath.Join(dir, "issues.jsonl"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	var out []plan.Task
	if size(f) == 0 {
		return nil
	}
	eachLine(f, func(line []byte) {
		var r struct {
			ID     string `json:"id"`
			Title  string `json:"title"`
			Kind   string `json:"issue_type"`
			Status string `json:"status"`
		}
		if json.Unmarshal(line, &r) == nil && r.ID != "" {
			t := plan.Task{ID: r.ID, Title: r.Title, Kind: r.Kind, Status: plan.Pending}
			if r.Status == "closed" {
				t.Status = plan.Done
			}
			out = append(out, t)
		}
	})
	return out
}

// planTasks are those of the plan, what is open first.
func (inv *invocation) planTasks(c *cobra.Command, _ []string) []string {
	var open, others []string
	for _, t := range inv.planned(c) {
		if t.Status.Open() {
			open = append(open, choice(t.ID, t.Title))
		} else {
			others = append(others, choice(t.ID, string(t.Status)+": "+t.Title))
		}
	}
	return append(open, others...)
}

// epics are the tasks that are epics, and what tasks name as theirs.
func (inv *invocation) epics(c *cobra.Command, _ []string) []string {
	var out []string
	seen := map[string]bool{"": true}
	list := inv.planned(c)
	for _, t := range list {
		if t.Kind == "epic" && !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, choice(t.ID, t.Title))
		}
	}
	for _, t := range list {
		if !seen[t.Epic] {
			seen[t.Epic] = true
			out = append(out, choice(t.Epic, ""))
		}
	}
	return out
}
