package tools

import (
	"bytes"
	"context"
	"io"
)

// readFunc is a Read as a reader.
type readFunc func([]byte) (int, error)

// Read calls f.
func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// maxReadBytes is read at once at most, so that the end of a context is seen
// soon.
const maxReadBytes = 256 << 10

// until reads from r, with the cause of ctx as the error once ctx has ended.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p[:min(len(p), maxReadBytes)])
	})
}

// runeFunc is a ReadRune as a reader of runes.
type runeFunc func() (rune, int, error)

// ReadRune calls f.
func (f runeFunc) ReadRune() (rune, int, error) { return f() }

// runesUntil reads the runes of b, which end early when ctx does.
func runesUntil(ctx context.Context, b []byte) io.RuneReader {
	r, n := bytes.NewReader(b), 0
	return runeFunc(func() (rune, int, error) {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return 0, 0, io.EOF
		}
		return r.ReadRune()
	})
}
