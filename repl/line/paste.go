package line

import (
	"bytes"
	"strings"
	"time"
)

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// maxPaste bounds one paste; the rest is dropped up to its end.
	maxPaste = 16 << 20
	// pasteWait is how long a paste may be silent before it is taken as ended: its
	// end marker was lost, and a prompt that takes no keys any more is worse than a
	// paste in two parts.
	pasteWait = time.Second
	// maxBehind bounds what may wait behind the end of a paste.
	maxBehind = 64 << 10
	// bulkBytes and bulkLines are more than a person types between two reads.
	bulkBytes = 128
	bulkLines = 5
)

// paster collects what was pasted. The text of a paste is what the terminal sent,
// with these exceptions: CR LF and a lone CR, which many terminals send for a line
// break, are LF; NUL and bytes that are no UTF-8 are U+FFFD. Other control
// characters, ESC too, are kept; on the screen they are made visible.
//
// A paste may hold the end marker itself, so that what follows it would be taken
// for keys, a line end for Enter. Nobody types within the same read: bytes that
// came along with a marker wait for a moment, and when another end marker, and no
// beginning, is among them, all up to that one was pasted.
//
// A terminal without bracketed paste (see bare) sends a paste as if it was typed.
// There, a read of
// text alone that is longer than anybody types at once is held until nothing
// follows for a moment; when it then has bulkLines lines or lines that are indented, it is a paste and none of its line ends submits. Else each line end
// submits. On other terminals what comes without markers was typed, however fast:
// by a program that types for the user.
type paster struct {
	bare    bool // the terminal does not mark what is pasted
	pasting bool
	closing bool // an end marker is there, but something came along with it
	paste   []byte
	bulk    []byte
}

// pasteStep moves bytes from buf to the paste; done says that the paste ended.
func (d *decoder) pasteStep() (k key, done bool) {
	d.closing = false
	i := bytes.Index(d.buf, []byte(pasteEnd))
	if i < 0 {
		// The end marker may be cut: keep what could be its beginning.
		take := len(d.buf) - partialSuffix(d.buf, pasteEnd)
		d.keep(d.buf[:take])
		d.buf = append([]byte(nil), d.buf[take:]...)
		return key{}, false
	}
	behind := d.buf[i+len(pasteEnd):]
	begin := bytes.Index(behind, []byte(pasteBegin))
	mine := behind
	if begin >= 0 {
		mine = behind[:begin]
	}
	if end := bytes.LastIndex(mine, []byte(pasteEnd)); end >= 0 {
		i += len(pasteEnd) + end
		behind = d.buf[i+len(pasteEnd):]
	}
	if len(behind) > 0 && begin < 0 {
		d.closing = len(behind) < maxBehind
		if !d.closing { // nobody types so much: it is all of the paste
			d.keep(d.buf)
			d.buf = nil
		}
		return key{}, false
	}
	d.keep(d.buf[:i])
	d.buf = behind
	return d.pasted(), true
}

// endPaste ends the paste without waiting any longer.
func (d *decoder) endPaste() []key {
	i := bytes.LastIndex(d.buf, []byte(pasteEnd))
	if i < 0 {
		d.keep(d.buf)
		d.buf = nil
		return []key{d.pasted()}
	}
	d.keep(d.buf[:i])
	d.buf = d.buf[i+len(pasteEnd):]
	return []key{d.pasted()}
}

func (d *decoder) keep(b []byte) {
	d.paste = append(d.paste, b[:min(len(b), max(0, maxPaste-len(d.paste)))]...)
}

// pasted is the key of what was collected.
func (d *decoder) pasted() key {
	text := pasteText(d.paste)
	d.paste, d.pasting, d.closing = nil, false, false
	return key{code: keyPaste, text: text}
}

func pasteText(b []byte) string {
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.ReplaceAll(text, "\r", "\n")
}

// partialSuffix returns how many bytes at the end of b begin marker.
func partialSuffix(b []byte, marker string) int {
	for n := min(len(b), len(marker)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == marker[:n] {
			return n
		}
	}
	return 0
}

// gather takes a read that is, or goes on with, a paste without markers.
func (d *decoder) gather(p []byte) (keys []key, taken bool) {
	if !textOnly(p) || len(d.bulk) == 0 && len(p) <= bulkBytes && !(d.bare && manyLines(pasteText(p))) {
		return nil, false
	}
	d.bulk = append(d.bulk, p...)
	if len(d.bulk) >= maxPaste || !d.bare {
		return d.endBulk(), true
	}
	return nil, true
}

// endBulk says what the gathered bytes were.
func (d *decoder) endBulk() []key {
	if len(d.bulk) == 0 {
		return nil
	}
	text := pasteText(d.bulk)
	d.bulk = nil
	if d.bare && manyLines(text) {
		return []key{{code: keyPaste, text: text}}
	}
	var keys []key
	for i, piece := range strings.Split(text, "\n") {
		if i > 0 {
			keys = append(keys, key{code: keyEnter})
		}
		if piece != "" {
			keys = append(keys, key{code: keyPaste, text: piece})
		}
	}
	return keys
}

func textOnly(p []byte) bool {
	for _, c := range p {
		if c < 0x20 && c != '\t' && c != '\r' && c != '\n' || c == 0x7f {
			return false
		}
	}
	return true
}

// manyLines reports whether text is more than lines that a program types one after
// the other: it has bulkLines lines, or one is indented by a tab or two blanks.
func manyLines(text string) bool {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) >= bulkLines {
		return true
	}
	for _, l := range lines[1:] {
		if strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "  ") {
			return true
		}
	}
	return false
}

// bare guesses from the environment whether the terminal does not mark a paste.
func bare(getenv func(string) string) bool {
	if getenv("TMUX") != "" {
		return false
	}
	kind := getenv("TERM")
	for _, name := range []string{"screen", "linux", "vt", "ansi", "cons", "sun", "wy"} {
		if strings.HasPrefix(kind, name) {
			return true
		}
	}
	return false
}
