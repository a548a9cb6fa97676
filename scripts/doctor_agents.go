package scripts

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"ralph/workers/exec"
	"ralph/workers/external"
)

// askTime bounds the question to one agent: some of them retry in silence for
// minutes when their model cannot be reached.
const askTime = 60 * time.Second

// doctorAgent is what is known of one agent's command line.
type doctorAgent struct {
	Name      string `json:"name"`
	Installed bool   `json:"installed"`
	Path      string `json:"path"`
	Version   string `json:"version"`
	// Answering says that its model has answered a short question.
	Answering  bool    `json:"answering"`
	DurationMS int64   `json:"duration_ms"`
	Detail     string  `json:"detail"`
	Hint       *string `json:"hint"`
	// From is the entry of the user's configuration, "" for one that Ralph knows.
	From string `json:"from"`
}

// agents looks for the command lines of other agents, and asks each that is there
// for one line, all at once.
func (d *doctor) agents(ctx context.Context) {
	var custom []external.Custom
	if d.inv.cfg != nil {
		for _, a := range d.inv.cfg.Agents {
			custom = append(custom, external.Custom(a))
		}
	}
	adapters, err := external.Adapters(custom)
	if err != nil {
		d.add("agents", checkFail, "correct the entry", "%s", err)
		return
	}
	dir, err := os.MkdirTemp("", "ralph-doctor-")
	if err != nil {
		d.add("agents", checkFail, "", "%s", err)
		return
	}
	runner := exec.New(exec.Options{Method: d.inv.Getenv("RALPH_PROC"), Init: d.inv.Init, Project: d.inv.root})
	found := make([]external.Health, len(adapters))
	var all sync.WaitGroup
	for i, a := range adapters {
		all.Go(func() {
			own, err := a.Private(ctx, d.inv.Environ, dir, false)
			if err != nil {
				found[i] = external.Health{Name: a.Name, Err: err}
				return
			}
			found[i] = external.Examine(ctx, external.Request{
				Adapter: a, Dir: dir, Environ: d.inv.Environ, Env: own.Environ(), Timeout: askTime, Idle: askTime, Start: runner.Run,
			}, true)
			own.Close()
		})
	}
	all.Wait()
	if err := runner.Close(context.WithoutCancel(ctx)); err != nil {
		d.add("agents", checkFail, "", "%s", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		d.add("agents", checkWarn, "remove it", "%s", err)
	}
	d.agentChecks(adapters, found)
}

// agentChecks makes one check of each agent that is there or that the user has an
// entry for, and one of them all.
func (d *doctor) agentChecks(adapters []external.Adapter, found []external.Health) {
	d.others = []doctorAgent{}
	var here, absent []string
	for i, h := range found {
		x := doctorAgent{
			Name: h.Name, Installed: h.Path != "", Path: h.Path, Version: h.Version, Answering: h.Answers, DurationMS: h.Took.Milliseconds(),
			Hint: optional(h.Hint), From: adapters[i].From,
		}
		status := checkOK
		switch {
		case h.Err != nil:
			x.Detail, status = h.Err.Error(), checkWarn
		default:
			x.Detail = "answered in " + spanText(h.Took)
		}
		d.others = append(d.others, x)
		switch {
		case x.Installed:
			here = append(here, h.Name)
			d.add(h.Name, status, h.Hint, "%s %s: %s", h.Path, orWord(h.Version, "(no version known)"), x.Detail)
		case x.From != "":
			d.add(h.Name, status, h.Hint, "%s", x.Detail) // the user wants it
		default:
			absent = append(absent, h.Name)
		}
	}
	detail := "installed: " + orWord(strings.Join(here, ", "), "none")
	if len(absent) > 0 {
		detail += "; not installed: " + strings.Join(absent, ", ")
	}
	d.add("agents", checkOK, "", "%s", detail)
}
