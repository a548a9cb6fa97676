package scripts

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"ralph/coordinator/loop"
	"ralph/workers/agent"

	"ralph/memory/text"
)

// progress tells a person on standard error what is going on: a line for each
// thing done and, on a terminal, a live line below them. It is safe for
// concurrent use; close ends its goroutine.
type progress struct {
	quiet   bool
	verbose bool
	now     func() time.Time
	warning func(string)
	asks    bool // the person is asked directly, and sees the question there

	says bool // what the model says is shown too

	done chan struct{}
	once sync.Once // closes done
	wg   sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	area      area
	board     *board // of a run; nil: one live line
	suspended int
	doing     string
	began     time.Time
	tokens    int
	main      string            // the agent that was given the task
	agents    int               // others at work
	calls     map[string]string // what each running call does
	tries     map[string]int    // of the tasks of a plan; 0: that it is tried again was told
	reasoning strings.Builder
}

// newProgress returns a progress; quiet silences everything but warnings.
func (inv *invocation) newProgress() *progress {
	p := &progress{
		area: area{w: inv.Stderr}, now: inv.Now, began: inv.Now(), warning: inv.showWarningOnce,
		quiet: inv.cfg.Quiet, verbose: inv.cfg.Verbose, calls: map[string]string{}, tries: map[string]int{}, done: make(chan struct{}),
	}
	if f, ok := inv.Stderr.(*os.File); ok && !p.quiet && inv.out.terminal && isTerminal(f) &&
		inv.Getenv("NO_COLOR") == "" && inv.Getenv("TERM") != "dumb" {
		p.area.width = func() int { w, _ := sizeOf(f); return w }
		p.area.height = func() int { _, h := sizeOf(f); return h }
		p.wg.Go(p.tick)
	}
	return p
}

// sizeOf is the size of a terminal, zero when it does not tell.
func sizeOf(f *os.File) (width, height int) {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return w, h
}

// close takes the live line away and waits for the goroutine. It may be called
// more than once.
func (p *progress) close() {
	p.once.Do(func() { close(p.done) })
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.area.clear()
	p.area.width = nil // what is printed from now on is followed by the answer
}

// suspend takes the live line away until the returned function is called.
func (p *progress) suspend() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.area.clear()
	p.suspended++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.suspended--
	}
}

func (p *progress) tick() {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-t.C:
			p.look()
		}
	}
}

// watch shows a run as ask tells of it, from now on.
func (p *progress) watch(ask func() *loop.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board = &board{ask: ask}
	if p.area.width == nil && !p.quiet {
		p.wg.Go(p.tick)
	}
}

