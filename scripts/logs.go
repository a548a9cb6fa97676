package scripts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ralph/coordinator/policy/condition"
	"ralph/interrupts"
	"ralph/memory/durable"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// logsFlags are the flags of ralph logs.
type logsFlags struct {
	follow              bool
	where, since, until string
	tail                int
}

const logsHelp = "ralph logs --help"

func (inv *invocation) logsCommand() *cobra.Command {
	f := &logsFlags{}
	c := &cobra.Command{
		Use:   "logs [SESSION] [--follow] [--where EXPR] [--since TIME] [--until TIME] [--tail N]",
		Short: "show the events of a session, and follow them",
		Long: "Show the events of a session's execution log, a line each: time (UTC), id, type, task, result, how long it took and its details. " +
			"Without SESSION the newest; SESSION is a number, a name, a unique beginning of one, or the path of a session's folder. --session SESSION is the same.\n" +
			"--where shows the events of which an expression is true. It knows id, timestamp, event_type, task_id, task_name, agent, result, duration_seconds and details; " +
			"an event on which it has no answer (text compared with a number) is left out and counted.\n" +
			"--follow shows what comes until the session ends or its Ralph is gone (exit 0) or Ctrl-C is pressed (exit 130).\n" +
			"--output jsonl prints one event a line with its own fields and its id, --output json one document; `ralph schema logs` is its JSON Schema.\n" +
			"Example: ralph logs 7 --where 'event_type == \"error\" && duration_seconds > 60'\n" +
			"Example: ralph logs --since 10m --where 'task_id == \"T-3\" and details.attempt > 1'\n" +
			"Example: ralph logs --where 'timestamp > date(\"2026-11-21T15:04:05Z\")' --output jsonl | jq .result\n" +
			"Example: ralph logs -f -n 20",
		Args: wordsOf(0, 1),
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "show what comes, until the session ends")
	c.Flags().StringVar(&f.where, "where", "", "only the events of which `EXPR` is true")
	c.Flags().StringVar(&f.since, "since", "", "only events from `TIME` on: 10m, 2h, 3d (ago), today, 2026-11-21 or RFC 3339")
	c.Flags().StringVar(&f.until, "until", "", "only events before `TIME`")
	c.Flags().IntVarP(&f.tail, "tail", "n", -1, "only the last `N` of them")
	c.RunE = func(c *cobra.Command, args []string) error { return inv.logs(c, args, f) }
	return c
}

func (inv *invocation) logs(c *cobra.Command, args []string, f *logsFlags) error {
	if err := inv.lightly(c); err != nil {
		return err
	}
	inv.markForeign()
	which, err := inv.sessionNamed(c, args)
	if err != nil {
		return err
	}
	for _, flag := range []string{"where", "since", "until"} { // as from a variable that is not set: not everything is meant
		if v := c.Flags().Lookup(flag); v.Changed && v.Value.String() == "" {
			return usage(logsHelp, "--%s is empty", flag)
		}
	}
	filter, err := f.filter(inv.Now())
	switch {
	case err != nil:
		return err
	case c.Flags().Changed("tail") && f.tail < 0:
		return usage(logsHelp, "--tail %d: it takes a number from 0", f.tail)
	case f.follow && inv.form == outputJSON:
		return usage("--output jsonl prints one event a line as it comes", "--follow has no end that one document could wait for")
	case f.follow && f.until != "":
		return usage(logsHelp, "--follow and --until contradict each other")
	}
	w, err := inv.watch(which)
	if err != nil {
		return err
	}
	r, err := folder.OpenLog(durable.Disk(), w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		hint := "ralph sessions show " + orWord(w.ID, w.dir) + " shows what there is"
		if !w.Deleted.IsZero() {
			return broken("no_log", hint, nil, "%s has no log any more: its raw files were deleted %s", w.title(), w.Deleted.UTC().Format("2006-01-02"))
		}
		return broken("no_log", hint, nil, "%s has no log", w.title())
	}
	if err != nil {
		return broken("io", "", err, "%s", w.title())
	}
	l := &logScan{inv: inv, session: w, reader: r, filter: filter, sink: inv.newLogSink(w, f), tail: f.tail}
	defer func() { _ = l.reader.Close() }() // it was only read
	inv.out.half = func(failure *Failure) bool { return l.sink.half(l, failure) }
	if err = l.read(c.Context()); err == nil && f.follow {
		err = l.follow(c.Context())
	}
	return l.end(c.Context(), err)
}

