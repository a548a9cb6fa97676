package coordinator

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

	"ralph/coordinator/loop"
	"ralph/coordinator/policy"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/tools"
)

// errNobody ends a run that needed an answer which nobody could give.
var errNobody = errors.New("nobody is there to answer")

// errOnAskFail ends a run at the first permission that was asked for, as
// --on-ask fail wants it.
var errOnAskFail = errors.New("a permission was needed and --on-ask is fail")

// The answers to a permission question, the safe one first.
const (
	answerNo     = "no"
	answerYes    = "yes"
	answerAlways = "always"
)

// The values of --on-ask.
const (
	onAskAsk  = "ask"
	onAskDeny = "deny"
	onAskFail = "fail"
)

// gate answers what a tool call may do, by the rules first and the human
// second. It lives as long as the coordinator, so that a standing yes holds for
// the session.
type gate struct {
	policy *policy.Policy
	onAsk  string
	ask    func(context.Context, Question) (string, error)
	emit   func(agent.Event)
	now    func() time.Time
	// taken is told of a question that was taken back before the human answered; nil
	// tells nobody.
	taken func()
	// asking is held by the one question that is before the human.
	asking chan struct{}

	// mu guards what follows; it is not held while a human thinks.
	mu sync.Mutex
	// consents are the standing yeses of this session: to what a policy names,
	// and to the exact text of a check.
	consents map[string]bool
	// unanswered counts permissions that nobody could give since the last reset.
	unanswered int
	// leaving are the commands that may run once outside the sandbox, with a yes,
	// although they did not ask for it.
	leaving map[string]int
	// halt ends the run when it is set.
	halt error
	// question is the question that nobody could answer.
	question string
	// open is the question that is before the human; it is not changed.
	open *loop.Question
}

func newGate(p *policy.Policy, onAsk string, ask func(context.Context, Question) (string, error), emit func(agent.Event), now func() time.Time) *gate {
	return &gate{policy: p, onAsk: onAsk, ask: ask, emit: emit, now: now, consents: map[string]bool{}, leaving: map[string]int{}, asking: make(chan struct{}, 1)}
}

// asker is an agent that asks for permissions.
type asker struct {
	name string
	root string // of its tree
	// resolve follows the symlinks of a path of its tree; nil takes paths as they
	// are.
	resolve func(string) (string, error)
	// guarded says why a path of its tree always asks before it is written, with the class
	// of names that act, and whether there is something; nil knows of none.
	guarded func(string) (why, class string, exists bool)
}

// reset forgets what concerned the last run; standing consents stay.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unanswered, g.halt, g.question = 0, nil, ""
}

// missed reports what nobody could answer in this run: how many permissions,
// and the question of the model.
func (g *gate) missed() (permissions int, question string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unanswered, g.question
}

// halted is the loop's Halt.
func (g *gate) halted() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.halt
}

// permit is the loop's Permit.
func (g *gate) permit(ctx context.Context, who asker, t agent.Tool, c agent.Call) agent.Verdict {
	req := request(t, c)
	if who.resolve != nil && req.Path != "" && !req.Network {
		if real, err := who.resolve(req.Path); err == nil {
			req.Path = real // what is decided on, and shown, is the target
		}
	}
	if who.guarded != nil && req.Writes && req.Path != "" {
		req.Guarded, req.Acts, req.Exists = who.guarded(req.Path)
	}
	d := g.policy.Decide(req)
	switch {
	case d.Effect == policy.Allow:
		return agent.Verdict{}
	case d.Effect == policy.Deny:
		g.emit(agent.Event{Type: agent.EventPermission, Agent: who.name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule, Status: "denied"})
		return agent.Verdict{Denied: d.Rule, Text: fmt.Sprintf("denied by the rule: %s. Find another way or say what you cannot do.", d.Rule)}
	}
	return g.put(ctx, who, req, c, d)
}

