package slash

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/memory/config"
	"ralph/memory/text"
)

// ErrFlags is matched by every error of RunFlags.
var ErrFlags = errors.New("flags are not valid")

// FlagError says what is wrong with the arguments of /run. It matches ErrFlags.
type FlagError struct {
	Text string
	Hint string // the way out, "" for none
}

// Error returns the text.
func (e *FlagError) Error() string { return e.Text }

// Is reports whether target is ErrFlags.
func (e *FlagError) Is(target error) bool { return target == ErrFlags }

func wrong(hint, format string, args ...any) error {
	return &FlagError{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// howToRun is the way out of most mistakes.
const howToRun = "/help run lists the flags"

// RunKeys are the settings that /run takes as flags, in the order in which help
// shows them: those of `ralph run` that a run inside a chat can have. The caller
// owns the slice.
func RunKeys() []config.Key {
	var runs, others []config.Key
	for _, k := range config.Keys() {
		switch {
		case k.Flag == "", k.Name == "session_dir": // the chat has its session
		case k.Scope == config.ScopeRun:
			runs = append(runs, k)
		case slices.Contains([]string{"model", "sandbox", "check", "check_retries", "dry_run", "max_turns", "max_tokens", "max_cost", "timeout"}, k.Name):
			others = append(others, k)
		}
	}
	return append(runs, others...)
}

// RunFlags reads the arguments of /run, which are flags of `ralph run` and
// nothing else. What is not given stays zero. Words may be quoted with '…' and
// "…", and a backslash keeps the character behind it. A flag that does not exist,
// that works only on the command line or that has no value, one that excludes
// another, and a value that the key does not take are errors that match ErrFlags.
func RunFlags(args string) (loop.Settings, error) {
	given, err := values(args)
	if err != nil {
		return loop.Settings{}, err
	}
	return settings(given)
}

// none tells a bound of zero, which is none, from one that was not given.
func none(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// values are what each flag was given, by the name of its key.
func values(args string) (map[string][]string, error) {
	words, err := Words(args)
	if err != nil {
		return nil, wrong(`quote as in --select 'priority <= 2 && "backend" in labels'`, "/run: %s", err)
	}
	given := map[string][]string{}
	for i := 0; i < len(words); i++ {
		k, value, has, err := flagOf(words[i])
		if err != nil {
			return nil, err
		}
		switch {
		case has:
		case k.Kind == config.KindBool:
			value = "true"
		case i+1 == len(words) || strings.HasPrefix(words[i+1], "--"):
			return nil, wrong(howToRun, "/run: flag --%s needs a value: --%s %s", k.Flag, k.Flag, k.Arg)
		default:
			i++
			value = words[i]
		}
		given[k.Name] = append(given[k.Name], value)
	}
	return given, nil
}

// flagOf finds the key that a word names, and the value that came with it.
func flagOf(word string) (k config.Key, value string, has bool, err error) {
	if !strings.HasPrefix(word, "-") || strings.Trim(word, "-") == "" {
		return k, "", false, wrong("a plan is named by --plan FILE, an epic by --epic ID; a task is said without /run", "/run takes flags only, and %q is none", word)
	}
	name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
	long := strings.HasPrefix(word, "--")
	var names []string
	for _, known := range RunKeys() {
		if long && known.Flag == name || !long && known.Short != "" && known.Short == name {
			return known, value, has, nil
		}
		names = append(names, known.Flag)
	}
	for _, known := range config.Keys() {
		if long && known.Flag == name || !long && known.Short != "" && known.Short == name {
			return k, "", false, wrong("`ralph run` takes it on the command line", "/run: flag %s does not work inside a chat", wordOf(word))
		}
	}
	hint := howToRun
	if best := text.Closest(strings.ReplaceAll(name, "_", "-"), names); best != "" {
		hint = "did you mean --" + best + "?"
	}
	return k, "", false, wrong(hint, "/run: there is no flag %s", wordOf(word))
}

// wordOf is a flag without its value.
func wordOf(word string) string {
	name, _, _ := strings.Cut(word, "=")
	return name
}

// settings checks the values as those of the command line are.
func settings(given map[string][]string) (loop.Settings, error) {
	c, err := config.Load(config.Sources{Flags: given})
	if err != nil {
		return loop.Settings{}, wrong(howToRun, "/run: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for _, k := range RunKeys() {
		empty := func(v string) bool { return strings.TrimSpace(v) == "" }
		if (k.Kind == config.KindString || k.Kind == config.KindList) && slices.ContainsFunc(given[k.Name], empty) {
			return loop.Settings{}, wrong(howToRun, "/run: flag --%s needs a value: --%s %s", k.Flag, k.Flag, k.Arg)
		}
	}
	r := c.Run
	if r.Continue && r.New {
		return loop.Settings{}, wrong("--continue goes on where the run stood, --new begins another one", "/run: --continue contradicts --new")
	}
	s := loop.Settings{Feature: r.Feature, Plan: r.Plan, Tracker: r.Tracker, Epics: r.Epic, Select: r.Select, Agent: r.Agent, Fallback: r.FallbackAgent,
		OnError: r.OnError, Model: c.Model, Check: c.Check, Prompt: r.Prompt, RequireCheck: r.RequireCheck, DryRun: c.DryRun, Continue: r.Continue, New: r.New, Retry: r.Retry, RetryFailed: r.RetryFailed,
		MaxTokens: c.MaxTokens, MaxCostUSD: c.MaxCostUSD, Timeout: c.Timeout, Parallel: r.Parallel}
	// These have a default, which is not what was given.
	for name, set := range map[string]func(){
		"max_iterations":       func() { s.MaxIterations = none(r.MaxIterations) },
		"parallel":             func() { s.Parallel = none(r.Parallel) },
		"check_retries":        func() { s.Retries = c.CheckRetries },
		"max_turns":            func() { s.MaxTurns = c.MaxTurns },
		"sandbox":              func() { s.Sandbox = c.Sandbox },
		"confidence_threshold": func() { s.ConfidenceThreshold = r.ConfidenceThreshold },
		"learning_rate":        func() { s.LearningRate = r.LearningRate },
		"risk_tolerance":       func() { s.RiskTolerance = r.RiskTolerance },
		"human_intervention":   func() { s.HumanIntervention = r.HumanIntervention },
	} {
		if given[name] != nil {
			set()
		}
	}
	return s, nil
}

// Words splits a line as a shell would, without expanding anything: blanks part
// words, '…' and "…" hold them together, a backslash keeps the character behind
// it (within "…" only a quote or a backslash). An open quote is an error.
func Words(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	begun, kept := false, false
	for _, r := range text {
		switch {
		case kept:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			kept = false
		case r == '\\' && quote != '\'':
			kept, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	case kept:
		return nil, errors.New(`nothing stands behind the last \`)
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}
