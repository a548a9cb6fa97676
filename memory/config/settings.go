package config

import "time"

// Settings holds one typed field per key of Keys. Zero means "none" or "not
// set" wherever the key's help says so.
type Settings struct {
	// Dir is the directory to work in, as given; empty means the current one.
	Dir string
	// StateDir is where Ralph keeps its own files about the user's projects, as
	// given; empty means the default.
	StateDir string
	// AdoptState takes over the texts of a project's state that is somebody else's.
	AdoptState bool
	// Model is the model's name; empty leaves the choice to the endpoint.
	Model string
	// BaseURL is the endpoint's base URL, such as http://127.0.0.1:11434/v1.
	BaseURL string
	// APIKey is the endpoint's key. Never print it; see Config.Entries.
	APIKey string
	// Profile names one of the user's profiles; empty means none in particular.
	Profile string

	Output  string // text, json or jsonl
	Quiet   bool
	Verbose bool

	Sandbox string // workspace, read-only or off
	// SandboxRead and SandboxWrite are paths, absolute or below ~/, that commands see or
	// may change besides.
	SandboxRead, SandboxWrite []string

	Allow []string // permission rules, expressions
	Deny  []string // permission rules, expressions; those of all sources add up
	OnAsk string   // ask, deny or fail

	MaxTurns            int // 0 = no limit
	MaxTokens           int // of one run, input and output together; 0 = no limit
	MaxCostUSD          float64
	Timeout             time.Duration // of one run; 0 = none
	MaxAgents           int
	MaxDepth            int
	MaxChildrenPerAgent int

	// Check is the command that proves the work; empty means that none was set, "none"
	// that nothing is to be checked which names no check of its own.
	Check          string
	CheckTimeout   time.Duration
	CheckClean     bool
	CheckSetup     string
	CheckRetries   int
	CommandTimeout time.Duration

	Schema      string // file
	LastMessage string // file
	ResultFile  string // file
	Files       []string
	DryRun      bool
	Session     string
	Record      string // file
	Replay      string // file

	ContextWindow   int // tokens
	MaxOutputTokens int // tokens; 0 leaves it to the endpoint
	MaxMemoryBytes  int64

	// What commands may use, in bytes.
	CommandMemory int64 // data of each process; 0 = no limit
	SessionMemory int64 // of all together; 0 = half of the machine's
	SessionOutput int64 // of all together, kept in files; 0 = no limit

	Retention Retention
	History   History

	Theme    string // auto, dark, light or none
	EditMode string // emacs or vi
	// Plain asks the chat for whole lines and no cursor movement.
	Plain bool

	// Notify says how the end of long work is announced: auto (by what the
	// terminal understands), bell or off.
	Notify string

	Run RunSettings
}

// Retention says what `ralph sessions prune`, `archive` and `summarize` follow.
type Retention struct {
	ArchiveAfter   time.Duration // 0 = never
	DeleteRawAfter time.Duration // 0 = never
	Summarize      string        // none or quarterly
}

// History bounds what of the past is loaded; 0 = all.
type History struct {
	MaxMessages int
	MaxBytes    int64
}

// RunSettings are the settings of the autonomous loop.
type RunSettings struct {
	Continue            bool
	New                 bool
	Retry               []string // tasks to work anew
	RetryFailed         bool
	Parallel            int // 0 = as many as MaxAgents allows
	MaxIterations       int // 0 = no limit
	ConfidenceThreshold float64
	HumanIntervention   string
	LearningRate        float64
	RiskTolerance       float64
	Agent               string
	FallbackAgent       string
	OnError             string // empty = by the kind of the error
	RequireCheck        bool
	Branch              string // to work on; PlansBranch is the plan's, "" the one that is checked out
	Select              string // an expression
	SessionDir          string
	Feature             string
	Epic                []string
	Plan                string // file
	Tracker             string
	Prompt              string // file with the template of a task's prompt; empty = the built-in one
}

// Profile is a named endpoint of the user's configuration.
type Profile struct {
	Name    string
	Model   string
	BaseURL string
	// Key is the endpoint's key, already read from the environment when the
	// profile has api_key_env. Never print it.
	Key string
	// KeyFrom says where Key comes from: "api_key", "$NAME", or "" for none.
	KeyFrom string
}

// Price is what a model costs, in USD per million tokens.
type Price struct {
	Input       float64
	CachedInput float64
	Output      float64
}
