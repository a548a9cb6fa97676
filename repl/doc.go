// Package repl is the chat: a prompt that is always live, under the streaming
// output of one coordinator.
//
// It owns the conversation's loop: lines become turns or slash commands,
// questions become answers, Ctrl-C becomes a stop at once. It refuses to touch
// state files, to decide policy and to speak to a model; all that is the
// coordinator's, which it sees only through the narrow interfaces of Mind.
//
// One goroutine owns the conversation. A turn runs beside it; whatever that
// goroutine has to tell is posted to the loop, and nothing that may wait, for a
// disk or for a lock, is done on the loop. The stop bypasses it: it happens on
// the goroutine that read the key, and the third one leaves whatever hangs.
//
//	code, err := repl.Run(ctx, repl.Options{
//		In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv,
//		Open: func(ctx context.Context, l repl.Link) (repl.Mind, error) {
//			c, err := coordinator.Open(ctx, coordinator.Options{Ask: l.Ask, Eyes: l.Eyes, Session: l.Session})
//			if err != nil {
//				return repl.Mind{}, err
//			}
//			return repl.Mind{Turns: c, Queue: c, Control: c, Models: c, Changes: c, About: c, State: c, Plans: c}, nil
//		},
//	})
package repl

import (
	"context"
	"errors"
	"os"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/interrupts"
	"ralph/memory/markdown"
	"ralph/memory/project"
	"ralph/memory/session"
	"ralph/repl/pick"
	"ralph/workers/agent"
	"ralph/workers/git"
	"ralph/workers/model"
)

// ErrNobody is what a question gets when the input has ended.
var ErrNobody = errors.New("nobody is there to answer")

// Turns is the part of a coordinator that works. Run is never called twice at a
// time; Stop may be called at any time and must not wait.
type Turns interface {
	Run(ctx context.Context, j coordinator.Job) coordinator.Outcome
	Stop(cause *interrupts.Stop)
	Clear() error
	Close() error
}

// Queue is the part that takes what is said while work runs. Say must not wait;
// what becomes of a message is told by inbox events. A message said here is from
// "chat".
type Queue interface {
	Say(m interrupts.Message) interrupts.Message
	Waiting() []interrupts.Message
	Amend(id string, a interrupts.Amendment) (interrupts.Message, error)
}

// Control is the part that has the work by the collar. Its methods may be called
// at any time and from any goroutine; Kill must not wait.
type Control interface {
	// Kill ends at once what a stop has not ended yet.
	Kill()
	Pause()
	Proceed() error
	// StopAgent stops one agent, background call or job.
	StopAgent(id string, cause *interrupts.Stop) error
	Live() coordinator.Live
}

// Models is the part that knows models.
type Models interface {
	Endpoint() model.Endpoint
	Models(ctx context.Context) ([]string, error)
	SetModel(name string)
}

// Changes is the part that knows what was done.
type Changes interface {
	Totals() coordinator.Totals
	Undo(ctx context.Context, n int) ([]git.FileChange, error)
	Diff(ctx context.Context) (string, error)
}

// About is the part that says where we are.
type About interface {
	Project() project.Project
	SessionID() string
}

// State is the part that knows what is kept. Its methods may be called while a
// turn runs; only Compact waits for it.
type State interface {
	// Notes returns the "tasks" or the "goals".
	Notes(which string) ([]markdown.Task, error)
	Context() []coordinator.ContextBlock
	Compact(ctx context.Context) (coordinator.CompactReport, error)
	Trace(ctx context.Context, file string) ([]coordinator.TraceStep, error)
	// Sessions returns the newest sessions, newest first.
	Sessions() ([]session.Info, error)
}

// Crew is the part that has children. Its methods may be called at any time and
// from any goroutine; Merge waits for work that is under way.
type Crew interface {
	// Agents are all children that are known of this project, in the order of the
	// tree; also those of earlier sessions that were interrupted. With an error the
	// list holds those that could be found.
	Agents(ctx context.Context) ([]crew.Agent, error)
	// Merge brings the work of an agent into the user's files and says in a line
	// what came of it.
	Merge(ctx context.Context, id string) (string, error)
	// Prune removes the worktrees and branches of agents that do not work, and
	// returns the names of those that are gone.
	Prune(ctx context.Context, ids []string) ([]string, error)
}

