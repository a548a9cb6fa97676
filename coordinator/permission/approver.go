// Package permission decides what the tools of agents may do: the rules first, then the human, one
// question at a time. A consent of the human holds for the session. It shows nothing: an Approver
// emits an event for each question, answer and refusal, and its Options put the question.
package permission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/policy"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/tools"
)

// ErrNobody ends a run that needed an answer which nobody could give.
var ErrNobody = errors.New("nobody is there to answer")

// ErrOnAskFail ends a run at the first permission that was asked for, as
// --on-ask fail wants it.
var ErrOnAskFail = errors.New("a permission was needed and --on-ask is fail")

// The answers to a permission question, the safe one first.
const (
	No     = "no"
	Yes    = "yes"
	Always = "always"
)

// The values of --on-ask.
const (
	onAskAsk  = "ask"
	onAskDeny = "deny"
	onAskFail = "fail"
)

// Options is what an Approver is made of.
type Options struct {
	Rules *policy.Policy
	OnAsk string // --on-ask: "ask", "deny" or "fail"
	// Ask puts a question to the human and waits; nil means nobody is there.
	Ask func(context.Context, Question) (string, error)
	// Emit takes an event for each question, answer and refusal.
	Emit func(agent.Event)
	// Withdrawn is called when a question is taken back before the human answers; nil is not.
	Withdrawn func()
	Now       func() time.Time
}

// Approver decides what a tool call may do, by the rules first and the human second. It lives as
// long as the project is open, so that a consent holds for the session. It is safe for concurrent
// use.
type Approver struct {
	o      Options
	asking chan struct{} // held by the one question that is before the human

	// mu guards what follows; it is not held while a human thinks.
	mu sync.Mutex
	// consents are those of this session: to what a policy names, and to the exact text of a check.
	consents map[string]bool
	// unanswered counts permissions that nobody could give since the last Reset.
	unanswered int
	// leaving counts the runs outside the sandbox that the human allowed to commands which did not
	// ask for it, by command.
	leaving map[string]int
	// halt ends the run when it is set.
	halt error
	// question is the one that nobody could answer.
	question string
	// open is the question that is before the human; it is not changed.
	open *Question
}

// New returns an Approver.
func New(o Options) *Approver {
	return &Approver{o: o, consents: map[string]bool{}, leaving: map[string]int{}, asking: make(chan struct{}, 1)}
}

// Requester is an agent that asks for permissions.
type Requester struct {
	Name string
	Root string // of its tree
	// Resolve follows the symlinks of a path of its tree; nil takes paths as they are.
	Resolve func(string) (string, error)
	// Guarded returns why a path of its tree always asks before it is written, with the class
	// of names that act, and whether there is something; nil knows of none.
	Guarded func(string) (why, class string, exists bool)
}

// Reset forgets what concerned the last run; consents stay.
func (a *Approver) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unanswered, a.halt, a.question = 0, nil, ""
}

// Missed reports what nobody could answer in this run: how many permissions,
// and the question of the model.
func (a *Approver) Missed() (permissions int, question string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unanswered, a.question
}

// Halted returns what ends the run, nil for nothing.
func (a *Approver) Halted() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.halt
}

// Permit decides a call of a tool.
func (a *Approver) Permit(ctx context.Context, who Requester, t agent.Tool, c agent.Call) agent.Verdict {
	req := request(t, c)
	if who.Resolve != nil && req.Path != "" && !req.Network {
		if real, err := who.Resolve(req.Path); err == nil {
			req.Path = real // what is decided on, and shown, is the target
		}
	}
	if who.Guarded != nil && req.Writes && req.Path != "" {
		req.Guarded, req.Acts, req.Exists = who.Guarded(req.Path)
	}
	d := a.Decide(req)
	switch {
	case d.Effect == policy.Allow:
		return agent.Verdict{}
	case d.Effect == policy.Deny:
		a.o.Emit(agent.Event{Type: agent.EventPermission, Agent: who.Name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule, Status: "denied"})
		return agent.Verdict{Denied: d.Rule, Text: fmt.Sprintf("denied by the rule: %s. Find another way or say what you cannot do.", d.Rule)}
	}
	return a.put(ctx, who, req, c, d)
}

// PermitCommand is Permit for a command that an agent has Ralph run in its tree,
// inside the sandbox.
func (a *Approver) PermitCommand(ctx context.Context, who Requester, command string) agent.Verdict {
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return agent.Verdict{Denied: "not a command", Text: err.Error()}
	}
	return a.Permit(ctx, who, agent.Tool{Name: "shell"}, agent.Call{Name: "shell", Args: string(args)})
}

