package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// search is one grep: files go in by add, in order, and matches come out in the
// same order, whichever worker is done first. start and finish frame the use of
// workers; one works without.
type search struct {
	re       *regexp.Regexp
	quick    *regexp.Regexp // finds a match somewhere in a file, or nil
	around   int
	limit    int
	most     int // bytes of output
	work     chan opened
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	full     atomic.Bool
	unread   atomic.Int64
	large    atomic.Int64
	searched atomic.Int64

	mu      sync.Mutex        // guards what follows
	waiting map[int]fileMatch // done before the files before them
	next    int               // the file whose turn it is
	added   int
	out     strings.Builder
	matches int
	files   int
	long    bool
	odd     bool // bytes that are not UTF-8
}

type opened struct {
	n    int
	f    *os.File
	name string
}

// fileMatch is what was found in one file.
type fileMatch struct {
	name  string
	lines []matchLine
}

type matchLine struct {
	n     int
	match bool
	text  string
	first bool // begins a group
}

func newSearch(a grepArgs) (*search, error) {
	if a.Pattern == "" {
		return nil, errors.New(`grep: the pattern is empty`)
	}
	if len(a.Pattern) > maxPatternBytes {
		return nil, fmt.Errorf("grep: the pattern has %d bytes; %d are allowed", len(a.Pattern), maxPatternBytes)
	}
	text := a.Pattern
	if a.IgnoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("grep: %w (Go RE2 syntax: no look-around, no back-references; escape ( [ { . with \\)", err)
	}
	s := &search{re: re, around: min(max(a.Context, 0), maxAround), limit: min(a.Limit, maxMatches), waiting: map[int]fileMatch{}}
	if s.limit <= 0 {
		s.limit = defaultMatches
	}
	// Anchors to the ends of the text mean other places in a whole file.
	if !strings.Contains(a.Pattern, `\A`) && !strings.Contains(a.Pattern, `\z`) && !strings.Contains(a.Pattern, "(?-") {
		s.quick, _ = regexp.Compile("(?m)" + text)
	}
	return s, nil
}

func (s *search) start(ctx context.Context, cancel context.CancelFunc) {
	s.cancel = cancel
	n := min(runtime.GOMAXPROCS(0), 8)
	s.work = make(chan opened, 4*n)
	for range n {
		s.wg.Go(func() {
			var buf []byte
			for j := range s.work {
				buf = s.file(ctx, j, buf)
			}
		})
	}
}

// add hands an open file over; it is closed by who takes it.
func (s *search) add(ctx context.Context, f *os.File, name string) error {
	n := s.added
	s.added++
	select {
	case s.work <- opened{n: n, f: f, name: name}:
		return nil
	case <-ctx.Done():
		_ = f.Close() // only read from
		return context.Cause(ctx)
	}
}

func (s *search) finish() {
	close(s.work)
	s.wg.Wait()
}

