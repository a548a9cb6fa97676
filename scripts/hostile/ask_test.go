package hostile

import (
	"strings"

	"github.com/hinshun/vt10x"

	"ralph/coordinator/policy"
	"ralph/workers/model/modeltest"
)

// gate decides about a command where nothing is confined, by the real rules, and
// runs it when they allow it.
func (w *world) gate() result {
	p, err := policy.Compile(policy.Rules{Allow: []string{w.a.Allow}, Sandbox: policy.SandboxWorkspace})
	w.must(err)
	command := w.say(w.a.Run)
	if d := p.Decide(policy.Request{Tool: "shell", Command: command, Runs: true}); d.Effect != policy.Allow {
		return result{out: d.Rule, refused: true}
	}
	return w.bash(command)
}

// asked puts the attack before a human at a real terminal, who answers as the
// case says.
func (w *world) asked() result {
	srv, err := modeltest.Start(w.replies()...)
	w.must(err)
	defer srv.Close()
	sent, screen := w.terminal(srv)
	r := result{shown: sent}
	w.heard(&r, srv)
	r.out = screen
	if len(w.a.Proof.Seen) > 0 && !strings.Contains(sent, "answer") {
		r.refused = true // nothing was asked: nothing is hidden
		r.out = ""
	}
	return r
}

// naiveAsk shows a command as it is, on a terminal of the same size, and holds a
// yes to be good for what then runs.
func (w *world) naiveAsk() result {
	view := vt10x.New(vt10x.WithSize(80, 24))
	var out strings.Builder
	for i, c := range w.calls() {
		args, _ := w.expand(c.Args).(map[string]any)
		command, _ := args["command"].(string)
		if i == 0 || len(w.a.Answers) > i && w.a.Answers[i-1] != "always" {
			_, _ = view.Write([]byte(strings.ReplaceAll("May this run? "+command+" [no/yes] ", "\n", "\r\n")))
		}
		out.WriteString(view.String())
		if i == 0 && w.a.During != "" {
			if said, err := w.script(w.say(w.a.During)); err != nil {
				w.Errorf("while it asks: %v\n%s", err, said)
			}
		}
		if i < len(w.a.Answers) && w.a.Answers[i] == "no" && w.a.Answers[0] != "always" {
			continue
		}
		if dir, ok := args["workdir"].(string); ok {
			command = "cd '" + dir + "' && " + command
		}
		w.bash(command)
	}
	return result{out: out.String()}
}

// hidden says that nothing of what a user must see stands on the screen.
func (w *world) hidden(r result) bool {
	if r.refused || r.out == "" {
		return false
	}
	plain := strings.Join(strings.Fields(strings.ReplaceAll(r.out, "\n", "")), "")
	for _, s := range w.a.Proof.Seen {
		if strings.Contains(plain, strings.Join(strings.Fields(w.say(s)), "")) {
			return false
		}
	}
	return true
}
