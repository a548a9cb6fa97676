package insights

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ralph/memory/session/folder"
)

const (
	maxModels  = 1000
	maxCrowded = 4096
	// maxPending bounds what waits for a window to be known.
	maxPending = 100_000
)

// crowd is where a context was over-long: an agent, or a task when no agent is
// named.
type crowd struct {
	proof
	agent         string
	share         float64
	tokens        float64
	window        float64
	seenInJournal bool
}

// request is the size of a context whose window is not known yet.
type request struct {
	m                 mark
	tokens            float32
	agent, model, who int32 // who is its task
}

// contexts finds over-long contexts.
type contexts struct {
	windows map[string]float64 // by model
	window  float64            // of the session, as stated last
	crowds  map[string]*crowd
	order   []string
	texts   map[string]int32
	names   []string
	pending []request
}

func newContexts() *contexts {
	return &contexts{windows: map[string]float64{}, crowds: map[string]*crowd{}, texts: map[string]int32{"": 0}, names: []string{""}}
}

func (c *contexts) text(s string) int32 {
	s = s[:min(len(s), 4*maxNameRunes)]
	if n, ok := c.texts[s]; ok {
		return n
	}
	if len(c.names) >= maxCrowded {
		return 0
	}
	s = keep(s)
	c.names = append(c.names, s)
	c.texts[s] = int32(len(c.names) - 1)
	return c.texts[s]
}

// began takes in the model and the window with which a process begins.
func (c *contexts) began(_ mark, d details) {
	w, ok := d.number("contextwindow", "contextlimit", "contextsize", "contextlength", "maxcontext", "maxcontexttokens", "window", "windowsize")
	if !ok || w <= 0 {
		return
	}
	c.window = w
	if m := asText(d.own("model")); m != "" && len(c.windows) < maxModels {
		c.windows[keep(m)] = w
	}
}

// mayTell says that an event could tell of its context, so that the others cost
// nothing.
func mayTell(d details) bool {
	for _, f := range d.fields {
		if strings.Contains(f.key, "context") || strings.Contains(f.key, "window") {
			return true
		}
		if _, ok := f.v.(map[string]any); ok {
			switch f.key {
			case "usage", "tokens", "metrics", "stats", "model", "memory":
				return true
			}
		}
	}
	return false
}

// event takes in what an event of the log says of the context.
func (c *contexts) event(m mark, kind folder.EventType, d details, task string) {
	var tokens, window, part float64
	switch {
	case kind == folder.SessionStart:
		return
	case mayTell(d):
		tokens, window, part = contextOf(kind, d)
	case kind == folder.Message && c.window > 0:
		// What a message took in is one request, unless it is too much for one.
		if f, ok := asNumber(d.own("prompttokens", "inputtokens", "tokensin")); ok && f <= 1.5*c.window {
			tokens = f
		}
	}
	if tokens <= 0 && part <= 0 {
		return
	}
	agent, model := asText(d.own("agent", "agentname", "agentid")), asText(d.own("model"))
	switch {
	case part > 0:
		c.full(m, task, agent, part, tokens, window)
	case tokens > 0 && window > 0:
		c.full(m, task, agent, tokens/window, tokens, window)
	case tokens > 0:
		c.ask(request{m: m, tokens: float32(tokens), agent: c.text(agent), model: c.text(model), who: c.text(task)})
	}
}

// contextOf reads the tokens in a context, its window, and which part of it they
// are; 0 means not stated. Tokens that need not be those of one request count
// only beside a window, and not at the end of something, where they are a sum.
func contextOf(kind folder.EventType, d details) (tokens, window, part float64) {
	in := d
	for _, k := range []string{"context", "contextusage", "contextinfo", "contextstats", "contextwindow"} {
		if m, ok := d.own(k).(map[string]any); ok {
			in = d.in(m)
			tokens, _ = in.number("tokens", "used", "usedtokens", "tokensused", "size", "current", "total", "length", "contexttokens")
			window, _ = in.number("window", "limit", "max", "maxtokens", "capacity", "windowsize", "contextwindow")
			part = partOf(in, "percent", "percentage", "pct", "usedpercent", "percentused", "usage", "ratio", "share", "utilization", "fill", "fraction")
			break
		}
	}
	if tokens == 0 {
		tokens, _ = d.number("contexttokens", "contextused", "contexttokensused", "tokensincontext", "contexttokencount", "promptcontexttokens", "currentcontexttokens", "contextusedtokens")
	}
	if window == 0 {
		window, _ = d.number("contextwindow", "contextlimit", "contextwindowsize", "contextmax", "maxcontext", "maxcontexttokens", "contextwindowtokens", "modelcontextwindow", "contextcapacity", "window",
			"windowsize", "windowtokens", "tokenlimit", "contextlength")
	}
	if part == 0 {
		part = partOf(d, "contextpercent", "contextpct", "contextpercentage", "contextusedpercent", "contextusagepercent", "contextusagepct", "contextusage", "contextratio", "contextusageratio", "contextshare",
			"contextutilization", "contextutilisation", "contextfill", "contextfraction", "contextwindowusage", "contextwindowpercent", "contextwindowused", "windowpercent", "windowusage", "windowusedpercent", "windowused")
	}
	if tokens == 0 {
		tokens, part, window = bareContext(d, part, window)
	}
	if limit, ok := d.number("maxtokens", "limit"); ok && window == 0 && tokens > 0 && limit >= tokens {
		window = limit // less would be the limit of an answer
	}
	if part > 1.5 && tokens == 0 { // a number of tokens under such a name
		tokens, part = part, 0
	}
	switch kind {
	case folder.TaskComplete, folder.PhaseComplete, folder.SessionEnd:
		return tokens, window, part
	}
	if tokens == 0 && window > 0 {
		tokens, _ = d.number("tokens", "inputtokens", "prompttokens", "tokensin", "tokencount", "tokensused", "usedtokens", "totaltokens", "input", "used")
	}
	return tokens, window, part
}