// put asks the human about one call.
func (a *Approver) put(ctx context.Context, who Requester, req policy.Request, c agent.Call, d policy.Decision) agent.Verdict {
	if a.consented(d.Consent) {
		return agent.Verdict{}
	}
	refuse := func(rule, text string) agent.Verdict {
		a.o.Emit(agent.Event{Type: agent.EventPermission, Agent: who.Name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: rule, Status: "denied"})
		return agent.Verdict{Denied: rule, Text: text}
	}
	switch {
	case a.o.OnAsk == onAskDeny:
		return refuse(d.Rule, "denied: "+d.Rule+", and --on-ask deny answers for the user. Find another way or say what you cannot do.")
	case a.o.OnAsk == onAskFail:
		a.fail(ErrOnAskFail)
		return refuse(d.Rule, "denied: "+d.Rule+", and --on-ask fail ends the run.")
	case a.o.Ask == nil:
		a.mu.Lock()
		a.unanswered++
		a.mu.Unlock()
		return refuse(d.Rule, "denied: "+d.Rule+", and nobody is there to give the permission. Find another way or say what you cannot do.")
	}
	answer, err := a.Ask(ctx, d.Consent, agent.Event{Type: agent.EventPermission, Agent: who.Name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule}, permissionQuestion(who, req, who.workdir(c), d))
	switch {
	case ctx.Err() != nil:
		return refuse("denied by stop", "denied by stop: "+context.Cause(ctx).Error())
	case err != nil:
		return refuse(d.Rule, "denied: the question could not be put to the user: "+err.Error())
	case answer == Always && d.Consent != "":
		a.consent(d.Consent)
	case answer != Yes:
		return refuse("denied by the user", "denied by the user. Ask what they want instead, or find another way.")
	}
	if d.Leaves {
		a.mu.Lock()
		a.leaving[req.Command]++
		a.mu.Unlock()
	}
	a.o.Emit(agent.Event{Type: agent.EventPermission, Agent: who.Name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule, Status: "allowed"})
	return agent.Verdict{}
}

// Ask puts a question to the human, one at a time, after the event asked. Where a consent came in
// meanwhile the answer is Yes. Once ctx has ended the error matches its cause.
func (a *Approver) Ask(ctx context.Context, consent string, asked agent.Event, q Question) (string, error) {
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if a.consented(consent) {
		return Yes, nil
	}
	asked.Status = "asked"
	q.TaskID, q.Options, q.Asked = asked.TaskID, append([]string{}, q.Options...), a.o.Now().UTC()
	a.before(&q)
	a.o.Emit(asked)
	answer, err := a.o.Ask(ctx, q)
	a.before(nil)
	if err != nil && asked.Type == agent.EventAsk && a.o.Withdrawn != nil {
		a.o.Withdrawn()
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return answer, err
}

// before notes the question that is before the human, nil for none.
func (a *Approver) before(q *Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = q
}

// Open returns the question that is before the human, nil for none.
func (a *Approver) Open() *Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// PermitCheck asks for a check that the repository proposes and that would run where
// the text says, unless a rule denies it. A yes holds for the exact text. leftOut
// says why it may not run; the error is the cause of ctx.
func (a *Approver) PermitCheck(ctx context.Context, command, where string) (leftOut string, err error) {
	d := a.DecideCommand(command)
	switch {
	case d.Effect == policy.Deny:
		return d.Rule, nil
	case a.Agreed(command):
		return "", nil
	case a.o.Ask == nil || a.o.OnAsk != onAskAsk:
		return "a check that comes from the repository needs a yes on a terminal, or --check", nil
	}
	e := agent.Event{Type: agent.EventPermission, Tool: "check", Text: command, Rule: "a check that the repository proposes always asks"}
	answer, err := a.Ask(ctx, "", e, Question{Kind: "check", Options: []string{No, Yes},
		Text: "The repository proposes a check, which would run " + where + ". May it run?\n" + command})
	switch {
	case ctx.Err() != nil:
		return "", err
	case err == nil && answer == Yes:
		e.Status = "allowed"
		a.consent(checkConsent + command)
	default:
		e.Status, leftOut = "denied", "it was not approved"
	}
	a.o.Emit(e)
	return leftOut, nil
}

// permissionQuestion shows what will run, all of it: where, and how long it is
// when its beginning may have scrolled away.
func permissionQuestion(who Requester, req policy.Request, at string, d policy.Decision) Question {
	q := Question{Kind: "permission", Options: []string{No, Yes}, Agent: who.Name, Tool: req.Tool, Rule: d.Rule, Target: subject(req), Outside: req.Outside || d.Leaves}
	if req.Runs {
		q.Dir = filepath.Join(who.Root, filepath.FromSlash(at))
	}
	where := ""
	if at != "" && at != "." {
		where = " in " + strconv.Quote(at)
	}
	q.Text = fmt.Sprintf("%s. May %s run this%s?", d.Rule, req.Tool, where)
	switch d.Consent {
	case policy.ConsentDegraded:
		q.Options = append(q.Options, Always)
		q.Text += " (always = all commands of this session)"
	case policy.ConsentUnsandboxed:
		q.Options = append(q.Options, Always)
		q.Text = fmt.Sprintf("Commands run unsandboxed: with your rights, in your files. May %s run this%s? (always = all commands of this session)", req.Tool, where)
	}
	what := subject(req)
	if lines := 1 + strings.Count(what, "\n"); lines > manyLines || len(what) > manyBytes {
		q.Text += fmt.Sprintf("\n(%d lines, %d bytes, to the mark at the end)\n%s\n(end of the %d lines)", lines, len(what), what, lines)
		return q
	}
	q.Text += "\n" + what
	return q
}

// What is longer than this may have scrolled off a small terminal.
const (
	manyLines = 15
	manyBytes = 1500
)

// AskUser puts a question of a model to the human. Where nobody is there the error is
// tools.ErrNobody, and the run ends if ends is set.
func (a *Approver) AskUser(ctx context.Context, who string, ends bool, q tools.Question) (string, error) {
	if a.o.Ask == nil {
		if ends {
			a.mu.Lock()
			a.halt, a.question = ErrNobody, q.Text
			a.mu.Unlock()
		}
		return "", tools.ErrNobody
	}
	answer, err := a.Ask(ctx, "", agent.Event{Type: agent.EventAsk, Agent: who, Text: q.Text}, Question{Kind: "question", Agent: who, Text: q.Text, Options: q.Options, Open: true})
	if err == nil {
		a.o.Emit(agent.Event{Type: agent.EventAsk, Agent: who, Text: answer, Status: "answered"})
	}
	return answer, err
}

// checkConsent begins the name of the consent to a check, which its text ends.
const checkConsent = "check "

// Agreed reports whether the user agreed to a check that the repository proposes.
func (a *Approver) Agreed(command string) bool { return a.consented(checkConsent + command) }

func (a *Approver) consented(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return name != "" && a.consents[name]
}

func (a *Approver) consent(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.consents[name] = true
}

func (a *Approver) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halt = err
}

