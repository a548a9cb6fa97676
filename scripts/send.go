package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/ownership"
	"ralph/coordinator/result"
	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/interrupts/control"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/identity"
	"ralph/memory/queue"
	"ralph/memory/session"
	"ralph/memory/text"
)

// maxMessageBytes bounds one message; what is longer belongs in a file.
const maxMessageBytes = 2 << 20

// sendDocument is what `ralph send --json` prints.
type sendDocument struct {
	Type    string  `json:"type"`
	Schema  string  `json:"schema"`
	OK      bool    `json:"ok"`
	Root    string  `json:"project_root"`
	ID      string  `json:"id"`
	Class   string  `json:"class"`
	State   string  `json:"state"` // queued, stored, or how an ask ended: answered, cancelled, returned
	Saved   bool    `json:"saved"` // false: held in memory, the disk does not take it
	To      *string `json:"to"`
	Session *string `json:"session"`
	Answer  *string `json:"answer"`
}

// receipt is what a running Ralph says of a message.
type receipt struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Saved  bool   `json:"saved"`
	Answer string `json:"answer"`
}

func (inv *invocation) sendCommand() *cobra.Command {
	var urgent, ask, after bool
	var to string
	c := &cobra.Command{
		Use:   "send [--urgent|--ask|--later] [--to AGENT] [--session ID] TEXT",
		Short: "say something to the Ralph that runs here",
		Long: "Say something to the Ralph that runs in this project; several words are joined, - reads the text from standard input (at most 2 MiB).\n" +
			"Without a flag the text is delivered at the next boundary; \"@AGENT: text\" is for that agent, as --to AGENT. --urgent is handled at once, before any queued work; --ask is answered beside the work, " +
			"and waited for (--timeout bounds it); --later is delivered when the current work has ended. --session ID names the session that it is for.\n" +
			"With no Ralph running the text is stored, an --ask too, and the next Ralph in this project delivers it.\n" +
			"Exits with 0 when it was accepted, 5 from a command that Ralph runs, 8 when the Ralph that holds the project does not answer, 124 when no answer came in time.\n" +
			"Example: ralph send \"use tabs\"\nExample: ralph send --urgent \"do not push\"\nExample: ralph send --ask \"how far are you?\"\nExample: ralph send --to fix_login \"mind the tests\"",
	}
	c.Flags().BoolVar(&urgent, "urgent", false, "interrupt the work for it")
	c.Flags().BoolVar(&ask, "ask", false, "ask beside the work, and print the answer")
	c.Flags().BoolVar(&after, "later", false, "deliver it when the current work has ended")
	c.Flags().StringVar(&to, "to", "", "the `AGENT` that it is for")
	c.Flags().SetInterspersed(false)
	c.RunE = func(c *cobra.Command, words []string) error {
		words, err := inv.textWords(c, words)
		if err != nil {
			return err
		}
		class, n := interrupts.ClassSteer, 0
		for _, x := range []struct {
			on    bool
			class interrupts.Class
		}{{urgent, interrupts.ClassUrgent}, {ask, interrupts.ClassAsk}, {after, interrupts.ClassLater}} {
			if x.on {
				class, n = x.class, n+1
			}
		}
		if n > 1 {
			return usage("ralph send --help", "--urgent, --ask and --later exclude each other")
		}
		return inv.send(c, words, control.Request{Op: "send", Class: class.String(), To: strings.TrimSpace(to)})
	}
	return c
}

// textWords separates the flags that follow a text of one argument from it. The
// text itself is never parsed: flags after several words could be part of it.
func (inv *invocation) textWords(c *cobra.Command, words []string) ([]string, error) {
	fs := c.Flags()
	if fs.ArgsLenAtDash() >= 0 || len(words) < 2 {
		return words, nil
	}
	const hint = "flags stand before the text; a text that holds one is quoted as a whole: ralph send \"use --quiet there\""
	if first := words[1]; strings.HasPrefix(first, "-") && first != "-" {
		if n, dashed := firstWord(words[1:], fs); n < len(words)-1 || dashed {
			return nil, usage(hint, "is %q a flag or part of the text?", first)
		}
		if err := fs.Parse(words[1:]); err != nil {
			return nil, flagFault(err, c)
		}
		return words[:1], nil
	}
	if stray := strayFlag(words, fs); stray != "" {
		return nil, usage(hint, "is %q a flag or part of the text?", stray)
	}
	return words, nil
}

