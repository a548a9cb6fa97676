// Package work makes the prompt of a task of a plan, and the opening of the
// conversation in which a plan is made.
//
// It owns the template that Ralph brings, what a template of the user's can name,
// and the bounds of what goes in. Text of plans, checks and files stands in fences
// that it cannot close. It refuses a template that names what there is not, also
// where a run would not come by.
//
//	f := work.Of(p, task, check)
//	text, err := work.Render(f, "")
package work

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// How much of what a plan, a check or a file says goes into the prompt of a
// task, in bytes; what is longer is cut at a line, and the prompt says so.
const (
	maxDescription = 48 << 10
	maxOutput      = 12 << 10
	maxRemembered  = 4 << 10
	maxResult      = 1 << 10
	maxGuidance    = 8 << 10
	maxWork        = 1 << 20 // the whole prompt of a task
	maxListed      = 60      // dependencies, files, gates
)

// Promise is the line by which the agent of another program declares that its
// task is complete.
const Promise = "<promise>COMPLETE</promise>"

// Facts is what the prompt of a task of a plan is made of, and what a custom
// template can name. Variables documents them.
type Facts struct {
	Task  Task
	Plan  Plan
	Phase string // of the plan, in words; "" for none

	Iteration int // of the run, from 1; 0 in a preview
	Attempt   int // at this task, from 1
	Attempts  int // the most that there will be; 0: not told

	// LastChecks are the checks that the last attempt failed, LastProblem is what
	// else it failed by, and LastAnswer is what its agent said at its end.
	LastChecks  []Check
	LastProblem string
	LastAnswer  string

	Dependencies []Dependency // merged already
	Checks       []string     // commands that Ralph runs afterwards
	Gates        []Gate
	Guidance     []string // what the user said during this run, oldest first
	Progress     string   // of RALPH_PROGRESS.md, the newest of it
	Learned      string   // of AGENT.md, the newest of it

	// External says that the agent is another program, which has no finish tool
	// and declares the end by the line Promise.
	External bool
	Promise  string // filled in by Render
	OwnTree  bool   // Ralph commits and merges what is changed
}

// Task is the task of a Facts.
type Task struct {
	ID, Title, Description string
	Criteria               []Criterion
	Kind, Phase, Epic      string
	Labels                 []string
	Priority               int
	Check                  string   // the command that proves it, "" for none
	Files                  []string // that it should stay in
	Inputs, Outputs        []string // files that it reads and makes
	Metrics                []string // by which its success is seen
	Notes                  string
	System, Prompt         string // what the plan itself says to the agent
	Fallback               string // what to do when it cannot be done, in words
}

// Check is a check that failed. What is in the middle of a long output is
// missing: then Output is its beginning and Rest its end.
type Check struct {
	Command      string
	ExitCode     int
	TimedOut     bool
	Output, Rest string
	Bytes        int64 // of the whole output
	// LeftOut names what the check did not see because no commit holds it.
	LeftOut []string
}

// Criterion is one acceptance criterion.
type Criterion struct {
	Text string
	Done bool
}

// Plan is the plan of a Facts.
type Plan struct {
	Name, Description, Branch string
	Tracker, Path             string
	Done, Total               int // tasks
}

// Dependency is a task that the work builds on.
type Dependency struct {
	ID, Title, Result, Commit string
	Files                     []string // that it changed
}

// Gate is a quality gate of the plan.
type Gate struct{ Name, Condition, Check string }

// Render renders what the agent of a task is told. custom is the path of the
// user's own template, "" for the one that Ralph brings; it is read anew each
// time. A file that is missing or no text, and a template that does not parse or
// names an unknown variable, are a *TemplateError.
func Render(w Facts, custom string) (string, error) {
	t, err := workTemplate(custom)
	if err != nil {
		return "", err
	}
	out := limited{most: maxWork}
	if err := t.Execute(&out, w.bounded()); err != nil {
		return "", templateError(custom, err)
	}
	text := strings.TrimSpace(out.text.String())
	if text == "" {
		return "", &TemplateError{Path: custom, Text: "it renders nothing", Hint: "say what is to be done, such as {{.Task.Title}}"}
	}
	return text, nil
}

// CheckTemplate says what Render would find wrong with a custom template, before
// anything runs.
func CheckTemplate(custom string) error {
	_, err := workTemplate(custom)
	return err
}

