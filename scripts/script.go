package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ralph/coordinator"
	"ralph/coordinator/result"
	"ralph/workers/agent"
)

// ChatScript plays a chat in place of somebody who types. What the chat says goes to
// Out. Play is called once; its ctx ends with the chat, and when it returns, the chat
// is left with that exit code. Eyes sees every event; Ended is told how each turn
// ended, before Rest returns, and must not block.
type ChatScript struct {
	Out   io.Writer
	Play  func(ctx context.Context, stage Stage) (code int)
	Eyes  func(agent.Event)
	Ended func(result.Outcome)
}

// Stage is the chat as a script sees it, from one goroutine; an error is the cause
// of the end of ctx.
type Stage = interface {
	// Say types a line. It does not wait for what the line begins.
	Say(ctx context.Context, text string) error
	// Rest waits until all that was begun has ended, or is paused, or asks.
	Rest(ctx context.Context) error
	// Decline says that nobody answers what is asked.
	Decline(ctx context.Context) error
	// Look says how the coordinator stands and which question is open.
	Look(ctx context.Context) (now coordinator.Live, question string, err error)
}

func (inv *invocation) scriptCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "script FILE",
		Short: "play a chat from a file and check what comes of it",
		Long: "Play a chat from a file (- reads standard input), in a new session unless --session names one, and check what comes of it. Every line is typed as in the chat: text, /commands, !commands, @agent: text. " +
			"Ralph waits until all that a line began has ended before it types the next one; a line typed while Ralph asks something is the answer. A \\ at the end joins lines, # begins a comment line, and a line that begins with \\ is typed without it.\n" +
			"expect EXPR — has to be true once everything before it has ended\n" +
			"& LINE — types LINE and goes on at once: the next line is typed while it works\n" +
			"wait EXPR [within 30s] — waits until it is true, for so long at most\n" +
			"Names in EXPR (expr-lang) are the fields of the result document of the last turn (status, ok, exit_code, result, verified, files_changed, commands, usage.total, cost_usd, children, tasks, denials, error and the others); " +
			"output (what was printed since the last line was typed), waiting (the queue), agents, question (which is open), mode (autonomous or conversation) and state; file(\"path\") and exists(\"path\"), relative to the project.\n" +
			"The whole file is checked before anything is done: exit 2 when something is wrong with it; with --dry-run that is all. An expectation that is false ends the script with 1. " +
			"A turn that fails ends it with its own exit code, unless the next line is an expect or a wait: then that decides. A turn that the script itself stopped (/stop) has not failed, and a !command that fails is for an expect to notice. " +
			"A question that no line answers is answered by nobody when the next expect does not ask for it by name.\n" +
			"The conversation goes to standard output, or with --json and --output jsonl to standard error. --max-tokens, --max-cost and --timeout bound the whole script, --max-turns each line.\n" +
			"Example: ralph script check.ralph\nExample: ralph script --json --replay cassette.yaml check.ralph\nExample: printf '%s\\n' 'mend the tests' 'expect ok && verified' | ralph script --check 'go test ./...' -",
		Args: func(_ *cobra.Command, args []string) error {
			const hint = "ralph script FILE plays the chat lines of a file; - reads standard input"
			switch {
			case len(args) == 0:
				return usage(hint, "ralph script needs a file")
			case len(args) > 1:
				return usage(hint, "ralph script: one word too many: %q", args[1])
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error { return inv.script(c.Context(), c, args[0]) }
	return c
}

// script plays a file.
func (inv *invocation) script(ctx context.Context, c *cobra.Command, name string) error {
	if err := inv.load(c); err != nil {
		return err
	}
	if inv.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inv.cfg.Timeout)
		defer cancel()
	}
	if err := inv.targets(); err != nil {
		return err
	}
	for _, x := range []struct {
		flag string
		set  bool
	}{{"schema", inv.cfg.Schema != ""}, {"files", len(inv.cfg.Files) > 0}} {
		if x.set {
			return usage("leave it out; in a script a line can mention @file, and expect can look at the result", "--%s is for a task, not for a script", x.flag)
		}
	}
	text, err := inv.readScript(ctx, name)
	if err != nil {
		return err
	}
	p := &player{inv: inv, name: name, exprs: scriptExprs{root: inv.root}}
	if name == "-" {
		p.name = "standard input"
	}
	var bad []lineError
	if p.list, bad = parseScript(text, p.exprs); len(bad) > 0 {
		return usage("nothing was done; ralph script --help says what a script can hold", "%s", p.mistakes(bad))
	}
	p.doc = &scriptResult{File: name}
	inv.result.Script = p.doc
	if inv.cfg.DryRun {
		return inv.onlyChecked(p)
	}
	return inv.playScript(ctx, p)
}