// permitCommand is permit for a command that an agent has Ralph run in its tree,
// inside the sandbox.
func (g *gate) permitCommand(ctx context.Context, who asker, command string) agent.Verdict {
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return agent.Verdict{Denied: "not a command", Text: err.Error()}
	}
	return g.permit(ctx, who, agent.Tool{Name: "shell"}, agent.Call{Name: "shell", Args: string(args)})
}

// put asks the human about one call.
func (g *gate) put(ctx context.Context, who asker, req policy.Request, c agent.Call, d policy.Decision) agent.Verdict {
	if g.consented(d.Consent) {
		return agent.Verdict{}
	}
	refuse := func(rule, text string) agent.Verdict {
		g.emit(agent.Event{Type: agent.EventPermission, Agent: who.name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: rule, Status: "denied"})
		return agent.Verdict{Denied: rule, Text: text}
	}
	switch {
	case g.onAsk == onAskDeny:
		return refuse(d.Rule, "denied: "+d.Rule+", and --on-ask deny answers for the user. Find another way or say what you cannot do.")
	case g.onAsk == onAskFail:
		g.fail(errOnAskFail)
		return refuse(d.Rule, "denied: "+d.Rule+", and --on-ask fail ends the run.")
	case g.ask == nil:
		g.mu.Lock()
		g.unanswered++
		g.mu.Unlock()
		return refuse(d.Rule, "denied: "+d.Rule+", and nobody is there to give the permission. Find another way or say what you cannot do.")
	}
	answer, err := g.human(ctx, d.Consent, agent.Event{Type: agent.EventPermission, Agent: who.name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule}, permissionQuestion(who, req, who.workdir(c), d))
	switch {
	case ctx.Err() != nil:
		return refuse("denied by stop", "denied by stop: "+context.Cause(ctx).Error())
	case err != nil:
		return refuse(d.Rule, "denied: the question could not be put to the user: "+err.Error())
	case answer == answerAlways && d.Consent != "":
		g.consent(d.Consent)
	case answer != answerYes:
		return refuse("denied by the user", "denied by the user. Ask what they want instead, or find another way.")
	}
	if d.Leaves {
		g.mu.Lock()
		g.leaving[req.Command]++
		g.mu.Unlock()
	}
	g.emit(agent.Event{Type: agent.EventPermission, Agent: who.name, CallID: c.ID, Tool: c.Name, Text: subject(req), Rule: d.Rule, Status: "allowed"})
	return agent.Verdict{}
}

