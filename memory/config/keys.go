package config

import (
	"slices"
	"strings"
	"time"
)

// Kind says what a key's value looks like.
type Kind string

// The kinds of values. A duration has a unit (90s, 10m, 2h, 180d), a size may
// have one (512MiB, 1GB). A list is repeated flags, a YAML sequence, or lines
// in an environment variable.
const (
	KindString   Kind = "string"
	KindBool     Kind = "bool"
	KindInt      Kind = "int"
	KindFloat    Kind = "float"
	KindDuration Kind = "duration"
	KindBytes    Kind = "bytes"
	KindList     Kind = "list"
	KindEnum     Kind = "enum"
)

// Scope says where a key's flag belongs. Files and environment accept every
// key whatever its scope.
type Scope string

// The scopes of flags.
const (
	ScopeCommon Scope = "common"
	ScopeRun    Scope = "run"
	ScopeChat   Scope = "chat"
	scopeConfig Scope = "config-only" // no flag
)

// Key is one setting: the one place from which its flag, its environment
// variable, its YAML key, its check and its documentation are made.
type Key struct {
	Name    string   // snake_case, the YAML key; a dot means nesting
	Flag    string   // kebab-case without dashes; empty: no flag
	Short   string   // one letter, or empty
	Env     string   // RALPH_…
	Kind    Kind     //
	Values  []string // of KindEnum
	Default string   // as a user would write it
	Arg     string   // the name of the value in usage lines: FILE, N, …
	Help    string   // one line, no full stop
	Bare    string   // what the flag means without a value; empty: it needs one
	Scope   Scope
	Project bool // may stand in project config, where it can only narrow or propose
	Secret  bool // never shown
	Call    bool // set by a flag or a variable only: no file may set it

	min, max *float64
	adds     bool                  // the values of all sources add up
	paths    bool                  // the values are paths, absolute or below ~/
	may      func(value any) bool  // whether project config may set value
	mayText  string                // what project config may do instead
	field    func(s *Settings) any // pointer into Settings
}

func key[T any](name string, kind Kind, def, arg, help string, field func(*Settings) *T) Key {
	return Key{
		Name: name, Kind: kind, Default: def, Arg: arg, Help: help, Scope: ScopeCommon,
		Flag:  strings.ReplaceAll(name, "_", "-"),
		Env:   "RALPH_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
		field: func(s *Settings) any { return field(s) },
	}
}

func (k Key) short(s string) Key    { k.Short = s; return k }
func (k Key) noFlag() Key           { k.Flag, k.Scope = "", scopeConfig; return k }
func (k Key) scope(s Scope) Key     { k.Scope = s; return k }
func (k Key) call() Key             { k.Call = true; return k }
func (k Key) atLeast(n float64) Key { k.min = &n; return k }
func (k Key) between(lo, hi float64) Key {
	k.min, k.max = &lo, &hi
	return k
}

// mayLower lets project config set a number below the default, or any limit
// where the default is none.
func (k Key) mayLower() Key {
	var s Settings
	_ = parse(k, k.field(&s), []string{k.Default})
	limit := number(k.field(&s))
	k.Project, k.mayText = true, "may only lower it"
	k.may = func(v any) bool {
		n := number(v)
		return n > 0 && (limit == 0 || n <= limit)
	}
	return k
}

// PlansBranch is the value of `branch` that means the one that the plan names; git has no
// branch of that name.
const PlansBranch = "."

// bare makes value what the flag means when it has none.
func (k Key) bare(value string) Key { k.Bare = value; return k }

// mayBe lets project config set one of some values.
func (k Key) mayBe(values ...string) Key {
	k.Project, k.mayText = true, "may only set it to "+strings.Join(values, " or ")
	k.may = func(v any) bool { return slices.Contains(values, show(v)) }
	return k
}

// proposes lets project config set any value: it narrows or is only proposed.
func (k Key) proposes() Key {
	k.Project = true
	k.may = func(any) bool { return true }
	return k
}

func (k Key) enum(values ...string) Key {
	k.Values = values
	k.Arg = strings.Join(values, "|")
	return k
}

func number(v any) float64 {
	switch p := v.(type) {
	case *int:
		return float64(*p)
	case *int64:
		return float64(*p)
	case *float64:
		return *p
	case *time.Duration:
		return float64(*p)
	}
	return 0
}

// Keys returns the table of all keys, in the order in which they are shown.
// The caller owns the slice.
func Keys() []Key {
	return slices.Concat(endpointKeys(), commonKeys(), limitKeys(), fileKeys(), runKeys(), storeKeys(), chatKeys())
}