// bounded is w with texts that fit, and are valid UTF-8.
func (w Facts) bounded() Facts {
	w.Promise = Promise
	w.Attempt = max(w.Attempt, 1)
	t := &w.Task
	t.Title = oneLine(t.Title)
	t.Description, t.Prompt, t.System = cut(t.Description, maxDescription), cut(t.Prompt, maxDescription), cut(t.System, maxDescription)
	t.Notes, t.Fallback = cut(t.Notes, maxGuidance), cut(t.Fallback, maxResult)
	criteria := make([]Criterion, 0, len(t.Criteria))
	for _, c := range t.Criteria {
		criteria = append(criteria, Criterion{Text: oneLine(c.Text), Done: c.Done})
	}
	t.Criteria = criteria
	t.Files, t.Inputs, t.Outputs, t.Metrics = lines(t.Files), lines(t.Inputs), lines(t.Outputs), lines(t.Metrics)
	w.Plan.Description = cut(w.Plan.Description, maxRemembered)
	w.Plan.Name = oneLine(w.Plan.Name)
	w.LastProblem, w.LastAnswer = middle(w.LastProblem, maxOutput), cut(w.LastAnswer, maxRemembered)
	checks := make([]Check, 0, len(w.LastChecks))
	for _, c := range w.LastChecks {
		checks = append(checks, c.bounded())
	}
	w.LastChecks = checks
	deps := make([]Dependency, 0, len(w.Dependencies))
	for _, d := range w.Dependencies[:min(len(w.Dependencies), maxListed)] {
		d.Title, d.Result, d.Files = oneLine(d.Title), cut(d.Result, maxResult), lines(d.Files)
		deps = append(deps, d)
	}
	w.Dependencies = deps
	guidance := make([]string, 0, len(w.Guidance))
	for _, g := range w.Guidance {
		guidance = append(guidance, cut(g, maxGuidance))
	}
	w.Guidance = guidance
	w.Gates = w.Gates[:min(len(w.Gates), maxListed)]
	w.Progress, w.Learned = cut(w.Progress, maxRemembered), cut(w.Learned, maxRemembered)
	return w
}

// bounded shows the beginning and the end of a long output.
func (c Check) bounded() Check {
	if c.Bytes == 0 {
		c.Bytes = int64(len(c.Output) + len(c.Rest))
	}
	whole := strings.ToValidUTF8(c.Output, "\ufffd")
	rest := strings.ToValidUTF8(c.Rest, "\ufffd")
	if len(whole)+len(rest) > maxOutput {
		end := rest
		if end == "" {
			end = whole
		}
		c.Output, c.Rest = head(whole, maxOutput/3), tail(end, maxOutput*2/3)
		return c
	}
	c.Output, c.Rest = whole, rest
	return c
}

// lines makes each text one line, and the list at most maxListed long.
func lines(list []string) []string {
	out := make([]string, 0, min(len(list), maxListed))
	for _, s := range list[:min(len(list), maxListed)] {
		out = append(out, oneLine(s))
	}
	return out
}

// oneLine makes text a single line: a title cannot begin a section of its own.
func oneLine(s string) string {
	if len(s) > maxResult {
		s = head(strings.ReplaceAll(s, "\n", " "), maxResult) + "…"
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}

// cut is the beginning of a text, with a word about the rest.
func cut(s string, most int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\ufffd"))
	if len(s) <= most {
		return s
	}
	return strings.TrimRight(head(s, most), "\n") + fmt.Sprintf("\n(cut off here: it has %d bytes)", len(s))
}

// middle is the beginning and the end of a text: what a command says last
// matters most.
func middle(s string, most int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\ufffd"))
	if len(s) <= most {
		return s
	}
	return strings.TrimRight(head(s, most/3), "\n") + fmt.Sprintf("\n(… of %d bytes, the middle is left out …)\n", len(s)) + tail(s, most*2/3)
}

// head is the first most bytes of valid UTF-8, cut at a line where there is one.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	s = s[:most]
	if i := strings.LastIndexByte(s, '\n'); i > 0 {
		return s[:i+1]
	}
	return s
}

// tail is the last most bytes of valid UTF-8, begun at a line where there is one.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	s = s[from:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		return s[i+1:]
	}
	return s
}
