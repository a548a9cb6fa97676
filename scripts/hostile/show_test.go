package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"ralph/coordinator/permission"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"ralph/repl/render"
	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// own are the controls that Ralph itself sends: colours, and the live line, which
// begins with a CR and appears when an answer takes longer than a moment.
var own = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;]*m|\r\n|(?m:^)\r|\r?\x1b\\[K\r*")
})

// unsafeControl names the first character that a terminal obeys or a reader does
// not see, "" when there is none.
func unsafeControl(text string) string {
	text = own().ReplaceAllString(text, "\n")
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' || r == '\t':
		case r == utf8.RuneError && size == 1:
			return fmt.Sprintf("byte %#x", text[i])
		case r < 0x20, r >= 0x7f && r < 0xa0, unicode.Is(unicode.Cf, r), r == 0x2028, r == 0x2029, r == 0x3164, r == 0x115f, r == 0xffa0:
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

// brokenJSON names the first line that is not a whole JSON document.
func brokenJSON(text string) string {
	if strings.TrimSpace(text) == "" {
		return "nothing"
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) || unsafeControl(line) != "" && strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 && r != '\n' }) {
			return line[:min(len(line), 200)]
		}
	}
	return ""
}

// shown brings a text to a screen on one of the ways that foreign text takes.
func (w *world) shown() result {
	text := w.say(w.a.Text)
	if how, ok := strings.CutPrefix(w.a.Via, "chat "); ok {
		return result{shown: chat(how, text)}
	}
	srv, err := modeltest.Start(w.speak(text)...)
	w.must(err)
	defer srv.Close()
	if strings.HasPrefix(w.a.Via, "json") {
		return w.document(srv)
	}
	screen, _ := w.terminal(srv)
	return result{shown: screen}
}

// speak is a model that brings a text in by one of the ways of a one-shot.
func (w *world) speak(text string) []modeltest.Reply {
	call := func(tool string, args map[string]any) modeltest.Reply {
		data, err := json.Marshal(args)
		w.must(err)
		return modeltest.Calls(modeltest.Call{Name: tool, Args: string(data)})
	}
	done := modeltest.Text("done").Forever()
	_, way, _ := strings.Cut(w.a.Via, " ")
	switch way {
	case "answer":
		return []modeltest.Reply{modeltest.Text(text).Forever()}
	case "saying":
		return []modeltest.Reply{call("list", map[string]any{"path": "."}).Saying(text), done}
	case "thinking":
		return []modeltest.Reply{call("list", map[string]any{"path": "."}).Thinking(text), done}
	case "command":
		return []modeltest.Reply{call("shell", map[string]any{"command": "true " + text}), done}
	case "path":
		return []modeltest.Reply{call("read", map[string]any{"path": text}), done}
	case "file":
		return []modeltest.Reply{call("write", map[string]any{"path": "x" + text, "content": "x"}), done}
	case "tool":
		return []modeltest.Reply{modeltest.Calls(modeltest.Call{Name: "t" + text, Args: "{}"}), done}
	case "args":
		return []modeltest.Reply{modeltest.Calls(modeltest.Call{Name: "read", Args: text}), done}
	case "finish":
		return []modeltest.Reply{call("finish", map[string]any{"status": "failed", "summary": text, "confidence": 0.5}), done}
	case "error":
		data, err := json.Marshal(map[string]any{"error": map[string]any{"message": text}})
		w.must(err)
		return []modeltest.Reply{modeltest.Status(400, string(data)).Forever()}
	case "rawerror":
		return []modeltest.Reply{modeltest.Status(400, text).Forever()}
	case "ask":
		return []modeltest.Reply{call("ask_user", map[string]any{"question": text, "options": []string{"a" + text, "b"}}), done}
	}
	return []modeltest.Reply{done} // what was set up speaks
}

func (w *world) document(srv *modeltest.Server) result {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	form, _, _ := strings.Cut(w.a.Via, " ")
	c := w.command(ctx, srv, "--output", form)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, io.Discard
	_ = c.Run() // a failure has a document too
	return result{shown: out.String()}
}