func endpointKeys() []Key {
	k := key("api_key", KindString, "", "", "key of the model's endpoint", func(s *Settings) *string { return &s.APIKey }).noFlag()
	k.Secret = true
	return []Key{
		key("dir", KindString, "", "DIR", "work in DIR instead of the current directory", func(s *Settings) *string { return &s.Dir }).short("C"),
		key("state_dir", KindString, "", "DIR", "keep what Ralph knows of your projects in DIR instead of ralph in your state directory", func(s *Settings) *string { return &s.StateDir }).call(),
		key("adopt_state", KindBool, "false", "", "take over tasks, history and learnings of state in .ralph that is not yours; grants nothing", func(s *Settings) *bool { return &s.AdoptState }).call(),
		key("model", KindString, "", "NAME", "model to use", func(s *Settings) *string { return &s.Model }).short("m"),
		key("base_url", KindString, "", "URL", "base URL of an OpenAI-compatible endpoint", func(s *Settings) *string { return &s.BaseURL }),
		k,
		key("profile", KindString, "", "NAME", "endpoint profile of the user config to use", func(s *Settings) *string { return &s.Profile }),
	}
}

func commonKeys() []Key {
	deny := key("deny", KindList, "", "RULE", "refuse what matches RULE, an expression; may be repeated, and the rules of all sources add up",
		func(s *Settings) *[]string { return &s.Deny }).proposes()
	deny.adds = true
	read := key("sandbox_read", KindList, "", "PATH", "let commands in the sandbox read PATH, absolute or below ~/, where it is hidden with the home; may be repeated",
		func(s *Settings) *[]string { return &s.SandboxRead })
	write := key("sandbox_write", KindList, "", "PATH", "let commands in the sandbox write to PATH, absolute or below ~/, besides the project",
		func(s *Settings) *[]string { return &s.SandboxWrite }).noFlag()
	read.adds, read.paths, write.adds, write.paths = true, true, true, true
	return []Key{
		key("output", KindEnum, "text", "", "what to write to standard output", func(s *Settings) *string { return &s.Output }).enum("text", "json", "jsonl"),
		key("quiet", KindBool, "false", "", "no progress on standard error", func(s *Settings) *bool { return &s.Quiet }),
		key("verbose", KindBool, "false", "", "more on standard error", func(s *Settings) *bool { return &s.Verbose }),
		key("sandbox", KindEnum, "workspace", "", "what commands may touch", func(s *Settings) *string { return &s.Sandbox }).
			enum("workspace", "read-only", "off").mayBe("read-only"),
		read,
		write,
		key("allow", KindList, "", "RULE", "allow without asking what matches RULE, an expression; may be repeated",
			func(s *Settings) *[]string { return &s.Allow }),
		deny,
		key("on_ask", KindEnum, "ask", "", "what to do where permission is needed", func(s *Settings) *string { return &s.OnAsk }).
			enum("ask", "deny", "fail").mayBe("deny", "fail"),
		key("check", KindString, "", "CMD", "command that proves the work; Ralph runs it (from project config it is only proposed). By default the project's own tests; none switches them off",
			func(s *Settings) *string { return &s.Check }).proposes(),
		key("check_clean", KindBool, "false", "", "run checks in a fresh checkout, without the files that git ignores", func(s *Settings) *bool { return &s.CheckClean }).mayBe("true"),
		key("check_setup", KindString, "", "CMD", "command that makes the fresh checkout of check_clean ready; by default what its lock file calls for, such as npm ci",
			func(s *Settings) *string { return &s.CheckSetup }),
		key("check_timeout", KindDuration, "10m", "DURATION", "time for the check", func(s *Settings) *time.Duration { return &s.CheckTimeout }).mayLower(),
		key("check_retries", KindInt, "2", "N", "how often a failing check goes back to the model", func(s *Settings) *int { return &s.CheckRetries }).mayLower(),
		key("command_timeout", KindDuration, "2m", "DURATION", "time for a command of the model, unless it asks for another",
			func(s *Settings) *time.Duration { return &s.CommandTimeout }).mayLower(),
		key("dry_run", KindBool, "false", "", "plan only: change nothing", func(s *Settings) *bool { return &s.DryRun }),
		key("notify", KindEnum, "auto", "", "how to say that long work has ended or needs a human, on a terminal", func(s *Settings) *string { return &s.Notify }).
			enum("auto", "bell", "off").mayBe("off"),
		key("session", KindString, "", "NAME", "keep a session directory: new, last, or a session's id or name", func(s *Settings) *string { return &s.Session }),
	}
}