// look sees how the work stands and shows it. How a run stands is asked without
// the lock: whoever answers may be showing an event just now.
func (p *progress) look() {
	p.mu.Lock()
	b := p.board
	p.mu.Unlock()
	var v *loop.View
	if b != nil {
		v = b.ask()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v != nil {
		if p.asks {
			v.Question = nil // it is put directly, and may be answered by now
		}
		b.view = v
		p.plain(b)
	}
	p.draw()
}

// draw shows the live line or the table of a run, cut to the width so that
// nothing wraps.
func (p *progress) draw() {
	columns := p.area.columns()
	if columns == 0 || p.suspended > 0 {
		return
	}
	if p.board != nil && p.board.view != nil {
		p.area.draw(p.board.lines(columns, p.area.rows(maxBoard), p.now()))
		return
	}
	line := fmt.Sprintf("%s · %s", p.doing, spanText(p.now().Sub(p.began)))
	if p.doing == "" {
		line = strings.TrimPrefix(line, " · ")
	}
	if p.tokens > 0 {
		line += " · " + countText(p.tokens) + " tok"
	}
	if p.agents > 0 {
		line += " · " + text.Count(p.agents, "agent")
	}
	p.area.draw([]string{line})
}

// line prints one line above what is live.
func (p *progress) line(format string, args ...any) {
	if p.quiet {
		return
	}
	p.area.above(fmt.Sprintf(format+"\n", args...))
}

// event shows one event.
func (p *progress) event(e agent.Event) {
	if e.Type == agent.EventWarning {
		resume := p.suspend()
		content := e.Text
		if e.Agent != "" && e.Agent != mainAgent {
			content = e.Agent + ": " + content
		}
		p.warning(content)
		resume()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.helper(e) {
		p.child(e)
		return
	}
	if e.Type != agent.EventReasoning {
		p.flushReasoning()
	}
	switch e.Type {
	case agent.EventStart:
		if p.verbose {
			p.line("ralph: model %s, sandbox %s, run %s", text.Visible(e.Model), text.Visible(e.Sandbox), text.Visible(e.RunID))
		}
	case agent.EventTurnStart:
		p.doing = "thinking"
	case agent.EventMessageDelta:
		p.doing = "writing"
	case agent.EventReasoning:
		p.reasoning.WriteString(e.Text)
		p.doing = "reasoning"
	case agent.EventMessage:
		// What the model says between tool calls tells a person more than the
		// calls; the last message is the answer and goes to standard output.
		if p.verbose || p.says {
			p.line("ralph: %s", oneLine(e.Text, 200))
		}
	case agent.EventToolStart:
		what := strings.TrimSpace(e.Tool + " " + subject(e.Args))
		p.calls[e.CallID] = what
		p.doing = oneLine(what, 60)
	case agent.EventToolEnd:
		p.toolEnd(e)
	case agent.EventUsage:
		if e.Usage != nil {
			p.tokens += e.Usage.Total
		}
	default:
		p.rare(e)
	}
}

// rare shows the events that come seldom.
func (p *progress) rare(e agent.Event) {
	switch e.Type {
	case agent.EventPermission:
		if e.Status == "denied" {
			p.line("ralph: denied %s: %s (%s)", text.Visible(e.Tool), oneLine(e.Text, 120), oneLine(e.Rule, 80))
		}
	case agent.EventAsk:
		if !p.asks {
			p.line("ralph: asked: %s", oneLine(e.Text, 120))
		}
	case agent.EventRetry:
		p.retry(e)
	case agent.EventInbox:
		p.line("ralph: %s", inboxText(e))
	case agent.EventCompact:
		p.line("ralph: %s", oneLine(orWord(e.Text, "the conversation was compacted"), 120))
	case agent.EventGate:
		p.line("ralph: check %s: %s", oneLine(e.Text, 100), p.verdict(e))
	case agent.EventTaskStart: // it is shown with the agent that begins
		if _, told := p.tries[e.TaskID]; !told {
			p.tries[e.TaskID] = max(e.Attempt, 1)
		}
	case agent.EventTaskEnd:
		p.taskEnd(e)
	case agent.EventBreaker:
		p.line("ralph: breaker %s", strings.TrimSpace(oneLine(e.Status, 40)+" "+oneLine(orWord(e.Text, e.Reason), 160)))
	case agent.EventDecision:
		switch {
		case e.Status == "check", e.Status == "cache":
			p.line("ralph: %s (%s)", oneLine(e.Text, 200), oneLine(e.Reason, 200))
		case p.verbose:
			p.line("ralph: decided %s", strings.TrimSpace(oneLine(e.TaskID, 40)+" "+oneLine(orWord(e.Text, e.Reason), 160)))
		}
	case agent.EventInterrupt:
		if e.Text == "" && e.Status == "stopping" { // it takes a moment; why is said at the end
			p.doing = "stopping"
			p.draw()
			return
		}
		p.line("ralph: %s", interruptText(e))
	}
}

// inboxText says what became of a message of the human.
func inboxText(e agent.Event) string {
	words := []string{text.VisibleLine(e.Ref), text.VisibleLine(e.Status)}
	if e.Class != "" {
		words = append(words, "("+text.VisibleLine(e.Class)+")")
	}
	content := strings.TrimSpace(strings.Join(words, " "))
	if said := oneLine(orWord(e.Output, e.Text), 120); said != "" {
		content += ": " + said
	}
	return content
}

// interruptText says what a stop, a pause or an urgent message did.
func interruptText(e agent.Event) string {
	switch {
	case e.Status == "stopped" && e.Text != "":
		return "stopped: " + oneLine(e.Text, 200)
	case e.Text != "":
		return oneLine(e.Text, 200)
	}
	return oneLine(orWord(e.Reason, orWord(e.Status, "interrupted")), 120)
}

func (p *progress) toolEnd(e agent.Event) {
	what := p.calls[e.CallID]
	delete(p.calls, e.CallID)
	if what == "" {
		what = e.Tool
	}
	p.line("  %s: %s", oneLine(what, 100), p.verdict(e))
	p.doing = "thinking"
	if !p.verbose || e.Output == "" {
		return
	}
	for i, content := range strings.Split(strings.TrimRight(text.Visible(e.Output), "\n"), "\n") {
		if i == 8 {
			p.line("    …")
			break
		}
		p.line("    %s", content)
	}
}

// verdict says in a few words how a call or a check ended.
func (p *progress) verdict(e agent.Event) string {
	var words []string
	failed := e.OK != nil && !*e.OK
	switch {
	case e.Denied:
		words = append(words, "denied")
	case e.Type == agent.EventToolEnd && e.Text != "":
		words = append(words, oneLine(e.Text, 80))
		if failed && e.ExitCode == nil && !strings.Contains(e.Text, "fail") {
			words = append(words, "failed")
		}
	case e.Type == agent.EventGate && e.Reason != "":
		words = append(words, oneLine(e.Reason, 80))
	case e.ExitCode != nil:
		words = append(words, fmt.Sprintf("exit %d", *e.ExitCode))
	case failed && e.Output != "":
		words = append(words, oneLine(e.Output, 80), "failed")
	case failed:
		words = append(words, "failed")
	default:
		words = append(words, "ok")
	}
	if e.DurationMS != nil && *e.DurationMS >= 1000 {
		words = append(words, spanText(time.Duration(*e.DurationMS)*time.Millisecond))
	}
	return strings.Join(words, ", ")
}

func (p *progress) flushReasoning() {
	if p.verbose && p.reasoning.Len() > 0 {
		for line := range strings.Lines(strings.TrimSpace(p.reasoning.String())) {
			p.line("  | %s", strings.TrimRight(text.Visible(line), "\n"))
		}
	}
	p.reasoning.Reset()
}

// summary prints the last line: how the run went.
func (p *progress) summary(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := []string{string(r.Status), spanText(time.Duration(r.DurationMS) * time.Millisecond), text.Count(r.Turns, "turn")}
	if r.Usage.Total > 0 {
		words = append(words, countText(r.Usage.Total)+" tokens")
	}
	if r.CostUSD != nil {
		words = append(words, fmt.Sprintf("$%.4f", *r.CostUSD))
	}
	if len(r.Files) > 0 {
		words = append(words, text.Count(len(r.Files), "file")+" changed")
	}
	if len(r.Commits) > 0 {
		words = append(words, text.Count(len(r.Commits), "commit"))
	}
	if r.Verified {
		words = append(words, "verified")
	}
	p.line("ralph: %s", strings.Join(words, " · "))
}

// subject picks from a call's arguments the one that a person wants to see.
func subject(args json.RawMessage) string {
	var object map[string]any
	if json.Unmarshal(args, &object) != nil {
		return ""
	}
	for _, name := range []string{"command", "path", "pattern", "url", "action", "title", "text", "question", "name", "what"} {
		if s, ok := object[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

func spanText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func countText(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
