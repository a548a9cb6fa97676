package line

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

const (
	// keptOutput bounds the text that waits for a terminal that does not take any;
	// fastOutput for one that does, but not as fast as it comes.
	keptOutput, fastOutput = 8 << 20, 32 << 20
	// stalled is how long one write takes to a terminal that takes no output.
	stalled = time.Second
	// The piece of text that is written at a time is such that a key waits less than
	// pieceTime for it.
	leastPiece, firstPiece, mostPiece = 256, 3 << 10, 3 << 10
	pieceTime                         = 4 * time.Millisecond
	// beside is how much text may be formatted before a key is painted.
	beside = 2 << 10
)

// backlog is text that waits to be printed, whole lines. When there is too much
// the middle is left out, and it says so in its place.
type backlog struct {
	b       []byte
	gap     int // where lines were left out
	dropped int64
}

// add appends whole lines and leaves out what is over limit.
func (p *backlog) add(text string, limit int) {
	p.b = append(p.b, text...)
	if len(p.b) <= limit+limit/4 {
		return
	}
	if p.dropped == 0 || p.gap > limit/2 {
		p.gap = bytes.LastIndexByte(p.b[:limit/2], '\n') + 1
	}
	end := len(p.b) - (limit - p.gap)
	if i := bytes.IndexByte(p.b[end-1:], '\n'); i >= 0 {
		end += i
	}
	p.dropped += int64(end - p.gap)
	p.b = append(p.b[:p.gap], p.b[end:]...)
}

// take returns the text and leaves none.
func (p *backlog) take() string {
	text := string(p.b)
	if p.dropped > 0 {
		text = fmt.Sprintf("%s%s… %d KiB of output left out: the terminal did not take it …\n%s", p.b[:p.gap], resetSGR, (p.dropped+1023)/1024, p.b[p.gap:])
	}
	*p = backlog{}
	return text
}

// queue puts text among what waits to be printed; mu is held.
func (t *Term) queue(text string) {
	limit := fastOutput
	if since := t.writing.Load(); since != 0 && time.Now().UnixNano()-since > int64(stalled) {
		limit = keptOutput
	}
	t.printed.add(text, limit)
}

// printing is what the painting goroutine prints at present. A piece of it is
// written at a time, so that keys come in between; what is wanted below it is shown
// when all of it is printed, so that it never overtakes the text.
type printing struct {
	text string
	want Prompt
	size int // of a piece
	// changed and urgent say of want what Term's fields say of Term.want.
	changed, urgent bool
}

// piece returns the lines to be written now, the last ones of the text or not.
func (p *printing) piece() string {
	if p.size == 0 {
		p.size = firstPiece
	}
	if len(p.text) <= p.size {
		return p.text
	}
	n := strings.LastIndexByte(p.text[:p.size], '\n') + 1
	if n == 0 { // one long line
		n = strings.IndexByte(p.text, '\n') + 1
	}
	if n <= 0 {
		n = len(p.text)
	}
	return p.text[:n]
}

// took adapts the size of a piece to the time that one took.
func (p *printing) took(n int, d time.Duration) {
	switch {
	case d > pieceTime:
		p.size = max(leastPiece, p.size/2)
	case d < pieceTime/4 && n >= p.size/2:
		p.size = min(mostPiece, p.size*2)
	}
}

// print writes the next piece of what is being printed.
func (t *Term) print(piece string) {
	l := &t.loop
	began := time.Now()
	out := l.screen.printAbove(piece, t.layout())
	if len(out) > beside {
		out = "\x1b[?25l" + out + "\x1b[?25h"
	}
	t.write(out)
	l.painted = time.Now()
	l.printing.took(len(piece), l.painted.Sub(began))
}