func limitKeys() []Key {
	return []Key{
		key("max_turns", KindInt, "200", "N", "model requests of one run, 0 for no limit", func(s *Settings) *int { return &s.MaxTurns }).mayLower(),
		key("max_tokens", KindInt, "0", "N", "tokens of one run, 0 for no limit", func(s *Settings) *int { return &s.MaxTokens }).mayLower(),
		key("max_cost", KindFloat, "0", "USD", "cost of one run in USD, 0 for no limit", func(s *Settings) *float64 { return &s.MaxCostUSD }).mayLower(),
		key("timeout", KindDuration, "0", "DURATION", "time for one run, 0 for no limit", func(s *Settings) *time.Duration { return &s.Timeout }).mayLower(),
		key("max_agents", KindInt, "20", "N", "agents that work at once", func(s *Settings) *int { return &s.MaxAgents }).atLeast(1).mayLower(),
		key("max_depth", KindInt, "3", "N", "how deep agents may start agents", func(s *Settings) *int { return &s.MaxDepth }).mayLower(),
		key("max_children_per_agent", KindInt, "10", "N", "agents that one agent may start", func(s *Settings) *int { return &s.MaxChildrenPerAgent }).mayLower(),
		key("context_window", KindInt, "128000", "TOKENS", "size of the model's context", func(s *Settings) *int { return &s.ContextWindow }).atLeast(1000),
		key("max_output_tokens", KindInt, "0", "TOKENS", "bound of one reply, 0 to leave it to the endpoint", func(s *Settings) *int { return &s.MaxOutputTokens }).mayLower(),
		key("command_memory", KindBytes, "4GiB", "SIZE", "data of each process of a command in the sandbox, 0 for no limit (sanitizers of C compilers need 0)", func(s *Settings) *int64 { return &s.CommandMemory }).mayLower(),
		key("session_memory", KindBytes, "0", "SIZE", "memory of all commands together, above which the largest is ended, 0 for half of the machine's", func(s *Settings) *int64 { return &s.SessionMemory }),
		key("session_output", KindBytes, "2GiB", "SIZE", "output of all commands together that is kept in files, 0 for no limit", func(s *Settings) *int64 { return &s.SessionOutput }).mayLower(),
		key("max_memory", KindBytes, "1GiB", "SIZE", "resident memory above which cached history is dropped and agents begin one after the other", func(s *Settings) *int64 { return &s.MaxMemoryBytes }).mayLower(),
	}
}

func fileKeys() []Key {
	return []Key{
		key("schema", KindString, "", "FILE", "JSON Schema that the answer must fit", func(s *Settings) *string { return &s.Schema }),
		key("last_message", KindString, "", "FILE", "write the answer to FILE too", func(s *Settings) *string { return &s.LastMessage }),
		key("result_file", KindString, "", "FILE", "write the result document to FILE too", func(s *Settings) *string { return &s.ResultFile }),
		key("files", KindList, "", "GLOB", "give the model the files that match; may be repeated", func(s *Settings) *[]string { return &s.Files }),
		key("record", KindString, "", "FILE", "record all exchanges with the model in FILE", func(s *Settings) *string { return &s.Record }),
		key("replay", KindString, "", "FILE", "take the model's replies from FILE", func(s *Settings) *string { return &s.Replay }),
	}
}

