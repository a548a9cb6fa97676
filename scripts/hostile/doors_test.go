package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/workers/model/modeltest"
)

// result is what came of an attack.
type result struct {
	out     string // what the model got, or the naive program printed
	shown   string // what the user got
	told    []modeltest.Message
	hung    bool
	refused bool // the attack was not even tried
	vacuous bool // it never came to the defence
	skip    string
	listens string // ports that were open
}

func (r result) tail() string {
	text := r.out + "\n--- shown:\n" + r.shown
	return text[max(0, len(text)-1500):]
}

const (
	patience = 15 * time.Second // of a run of Ralph
	hurry    = 3 * time.Second  // of a naive run
)

// defended attacks with all defences on.
func (w *world) defended() result {
	switch w.a.Door {
	case "tool", "shell", "config", "keep", "talk", "state":
		return w.oneShot()
	case "git":
		r := w.oneShot()
		w.trees(&r)
		return r
	case "undo":
		r := w.oneShot()
		w.undo(&r)
		return r
	case "deny":
		w.a.Flags = append(w.a.Flags, "--sandbox", "off", "--deny", w.a.Deny)
		return w.oneShot()
	case "gate":
		return w.gate()
	case "ask":
		return w.asked()
	case "show":
		return w.shown()
	case "race":
		return w.race()
	case "listen":
		return w.scanned([]string{w.say("{SELF}"), "do it"}, "ralph")
	case "agent":
		return w.agent()
	}
	w.Fatalf("there is no door %q", w.a.Door)
	return result{}
}

// naive attacks a program that does the same without the defence.
func (w *world) naive() result {
	if w.a.Plain != "" {
		return w.bash(w.say(w.a.Plain))
	}
	switch w.a.Door {
	case "tool":
		return w.naiveTools()
	case "shell", "undo":
		return w.bash(w.say(w.a.Run))
	case "config":
		return w.trusting()
	case "gate":
		return w.naiveGate()
	case "deny":
		if first(w.say(w.a.Run)) == w.a.Program {
			return result{refused: true}
		}
		return w.bash(w.say(w.a.Run))
	case "keep":
		return w.naiveLog()
	case "talk":
		return w.naiveTalk()
	case "ask":
		return w.naiveAsk()
	case "show":
		return w.naiveShow()
	case "race":
		return w.naiveRace()
	case "agent":
		return w.naiveAgent()
	case "listen":
		return w.scanned([]string{w.say("{SELF}")}, "listen")
	}
	w.Fatalf("door %q needs a plain way", w.a.Door)
	return result{}
}

// calls are what the model asks for, one after the other.
func (w *world) calls() []toolCall {
	if w.a.Run != "" {
		return append(slices.Clone(w.a.Calls), toolCall{Tool: "shell", Args: map[string]any{"command": w.a.Run}})
	}
	return w.a.Calls
}

// expand puts the names into all texts of an argument.
func (w *world) expand(v any) any {
	switch v := v.(type) {
	case string:
		return w.say(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = w.expand(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = w.expand(v[k])
		}
		return out
	}
	return v
}

func (w *world) replies() []modeltest.Reply {
	var out []modeltest.Reply
	for _, c := range w.calls() {
		args, err := json.Marshal(w.expand(c.Args))
		w.must(err)
		out = append(out, modeltest.Calls(modeltest.Call{Name: c.Tool, Args: string(args)}))
	}
	text := w.say(w.a.Text)
	if text == "" {
		text = "done"
	}
	return append(out, modeltest.Text(text).Forever())
}

// command is a Ralph on its own, with a scripted model.
func (w *world) command(ctx context.Context, srv *modeltest.Server, args ...string) *exec.Cmd {
	if w.a.Config != "" {
		name := w.a.File
		if name == "" {
			name = ".ralph/config.yaml"
		}
		w.put(filepath.Join(w.project, name), w.say(w.a.Config), 0o644)
	}
	for _, f := range w.a.Flags {
		args = append(args, w.say(f))
	}
	if w.a.Door != "state" { // whose flags are all that is said
		args = append(args, "--command-timeout", "6s", "do it")
	}
	c := exec.CommandContext(ctx, w.say("{SELF}"), args...)
	c.Dir, c.WaitDelay = w.project, 2*time.Second
	c.Env = append(w.environ("RALPH_API_KEY=canary-of-ralph", "RALPH_MODEL=test", "RALPH_BASE_URL="+srv.URL()), roleEnv+"=ralph")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	return c
}

// oneShot has a whole Ralph do what the hostile model says.
func (w *world) oneShot() result {
	srv, err := modeltest.Start(w.replies()...)
	w.must(err)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	c := w.command(ctx, srv)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	r := result{shown: out.String() + errs.String(), hung: ctx.Err() != nil}
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) && !r.hung {
		w.Errorf("Ralph did not end by itself: %v\n%s", err, r.shown)
	}
	w.heard(&r, srv)
	return r
}

// undo has another Ralph undo what the first one did.
func (w *world) undo(r *result) {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, w.say("{SELF}"), "undo")
	c.Dir, c.WaitDelay = w.project, 2*time.Second
	c.Env = append(w.environ(), roleEnv+"=ralph")
	out, _ := c.CombinedOutput() // what it came to is looked at in the files
	r.shown += string(out)
	r.hung = r.hung || ctx.Err() != nil
}

