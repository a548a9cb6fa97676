package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// ErrNobody is matched by the error of ask_user when nobody can answer.
var ErrNobody = errors.New("nobody is there to answer")

// The schemas are generated from the argument structs by the test with -update
// and checked by it: reflecting them costs over a millisecond, which a one-shot
// would pay at each start.
//
//go:embed testdata/schemas.json
var schemasJSON []byte

const (
	defaultOutputBytes    = 16 << 10
	defaultCommandTimeout = 2 * time.Minute
)

// Env is what the tools of one agent work with. Only Root and Files are needed
// by every tool; a tool whose part is missing says so, or is not offered. All
// copies it; it is not changed afterwards.
type Env struct {
	Root  string       // absolute project root
	Files *Workspace   // file access confined to Root
	Proc  *exec.Runner // starts the commands of shell
	// Sandbox confines the commands of shell; nil: they run with the rights and
	// the environment of this process, less what may be a secret.
	Sandbox *accesspolicy.Sandbox
	// Allowed says what a command that is permitted may do besides; outside is
	// whether the model asked for that. It is asked once before each command, when
	// there is a Sandbox. Nil: nothing, and no command runs outside.
	Allowed  func(command string, outside bool) accesspolicy.Call
	Git      *git.Repo // nil without a repository
	Notebook Notebook  // nil: the tools that keep notes are not offered
	// Ask puts a question to the user and waits; nil: nobody can answer, and
	// ask_user fails with ErrNobody.
	Ask func(ctx context.Context, q Question) (string, error)
	// OutputDir is the absolute directory for outputs too long to show, made when
	// it is needed and not shared with another agent; empty: what does not fit is
	// dropped.
	OutputDir string
	// OutputLabel is OutputDir as the model should read it, relative to Root.
	OutputLabel string
	// Redact takes secrets out of what is kept in OutputDir and of commit
	// messages; nil keeps all.
	Redact         func([]byte) []byte
	MaxOutputBytes int           // of one result; 0 means 16 KiB
	CommandTimeout time.Duration // default of shell; 0 means 2 minutes
	// Fetch turns the fetch tool on. Its time limit, if any, is kept; a
	// *http.Transport is cloned and gets a dialer that refuses private
	// addresses and no proxy; another RoundTripper is used as it is.
	Fetch *http.Client
	// FetchPrivate lets fetch reach loopback, private and link-local addresses.
	FetchPrivate bool
	// Lock is asked before a file is written or edited, with the path that it
	// resolved to, relative to Root; its error is told to the model as it is, and
	// nothing is changed then. Nil: every path is free. Commands of shell do not
	// ask.
	Lock func(path string) error
	// Crew turns on the tools that start and steer other agents; nil: they are
	// not offered.
	Crew Crew
	// SetMode changes to the mode "conversation" or "autonomous" and returns what
	// that means, for the model to read; nil: set_mode is not offered.
	SetMode func(ctx context.Context, mode string) (string, error)
}

// Question is what ask_user asks.
type Question struct {
	Text    string
	Options []string // answers to choose from; empty means free text
}

// box is what the tools of one Env share.
type box struct {
	Env
	shell   func() string
	client  func() *http.Client
	outputs outputs
	jobs    jobs
}

// spec is one tool before its schema is attached.
type spec struct {
	name, doc, example string
	effect             agent.Effect
	asks               bool // it waits for the human
	args               reflect.Type
	run                func(ctx context.Context, args json.RawMessage) (agent.Result, error)
}

// All returns the tools in an order that never changes, so that the bytes of a
// request do not either. The tools whose part of the Env is missing (Notebook,
// Crew, SetMode) are left out. The tools may be used concurrently.
func All(e *Env) []agent.Tool {
	b := newBox(e)
	schemas := schemaTexts()
	var all []agent.Tool
	for _, s := range b.specs() {
		all = append(all, s.tool(schemas[s.name]))
	}
	return all
}

func newBox(e *Env) *box {
	b := &box{Env: *e}
	if b.MaxOutputBytes <= 0 {
		b.MaxOutputBytes = defaultOutputBytes
	}
	if b.CommandTimeout <= 0 {
		b.CommandTimeout = defaultCommandTimeout
	}
	b.shell = sync.OnceValue(func() string { return exec.Shell(b.Root) })
	b.client = sync.OnceValue(b.fetchClient)
	return b
}

func (b *box) specs() []spec {
	all := []spec{
		b.read(), b.write(), b.edit(), b.list(), b.glob(), b.grep(),
		b.shellTool(), b.git(), b.fetch(),
	}
	if b.Notebook != nil {
		all = append(all, b.task(), b.todo(), b.goal(), b.note(), b.learn(), b.decide(), b.recordFeature())
	}
	all = append(all, b.askUser(), b.finish())
	if b.Crew != nil {
		all = append(all, b.spawnAgents(), b.agentStatus(), b.messageAgent(), b.stopAgent(), b.mergeAgent())
	}
	if b.SetMode != nil {
		all = append(all, b.setMode())
	}
	return all
}

// schemaTexts are the embedded schemas by tool, split once for all agents.
var schemaTexts = sync.OnceValue(func() map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	// The file is part of the program and checked by a test: it always decodes.
	_ = json.Unmarshal(schemasJSON, &m)
	return m
})

// define ties a tool's argument type to the function that does its work.
func define[A any](name, doc, example string, effect agent.Effect, run func(context.Context, A) (agent.Result, error)) spec {
	return spec{
		name: name, doc: strings.TrimSpace(doc), example: example, effect: effect, args: reflect.TypeFor[A](),
		run: func(ctx context.Context, raw json.RawMessage) (agent.Result, error) {
			var a A
			if err := json.Unmarshal(raw, &a); err != nil {
				return agent.Result{}, fmt.Errorf("decode arguments of %s: %w", name, err)
			}
			return run(ctx, a)
		},
	}
}

func (s spec) tool(schema json.RawMessage) agent.Tool {
	d := newDecoder(s.name, s.example, schema)
	return agent.Tool{
		Name: s.name, Description: s.doc, Schema: schema, Effect: s.effect, Asks: s.asks, Canonical: d.decode,
		Run: func(ctx context.Context, args json.RawMessage) (agent.Result, error) {
			args, err := d.decode(args)
			if err != nil {
				return agent.Result{Failed: true, Brief: "bad arguments"}, err
			}
			return s.run(ctx, args)
		},
	}
}