// request describes a call, whose arguments are in the tool's canonical form, to
// the policy. A shell call is one that runs something unless it says that it
// only looks after a job.
func request(t agent.Tool, c agent.Call) policy.Request {
	var a struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		URL     string `json:"url"`
		Action  string `json:"action"`
		Outside bool   `json:"outside"`
	}
	_ = json.Unmarshal([]byte(c.Args), &a) // what does not decode is empty
	r := policy.Request{Tool: t.Name, Path: a.Path}
	switch t.Name {
	case "shell":
		r.Command, r.Runs, r.Outside = a.Command, a.Action == "", a.Outside
	case "fetch":
		r.Network, r.Path = true, a.URL
	case "git":
		r.Writes, r.Path = a.Action == "commit", ""
	case "write", "edit":
		r.Writes = true
	}
	return r
}

// workdir is where a shell call runs, relative to the root and without symbolic
// links; "" for the root.
func (r Requester) workdir(c agent.Call) string {
	var args struct {
		Workdir string `json:"workdir"`
	}
	_ = json.Unmarshal([]byte(c.Args), &args) // what does not decode is refused by the tool
	if r.Resolve != nil && args.Workdir != "" {
		if real, err := r.Resolve(args.Workdir); err == nil {
			return real
		}
	}
	return args.Workdir
}

// subject is what a permission is about: the exact command or the target.
func subject(r policy.Request) string {
	switch {
	case r.Command != "":
		return strings.TrimSpace(r.Command)
	case r.Path != "":
		return r.Path
	}
	return r.Tool
}

// Allowed returns what a command that was let through may do besides: the network,
// where a rule allows it, and leave the sandbox, when it asked for that or the
// user's yes was to something that can only be done outside.
func (a *Approver) Allowed(command string, outside bool) accesspolicy.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !outside && a.leaving[command] > 0 {
		a.leaving[command]--
		outside = true
	}
	d := a.DecideCommand(command)
	return accesspolicy.Call{Network: d.Network, Acts: d.Acts, Outside: outside}
}

// Network reports whether a rule allows a command the network.
func (a *Approver) Network(command string) bool { return a.DecideCommand(command).Network }

// Decide returns what the rules say of a request.
func (a *Approver) Decide(r policy.Request) policy.Decision { return a.o.Rules.Decide(r) }

// DecideCommand is Decide for a command inside the sandbox.
func (a *Approver) DecideCommand(command string) policy.Decision {
	return a.Decide(policy.Request{Tool: "shell", Command: command, Runs: true})
}
