package history

import (
	"slices"
	"sync"
)

const (
	// firstBytesPerToken is where an Estimate begins: English and code lie at
	// three to five bytes a token with the usual vocabularies of 100,000 to
	// 200,000 entries.
	firstBytesPerToken = 4.0
	// No vocabulary takes fewer or more bytes for a token than these.
	minBytesPerToken, maxBytesPerToken = 0.5, 16.0
	// maxReports is how many of the newest reports an Estimate looks at: few, so
	// that it follows when the talk turns from prose to code.
	maxReports = 15
	// minSpread is how many times the smallest request the largest must be before
	// what every request costs is told apart from what a byte costs.
	minSpread = 1.3
)

// Estimate turns bytes into tokens, and learns from what the endpoint reports
// for one model. It assumes that a request costs something for itself, such as
// the template around its messages, and the same for each byte. Single reports
// that are wrong do not move it. The zero value is ready; it is safe for
// concurrent use.
type Estimate struct {
	// mu guards what follows.
	mu      sync.Mutex
	reports []report
	line    Line
	seed    Line
	refused int // bytes of the smallest request that was too long, 0 while none was
}

// Line is what an Estimate has learned.
type Line struct {
	// BytesPerToken is 0 while nothing was learned.
	BytesPerToken float64 `json:"bytes_per_token"`
	// Fixed is what each request costs beside its bytes, in tokens.
	Fixed float64 `json:"fixed"`
}

type report struct{ bytes, tokens float64 }

// Tokens estimates how many tokens so many bytes of a request are, at least one
// for any.
func (e *Estimate) Tokens(bytes int) int {
	if bytes <= 0 {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(1, int(float64(bytes)/e.ratio()))
}

// Request estimates how many tokens a whole request of so many bytes is.
func (e *Estimate) Request(bytes int) int {
	n := e.Tokens(bytes)
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(n+int(e.current().Fixed), n/2)
}

func (e *Estimate) current() Line {
	if e.line.BytesPerToken != 0 {
		return e.line
	}
	return e.seed
}

func (e *Estimate) ratio() float64 {
	if r := e.current().BytesPerToken; r != 0 {
		return r
	}
	return firstBytesPerToken
}

// Learned returns what was learned so far, and from how many reports.
func (e *Estimate) Learned() (Line, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current(), len(e.reports)
}

// Refuse takes in that the endpoint refused a request of so many bytes for its
// length.
func (e *Estimate) Refuse(bytes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes > 0 && (e.refused == 0 || bytes < e.refused) {
		e.refused = bytes
	}
}

// Window is how many tokens a request may be at most: so many as the model is
// said to take, or fewer when the endpoint refused fewer.
func (e *Estimate) Window(said int) int {
	e.mu.Lock()
	refused := e.refused
	e.mu.Unlock()
	if refused == 0 {
		return said
	}
	if known := e.Request(refused); said <= 0 || known < said {
		return known
	}
	return said
}

// Seed begins with what another Estimate learned; reports soon outweigh it. A
// line that no model could have is passed over.
func (e *Estimate) Seed(l Line) {
	if !plausible(l.BytesPerToken) || l.Fixed < -1e5 || l.Fixed > 1e6 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seed = l
}

func plausible(bytesPerToken float64) bool {
	return bytesPerToken >= minBytesPerToken && bytesPerToken <= maxBytesPerToken
}

// Learn takes in that a request of so many bytes was reported as so many tokens
// of input, of which cached came from a cache. Some endpoints count those beside
// the input: of the two readings the likelier one counts. A report that no
// vocabulary could explain is passed over.
func (e *Estimate) Learn(bytes, input, cached int) {
	if bytes <= 0 || input < 0 || cached < 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes >= e.refused {
		e.refused = 0 // it takes more than it did
	}
	tokens := float64(input)
	if cached > 0 {
		tokens = e.likelier(float64(bytes), tokens, float64(cached))
	}
	if tokens <= 0 || !plausible(float64(bytes)/tokens) {
		return
	}
	if len(e.reports) == maxReports {
		e.reports = append(e.reports[:0], e.reports[1:]...)
	}
	e.reports = append(e.reports, report{float64(bytes), tokens})
	e.line = e.fit()
}

// likelier says whether the cached tokens are part of the input or beside it.
// Part of it is the rule; beside it must explain the bytes much better.
func (e *Estimate) likelier(bytes, input, cached float64) float64 {
	if cached > input {
		return input + cached
	}
	expected := bytes/e.ratio() + e.current().Fixed
	off := func(tokens float64) float64 { return max(tokens/expected, expected/tokens) }
	if input > 0 && expected > 0 && off(input) > 1.4 && off(input+cached) < 1.2 {
		return input + cached
	}
	return input
}

// fit draws a line through the reports: the middle of the slopes between any
// two, which a few wrong reports do not move.
func (e *Estimate) fit() Line {
	ratios := make([]float64, 0, len(e.reports)+1)
	least, most := e.reports[0].bytes, e.reports[0].bytes
	for _, r := range e.reports {
		ratios = append(ratios, r.bytes/r.tokens)
		least, most = min(least, r.bytes), max(most, r.bytes)
	}
	if len(ratios) < 3 { // too few to outvote a wrong one
		ratios = append(ratios, (Line{BytesPerToken: e.seed.BytesPerToken}).or(firstBytesPerToken))
	}
	flat := Line{BytesPerToken: median(ratios)}
	if len(e.reports) < 3 || most < minSpread*least {
		return flat
	}
	var slopes []float64
	for i, a := range e.reports {
		for _, b := range e.reports[:i] {
			if d := a.bytes - b.bytes; max(d, -d) >= most/10 {
				slopes = append(slopes, (a.tokens-b.tokens)/d)
			}
		}
	}
	if len(slopes) < 2 {
		return flat
	}
	slope := median(slopes)
	if slope <= 0 || !plausible(1/slope) || 1/slope > 2.5*flat.BytesPerToken || 1/slope < flat.BytesPerToken/2.5 {
		return flat
	}
	fixed := make([]float64, len(e.reports))
	for i, r := range e.reports {
		fixed[i] = r.tokens - slope*r.bytes
	}
	return Line{BytesPerToken: 1 / slope, Fixed: median(fixed)}
}

func (l Line) or(otherwise float64) float64 {
	if l.BytesPerToken == 0 {
		return otherwise
	}
	return l.BytesPerToken
}

// median sorts values and returns the middle one, or the mean of both.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// Estimates holds an Estimate for each model. The zero value is ready; it is
// safe for concurrent use.
type Estimates struct {
	// mu guards by.
	mu sync.Mutex
	by map[string]*Estimate
}

// For returns the Estimate of a model, always the same.
func (s *Estimates) For(model string) *Estimate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]*Estimate{}
	}
	e := s.by[model]
	if e == nil {
		e = &Estimate{}
		s.by[model] = e
	}
	return e
}
