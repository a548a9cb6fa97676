// Package policy decides what a tool call may do: rules written as
// expressions, the standing list of what always asks, and what the sandbox
// setting means for a call.
//
// It is pure: it reads no file, asks nobody and runs nothing. It answers Allow,
// Deny or Ask; the coordinator acts on the answer. Whatever it cannot read
// exactly (a shell command that is not literal, a rule that breaks while it
// runs) is decided against the call.
//
//	p, err := policy.Compile(policy.Rules{Deny: []string{`tool == "shell" && argv[0] == "curl"`}, Sandbox: policy.SandboxOff})
//	d := p.Decide(policy.Request{Tool: "shell", Command: "curl example.com"})
//	// d.Effect == policy.Deny, d.Rule names the rule
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"ralph/workers/exec/acts"
)

// maxRuleBytes caps the source of one rule: deep nesting in an expression can
// exhaust the stack of its parser.
const maxRuleBytes = 4 << 10

// Effect is the answer to a request.
type Effect int

// The answers, the cautious one first.
const (
	Deny Effect = iota
	Ask
	Allow
)

// Sandbox is the setting of --sandbox.
type Sandbox string

// The sandbox settings.
const (
	SandboxWorkspace Sandbox = "workspace"
	SandboxReadOnly  Sandbox = "read-only"
	SandboxOff       Sandbox = "off"
)

// Rules is what a Policy is compiled from.
type Rules struct {
	Allow   []string
	Deny    []string
	Sandbox Sandbox
	// Confined says that the kernel really confines commands, by every layer;
	// without it, commands ask unless the sandbox is off.
	Confined bool
	// Missing are the layers that do not hold where others do. Empty, and not
	// Confined, means that none does.
	Missing []string
}

// Request describes one tool call.
type Request struct {
	Tool    string
	Command string // what a shell would read; empty for other tools
	Path    string // what a file tool touches, relative to the root
	Network bool   // it leaves the machine
	Writes  bool   // it changes files of the project
	Runs    bool   // it runs a program that the model chose
	Outside bool   // it is to run outside the sandbox
	// Guarded says why Path is not to be written without a yes; see
	// accesspolicy.Sandbox.Guarded. Acts is the class that it gives.
	Guarded, Acts string
	// Exists says that something is at Path.
	Exists bool
}

// acts returns the class of names that act for rules: git and hooks are theirs only where
// there is a file already.
func (r Request) acts() string {
	if r.Opening() == "" {
		return ""
	}
	return r.Acts
}

// Opening returns the rule that allows the request for what it acts as, "" where none does.
func (r Request) Opening() string { return acts.Opening(r.Acts, r.Exists) }

// Decision is the answer with what led to it.
type Decision struct {
	Effect Effect
	// Rule is the rule or the standing reason, as a person should read it.
	Rule string
	// Consent names a standing yes that would answer this and all like it:
	// ConsentUnsandboxed, ConsentDegraded or "".
	Consent string
	// Network says that an allow rule gives the command the host's network.
	Network bool
	// Acts are the classes of names that act which an allow rule lets the command write.
	Acts []string
	// Leaves says that the command can do its work only outside the sandbox, as a
	// push can: a yes of the human means that it runs there, and must say so.
	Leaves bool
}

// The standing consents.
const (
	// ConsentUnsandboxed is the yes to running commands without a sandbox.
	ConsentUnsandboxed = "unsandboxed"
	// ConsentDegraded is the yes to running them in one that lacks layers.
	ConsentDegraded = "degraded sandbox"
)

// facts is what a rule sees.
type facts struct {
	Tool    string   `expr:"tool"`
	Command string   `expr:"command"`
	Argv    []string `expr:"argv"`
	Path    string   `expr:"path"`
	Network bool     `expr:"network"`
	Acts    string   `expr:"acts"`
	Outside bool     `expr:"outside"`
}

type rule struct {
	source  string
	program *vm.Program
}

// RuleError says which rule does not compile and where.
type RuleError struct {
	Rule string
	Err  error
}

// Error names the rule and the compiler's complaint.
func (e *RuleError) Error() string { return fmt.Sprintf("compile rule %q: %v", e.Rule, e.Err) }

// Unwrap returns the compiler's error.
func (e *RuleError) Unwrap() error { return e.Err }

// Policy answers requests. It is safe for concurrent use.
type Policy struct {
	allow, deny []rule
	sandbox     Sandbox
	confined    bool
	missing     []string
}

// Compile type-checks the rules. The error is a *RuleError.
func Compile(r Rules) (*Policy, error) {
	p := &Policy{sandbox: r.Sandbox, confined: r.Confined, missing: r.Missing}
	var err error
	if p.allow, err = compile(r.Allow); err != nil {
		return nil, err
	}
	if p.deny, err = compile(r.Deny); err != nil {
		return nil, err
	}
	return p, nil
}

func compile(sources []string) ([]rule, error) {
	rules := make([]rule, 0, len(sources))
	for _, src := range sources {
		if len(src) > maxRuleBytes {
			return nil, &RuleError{Rule: src[:40] + "…", Err: fmt.Errorf("longer than %d bytes", maxRuleBytes)}
		}
		program, err := expr.Compile(src, expr.Env(facts{}), expr.AsBool())
		if err != nil {
			return nil, &RuleError{Rule: src, Err: err}
		}
		rules = append(rules, rule{source: src, program: program})
	}
	return rules, nil
}