// Trees is the part that can look into the work of a child.
type Trees interface {
	// AgentDiff is what an agent changed since it began, as a unified diff.
	AgentDiff(ctx context.Context, id string) (string, error)
}

// Plans is the part that knows the plan. A run over it is a Job with a Loop; how it
// stands is in Live. Its methods may be called at any time and from any goroutine.
type Plans interface {
	// Plan reads the plan that a run with these settings would work.
	Plan(ctx context.Context, s loop.Settings) (*plan.Plan, error)
	// Why tells, in lines of text, what was decided about a task and from which
	// facts; "" when nothing was.
	Why(task string) (string, error)
	// Replan has the run that is under way take another plan, or other epics of it,
	// at its next boundary: by the Plan, Tracker and Epics of the settings.
	Replan(s loop.Settings) error
}

// Mind is a coordinator as the chat sees it. All are usually one value; none but
// Crew, which says that there are never any children, Trees and Plans may be nil.
type Mind struct {
	Turns   Turns
	Queue   Queue
	Control Control
	Models  Models
	Changes Changes
	About   About
	State   State
	Crew    Crew
	Trees   Trees
	Plans   Plans
}

// Link is what the chat gives to the coordinator that Open makes.
type Link struct {
	// Ask puts a question to the human and waits for the answer, which is one
	// of the question's options when it has any. It returns the cause of ctx
	// when that ends first, and ErrNobody when the input has ended. It may be
	// called by several goroutines.
	Ask func(context.Context, coordinator.Question) (string, error)
	// Eyes shows an event. Calls come one at a time; it does not wait for the
	// terminal.
	Eyes func(agent.Event)
	// Session is what the user picked from Options.Sessions, else empty.
	Session string
}

// Options is what Run needs. The chat handles SIGINT, SIGTERM and SIGHUP
// itself: ctx must not end at a SIGINT.
type Options struct {
	// In, Out and Err are the standard streams. The conversation goes to Out;
	// Err gets what is said after the terminal was given back.
	In, Out, Err *os.File
	// Open makes the coordinator. It is called once, on another goroutine; its
	// ctx ends at a Ctrl-C or a signal. Run closes the coordinator.
	Open func(context.Context, Link) (Mind, error)
	// Sessions, when set, is asked for the sessions to pick from before Open.
	Sessions func(context.Context) ([]pick.Item, error)
	// History is the path of the project's history file; "" keeps none.
	History string
	Getenv  func(string) string
	// Theme is the setting of that name: auto, dark, light or none.
	Theme string
	// Plain asks for whole lines and no cursor movement.
	Plain bool
	// EditMode is the setting of that name: emacs or vi.
	EditMode string
	// Notify is the setting of that name: auto, bell or off.
	Notify string
	// Opening is a first task that the shell gives by itself, once it has greeted.
	Opening string
	// Version is shown in the greeting.
	Version string
	// Facts are further lines of the greeting: how commands run, the session,
	// what is open; one that begins with "note: " is a warning. It is called
	// after Open.
	Facts func() []string

	notifyAfter time.Duration // how long work runs before its end is told; 0 means longWork
}

var (
	_ Turns   = (*coordinator.Coordinator)(nil)
	_ Queue   = (*coordinator.Coordinator)(nil)
	_ Control = (*coordinator.Coordinator)(nil)
	_ Models  = (*coordinator.Coordinator)(nil)
	_ Changes = (*coordinator.Coordinator)(nil)
	_ About   = (*coordinator.Coordinator)(nil)
	_ State   = (*coordinator.Coordinator)(nil)
	_ Crew    = (*coordinator.Coordinator)(nil)
	_ Plans   = (*coordinator.Coordinator)(nil)
)
