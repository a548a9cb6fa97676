package external

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"ralph/workers/external/home"
	"ralph/workers/external/proxy"
)

// ErrUnknown is matched when there is no adapter of a name.
var ErrUnknown = errors.New("no agent of that name")

// How a prompt gets in, and the forms of what comes out.
const (
	inputArg   = "arg"
	inputStdin = "stdin"

	// longNone leaves the argument out for a prompt that goes in by stdin.
	longNone = "{}"
	// longAbove and longBelow are for programs that join both.
	longAbove = "Do what the text above says."
	longBelow = "Do what the text below says."

	formatText     = "text"
	formatClaude   = "claude"
	formatCodex    = "codex"
	formatGemini   = "gemini"
	formatOpencode = "opencode"
	formatPi       = "pi"
)

const (
	defaultTimeout = 2 * time.Hour
	defaultIdle    = 15 * time.Minute
)

// Adapter is an agent's command line as data. It is a value: copies share their
// slices, which nobody changes.
type Adapter struct {
	Name string
	// Argv is the program and its arguments. {prompt}, {dir}, {model} and {last} (a
	// file for the final message) in them are replaced, once. An argument that is
	// a placeholder without a value is left out, with the flag in front of it.
	Argv []string
	// Input is arg (the prompt is an argument, the last one where Argv has no
	// {prompt}) or stdin.
	Input string
	// Long stands in the place of {prompt} for a prompt that is too long for an
	// argument and goes in by stdin instead; {} leaves it out, "" refuses such a
	// prompt.
	Long string
	// Format is text, or whose stream it is: claude, codex, gemini, opencode, pi.
	Format string
	// Model is taken where a Request names none.
	Model string
	// Env are the variables that it gets besides the common ones: NAME or PREFIX_*
	// from the user's environment, NAME=value as it stands.
	Env []string
	// Quota are regular expressions of messages that mean that the quota or rate
	// is used up, besides those known of all.
	Quota []string
	// State is what the program keeps for itself (its login, its settings), of which it
	// gets a copy; see package home. What is not there is left out.
	State []home.Store
	// Read are files and directories, absolute, that it sees in a sandbox besides.
	Read []string
	// Hosts are those that its maker's documentation names, where {NAME} is a variable of
	// the user's environment; Named those that the user named. See package proxy.
	Hosts, Named []string
	// Version and Help are the arguments that print these; none where it is not
	// known whether that starts something else.
	Version, Help []string
	// Package is where it comes from, for a hint.
	Package string
	// Timeout of one run; Idle is how long it may print nothing. 0 is 2 h and
	// 15 min.
	Timeout, Idle time.Duration
	// From is the place in the user's configuration, "" for one known here.
	From string
}

// Custom is an entry of the user's configuration: a program of his own (Command),
// or what is to be different with one that is known here. Its fields are those of
// config.Agent, which converts to it.
type Custom struct {
	Name          string
	Command, Args []string
	Input, Format string
	Model         string
	Env, Quota    []string
	State         []string
	Credentials   []string
	Hosts         []string
	Timeout, Idle time.Duration
	From          string
}