// naiveShow prints the text as it came.
func (w *world) naiveShow() result {
	text := w.say(w.a.Text)
	if text == "" {
		out, _ := w.script("git branch --show-current; ls -b >/dev/null; printf '%s\\n' *; git log -1 --format=%an%s; cat .ralph/config.yaml 2>/dev/null; true")
		text = out
	}
	if strings.HasPrefix(w.a.Via, "json") {
		return result{shown: `{"answer":"` + text + `"}` + "\n"}
	}
	return result{shown: text}
}

// chat renders a text as the chat does.
func chat(how, text string) string {
	r := render.New(render.Options{Width: 80})
	no, code := false, 3
	event := func(e agent.Event) string { return r.Event(e) }
	switch how {
	case "message":
		return event(agent.Event{Type: agent.EventMessage, Turn: 1, Text: text}) + r.Flush()
	case "delta":
		out := ""
		for _, part := range strings.SplitAfter(text, "") {
			out += event(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: part}) + strings.Join(r.Tail(4), "\n")
		}
		return out + r.Flush()
	case "bytes": // a rune may come in pieces
		out := ""
		for i := range len(text) {
			out += event(agent.Event{Type: agent.EventMessageDelta, Turn: 1, Text: text[i : i+1]})
		}
		return out + r.Flush()
	case "output":
		return event(agent.Event{Type: agent.EventToolEnd, Tool: "shell", CallID: "1", Output: text, Text: text, OK: &no, ExitCode: &code})
	case "command", "path", "url", "question":
		args, err := json.Marshal(map[string]string{how: text})
		if err != nil {
			return err.Error()
		}
		e := agent.Event{Type: agent.EventToolStart, Tool: "shell", CallID: "1", Args: args}
		return event(e) + r.Working(e) + event(agent.Event{Type: agent.EventToolEnd, Tool: "shell", CallID: "1"})
	case "tool":
		return event(agent.Event{Type: agent.EventToolEnd, Tool: text, CallID: "1", Denied: true, Rule: text})
	case "ask":
		return r.Question(permission.Question{Kind: "permission", Text: "May it run?\n" + text, Options: []string{"no", "yes" + text}, Agent: text, Tool: text, Rule: text, Target: text, Dir: text}) + r.Answer(text)
	case "said":
		return r.Said(text)
	}
	e := agent.Event{Text: text, Reason: text, Output: text, Agent: text, Status: text, Rule: text, Ref: text, Class: text, TaskID: text, Tool: text, Model: text}
	e.Type = agent.EventType(how)
	return event(e) + r.Flush()
}

// terminal runs Ralph on a terminal of its own, answers its questions and gives
// all that it sent there. doing is called while the first question stands.
func (w *world) terminal(srv *modeltest.Server) (sent, screen string) {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	c := w.command(ctx, srv)
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 80})
	w.must(err)
	defer tty.Close()
	var all bytes.Buffer
	view := vt10x.New(vt10x.WithSize(80, 24))
	answered := 0
	buf := make([]byte, 32<<10)
	for {
		n, err := tty.Read(buf)
		all.Write(buf[:n])
		_, _ = view.Write(buf[:n])
		for asks := strings.Count(all.String(), "answer"); answered < asks && strings.HasSuffix(all.String(), ": "); {
			answered = asks
			screen += view.String()
			w.answer(tty, answered)
		}
		if err != nil {
			break // the other end is closed
		}
	}
	if err := c.Wait(); err != nil && ctx.Err() != nil {
		w.Logf("Ralph did not end: %v", err)
	}
	return all.String(), screen
}

func (w *world) answer(tty *os.File, n int) {
	if w.a.During != "" {
		if out, err := w.script(w.say(w.a.During)); err != nil {
			w.Errorf("while it asks: %v\n%s", err, out)
		}
		w.a.During = ""
	}
	text := "no"
	if n <= len(w.a.Answers) {
		text = w.a.Answers[n-1]
	}
	time.Sleep(10 * time.Millisecond)
	if _, err := io.WriteString(tty, text+"\n"); err != nil && !errors.Is(err, os.ErrClosed) {
		w.Logf("answer: %v", err)
	}
}
