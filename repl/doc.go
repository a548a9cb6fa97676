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
	"ralph/coordinator/desk"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/plan"
	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/interrupts"
	"ralph/memory/exchange"
	"ralph/memory/markdown"
	"ralph/memory/project"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// ErrNobody is what a question gets when the input has ended.
var ErrNobody = errors.New("nobody is there to answer")

// Turns is the part of a coordinator that works. Run is never called twice at a
// time; Stop may be called at any time and must not wait.
type Turns interface {
	Run(ctx context.Context, j coordinator.Job) result.Outcome
	Stop(cause *interrupts.Stop)
	Clear() error
	// Ends notes, before Close, how the conversation ends: "ended by SIGTERM".
	Ends(how string)
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
	Undo(ctx context.Context, n int, tell func(notes []string)) (coordinator.Undone, error)
	Redo(ctx context.Context, n int, tell func(notes []string)) (coordinator.Undone, error)
	Diff(ctx context.Context) (string, error)
}

// About is the part that says where we are.
type About interface {
	Project() project.Project
	SessionID() string
	// Standing says in short lines how things stand at the start: how commands run,
	// which conversation goes on, what was cut off; one that begins with "note: " is
	// a warning, one with "aside: " matters less. It is called once, right after Open, and may read files.
	Standing() []string
}

// Past is the hand on the project's sessions, of which none needs to be open. The
// chat calls one method at a time, not on its loop.
type Past interface {
	// List returns the sessions by number.
	List(ctx context.Context, all bool) ([]retention.Row, error)
	// Show finds one by its number, its name or a unique beginning of either.
	Show(which string) (retention.Row, exchange.Details, error)
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

// Hands is the part that does what the human does by themself: no work of the
// model. Its methods may be called at any time and from any goroutine, also while a
// turn runs; a stop ends Shell and Check.
type Hands interface {
	// Shell runs a command line of the user's own, without a sandbox and without a
	// question, and tells the model with the next request what came of it. write gets
	// what it prints as it comes, on another goroutine, one call at a time; it must
	// not block. A command that fails is no error.
	Shell(ctx context.Context, command string, write func(p []byte)) (desk.UserCommand, error)
	// Files are the paths below the root, with slashes, sorted, without those that are
	// ignored; more says that there are others.
	Files(ctx context.Context) (paths []string, more bool, err error)
	// Check runs one command, or with "" those that check the project.
	Check(ctx context.Context, command string) (desk.CheckReport, error)
	// Settings are all settings with their values, without secrets, and origins.
	Settings() []desk.Setting
	// HandOff gives the session to what the session from knows; "" is the session of
	// this coordinator. Nothing may run meanwhile.
	HandOff(ctx context.Context, from, to string) (exchange.Handed, error)
}

// Mind is a coordinator as the chat sees it. All are usually one value; none but
// Crew, which says that there are never any children, Trees, Plans and Hands may be
// nil.
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
	Hands   Hands
}

// Link is what the chat gives to the coordinator that Open makes.
type Link struct {
	// Ask puts a question to the human and waits for the answer, which is one
	// of the question's options when it has any. It returns the cause of ctx
	// when that ends first, and ErrNobody when the input has ended. It may be
	// called by several goroutines.
	Ask func(context.Context, permission.Question) (string, error)
	// Eyes shows an event. Calls come one at a time; it does not wait for the
	// terminal.
	Eyes func(agent.Event)
	// Session is the id of the session that the user picked, "new" for another one,
	// and empty for what the user asked for at the start.
	Session string
}

// Options is what Run needs. The chat handles SIGINT, SIGTERM and SIGHUP
// itself: ctx must not end at a SIGINT.
type Options struct {
	// In, Out and Err are the standard streams. The conversation goes to Out;
	// Err gets what is said after the terminal was given back.
	In, Out, Err *os.File
	// Open makes the coordinator, on another goroutine; its ctx ends at a Ctrl-C or a
	// signal. Run closes the coordinator. It is called again, after that, when the
	// user goes on with another session.
	Open func(context.Context, Link) (Mind, error)
	// Past knows the project's sessions; nil knows none.
	Past Past
	// Choose has the user pick from them before Open.
	Choose bool
	// History is the path of the project's history file; "" keeps none.
	History string
	// Draft is how the paths of the files begin that keep half-typed lines; ""
	// keeps none.
	Draft  string
	Getenv func(string) string
	// Theme is the setting of that name: auto, dark, light or none.
	Theme string
	// Plain asks for whole lines and no cursor movement.
	Plain bool
	// EditMode is the setting of that name: emacs or vi.
	EditMode string
	// Notify is the setting of that name: auto, bell or off.
	Notify string
	// Script, when set, is played in place of In and Out.
	Script *Script
	// Opening is a first task that the shell gives by itself, once it has greeted.
	Opening string
	// First is a line that is acted on as if it were typed, once the shell has greeted.
	First string
	// Version is shown in the greeting.
	Version string

	notifyAfter time.Duration // how long work runs before its end is told; 0 means longWork
	pulseFirst  time.Duration // when a plain terminal is told first that work goes on; 0 means firstWordGap
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
	_ Hands   = (*coordinator.Coordinator)(nil)
	_ Past    = (*sessions.Sessions)(nil)
)