func (inv *invocation) send(c *cobra.Command, words []string, r control.Request) error {
	ctx := c.Context()
	if err := inv.lightly(c); err != nil {
		return err
	}
	if err := inv.human(); err != nil {
		return err
	}
	var err error
	if r.Text, err = inv.messageText(ctx, words); err != nil {
		return err
	}
	r.Session = inv.cfg.Session
	caller, err := inv.reach(ctx)
	if errors.Is(err, errNobody) {
		return inv.store(ctx, r)
	}
	if err != nil {
		return err
	}
	defer caller.close()
	if r, err = inv.addressed(r, caller.live); err != nil {
		return err
	}
	if inv.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inv.cfg.Timeout)
		defer cancel()
	}
	got, err := caller.say(ctx, r)
	if err != nil {
		return inv.unanswered(ctx, got, err)
	}
	return inv.tellSent(r, got)
}

// addressed takes "@one: text" as the chat does: text for the agent one. What
// names a file of the project, or Ralph itself, stays a text.
func (inv *invocation) addressed(r control.Request, l coordinator.Live) (control.Request, error) {
	to, text, ok := slash.Addressed(r.Text)
	if !ok || r.To != "" || to == mainAgent || r.Class == interrupts.ClassAsk.String() {
		return r, nil
	}
	there := slices.ContainsFunc(l.Agents, func(a crew.Agent) bool { return a.ID == to })
	if _, err := os.Lstat(filepath.Join(inv.root, to)); err == nil && !there {
		return r, nil
	}
	if text == "" {
		return r, usage(fmt.Sprintf("ralph send \"@%s: what to say\"", to), "there is nothing to send to %s", to)
	}
	r.To, r.Text = to, text
	return r, nil
}

// say sends a message and waits until it is accepted, and for an ask until that
// is over. With an error the receipt is what was known by then.
func (c *caller) say(ctx context.Context, r control.Request) (receipt, error) {
	var got receipt
	err := c.do(ctx, r, func(data json.RawMessage) error {
		if err := json.Unmarshal(data, &got); err != nil {
			return fmt.Errorf("read the receipt: %w", err)
		}
		if got.ID != "" && c.inv.form == outputText {
			c.inv.note(receiptText(r.Class, got))
		}
		return nil
	}, &got)
	return got, err
}

// unanswered says what became of a message whose end was not waited for.
func (inv *invocation) unanswered(ctx context.Context, got receipt, err error) error {
	switch {
	case ctx.Err() == nil && got.ID == "":
		return refused(err)
	case ctx.Err() == nil:
		return broken("no_answer", "ralph status shows what waits", refused(err), "%s was accepted, but no answer came", got.ID)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) && got.ID != "":
		return &fault{status: result.Timeout, kind: "timeout", text: fmt.Sprintf("%s was accepted, but not answered within %s", got.ID, inv.cfg.Timeout),
			hint: "it is answered nevertheless: ralph attach shows it; raise --timeout to wait longer"}
	}
	return context.Cause(ctx)
}

// tellSent prints what became of a message.
func (inv *invocation) tellSent(r control.Request, got receipt) error {
	if !got.Saved {
		inv.warning(fmt.Sprintf("%s is held, not saved: the disk does not take it", got.ID))
	}
	over := r.Class == interrupts.ClassAsk.String() && got.State != string(interrupts.Queued)
	answered := got.State == string(interrupts.Answered)
	switch {
	case over && !answered:
		return broken("not_answered", "ask again", nil, "%s was not answered: it was %s", got.ID, got.State)
	case answered && strings.TrimSpace(got.Answer) == "":
		return broken("not_answered", "ask again", nil, "%s was answered without a word", got.ID)
	}
	if inv.form != outputText {
		return inv.out.printJSON(inv.sendDocument(r, got))
	}
	content := receiptText(r.Class, got)
	if answered {
		if content = got.Answer; inv.out.terminal {
			content = text.Visible(content)
		}
	}
	return inv.out.print(strings.TrimSuffix(content, "\n") + "\n")
}

func (inv *invocation) sendDocument(r control.Request, got receipt) sendDocument {
	return sendDocument{Type: "send", Schema: "ralph.send/1", OK: true, Root: inv.root, ID: got.ID, Class: r.Class, State: got.State,
		Saved: got.Saved, To: optional(r.To), Session: optional(r.Session), Answer: optional(got.Answer)}
}

// receiptText is the line that says that a message was accepted.
func receiptText(class string, got receipt) string {
	state := got.State
	if !got.Saved {
		state = "held, not saved"
	}
	return fmt.Sprintf("%s %s (%s)", oneLine(got.ID, 40), oneLine(state, 40), class)
}