// Builtin gives the adapters that are known here, by name. None of them switches
// off what the program itself asks or confines by a flag for that purpose, but
// gemini, which has no shell tool otherwise: it is for a confined tree.
func Builtin() []Adapter {
	return []Adapter{
		{
			Name: "claude", Format: formatClaude, Input: inputArg, Long: longNone, Package: "@anthropic-ai/claude-code",
			// code.claude.com/docs/en/settings, /authentication, /network-config
			State: []home.Store{
				{Path: "~/.claude", Env: "CLAUDE_CONFIG_DIR", Credentials: []string{".credentials.json"},
					Keep: fields("*.json *.md *.sh *.py *.js agents commands hooks output-styles plugins rules skills workflows")},
				{Path: "~/.claude.json"},
			},
			Hosts: fields(`api.anthropic.com claude.ai platform.claude.com console.anthropic.com statsig.anthropic.com mcp-proxy.anthropic.com
				bedrock-runtime.{AWS_REGION}.amazonaws.com bedrock.{AWS_REGION}.amazonaws.com {CLOUD_ML_REGION}-aiplatform.googleapis.com aiplatform.googleapis.com oauth2.googleapis.com`),
			Argv: []string{"claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits", "--allowedTools", "Bash", "--model", "{model}"},
			Env: []string{
				"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
				"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION",
				"AWS_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK",
				// Ralph waits and retries itself, and says so.
				"CLAUDE_CODE_MAX_RETRIES=2", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			},
			Version: []string{"--version"}, Help: []string{"--help"},
		},
		{
			Name: "codex", Format: formatCodex, Input: inputArg, Long: "-", Package: "@openai/codex",
			// developers.openai.com/codex/config-reference, /auth
			State: []home.Store{{Path: "~/.codex", Env: "CODEX_HOME", Credentials: []string{"auth.json"},
				Keep: fields("*.toml *.md *.json installation_id agents hooks plugins prompts rules skills")}},
			Hosts: fields("api.openai.com chatgpt.com auth.openai.com ab.chatgpt.com"),
			Argv:  []string{"codex", "exec", "--json", "-s", "workspace-write", "-C", "{dir}", "--skip-git-repo-check", "-o", "{last}", "-m", "{model}", "{prompt}"},
			Env:   []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_API_KEY", "CODEX_HOME"},

			Version: []string{"--version"}, Help: []string{"exec", "--help"},
		},
		{
			Name: "gemini", Format: formatGemini, Input: inputArg, Long: longAbove, Package: "@google/gemini-cli",
			// its docs/reference/configuration.md, docs/get-started/authentication.md
			State: []home.Store{{Path: "~/.gemini", Env: "GEMINI_CLI_HOME", Below: ".gemini", Credentials: []string{"oauth_creds.json"},
				Keep: fields(".env *.json *.md *.toml installation_id google_account_id agents commands extensions hooks policies skills")}},
			Hosts: fields(`generativelanguage.googleapis.com cloudcode-pa.googleapis.com oauth2.googleapis.com sts.googleapis.com
				aiplatform.googleapis.com {GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com play.googleapis.com`),
			Argv: []string{"gemini", "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust", "-m", "{model}", "-p", "{prompt}"},
			Env: []string{
				"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA",
				"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_HOME", "GEMINI_MODEL",
			},
			Version: []string{"--version"}, Help: []string{"--help"},
		},
		{
			Name: "opencode", Format: formatOpencode, Input: inputArg, Long: longBelow, Package: "opencode-ai",
			// opencode.ai/docs/config, /plugins, /providers
			State: []home.Store{
				{Path: "~/.config/opencode", Keep: fields("*.json *.jsonc *.md bun.lock node_modules agent agents command commands mode modes plugin plugins skill skills themes tool tools")},
				{Path: "~/.local/share/opencode", Keep: fields("*.json bin"), Credentials: []string{"auth.json"}},
				{Path: "~/.local/state/opencode", Keep: fields("*.json")},
			},
			Hosts: append(providers(), "opencode.ai", "models.dev"),
			Argv:  []string{"opencode", "run", "--format", "json", "-m", "{model}", "{prompt}"},
			Env: []string{
				"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY",
				"MISTRAL_API_KEY", "XAI_API_KEY", "OPENCODE_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_AUTOUPDATE=1",
			},
			Version: []string{"--version"}, Help: []string{"run", "--help"},
		},
		{
			Name: "pi", Format: formatPi, Input: inputArg, Package: "@mariozechner/pi-coding-agent",
			// its README.md, docs/settings.md, docs/extensions.md
			State: []home.Store{{Path: "~/.pi/agent", Env: "PI_CODING_AGENT_DIR", Credentials: []string{"auth.json"},
				Keep: fields("*.json *.md agents bin extensions git npm prompts skills themes tools")}},
			Hosts: providers(),
			Argv:  []string{"pi", "--mode", "json", "-p", "--no-session", "--no-extensions", "--model", "{model}", "{prompt}"},
			Env: []string{
				"ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY",
				"PI_CODING_AGENT_DIR",
			},
			Version: []string{"--version"}, Help: []string{"--help"},
		},
	}
}

// providers are the hosts of models that programs of several makers call.
func providers() []string {
	return fields(`api.anthropic.com console.anthropic.com platform.claude.com claude.ai api.openai.com chatgpt.com auth.openai.com openrouter.ai generativelanguage.googleapis.com
		oauth2.googleapis.com cloudcode-pa.googleapis.com api.groq.com api.deepseek.com api.mistral.ai api.x.ai api.githubcopilot.com api.individual.githubcopilot.com`)
}

func fields(text string) []string { return strings.Fields(text) }