// Decide answers a request: deny rules first, then allow rules, then the
// standing list of what always asks, then the sandbox setting.
func (p *Policy) Decide(r Request) Decision {
	r.Outside = r.Outside && r.Runs && p.sandbox != SandboxOff
	script := scan(r.Command)
	d := p.decide(r, script)
	if r.Runs && d.Effect != Deny {
		d.Network = p.networked(r, script)
		for _, class := range acts.Classes() {
			if p.opens(r, script, func(r *Request) { r.Acts, r.Exists = class, true }) {
				d.Acts = append(d.Acts, class)
			}
		}
	}
	return d
}

func (p *Policy) decide(r Request, script script) Decision {
	if d, ok := p.denied(r, script); ok {
		return d
	}
	if r.Runs && script.err != nil {
		return Decision{Effect: Deny, Rule: "the command is not valid shell: " + script.err.Error()}
	}
	if name, ok := p.allowed(r, script); ok {
		return Decision{Effect: Allow, Rule: name}
	}
	inside := p.confined && p.sandbox != SandboxOff && !r.Outside
	if why := script.risky(inside && !p.networked(r, script)); r.Runs && why != "" {
		return Decision{Effect: Ask, Rule: why + " always asks", Leaves: inside && strings.Contains(why, "push")}
	}
	if r.Outside {
		return Decision{Effect: Ask, Rule: "what runs outside the sandbox always asks"}
	}
	if r.Writes && r.Guarded != "" && p.sandbox != SandboxOff {
		d := Decision{Effect: Ask, Rule: r.Guarded + ", which always asks"}
		if rule := r.Opening(); rule != "" {
			d.Rule += "; " + rule
		}
		return d
	}
	return p.bySandbox(r)
}

func (p *Policy) bySandbox(r Request) Decision {
	switch {
	case r.Network:
		return Decision{Effect: Deny, Rule: "network is off; allow it with --allow 'network'"}
	case r.Writes && p.sandbox == SandboxReadOnly:
		return Decision{Effect: Deny, Rule: "--sandbox read-only"}
	case r.Runs && p.sandbox != SandboxOff && !p.confined && len(p.missing) > 0:
		return Decision{Effect: Ask, Rule: "the sandbox lacks " + strings.Join(p.missing, ", "), Consent: ConsentDegraded}
	case r.Runs && p.sandbox != SandboxOff && !p.confined:
		return Decision{Effect: Ask, Rule: "commands run unsandboxed", Consent: ConsentUnsandboxed}
	}
	return Decision{Effect: Allow}
}

// denied reports whether a deny rule covers the request: the whole command, or
// any simple command in it. A rule that breaks counts as covering, and so does
// a command that cannot be read when the rules look at commands at all.
func (p *Policy) denied(r Request, s script) (Decision, bool) {
	views := s.facts(r)
	for _, rl := range p.deny {
		for _, f := range views {
			ok, err := rl.holds(f)
			if err != nil {
				return Decision{Effect: Deny, Rule: fmt.Sprintf("deny rule %q broke: %v", rl.source, err)}, true
			}
			if ok {
				return Decision{Effect: Deny, Rule: rl.source}, true
			}
		}
	}
	for _, rl := range p.deny {
		if r.Runs && !s.literal && rl.looksAtCommand() {
			return Decision{Effect: Ask, Rule: fmt.Sprintf("the command is not literal, so deny rule %q cannot be ruled out", rl.source)}, true
		}
	}
	return Decision{}, false
}

// networked says that a rule gives the command the network.
func (p *Policy) networked(r Request, s script) bool {
	return p.opens(r, s, func(r *Request) { r.Network = true })
}

// opens says that a rule gives the command what set adds to its request: one that covers it
// with that and not without. A rule that looks at the command must cover
// each simple command of it, and nothing in it may be unreadable. A deny rule
// that would cover any of it with that takes it away again.
func (p *Policy) opens(r Request, s script, set func(*Request)) bool {
	if s.err != nil || len(p.allow) == 0 {
		return false
	}
	r.Network, r.Acts = false, ""
	without := s.parts(r)
	set(&r)
	with := s.parts(r)
	for i := range with {
		if !slices.ContainsFunc(p.allow, func(rl rule) bool {
			if rl.looksAtCommand() && !(s.literal && s.plain) {
				return false
			}
			on, err := rl.holds(with[i])
			off, err2 := rl.holds(without[i])
			return err == nil && err2 == nil && on && !off
		}) {
			return false
		}
	}
	_, denied := p.denied(r, s)
	return !denied
}

// allowed reports whether the allow rules cover all of the request: each simple
// command of it has a rule, and nothing in it is unreadable. What is to run
// outside the sandbox is only covered by rules that look at the command.
func (p *Policy) allowed(r Request, s script) (string, bool) {
	if len(p.allow) == 0 || (r.Runs && !(s.literal && s.plain)) {
		return "", false
	}
	name := ""
	for _, f := range s.parts(r) {
		covering := p.covering(f, r.Outside)
		if covering == "" {
			return "", false
		}
		name = covering
	}
	return name, name != ""
}

func (p *Policy) covering(f facts, outside bool) string {
	for _, rl := range p.allow {
		if outside && !rl.looksAtCommand() {
			continue
		}
		if ok, err := rl.holds(f); err == nil && ok {
			return rl.source
		}
	}
	return ""
}

func (r rule) holds(f facts) (bool, error) {
	out, err := expr.Run(r.program, f)
	if err != nil {
		return false, err
	}
	ok, _ := out.(bool) // AsBool made it one at compile time
	return ok, nil
}

// looksAtCommand reports whether the rule reads command or argv.
func (r rule) looksAtCommand() bool {
	return strings.Contains(r.source, "argv") || strings.Contains(r.source, "command")
}