// human puts a question to the human, one at a time, and tells by event that it
// was asked. Where a standing consent came in meanwhile the answer is yes. Once
// ctx has ended the error matches its cause.
func (g *gate) human(ctx context.Context, consent string, asked agent.Event, q Question) (string, error) {
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if g.consented(consent) {
		return answerYes, nil
	}
	asked.Status = "asked"
	g.before(&loop.Question{Kind: q.Kind, Agent: q.Agent, TaskID: asked.TaskID, Text: q.Text, Options: append([]string{}, q.Options...), Asked: g.now().UTC()})
	g.emit(asked)
	answer, err := g.ask(ctx, q)
	g.before(nil)
	if err != nil && asked.Type == agent.EventAsk && g.taken != nil {
		g.taken()
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return answer, err
}

// before notes the question that the human has before them, nil for none.
func (g *gate) before(q *loop.Question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = q
}

// asks is the question that the human has before them, nil for none.
func (g *gate) asks() *loop.Question {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// mayCheck asks for a check that the repository proposes and that would run where
// the text says, unless a rule denies it. A yes holds for the exact text. leftOut
// says why it may not run; the error is the cause of ctx.
func (g *gate) mayCheck(ctx context.Context, command, where string) (leftOut string, err error) {
	d := g.judges(command)
	switch {
	case d.Effect == policy.Deny:
		return d.Rule, nil
	case g.agreed(command):
		return "", nil
	case g.ask == nil || g.onAsk != onAskAsk:
		return "a check that comes from the repository needs a yes on a terminal, or --check", nil
	}
	e := agent.Event{Type: agent.EventPermission, Tool: "check", Text: command, Rule: "a check that the repository proposes always asks"}
	answer, err := g.human(ctx, "", e, Question{Kind: "check", Options: []string{answerNo, answerYes},
		Text: "The repository proposes a check, which would run " + where + ". May it run?\n" + command})
	switch {
	case ctx.Err() != nil:
		return "", err
	case err == nil && answer == answerYes:
		e.Status = "allowed"
		g.consent(checkConsent + command)
	default:
		e.Status, leftOut = "denied", "it was not approved"
	}
	g.emit(e)
	return leftOut, nil
}

// permissionQuestion shows what will run, all of it: where, and how long it is
// when its beginning may have scrolled away.
func permissionQuestion(who asker, req policy.Request, at string, d policy.Decision) Question {
	q := Question{Kind: "permission", Options: []string{answerNo, answerYes}, Agent: who.name, Tool: req.Tool, Rule: d.Rule, Target: subject(req), Outside: req.Outside || d.Leaves}
	if req.Runs {
		q.Dir = filepath.Join(who.root, filepath.FromSlash(at))
	}
	where := ""
	if at != "" && at != "." {
		where = " in " + strconv.Quote(at)
	}
	q.Text = fmt.Sprintf("%s. May %s run this%s?", d.Rule, req.Tool, where)
	switch d.Consent {
	case policy.ConsentDegraded:
		q.Options = append(q.Options, answerAlways)
		q.Text += " (always = all commands of this session)"
	case policy.ConsentUnsandboxed:
		q.Options = append(q.Options, answerAlways)
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

// askUser is the tool's way to the human. Where nobody is there the run ends with
// it, if ends says so; a child is only told.
func (g *gate) askUser(ctx context.Context, who string, ends bool, q tools.Question) (string, error) {
	if g.ask == nil {
		if ends {
			g.mu.Lock()
			g.halt, g.question = errNobody, q.Text
			g.mu.Unlock()
		}
		return "", tools.ErrNobody
	}
	answer, err := g.human(ctx, "", agent.Event{Type: agent.EventAsk, Agent: who, Text: q.Text}, Question{Kind: "question", Agent: who, Text: q.Text, Options: q.Options, Open: true})
	if err == nil {
		g.emit(agent.Event{Type: agent.EventAsk, Agent: who, Text: answer, Status: "answered"})
	}
	return answer, err
}

// judges returns what the rules say of a check.
func (g *gate) judges(command string) policy.Decision {
	return g.policy.Decide(policy.Request{Tool: "shell", Command: command, Runs: true})
}

// checkConsent begins the name of the consent to a check, which its text ends.
const checkConsent = "check "

// agreed reports whether the user agreed to a check that the repository proposes.
func (g *gate) agreed(command string) bool { return g.consented(checkConsent + command) }

func (g *gate) consented(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return name != "" && g.consents[name]
}

func (g *gate) consent(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.consents[name] = true
}

func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.halt = err
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
func (a asker) workdir(c agent.Call) string {
	var args struct {
		Workdir string `json:"workdir"`
	}
	_ = json.Unmarshal([]byte(c.Args), &args) // what does not decode is refused by the tool
	if a.resolve != nil && args.Workdir != "" {
		if real, err := a.resolve(args.Workdir); err == nil {
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

// allowed says what a command that was let through may do besides: the network,
// where a rule allows it, and leave the sandbox, when it asked for that or the
// user's yes was to something that can only be done outside.
func (g *gate) allowed(command string, outside bool) accesspolicy.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !outside && g.leaving[command] > 0 {
		g.leaving[command]--
		outside = true
	}
	d := g.decide(command)
	return accesspolicy.Call{Network: d.Network, Acts: d.Acts, Outside: outside}
}

// network says whether a rule allows a command the network.
func (g *gate) network(command string) bool { return g.decide(command).Network }

func (g *gate) decide(command string) policy.Decision {
	return g.policy.Decide(policy.Request{Tool: "shell", Command: command, Runs: true})
}