// Adapters gives those known here together with the user's, by name. An entry
// with a command replaces the one of its name; one without changes only what it
// sets. The error names the entry and its place.
func Adapters(user []Custom) ([]Adapter, error) {
	all := Builtin()
	for _, c := range user {
		i := slices.IndexFunc(all, func(a Adapter) bool { return a.Name == c.Name })
		var a Adapter
		switch {
		case len(c.Command) > 0:
			a = Adapter{Name: c.Name, Argv: slices.Clone(c.Command), Input: inputArg, Format: formatText}
		case i >= 0:
			a = all[i]
			a.Argv = withArgs(a.Argv, c.Args)
		default:
			return nil, c.wrong(errors.New(`has no "command", and is none of those that Ralph knows (` + strings.Join(names(Builtin()), ", ") + ")"))
		}
		a.change(c)
		if err := a.check(); err != nil {
			return nil, c.wrong(err)
		}
		if i >= 0 {
			all[i] = a
		} else {
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b Adapter) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (c Custom) wrong(err error) error {
	if c.From != "" {
		return fmt.Errorf("%s: agent %q: %w", c.From, c.Name, err)
	}
	return fmt.Errorf("agent %q: %w", c.Name, err)
}

// withArgs puts the user's arguments behind the adapter's own, but before a
// prompt that stands last: a flag after it could be taken for a part of it.
func withArgs(argv, args []string) []string {
	at := len(argv)
	if at > 0 && argv[at-1] == "{prompt}" {
		at--
		if at > 0 && strings.HasPrefix(argv[at-1], "-") {
			at-- // the flag that the prompt belongs to
		}
	}
	return slices.Insert(slices.Clone(argv), at, args...)
}

// change sets what an entry sets.
func (a *Adapter) change(c Custom) {
	for _, f := range []struct {
		to   *string
		from string
	}{{&a.Input, c.Input}, {&a.Format, c.Format}, {&a.Model, c.Model}, {&a.From, c.From}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	a.Env = slices.Concat(a.Env, c.Env)
	a.Quota = slices.Concat(a.Quota, c.Quota)
	a.Named = slices.Concat(a.Named, c.Hosts)
	a.State = slices.Clone(a.State)
	for _, p := range c.State {
		if !strings.HasPrefix(p, "~/") {
			a.Read = append(a.Read[:len(a.Read):len(a.Read)], p)
			continue
		}
		p = "~/" + path.Clean(p[2:])
		a.State = slices.DeleteFunc(a.State, func(s home.Store) bool { return s.Path == p }) // the user wants all of it
		a.State = append(a.State, home.Store{Path: p})
	}
	for _, p := range c.Credentials {
		for i, s := range a.State {
			if rel, err := filepath.Rel(s.Path, path.Clean(p)); err == nil && filepath.IsLocal(rel) {
				a.State[i].Credentials = append(s.Credentials[:len(s.Credentials):len(s.Credentials)], rel)
			}
		}
	}
	if c.Timeout > 0 {
		a.Timeout = c.Timeout
	}
	if c.Idle > 0 {
		a.Idle = c.Idle
	}
}

// check finds what is wrong with an adapter before anything runs.
func (a Adapter) check() error {
	switch {
	case a.Name == "":
		return errors.New("has no name")
	case len(a.Argv) == 0 || a.Argv[0] == "":
		return errors.New("has no program")
	case strings.Contains(a.Argv[0], "{"):
		return fmt.Errorf("the program %q must be a name or a path, without a placeholder", a.Argv[0])
	case strings.Contains(a.Argv[0], "/") && !filepath.IsAbs(a.Argv[0]):
		return fmt.Errorf("the program %q must be a name or an absolute path: a relative one would be the project's", a.Argv[0])
	case a.Input != inputArg && a.Input != inputStdin:
		return fmt.Errorf("input %q is neither %s nor %s", a.Input, inputArg, inputStdin)
	case readerOf(a.Format) == nil:
		return fmt.Errorf("format %q is none of those that Ralph can read", a.Format)
	case a.Input == inputStdin && a.placeholders("{prompt}") > 0:
		return errors.New("the prompt cannot be both an argument ({prompt}) and standard input")
	case a.placeholders("{prompt}") > 1:
		return errors.New("{prompt} stands in its arguments more than once")
	}
	for _, s := range a.State {
		if !filepath.IsLocal(strings.TrimPrefix(s.Path, "~/")) || s.Path == "~/." {
			return fmt.Errorf("state %q is not below the user's home", s.Path)
		}
	}
	for _, p := range a.Read {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("state %q is neither absolute nor begins with ~/", p)
		}
	}
	if err := proxy.Check(a.Named); err != nil {
		return err
	}
	_, err := a.quota()
	return err
}

func (a Adapter) placeholders(name string) int {
	n := 0
	for _, arg := range a.Argv {
		n += strings.Count(arg, name)
	}
	return n
}

// quota compiles the adapter's own patterns.
func (a Adapter) quota() ([]*regexp.Regexp, error) {
	var out []*regexp.Regexp
	for _, p := range a.Quota {
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return nil, fmt.Errorf("quota pattern %q: %w", p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Find gives the adapter of a name. The error matches ErrUnknown and lists the
// names that there are.
func Find(all []Adapter, name string) (Adapter, error) {
	for _, a := range all {
		if a.Name == name {
			return a, nil
		}
	}
	return Adapter{}, fmt.Errorf("agent %q: %w: there are %s", name, ErrUnknown, strings.Join(names(all), ", "))
}

func names(all []Adapter) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.Name
	}
	return out
}