// readScript reads the file, or standard input.
func (inv *invocation) readScript(ctx context.Context, name string) (string, error) {
	const hint = "ralph script takes a text file with chat lines"
	if name == "-" {
		text, err := inv.readStdin(ctx, true, maxScriptBytes)
		if f := (*fault)(nil); errors.As(err, &f) && f.status == result.Usage {
			f.hint = hint // that of a task is about tasks
		}
		return text, err
	}
	f, err := os.OpenFile(inv.fromHere(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer is not waited for
	if err != nil {
		return "", usage(hint, "open script %q: %s", name, reason(err))
	}
	defer f.Close() // only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", usage(hint, "open script %q: is a directory", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScriptBytes+1))
	if err != nil {
		return "", usage(hint, "read script %q: %s", name, reason(err))
	}
	return string(data), nil
}

// onlyChecked ends a script that was only to be looked at.
func (inv *invocation) onlyChecked(p *player) error {
	r := inv.result
	r.Reason = "nothing is wrong with " + p.name + ": " + p.counted(p.list)
	r.end(result.Completed, 0, nil)
	if inv.form == outputText {
		r.Result = optional(r.Reason)
	}
	inv.code = inv.finish()
	return nil
}

// playScript plays what was checked, and brings the result out.
func (inv *invocation) playScript(ctx context.Context, p *player) error {
	p.out = &transcript{w: inv.out}
	script := &ChatScript{Out: p.out, Ended: p.ended}
	if inv.form != outputText {
		p.out.w = inv.Stderr
		if inv.cfg.Quiet {
			p.out.w = io.Discard
		}
	}
	if inv.form == outputJSONL {
		inv.out.events = newEventWriter(inv.out, inv.result.RunID, inv.Now)
		script.Eyes = inv.out.events.renumbered(inv.root)
	}
	// What ends the program ends the script too, and its word counts.
	script.Play = func(chat context.Context, stage Stage) int {
		chat, cancel := context.WithCancelCause(chat)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		return p.play(chat, ctx, stage)
	}
	err := inv.converse(ctx, ChatOptions{Session: orWord(inv.cfg.Session, "new"), Script: script}, nil)
	if err != nil {
		return err
	}
	status, signal, failure := p.verdict(inv.code)
	if failure != nil {
		inv.result.Reason = failure.Message
	}
	inv.result.end(status, signal, failure)
	inv.out.told = true
	inv.tellOutput()
	inv.code = inv.finish()
	return nil
}

// mistakes are what is wrong with a script, a line each.
func (p *player) mistakes(bad []lineError) string {
	const most = 50
	var rows []string
	for i, b := range bad {
		if i == most {
			rows = append(rows, fmt.Sprintf("and %d more", len(bad)-most))
			break
		}
		rows = append(rows, fmt.Sprintf("%s:%d: %s", p.name, b.line, b.text))
	}
	return strings.Join(rows, "\n")
}

// verdict is how the script ended, when the chat was left with that code.
func (p *player) verdict(code int) (result.Status, int, *result.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return p.status, p.signal, p.failure
	case code > 128:
		return result.Interrupted, code - 128, &result.Failure{Kind: "interrupted", Message: "the chat was left before the script had ended"}
	case !p.finished:
		status, signal, failure := ending(errors.New("the chat ended before the script"))
		return status, signal, failure
	}
	p.inv.result.Reason = p.counted(p.list)
	p.inv.result.Verified = p.inv.result.Verified || p.doc.Expectations > 0
	return result.Completed, 0, nil
}
