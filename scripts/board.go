package scripts

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/mattn/go-runewidth"

	"ralph/coordinator/loop"
	"ralph/memory/feature"
	"ralph/memory/text"
)

const (
	// maxBoard bounds the lines of the table of a run.
	maxBoard = 12
	// quietFor is for how long the plain lines do not say how a run stands.
	quietFor = time.Minute
)

// board shows a run: on a terminal as a table with a progress bar below the
// lines, elsewhere as a plain line now and then. It belongs to a progress, whose
// lock guards it.
type board struct {
	ask  func() *loop.View // how the run stands; nil while there is none
	view *loop.View
	said time.Time // when a plain line said it last
}

// lines are the table: the tasks at work, what is waited for, and the bar at the
// bottom. Where the rows do not suffice, the tasks that were begun last are
// counted only.
func (b *board) lines(columns, rows int, now time.Time) []string {
	v := b.view
	var out []string
	if v.Question != nil && rows > 2 {
		out = append(out, "? "+oneLine(v.Question.Text, columns))
	}
	if w := v.Waiting; w != nil && rows > 2 {
		out = append(out, "… "+waitText(*w, now))
	}
	room := rows - len(out) - 1 // the bar
	for i, r := range v.Active {
		if i == room-1 && len(v.Active) > room {
			out = append(out, fmt.Sprintf("  and %d more", len(v.Active)-i))
			break
		}
		if i >= room {
			break
		}
		out = append(out, rowText(r, columns, now))
	}
	return append(out, barText(*v, columns, now))
}

// rowText is a task at work: id, title, who, how long. Narrow terminals see no
// agent, and less of the title; an agent that is named as the task is seen nowhere.
func rowText(r loop.Row, columns int, now time.Time) string {
	id := oneLine(r.ID, 24)
	id = ansi.Truncate(id, max(6, columns/4), "…")
	after := ago(r.Since, now)
	if r.Attempt > 1 {
		after = fmt.Sprintf("try %d, %s", r.Attempt, after)
	}
	if who := r.Who(); columns >= 60 && who != "" {
		after = ansi.Truncate(oneLine(who, 60), columns/4, "…") + "  " + after
	}
	title := orWord(r.Title, r.Status)
	if r.Reason != "" && columns >= 100 {
		title += " (" + r.Reason + ")"
	}
	room := columns - 2 - width(id) - 2 - 2 - width(after)
	if room < 6 {
		return "  " + id + "  " + after
	}
	title = ansi.Truncate(oneLine(title, 400), room, "…")
	return "  " + id + "  " + title + strings.Repeat(" ", max(0, room-width(title))+2) + after
}

// barText is how far the run is, in a line.
func barText(v loop.View, columns int, now time.Time) string {
	c := v.Counts
	settled := c.Done + c.Failed + c.Skipped
	var words []string
	add := func(n int, word string) {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, word))
		}
	}
	add(c.Failed, "failed")
	add(len(v.Active), "at work")
	add(c.Skipped, "skipped")
	if v.Status != "" && v.Status != feature.Running {
		words = append(words, string(v.Status))
	}
	if v.Breaker != "" {
		words = append(words, "breaker "+oneLine(v.Breaker, 20))
	}
	words = append(words, iterationText(v))
	if v.Tokens > 0 {
		words = append(words, countText(v.Tokens)+" tok")
	}
	if v.CostUSD != nil {
		words = append(words, fmt.Sprintf("$%.2f", *v.CostUSD))
	}
	if !v.StartedAt.IsZero() {
		words = append(words, ago(v.StartedAt, now))
	}
	long := max(8, min(30, columns/4))
	text := fmt.Sprintf("%s %d/%d", bar(settled, c.Total, long), c.Done, c.Total)
	for _, w := range words { // as much as there is room for, nothing by half
		if w != "" && width(text)+3+width(w) <= columns {
			text += " · " + w
		}
	}
	return text
}

func iterationText(v loop.View) string {
	switch {
	case v.Iteration == 0:
		return ""
	case v.MaxIterations > 0:
		return fmt.Sprintf("iteration %d/%d", v.Iteration, v.MaxIterations)
	}
	return fmt.Sprintf("iteration %d", v.Iteration)
}

// bar draws how much of total is done. It is only full when all is.
func bar(done, total, long int) string {
	full := 0
	if total > 0 {
		full = min(long, long*done/total)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", long-full) + "]"
}

func width(s string) int {
	if plainASCII(s) {
		return len(s)
	}
	return runewidth.StringWidth(s)
}

// waitText says what a run waits for that comes by itself.
func waitText(w loop.Wait, now time.Time) string {
	what := map[string]string{"rate_limit": "rate limit", "backoff": "backing off", "breaker": "the breaker is open"}[w.For]
	text := "waiting: " + orWord(what, oneLine(w.For, 40))
	if w.Agent != "" {
		text += " (" + oneLine(w.Agent, 40) + ")"
	}
	if left := w.Until.Sub(now); left > 0 {
		text += ", " + spanText(left) + " left"
	}
	return text
}

// plain says in a line how the run stands where there is no table, when that was
// not said for long: what begins and ends has its own lines.
func (p *progress) plain(b *board) {
	if p.area.width != nil || b.view == nil || p.suspended > 0 || p.quiet {
		return
	}
	now := p.now()
	if b.said.IsZero() {
		b.said = now
	}
	if now.Sub(b.said) >= quietFor {
		b.said = now
		p.line("ralph: %s", plainText(*b.view, now))
	}
}

// plainText is how a run stands in a line for a log.
func plainText(v loop.View, now time.Time) string {
	c := v.Counts
	content := fmt.Sprintf("%d of %s done", c.Done, text.Count(c.Total, "task"))
	for _, x := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}} {
		if x.n > 0 {
			content += fmt.Sprintf(", %d %s", x.n, x.word)
		}
	}
	if len(v.Active) > 0 {
		var at []string
		for _, r := range v.Active[:min(5, len(v.Active))] {
			at = append(at, strings.TrimSpace(oneLine(r.ID, 40)+" "+ago(r.Since, now)))
		}
		if n := len(v.Active) - len(at); n > 0 {
			at = append(at, fmt.Sprintf("and %d more", n))
		}
		content += "; at work: " + strings.Join(at, ", ")
	}
	if v.Waiting != nil {
		content += "; " + waitText(*v.Waiting, now)
	}
	if it := iterationText(v); it != "" {
		content += "; " + it
	}
	return content
}