// store keeps a message for the next Ralph.
func (inv *invocation) store(ctx context.Context, r control.Request) error {
	if r.Session != "" {
		list, err := session.List(durable.Disk(), inv.stateDir())
		if err != nil {
			return broken("io", "see that .ralph/sessions is a directory that you can read", err, "send")
		}
		if !slices.ContainsFunc(list, func(i session.Info) bool { return i.ID == r.Session }) {
			return broken("no_session", "ralph sessions lists them; without --session whichever runs next gets it", nil, "there is no session %s: nobody would ever get the message", r.Session)
		}
	}
	if err := inv.unlinked(); err != nil {
		return err
	}
	if err := inv.ownState(ctx, true); err != nil {
		return err
	}
	if err := inv.settle(ctx); err != nil {
		return err
	}
	o := ownership.Project{FS: durable.Disk(), Root: inv.root, Getenv: inv.Getenv}.Queue()
	if o.UserDir == "" {
		return broken("io", "--state-dir DIR names another directory; a running Ralph takes messages without one", nil, "the message cannot be kept: your own state directory cannot be used")
	}
	o.Now, o.Wait = inv.Now, answerWithin
	e, err := queue.Add(ctx, o, queue.Entry{Class: r.Class, Text: r.Text, From: inv.result.RunID, To: r.To, Session: r.Session, At: inv.Now().UTC()})
	switch {
	case errors.Is(err, queue.ErrLocked):
		holder, _ := memory.Locked(nil, inv.root)
		return mute(holder)
	case err != nil:
		return err
	}
	got := receipt{ID: e.ID, State: "stored", Saved: true}
	if inv.form != outputText {
		return inv.out.printJSON(inv.sendDocument(r, got))
	}
	return inv.out.print(receiptText(r.Class, got) + "; the next Ralph in this project delivers it\n")
}

// settle makes the state directory Ralph's own where there is none yet, so that
// git and other tools know whose it is.
func (inv *invocation) settle(ctx context.Context) error {
	const hint = "Ralph keeps its state in a directory of that name, which is no link"
	dir := inv.stateDir()
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.Mkdir(dir, 0o700)
	case err == nil && !info.IsDir():
		err = errors.New("not a directory")
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return broken("io", hint, nil, "make %q: %s", dir, reason(err))
	}
	if found, err := inv.stateOf(); err == nil && found.Standing == identity.Own {
		return nil
	}
	store, _, err := memory.Open(ctx, memory.Options{Root: inv.root, Now: inv.Now, Holder: "send", SessionID: inv.result.RunID, LockWait: answerWithin, Owner: inv.owner()})
	if err != nil {
		return err
	}
	return store.Close()
}

// messageText is what is to be said. It is data: control characters stay as
// they are, and bytes that are no UTF-8 are written as \xNN.
func (inv *invocation) messageText(ctx context.Context, words []string) (string, error) {
	text := strings.Join(words, " ")
	if len(words) == 1 && words[0] == "-" {
		var err error
		if text, err = inv.readMessage(ctx); err != nil {
			return "", err
		}
	}
	switch {
	case len(text) > maxMessageBytes:
		return "", usage("put it in a file, and name the file in the message", "the message is longer than the limit of %s", sizeText(maxMessageBytes))
	case strings.TrimSpace(text) == "":
		return "", usage(`ralph send "what to say"; ralph send - reads it from standard input`, "there is nothing to send")
	case !utf8.ValidString(text):
		inv.warning(`the text is not valid UTF-8: the bytes that are none are sent as \xNN`)
		return spelled(text), nil
	}
	return text, nil
}

// readMessage reads the text from standard input.
func (inv *invocation) readMessage(ctx context.Context) (string, error) {
	in, done, err := inv.openStdin(ctx, true, "reading the message from standard input")
	if err != nil || in == nil {
		return "", err
	}
	defer done()
	data, err := io.ReadAll(io.LimitReader(in, maxMessageBytes+2)) // a last newline does not count
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", unreadable(err)
	}
	text := strings.TrimPrefix(string(data), "\uFEFF")
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
}

// spelled writes bytes that are no UTF-8 as \xNN.
func spelled(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[i])
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// strayFlag returns the first of the flags that a task ends with, or "". They
// are part of its text, and most likely were not meant to be.
func strayFlag(words []string, fs *pflag.FlagSet) string {
	for i := 1; i < len(words); i++ {
		name, _, _ := strings.Cut(words[i], "=")
		long, ok := strings.CutPrefix(name, "--")
		known := ok && fs.Lookup(long) != nil || len(name) == 2 && name[0] == '-' && fs.ShorthandLookup(name[1:]) != nil
		if !known {
			continue
		}
		if end, _ := firstWord(words[i:], fs); i+end >= len(words) {
			return name
		}
	}
	return ""
}