// end brings out what is left to say of a log that was read.
func (l *logScan) end(ctx context.Context, err error) error {
	inv := l.inv
	stop, stopped := interrupts.AsStop(context.Cause(ctx))
	if err != nil && stopped && stop.Signal == syscall.SIGINT && inv.form != outputJSON {
		_ = l.sink.flush() // what was found until then; that its reader is gone is no more to tell
		inv.code = 130
		return nil
	}
	if err != nil {
		return err
	}
	if broken := l.reader.Broken(); broken != nil && !l.session.Live {
		inv.warning("the log of " + l.session.title() + " is damaged: " + broken.Error())
	}
	if n := l.filter.unanswered; n > 0 {
		inv.warning(fmt.Sprintf("--where has no answer for %s, the first of them %s (%s)", text.Count(n, "event"), l.filter.firstID, oneLine(l.filter.first, 200)))
	}
	return l.sink.close(l)
}

// logFilter decides which events are shown.
type logFilter struct {
	source       string
	since, until time.Time // zero: no bound
	test         func() (bool, error)
	event        *condition.Event // what test looks at; nil: everything is kept

	// unanswered counts the events on which the expression failed; first and
	// firstID tell of the first.
	unanswered     int
	first, firstID string
}

// filter reads what the flags ask for.
func (f *logsFlags) filter(now time.Time) (*logFilter, error) {
	out := &logFilter{source: f.where}
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"--since", f.since, &out.since}, {"--until", f.until, &out.until}} {
		if bound.text == "" {
			continue
		}
		at, err := whenText(bound.text, now)
		if err != nil {
			return nil, usage("times are 10m, 2h, 3d (ago), today, 2026-11-21, 2026-11-21T15:04:05Z; without a zone they are UTC", "%s: %s", bound.flag, err)
		}
		*bound.at = at
	}
	if !out.since.IsZero() && !out.until.IsZero() && out.until.Before(out.since) {
		return nil, usage(logsHelp, "--until %s is before --since %s", f.until, f.since)
	}
	if f.where == "" {
		return out, nil
	}
	c, err := condition.Compile(f.where, condition.Event{})
	if err != nil {
		return nil, whereFault(err)
	}
	out.event = &condition.Event{}
	out.test = c.Test(out.event)
	return out, nil
}

// whenText reads a point in time: one that is written out, or how long ago it was.
func whenText(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	switch strings.ToLower(text) {
	case "now":
		return now.UTC(), nil
	case "today":
		return now.UTC().Truncate(24 * time.Hour), nil
	case "yesterday":
		return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1), nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseFloat(number, 64); err == nil && days >= 0 && days < 100_000 {
			return now.UTC().Add(-time.Duration(days * 24 * float64(time.Hour))), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.UTC().Add(-ago), nil
	}
	return condition.Moment(text)
}

// whereFault shows where an expression is wrong.
func whereFault(err error) error {
	const example = `ralph logs --where 'event_type == "error" && duration_seconds > 60'`
	var e *condition.Error
	if !errors.As(err, &e) {
		return usage(example, "--where: %s", err)
	}
	hint := orWord(e.Hint, example)
	text := "--where: " + e.Text
	lines := strings.Split(e.Source, "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return usage(hint, "%s", text)
	}
	line := []rune(strings.ReplaceAll(lines[e.Line-1], "\t", " "))
	at := min(max(e.Column-1, 0), len(line))
	const shown = 60 // around the fault
	from := max(0, at-shown)
	before, part := string(line[from:at]), string(line[from:min(len(line), at+shown)])
	return usage(hint, "%s (line %d, column %d)\n  %s\n  %s^", text, e.Line, e.Column, part, strings.Repeat(" ", width(before)))
}

// keeps says whether an event is shown.
func (f *logFilter) keeps(e *folder.Event, id string) bool {
	if !f.since.IsZero() && e.Time.Before(f.since) || !f.until.IsZero() && (e.Time.IsZero() || !e.Time.Before(f.until)) {
		return false // nor is one in a span whose time nobody knows
	}
	if f.event == nil {
		return true
	}
	agent, _ := e.Details["agent"].(string)
	*f.event = condition.Event{ID: id, Timestamp: e.Time, EventType: string(e.Type), TaskID: e.TaskID, TaskName: e.TaskName, Agent: agent, Result: e.Result,
		DurationSeconds: e.Duration.Seconds(), Details: e.Details}
	ok, err := f.test()
	if err != nil {
		if f.unanswered++; f.unanswered == 1 {
			f.firstID, f.first = id, strings.TrimPrefix(err.Error(), fmt.Sprintf("evaluate %q: ", f.source))
		}
		return false
	}
	return ok
}
