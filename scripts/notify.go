package scripts

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/text"
)

// longWork is how long work lasts before its end is worth a notification.
const longWork = 30 * time.Second

// The values of the setting notify.
const (
	notifyAuto = "auto"
	notifyOff  = "off"
)

// notifier tells a person who looks elsewhere that long work has ended or needs
// them: by the way that their terminal has for it, else by the bell. It is safe
// for concurrent use.
type notifier struct {
	send  func(sequence string)
	form  string // osc9, osc777, osc99 or bell
	now   func() time.Time
	after time.Duration

	mu    sync.Mutex // guards since
	since time.Time  // when the person was last here
}

// newNotifier returns nil when nobody is to be told: standard error is no
// terminal, or the setting says so.
func (inv *invocation) newNotifier() *notifier {
	f, ok := inv.Stderr.(*os.File)
	if !ok || !isTerminal(f) || inv.cfg.Notify == notifyOff || inv.cfg.Quiet || inv.Getenv("TERM") == "dumb" {
		return nil
	}
	form := "bell"
	if inv.cfg.Notify == "" || inv.cfg.Notify == notifyAuto {
		form = notifyForm(inv.Getenv)
	}
	send := func(sequence string) { _, _ = f.WriteString(sequence) } // nothing hangs on it
	return &notifier{send: send, form: form, now: inv.Now, after: longWork, since: inv.Now()}
}

// notifyForm is how the terminal takes notifications, by what it says of itself.
// A multiplexer passes none of them on by itself, but the bell.
func notifyForm(getenv func(string) string) string {
	term, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || getenv("STY") != "" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return "bell"
	case getenv("KITTY_WINDOW_ID") != "" || term == "xterm-kitty":
		return "osc99"
	case program == "iTerm.app" || program == "WezTerm" || program == "ghostty" || term == "xterm-ghostty" || getenv("ConEmuPID") != "":
		return "osc9"
	case strings.HasPrefix(term, "foot") || strings.HasPrefix(term, "rxvt") || getenv("VTE_VERSION") != "" || program == "contour":
		return "osc777"
	}
	return "bell"
}

// tell tells it when the person has been waiting for long.
func (n *notifier) tell(title, text string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	waited := n.now().Sub(n.since)
	n.mu.Unlock()
	if waited < n.after {
		return
	}
	n.send(notification(n.form, title, text))
}

// here says that the person was just here: they answered.
func (n *notifier) here() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since = n.now()
}

// notification is what a terminal is sent. The text is foreign: nothing of it may
// end the sequence or be a command of its own.
func notification(form, title, content string) string {
	clean := func(s string, most int) string {
		s = strings.NewReplacer(";", ",", "\\", "/").Replace(text.VisibleLine(oneLine(s, most)))
		return strings.ToValidUTF8(s, "")
	}
	title, content = clean(title, 60), clean(content, 160)
	switch form {
	case "osc9":
		// Some terminals take a number at the beginning as a command of theirs.
		return "\x1b]9;" + title + ": " + content + "\x1b\\"
	case "osc777":
		return "\x1b]777;notify;" + title + ";" + content + "\x1b\\"
	case "osc99":
		enc := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		return fmt.Sprintf("\x1b]99;i=ralph:d=0:e=1:p=title;%s\x1b\\\x1b]99;i=ralph:d=1:e=1:p=body;%s\x1b\\", enc(title), enc(content))
	}
	return "\a"
}

// alarmed wraps a way to ask, so that a person who looks elsewhere learns of the
// question.
func (n *notifier) alarmed(ask func(context.Context, permission.Question) (string, error)) func(context.Context, permission.Question) (string, error) {
	if ask == nil || n == nil {
		return ask
	}
	return func(ctx context.Context, q permission.Question) (string, error) {
		n.tell("Ralph needs you", q.Text)
		defer n.here()
		return ask(ctx, q)
	}
}

// ended tells how long work ended.
func (n *notifier) ended(r *Result) {
	if n == nil {
		return
	}
	title := "Ralph is done"
	switch r.Status {
	case result.Completed:
	case result.NeedsInput, result.Denied:
		title = "Ralph needs you"
	case result.Interrupted:
		return // by the person, who is here
	default:
		title = "Ralph: " + string(r.Status)
	}
	n.tell(title, orWord(r.Reason, r.answer()))
}
