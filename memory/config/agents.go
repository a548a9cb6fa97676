package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	yaml "go.yaml.in/yaml/v4"
)

// ownAgent is the name of the agent that Ralph itself is.
const ownAgent = "ralph"

// Agent is the user's entry for another agent's command line: a program of his
// own, or what is to be different with one that Ralph knows. Its fields are those
// of the package that runs such programs, so that one converts to the other.
type Agent struct {
	Name string
	// Command is the program and its arguments, with {prompt}, {dir}, {model} and
	// {last} in them; empty for one that Ralph knows.
	Command []string
	// Args come after the arguments of one that Ralph knows.
	Args []string
	// Input says how the prompt is given: arg or stdin; empty is the default.
	Input string
	// Format of what it prints: text, or the name of a known one's stream.
	Format string
	Model  string
	// Env are names of variables that it gets from the user's environment
	// (NAME, or PREFIX_* for all that begin so), or NAME=value.
	Env []string
	// Quota are regular expressions of messages that say its quota is used up.
	Quota []string
	// State are files and directories of its own below ~/, of which it gets a copy, and
	// others, absolute, that it sees in the sandbox.
	State []string
	// Credentials are files of State whose tokens come back when they are refreshed.
	Credentials []string
	// Hosts are those that it may call besides its maker's: NAME, NAME:PORT, *.NAME.
	Hosts []string
	// Timeout of one run, and how long it may print nothing; 0 is the default.
	Timeout, Idle time.Duration
	// From is where the entry stands, file and line.
	From string
}

// agents reads the table of agents.
func (f file) agents(n *yaml.Node) {
	f.table(n, "agents", func(name string, at, fields *yaml.Node) {
		a := Agent{Name: name, From: strings.TrimSuffix(place(f.path, at.Line), ":")}
		bad := func(line int, format string, args ...any) {
			f.problem(line, fmt.Sprintf("agent %q: ", name)+fmt.Sprintf(format, args...))
		}
		if err := agentName(name); err != nil {
			bad(at.Line, "%s", err)
		}
		var s Settings
		keys := agentKeys(&a)
		f.pairs(fields, "", func(field string, at, value *yaml.Node) {
			i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == field })
			if i < 0 {
				names := make([]string, len(keys))
				for j, k := range keys {
					names[j] = k.Name
				}
				bad(at.Line, "key %q: unknown%s", field, didYouMean(field, names))
				return
			}
			values, err := scalars(&keys[i], value)
			if err == nil && values != nil {
				err = parse(keys[i], keys[i].field(&s), values)
			}
			if err != nil {
				bad(at.Line, "key %q: %s", field, err)
			}
		})
		a.Format = strings.TrimPrefix(a.Format, "jsonl-")
		if err := a.check(); err != nil {
			bad(at.Line, "%s", err)
		}
		if slices.ContainsFunc(a.Env, func(e string) bool { n, _, set := strings.Cut(e, "="); return set && secretName(n) }) {
			f.l.keyInFile = true
		}
		f.l.cfg.Agents = append(f.l.cfg.Agents, a)
	})
}

// agentKeys are the keys of one entry; their fields are those of a.
func agentKeys(a *Agent) []Key {
	list := func(name string, to *[]string) Key {
		return Key{Name: name, Kind: KindList, field: func(*Settings) any { return to }}
	}
	text := func(name string, to *string) Key {
		return Key{Name: name, Kind: KindString, field: func(*Settings) any { return to }}
	}
	span := func(name string, to *time.Duration) Key {
		return Key{Name: name, Kind: KindDuration, field: func(*Settings) any { return to }}
	}
	format := text("format", &a.Format)
	format.Kind = KindEnum
	for _, name := range []string{"claude", "codex", "gemini", "opencode", "pi"} {
		format.Values = append(format.Values, name, "jsonl-"+name)
	}
	format.Values = append(format.Values, "text")
	input := text("input", &a.Input)
	input.Kind, input.Values = KindEnum, []string{"arg", "stdin"}
	return []Key{
		list("command", &a.Command), list("args", &a.Args), input, format, text("model", &a.Model),
		list("env", &a.Env), list("quota", &a.Quota), list("state", &a.State), list("credentials", &a.Credentials), list("hosts", &a.Hosts), span("timeout", &a.Timeout), span("idle", &a.Idle),
	}
}

// agentName refuses what could not be given to --agent or shown in a line.
func agentName(name string) error {
	switch {
	case name == ownAgent:
		return errors.New("is Ralph's own agent; choose another name")
	case name == "" || len(name) > 64:
		return errors.New("the name must have 1 to 64 characters")
	case strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}):
		return errors.New("the name may have letters, digits, dots, dashes and underscores, and begins with no dash")
	}
	return nil
}

// check finds what is wrong with an entry by itself. Whether a program of the
// name is known is not known here.
func (a Agent) check() error {
	if len(a.Command) == 1 && strings.ContainsAny(a.Command[0], " \t\n") {
		return errors.New(`key "command": is a list: [program, argument, …]`)
	}
	if len(a.Command) > 0 && len(a.Args) > 0 {
		return errors.New(`key "args": is for an agent that Ralph knows; put the arguments into "command"`)
	}
	for _, e := range a.Env {
		name, _, set := strings.Cut(e, "=")
		if !set {
			name = strings.TrimSuffix(name, "*")
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
		}) {
			return fmt.Errorf("key \"env\": %q is neither NAME, PREFIX_* nor NAME=value", e)
		}
	}
	return nil
}

// Agent returns the user's entry of a name.
func (c *Config) Agent(name string) (Agent, bool) {
	i := slices.IndexFunc(c.Agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return c.Agents[i], true
}