// heard takes what the model was told.
func (w *world) heard(r *result, srv *modeltest.Server) {
	var out strings.Builder
	requests := srv.Requests()
	if len(requests) > 0 {
		r.told = requests[len(requests)-1].Messages
	}
	for _, m := range r.told {
		if m.Role == "tool" {
			out.WriteString(m.Content + "\n")
		}
	}
	r.out = out.String()
	r.vacuous = w.a.Door != "config" && w.a.Door != "state" && len(requests) <= len(w.calls()) && !r.hung && w.a.Proof.Told == ""
	shell := slices.ContainsFunc(w.calls(), func(c toolCall) bool { return c.Tool == "shell" })
	r.refused = strings.Contains(r.out, "denied") || len(requests) == 0
	unconfined := strings.Contains(r.out+r.shown, "the sandbox lacks") || strings.Contains(r.out+r.shown, "commands run unsandboxed (")
	if shell && w.a.Door == "shell" && unconfined {
		r.skip = "no command runs in a sandbox here: " + r.shown
	}
}

// bash is a command tool without any defence: the user's rights, environment and
// network.
func (w *world) bash(command string) result {
	ctx, cancel := context.WithTimeout(w.Context(), hurry)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.Dir, c.WaitDelay = w.project, 100*time.Millisecond
	c.Env = w.environ()
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	_ = c.Run() // what it came to is looked at by its traces
	return result{out: out.String(), shown: out.String(), hung: ctx.Err() != nil}
}

// first is the first word of a command, as a rule that does not parse sees it.
func first(command string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return word
}

// proven says how the escape shows, "" when it does not.
func (w *world) proven(r result) string {
	if r.skip != "" {
		return ""
	}
	w.settle()
	p := w.a.Proof
	switch {
	case p.File != "" && w.holdsID(w.say(p.File)):
		return w.say(p.File) + " was written"
	case p.Changed != "" && mark(w.say(p.Changed)) != w.before:
		return fmt.Sprintf("%s was changed from %s to %s", w.say(p.Changed), w.before, mark(w.say(p.Changed)))
	case p.Output != "" && strings.Contains(r.out, w.say(p.Output)):
		return "the model got " + w.say(p.Output)
	case p.Caught && w.gotID():
		return "the listener was reached"
	case p.Alive && len(w.living()) > 0:
		return fmt.Sprintf("processes %v are alive", w.living())
	case p.Host != "" && w.onHost(w.say(p.Host)):
		return w.say(p.Host) + " succeeds"
	case p.Told != "" && w.forged(r):
		return "the model was told it as if the user or Ralph had said so"
	case p.Kept != "" && w.kept(r) != "":
		return w.kept(r) + " holds it"
	case len(p.Seen) > 0 && w.hidden(r):
		return "the user does not see what runs"
	case p.Hung && r.hung:
		return "it hangs"
	case p.Wild && unsafeControl(r.shown) != "":
		return "the terminal gets " + unsafeControl(r.shown)
	case p.Broken && brokenJSON(r.shown) != "":
		return "broken JSON: " + brokenJSON(r.shown)
	case p.Listens && r.listens != "":
		return "open ports: " + r.listens
	case p.Bigger > 0 && w.size(r) > p.Bigger:
		return fmt.Sprintf("%d bytes", w.size(r))
	}
	return ""
}

// settle gives what was left behind the time to strike.
func (w *world) settle() {
	wait := w.a.Wait
	if w.a.Proof.Caught {
		wait = max(wait, 0.05)
	}
	time.Sleep(time.Duration(wait * float64(time.Second)))
}

func (w *world) holdsID(path string) bool {
	names, err := filepath.Glob(path)
	w.must(err)
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() || strings.Contains(filepath.Base(n), w.id) {
			return true
		}
		if text, err := os.ReadFile(n); err == nil && strings.Contains(string(text), w.id) {
			return true
		}
	}
	return false
}

func (w *world) gotID() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.caught, ""), w.id)
}

// living are processes that an attack started, and which are no zombies.
func (w *world) living() []int {
	return slices.DeleteFunc(w.processes(), func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func (w *world) onHost(command string) bool {
	_, err := w.script(command)
	return err == nil
}

func (w *world) forged(r result) bool {
	return slices.ContainsFunc(r.told, func(m modeltest.Message) bool {
		return m.Role != "tool" && m.Role != "assistant" && strings.Contains(unfenced(m.Content), w.say(w.a.Proof.Told))
	})
}

// unfenced is what stands outside of blocks of backticks: what a model may take
// for the words of Ralph or of the user.
func unfenced(text string) string {
	var out strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && len(ticks) >= len(fence) && strings.TrimSpace(strings.TrimLeft(line, "`")) == "":
			fence = ""
		case fence == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

// kept names what Ralph wrote that holds the text.
func (w *world) kept(r result) string {
	text := w.say(w.a.Proof.Kept)
	if strings.Contains(r.shown, text) {
		return "what is shown"
	}
	found := ""
	look := func(path string) {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), text) {
			found = path
		}
	}
	for _, dir := range []string{filepath.Join(w.project, ".ralph"), filepath.Join(w.outside, "log")} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				look(path)
			}
			return nil
		})
	}
	names, err := filepath.Glob(filepath.Join(w.project, "*.md"))
	w.must(err)
	for _, n := range names {
		look(n)
	}
	return found
}

// size is how much came back or was written.
func (w *world) size(r result) int64 {
	n := int64(len(r.out))
	for _, dir := range []string{filepath.Join(w.project, ".ralph"), filepath.Join(w.outside, "log")} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					n += info.Size()
				}
			}
			return nil
		})
	}
	return n
}