func runKeys() []Key {
	keys := []Key{
		key("continue", KindBool, "false", "", "go on with the newest run that was paused, stopped or cut off", func(s *Settings) *bool { return &s.Run.Continue }),
		key("new", KindBool, "false", "", "begin a new run", func(s *Settings) *bool { return &s.Run.New }),
		key("retry", KindList, "", "TASK", "work this task anew, whatever became of it, or take it over from nobody; may be repeated", func(s *Settings) *[]string { return &s.Run.Retry }),
		key("retry_failed", KindBool, "false", "", "work anew what failed or was skipped", func(s *Settings) *bool { return &s.Run.RetryFailed }),
		key("branch", KindString, "", "[NAME]", "work on the branch NAME, or without a name on that of the plan (branchName), which is made when it is not there", func(s *Settings) *string { return &s.Run.Branch }).bare(PlansBranch),
		key("parallel", KindInt, "0", "N", "tasks worked side by side, 0 for as many as max_agents allows", func(s *Settings) *int { return &s.Run.Parallel }).mayLower(),
		key("max_iterations", KindInt, "300", "N", "iterations of the loop, 0 for no limit", func(s *Settings) *int { return &s.Run.MaxIterations }).mayLower(),
		key("confidence_threshold", KindFloat, "0.7", "X", "confidence from which Ralph acts without asking", func(s *Settings) *float64 { return &s.Run.ConfidenceThreshold }).between(0, 1),
		key("human_intervention", KindEnum, "ask_first", "", "when to ask the human", func(s *Settings) *string { return &s.Run.HumanIntervention }).
			enum("never", "ask_first", "on_error", "on_low_confidence", "always").mayBe("always"),
		key("learning_rate", KindFloat, "0.1", "X", "how fast outcomes change confidence", func(s *Settings) *float64 { return &s.Run.LearningRate }).between(0, 1),
		key("risk_tolerance", KindFloat, "0.5", "X", "how much risk is acceptable", func(s *Settings) *float64 { return &s.Run.RiskTolerance }).between(0, 1).mayLower(),
		key("agent", KindString, "", "NAME", "agent that works on tasks", func(s *Settings) *string { return &s.Run.Agent }),
		key("fallback_agent", KindString, "", "NAME", "agent to use when the first one has used up its quota", func(s *Settings) *string { return &s.Run.FallbackAgent }),
		key("on_error", KindEnum, "", "", "what to do when a task fails; by default it depends on the error", func(s *Settings) *string { return &s.Run.OnError }).
			enum("retry", "skip", "abort", "alternative", "escalate").mayBe("abort", "escalate"),
		key("require_check", KindBool, "false", "", "a task without a check fails", func(s *Settings) *bool { return &s.Run.RequireCheck }).mayBe("true"),
		key("select", KindString, "", "EXPR", "only tasks for which EXPR is true", func(s *Settings) *string { return &s.Run.Select }),
		key("session_dir", KindString, "", "DIR", "the directory of the session, new or empty", func(s *Settings) *string { return &s.Run.SessionDir }),
		key("feature", KindString, "", "NAME", "name the work, so that it can be resumed by name", func(s *Settings) *string { return &s.Run.Feature }),
		key("epic", KindList, "", "ID", "only tasks of this epic; may be repeated", func(s *Settings) *[]string { return &s.Run.Epic }),
		key("plan", KindString, "", "FILE", "file that holds the plan", func(s *Settings) *string { return &s.Run.Plan }),
		key("tracker", KindString, "", "NAME", "tracker that holds the plan", func(s *Settings) *string { return &s.Run.Tracker }),
		key("prompt", KindString, "", "FILE", "template of the prompt of each task", func(s *Settings) *string { return &s.Run.Prompt }),
	}
	for i := range keys {
		keys[i].Scope = ScopeRun
	}
	return keys
}

func storeKeys() []Key {
	return []Key{
		key("retention.archive_after", KindDuration, "180d", "", "age at which `ralph sessions archive` archives a session, 0 for never", func(s *Settings) *time.Duration { return &s.Retention.ArchiveAfter }).noFlag(),
		key("retention.delete_raw_after", KindDuration, "365d", "", "age at which `ralph sessions prune` drops the raw files of an archived session, 0 for never", func(s *Settings) *time.Duration { return &s.Retention.DeleteRawAfter }).noFlag(),
		key("retention.summarize", KindEnum, "quarterly", "", "summaries of archived sessions", func(s *Settings) *string { return &s.Retention.Summarize }).enum("none", "quarterly").noFlag(),
		key("history.max_messages", KindInt, "0", "", "messages of the past to load, 0 for all", func(s *Settings) *int { return &s.History.MaxMessages }).noFlag(),
		key("history.max_bytes", KindBytes, "0", "", "bytes of the past to load, 0 for all", func(s *Settings) *int64 { return &s.History.MaxBytes }).noFlag(),
	}
}

func chatKeys() []Key {
	return []Key{
		key("theme", KindEnum, "auto", "", "colours of the chat", func(s *Settings) *string { return &s.Theme }).enum("auto", "dark", "light", "none").scope(ScopeChat),
		key("edit_mode", KindEnum, "emacs", "", "keys of the chat's line editor", func(s *Settings) *string { return &s.EditMode }).enum("emacs", "vi").scope(ScopeChat),
		key("plain", KindBool, "false", "", "whole lines and no cursor movement, for screen readers and simple terminals", func(s *Settings) *bool { return &s.Plain }).scope(ScopeChat),
	}
}
