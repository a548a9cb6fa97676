package tools

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"ralph/memory/text"
	"ralph/workers/agent"
)

//go:embed read.md
var readDoc string

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty" jsonschema:"first line, from 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"lines"`
}

func (b *box) read() spec {
	return define("read", readDoc, `{"path":"main.go","offset":1,"limit":200}`, agent.EffectRead, b.runRead)
}

const (
	sniffBytes    = 8000     // looked at to tell text from binary, as git does
	longLineBytes = 2000     // a line is cut there when the file is not shown whole
	countedBytes  = 32 << 20 // files up to this size get their lines counted
	// maxScannedBytes is how far a file is looked at, which may be sparse, or grow
	// faster than it is read.
	maxScannedBytes = 256 << 20
)

func (b *box) runRead(ctx context.Context, a readArgs) (agent.Result, error) {
	f, name, err := b.Files.Open(a.Path)
	if err != nil {
		return agent.Result{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return agent.Result{}, &Error{Op: "read", Path: a.Path, Err: err}
	}
	p := page{first: max(a.Offset, 1), limit: a.Limit, most: b.MaxOutputBytes, size: info.Size()}
	p.line = p.most
	if p.size > int64(p.most) {
		p.line = min(longLineBytes, p.most)
	}
	most := &io.LimitedReader{R: until(ctx, f), N: maxScannedBytes}
	in := bufio.NewReaderSize(most, 64<<10)
	if err := refuseBinary(in, f, name, p.size); err != nil {
		return agent.Result{}, err
	}
	if err := p.read(in); err != nil {
		return agent.Result{}, fmt.Errorf("read %q: %w", name, err)
	}
	p.scanned = most.N <= 0
	return p.result(name), nil
}

// refuseBinary answers for what is no text, by what it is.
func refuseBinary(in *bufio.Reader, f *os.File, name string, size int64) error {
	start, err := in.Peek(int(min(size, sniffBytes)))
	if err != nil && !errors.Is(err, io.EOF) {
		return &Error{Op: "read", Path: name, Err: err}
	}
	kind := http.DetectContentType(start)
	isText := bytes.IndexByte(start, 0) < 0
	switch {
	case strings.HasPrefix(kind, "image/") && !isText:
		return fmt.Errorf("read %q: an image (%s, %d bytes): this tool shows text only", name, kind, size)
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return fmt.Errorf("read %q: UTF-16 text (%d bytes): convert it with shell, for example iconv -f UTF-16 -t UTF-8", name, size)
	case !isText, kind == "application/pdf":
		return fmt.Errorf("read %q: a binary file (%s, %d bytes): this tool shows text only", name, kind, size)
	}
	return nil
}

// page is the part of a file that is shown.
type page struct {
	first, limit int
	most         int // bytes of the result
	line         int // bytes of one line
	size         int64

	out     strings.Builder
	at      int   // the line read last
	last    int   // the last line shown
	long    []int // the lines that were cut
	invalid bool
	more    bool // lines follow that are not shown
	counted bool // at is the number of all lines
	scanned bool // the file goes on after what is looked at
}

// read goes on to the end of the file only to count the lines of one that is
// not huge.
func (p *page) read(in *bufio.Reader) error {
	for {
		line, cut, err := readLine(in, p.line)
		if errors.Is(err, io.EOF) {
			p.counted = true
			return nil
		}
		if err != nil {
			return err
		}
		p.at++
		switch {
		case p.at < p.first:
		case p.more || p.limit > 0 && p.at >= p.first+p.limit || !p.add(line, cut):
			p.more = true
			if p.size > countedBytes {
				return nil
			}
		}
	}
}

// add shows one more line, unless it does not fit.
func (p *page) add(line []byte, cut bool) bool {
	text, invalid := visible(line)
	if len(text) > p.most {
		text, cut = cutText(text, p.most), true
	}
	if p.at == 1 {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if p.out.Len() > 0 && p.out.Len()+len(text)+12 > p.most {
		return false
	}
	p.out.WriteString(strconv.Itoa(p.at))
	p.out.WriteByte('\t')
	p.out.WriteString(strings.TrimSuffix(text, "\r"))
	p.out.WriteByte('\n')
	p.last = p.at
	p.invalid = p.invalid || invalid
	if cut {
		p.long = append(p.long, p.at)
	}
	return true
}

func (p *page) result(name string) agent.Result {
	of, far := "", fmt.Sprintf("the first %d MiB, which is as far as it is looked at (use shell for the rest)", maxScannedBytes>>20)
	switch {
	case p.scanned:
		of = " of " + far
	case p.counted:
		of = fmt.Sprintf(" of %d", p.at)
	case p.more:
		of = fmt.Sprintf(" of a file of %d bytes", p.size)
	}
	if p.last == 0 {
		what := fmt.Sprintf("%s: empty file", name)
		switch {
		case p.scanned:
			what = fmt.Sprintf("%s: line %d is not in %s", name, p.first, far)
		case p.at > 0:
			what = fmt.Sprintf("%s: line %d is past the end; the file has %s", name, p.first, text.Count(p.at, "line"))
		}
		return agent.Result{Head: what, Brief: "0 lines"}
	}
	lines := []string{fmt.Sprintf("%s: lines %d-%d%s", name, p.first, p.last, of)}
	if p.more {
		lines[0] += fmt.Sprintf("; go on with offset=%d", p.last+1)
	}
	if len(p.long) > 0 {
		shown := p.long[:min(len(p.long), 10)]
		lines = append(lines, fmt.Sprintf("cut after %d bytes: %s, number %s", p.line, text.Count(len(p.long), "long line"), numbers(shown)))
	}
	if p.invalid {
		lines = append(lines, `bytes that are not UTF-8 are shown as \xNN`)
	}
	return agent.Result{Head: head(lines...), Text: p.out.String(), Brief: text.Count(p.last-p.first+1, "line")}
}

func numbers(list []int) string {
	var all []string
	for _, n := range list {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ", ")
}

// readLine reads one line without its newline and keeps at most most bytes of
// it, in whole runes; cut says that there were more. io.EOF: no line is left.
func readLine(in *bufio.Reader, most int) (line []byte, cut bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		whole := err == nil
		if whole {
			part = part[:len(part)-1]
		}
		if room := most - len(line); len(part) > room {
			cut = true
			part = part[:room]
		}
		line = append(line, part...)
		switch {
		case whole, errors.Is(err, io.EOF) && (len(line) > 0 || cut):
			if cut {
				line = wholeRunes(line)
			}
			return line, cut, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// wholeRunes drops a rune that was cut in two at the end of b.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= min(3, len(b)); i++ {
		c := b[len(b)-i]
		if c < 0x80 {
			return b
		}
		if c >= 0xc0 {
			need := 2
			if c >= 0xf0 {
				need = 4
			} else if c >= 0xe0 {
				need = 3
			}
			if i < need {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}