// file searches one file and returns the buffer for the next. Once ctx ends it
// finds nothing more.
func (s *search) file(ctx context.Context, j opened, buf []byte) []byte {
	defer j.f.Close()
	m := fileMatch{name: j.name}
	if !s.full.Load() && ctx.Err() == nil {
		var data []byte
		data, buf = s.load(ctx, j.f, buf)
		m.lines = s.search(ctx, data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[j.n] = m
	for {
		m, ok := s.waiting[s.next]
		if !ok {
			return buf
		}
		delete(s.waiting, s.next)
		s.next++
		s.emit(m)
	}
}

// load reads a text file whole; of a binary or too large one it returns nothing.
func (s *search) load(ctx context.Context, f *os.File, buf []byte) (data, kept []byte) {
	info, err := f.Stat()
	if err != nil {
		s.unread.Add(1)
		return nil, buf
	}
	size := int(min(info.Size(), maxGreppedBytes+1))
	if size > maxGreppedBytes {
		s.large.Add(1)
		return nil, buf
	}
	if cap(buf) < size {
		buf = make([]byte, max(size, 64<<10))
	}
	n, err := io.ReadFull(until(ctx, f), buf[:size])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		s.unread.Add(1)
		return nil, buf
	}
	data = buf[:n]
	if bytes.IndexByte(data[:min(n, sniffBytes)], 0) >= 0 {
		return nil, buf
	}
	s.searched.Add(1)
	return bytes.TrimPrefix(data, []byte(bom)), buf
}

// search returns the matching lines of a file with those around them. The quick
// expression jumps over what cannot match, a window of whole lines at a time; a
// line counts when it matches alone.
func (s *search) search(ctx context.Context, data []byte) []matchLine {
	quick := s.quick
	if bytes.IndexByte(data, '\r') >= 0 {
		quick = nil // $ stands before the \r, which only a line alone can tell
	}
	c := lineCursor{data: data, n: 1}
	var lines []matchLine
	last, matches := 0, 0
	for c.from < len(data) && matches <= s.limit && ctx.Err() == nil {
		if quick != nil {
			window := data[c.from:c.windowEnd()]
			at := find(ctx, quick, window)
			if at == nil {
				c.skipOver(len(window))
				continue
			}
			if c.skipTo(c.from + at[0]); c.from >= len(data) {
				break
			}
		}
		if line := c.line(); find(ctx, s.re, line) != nil {
			matches++
			lines, last = s.group(ctx, lines, &c, last)
		}
		c.advance()
	}
	return lines
}

// windowBytes is searched between two looks at the context: some milliseconds
// with the slowest expression.
const windowBytes = 128 << 10

// find is FindIndex that ends soon after ctx does, then with whatever it found.
// The way that can be interrupted is slower: it is taken for long texts only.
func find(ctx context.Context, re *regexp.Regexp, text []byte) []int {
	if len(text) <= 2*windowBytes {
		return re.FindIndex(text)
	}
	return re.FindReaderIndex(runesUntil(ctx, text))
}

// group appends the line under the cursor with the lines around it that are not
// there yet; last is the number of the last line appended.
func (s *search) group(ctx context.Context, lines []matchLine, c *lineCursor, last int) ([]matchLine, int) {
	if last >= c.n {
		// It already stands there as the context of an earlier one.
		lines[len(lines)-1-(last-c.n)].match = true
	}
	before := *c
	for i := 0; i < s.around && before.n > last+1 && before.n > 1; i++ {
		before.back()
	}
	first := before.n > last+1 || last == 0
	for at := before; at.from < len(c.data) && at.n <= c.n+s.around; at.advance() {
		if at.n <= last {
			continue
		}
		lines = append(lines, matchLine{n: at.n, match: at.n == c.n, text: s.cut(ctx, at.line(), at.n == c.n), first: first})
		first = false
		last = at.n
	}
	return lines, last
}

// cut shortens a long line to what is around its match.
func (s *search) cut(ctx context.Context, line []byte, match bool) string {
	if len(line) <= maxShownBytes {
		return string(line)
	}
	from := 0
	if !match {
		return string(wholeRunes(line[:maxShownBytes]))
	}
	if at := find(ctx, s.re, line); at != nil {
		from = max(0, min(at[0]-maxShownBytes/4, len(line)-maxShownBytes))
	}
	for from < len(line) && line[from]&0xc0 == 0x80 {
		from++
	}
	return string(wholeRunes(line[from:min(from+maxShownBytes, len(line))]))
}

// emit writes the matches of the file whose turn it is. The caller holds mu.
func (s *search) emit(m fileMatch) {
	if len(m.lines) == 0 || s.full.Load() {
		return
	}
	s.files++
	name, _ := visible([]byte(m.name))
	name = strings.ReplaceAll(name, "\n", `\n`)
	for _, l := range m.lines {
		if l.match && s.matches >= s.limit {
			s.stop()
			return
		}
		text, odd := visible([]byte(l.text))
		mark := "-"
		if l.match {
			mark = ":"
		}
		line := fmt.Sprintf("%s%s%d%s%s\n", name, mark, l.n, mark, text)
		if s.around > 0 && l.first && s.out.Len() > 0 {
			line = "--\n" + line
		}
		if s.out.Len() > 0 && s.out.Len()+len(line) > s.most {
			s.stop()
			return
		}
		s.out.WriteString(line)
		s.odd = s.odd || odd
		s.long = s.long || len(l.text) >= maxShownBytes-3
		if l.match {
			s.matches++
		}
	}
}

func (s *search) stop() {
	s.full.Store(true)
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *search) result(notes string) agent.Result {
	brief := text.Count(s.matches, "match")
	lines := []string{fmt.Sprintf("%s in %s (%s searched)", brief, text.Count(s.files, "file"), text.Count(int(s.searched.Load()), "file"))}
	if s.full.Load() {
		lines[0] = fmt.Sprintf("the first %s; there are more: narrow the pattern, path or glob, or raise limit", brief)
	}
	lines = append(lines, notes)
	if n := int(s.large.Load()); n > 0 {
		lines = append(lines, fmt.Sprintf("%s over %d MiB not searched: use shell", text.Count(n, "file"), maxGreppedBytes>>20))
	}
	if n := int(s.unread.Load()); n > 0 {
		lines = append(lines, text.Count(n, "file")+" could not be read")
	}
	if s.long {
		lines = append(lines, fmt.Sprintf("long lines are cut to %d bytes around the match", maxShownBytes))
	}
	if s.odd {
		lines = append(lines, `bytes that are not UTF-8 are shown as \xNN`)
	}
	return agent.Result{Head: head(lines...), Text: s.out.String(), Brief: brief}
}

// lineCursor stands on the line n, from 1, of data, which begins at from; from
// is len(data) after the last one.
type lineCursor struct {
	data []byte
	from int
	n    int
}

// line is the line without its line end.
func (c *lineCursor) line() []byte {
	line := c.data[c.from:]
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	return bytes.TrimSuffix(line, []byte("\r"))
}

func (c *lineCursor) advance() {
	c.n++
	if i := bytes.IndexByte(c.data[c.from:], '\n'); i >= 0 {
		c.from += i + 1
		return
	}
	c.from = len(c.data)
}

// back goes to the line before, which must exist.
func (c *lineCursor) back() {
	c.n--
	c.from = bytes.LastIndexByte(c.data[:c.from-1], '\n') + 1
}

// windowEnd is the end of the line that lies windowBytes ahead.
func (c *lineCursor) windowEnd() int {
	at := c.from + windowBytes
	if at >= len(c.data) {
		return len(c.data)
	}
	if i := bytes.IndexByte(c.data[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(c.data)
}

// skipOver goes forward by n bytes, which are whole lines.
func (c *lineCursor) skipOver(n int) {
	c.n += bytes.Count(c.data[c.from:c.from+n], []byte("\n"))
	c.from += n
}

// skipTo goes forward to the line that holds the byte at pos.
func (c *lineCursor) skipTo(pos int) {
	between := c.data[c.from:pos]
	c.n += bytes.Count(between, []byte("\n"))
	if i := bytes.LastIndexByte(between, '\n'); i >= 0 {
		c.from += i + 1
	}
}