// bareContext reads names that may be those of a window, too, or of an answer's
// limit: they are what is in use when the window has another.
func bareContext(d details, part, window float64) (tokens, share, of float64) {
	share = part
	for _, k := range []string{"context", "contextsize", "contextlength"} {
		f, ok := asNumber(d.own(k))
		text, isText := d.own(k).(string)
		switch {
		case !ok || f <= 0:
		case isText && strings.HasSuffix(strings.TrimSpace(text), "%"):
			share = max(share, f)
		case f <= 1 && share == 0 && k == "context":
			share = f
		case f > 150 && window > 0 && f != window:
			return f, share, window
		}
	}
	return 0, share, window
}

// partOf reads a part of a window. A number beyond 100 stays as it is: it is
// none.
func partOf(d details, keys ...string) float64 {
	for _, k := range keys {
		v := d.find(k)
		f, ok := asNumber(v)
		if !ok || f <= 0 {
			continue
		}
		_, isText := v.(string)
		whole := strings.Contains(k, "percent") || strings.Contains(k, "pct")
		if f > 1.5 && f <= 150 || whole && f == math.Trunc(f) && !isText && f <= 150 {
			f /= 100
		}
		return f
	}
	return 0
}

// usage takes in the size of a request, of the journal.
func (c *contexts) usage(m mark, agent, model string, tokens float64) {
	if tokens > 0 {
		c.ask(request{m: m, tokens: float32(tokens), agent: c.text(agent), model: c.text(model)})
	}
}

// ask looks at a context whose window the session states, or keeps it until it
// does.
func (c *contexts) ask(r request) {
	if c.window == 0 {
		if len(c.pending) < maxPending {
			c.pending = append(c.pending, r)
		}
		return
	}
	window := c.window
	if model := c.names[r.model]; model != "" && len(c.windows) > 0 {
		if w, ok := c.windows[model]; ok {
			window = w
		} else {
			return // another model, with a window of its own
		}
	}
	c.full(r.m, c.names[r.who], c.names[r.agent], float64(r.tokens)/window, float64(r.tokens), window)
}

func (c *contexts) full(m mark, task, agent string, part, tokens, window float64) {
	if part < maxContextShare-1e-6 {
		return
	}
	// The log calls the coordinator by no name.
	if agent = keep(agent); agent == "ralph" {
		agent = ""
	}
	key := "agent " + agent
	if agent == "" && m.file != 'j' {
		key = "task " + task
	}
	if m.file == 'j' {
		key = "journal " + key
	}
	x := c.crowds[key]
	if x == nil {
		if len(c.order) >= maxCrowded {
			return
		}
		x = &crowd{proof: newProof(), agent: agent, seenInJournal: m.file == 'j'}
		c.crowds[key] = x
		c.order = append(c.order, key)
	}
	x.add(m, task)
	if part > x.share {
		x.share, x.tokens, x.window = part, tokens, window
	}
}

func (c *contexts) findings() (found []Finding) {
	if c.window > 0 {
		for _, r := range c.pending {
			c.ask(r)
		}
		c.pending = nil
	}
	logged := map[string]bool{} // the agents of which the log tells; "" of the coordinator, or of one without a name
	for _, key := range c.order {
		if x := c.crowds[key]; !x.seenInJournal {
			logged[x.agent] = true
		}
	}
	for _, key := range c.order {
		x := c.crowds[key]
		if x.seenInJournal && (logged[x.agent] || logged[""]) {
			continue
		}
		found = append(found, x.finding(overLongContext, x.says()))
	}
	slices.SortStableFunc(found, firstOf)
	return found
}

func (x *crowd) says() string {
	whose := "The context"
	switch {
	case x.agent != "":
		whose += " of the agent " + named(x.agent)
	case len(x.proof.tasks) == 1 && !strings.HasPrefix(x.proof.tasks[0], nameless):
		whose += " of task " + named(x.proof.tasks[0])
	}
	numbers := ""
	if x.tokens > 0 && x.window > 0 {
		numbers = fmt.Sprintf(" (%.0f of %.0f tokens)", x.tokens, x.window)
	}
	often := ""
	if x.n > 1 {
		often = fmt.Sprintf(", and was over 80 %% %s", times(x.n))
	}
	return fmt.Sprintf("%s reached %.0f %% of the window%s%s.", whose, math.Floor(x.share*100+1e-6), numbers, often)
}
