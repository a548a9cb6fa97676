package line

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// code names a key.
type code int

const (
	keyRune      code = iota // key.r is what was typed
	keyAlt                   // ESC before key.r
	keyControl               // key.r is the control byte
	keyEnter                 // submit
	keyNewline               // a line break inside the text
	keyTab                   //
	keyBackTab               //
	keyBackspace             //
	keyDelete                //
	keyUp                    //
	keyDown                  //
	keyLeft                  //
	keyRight                 //
	keyWordLeft              //
	keyWordRight             //
	keyHome                  //
	keyEnd                   //
	keyEscape                //
	keyPaste                 // key.text was pasted
	keyStopped               // a Ctrl-C that has done its work; no terminal sends it
)

// key is one decoded key press or one whole paste.
type key struct {
	code code
	r    rune
	text string
	ask  int // the Prompt.Ask that was on the screen
}

const (
	pasteEnd = "\x1b[201~"
	// maxSequence bounds an escape sequence; a longer one is not a key.
	maxSequence = 64
	// maxReply bounds a terminal's answer to a query, which is swallowed.
	maxReply = 4096
	// maxPaste bounds one paste; the rest is dropped up to its end.
	maxPaste = 16 << 20
)

// decoder turns the terminal's bytes into keys. It does no I/O and never
// blocks; what may go on is kept until the next feed or flush.
type decoder struct {
	buf     []byte
	pasting bool
	paste   []byte
}

// pending reports whether a lone ESC or an unfinished sequence waits; the
// caller flushes it when nothing follows for a while.
func (d *decoder) pending() bool { return len(d.buf) > 0 && !d.pasting }

// feed decodes p. A line feed that arrives in one burst with other bytes is
// what a program that types for the user sends for Enter; alone it is Ctrl-J,
// which breaks the line.
func (d *decoder) feed(p []byte) []key {
	burst := len(p) > 1
	d.buf = append(d.buf, p...)
	var keys []key
	for len(d.buf) > 0 {
		if d.pasting {
			k, done := d.pasteStep()
			if !done {
				break
			}
			keys = append(keys, k)
			continue
		}
		k, n, ok := decodeOne(d.buf, burst)
		if n == 0 {
			break
		}
		d.buf = d.buf[n:]
		if !ok {
			continue
		}
		if k.code == keyPaste {
			d.pasting = true
			continue
		}
		keys = append(keys, k)
	}
	if len(d.buf) == 0 {
		d.buf = nil
	}
	return keys
}

// flush gives up waiting: a lone ESC is the Escape key, and an unfinished
// sequence is dropped.
func (d *decoder) flush() []key {
	if !d.pending() {
		return nil
	}
	b := d.buf
	d.buf = nil
	switch {
	case len(b) == 1 && b[0] == 0x1b:
		return []key{{code: keyEscape}}
	case len(b) == 2 && b[0] == 0x1b:
		return []key{{code: keyAlt, r: rune(b[1])}}
	}
	return nil
}

// pasteStep moves bytes from buf to the paste; done says that the paste ended.
func (d *decoder) pasteStep() (k key, done bool) {
	i := bytes.Index(d.buf, []byte(pasteEnd))
	take := i
	if i < 0 {
		// The end marker may be cut: keep what could be its beginning.
		take = len(d.buf) - partialSuffix(d.buf, pasteEnd)
	}
	room := max(0, maxPaste-len(d.paste))
	d.paste = append(d.paste, d.buf[:min(take, room)]...)
	if i < 0 {
		d.buf = append([]byte(nil), d.buf[take:]...)
		return key{}, false
	}
	text := strings.ToValidUTF8(string(d.paste), "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	d.buf, d.paste, d.pasting = d.buf[i+len(pasteEnd):], nil, false
	return key{code: keyPaste, text: text}, true
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

// decodeOne decodes the key at the start of b. n is how many bytes it took, 0
// when more are needed; ok is false for bytes that are no key. keyPaste says
// that a paste begins.
func decodeOne(b []byte, burst bool) (k key, n int, ok bool) {
	if b[0] == 0x1b {
		return decodeEscape(b)
	}
	if b[0] < 0x20 || b[0] == 0x7f {
		return control(b[0], burst), 1, true
	}
	if !utf8.FullRune(b) {
		return key{}, 0, false
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 || r >= 0x80 && r < 0xa0 {
		return key{}, n, false
	}
	return key{code: keyRune, r: r}, n, true
}

func control(c byte, burst bool) key {
	switch c {
	case '\r':
		return key{code: keyEnter}
	case '\n':
		if burst {
			return key{code: keyEnter}
		}
		return key{code: keyNewline}
	case '\t':
		return key{code: keyTab}
	case 0x7f, 0x08:
		return key{code: keyBackspace}
	}
	return key{code: keyControl, r: rune(c)}
}

func decodeEscape(b []byte) (k key, n int, ok bool) {
	if len(b) == 1 {
		return key{}, 0, false
	}
	switch b[1] {
	case 0x1b:
		return key{code: keyEscape}, 1, true
	case '[':
		return decodeCSI(b)
	case 'O':
		if len(b) == 2 {
			return key{}, 0, false
		}
		k, ok = cursorKey(b[2], "")
		return k, 3, ok
	case ']', 'P', '_', '^':
		return key{}, replyLength(b), false
	case '\r', '\n':
		return key{code: keyNewline}, 2, true
	}
	if !utf8.FullRune(b[1:]) {
		return key{}, 0, false
	}
	r, size := utf8.DecodeRune(b[1:])
	if r == utf8.RuneError && size == 1 {
		return key{}, 2, false
	}
	return key{code: keyAlt, r: r}, 1 + size, true
}

// replyLength measures an OSC, DCS, APC or PM string, 0 while it is unfinished.
func replyLength(b []byte) int {
	for i := 2; i < len(b); i++ {
		if b[i] == 0x07 {
			return i + 1
		}
		if b[i] == '\\' && b[i-1] == 0x1b {
			return i + 1
		}
	}
	if len(b) > maxReply {
		return len(b)
	}
	return 0
}

func decodeCSI(b []byte) (k key, n int, ok bool) {
	i := 2
	if i < len(b) && b[i] == '[' { // the Linux console's function keys
		if i+1 == len(b) {
			return key{}, 0, false
		}
		return key{}, i + 2, false
	}
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x3f {
		i++
	}
	if i > maxSequence {
		return key{}, i, false
	}
	if i == len(b) {
		return key{}, 0, false
	}
	final, params := b[i], string(b[2:i])
	if final < 0x40 || final > 0x7e {
		return key{}, i, false // the sequence was cut short; go on with this byte
	}
	k, ok = csiKey(final, params)
	return k, i + 1, ok
}

func csiKey(final byte, params string) (key, bool) {
	first, modifier, _ := strings.Cut(params, ";")
	switch final {
	case 'Z':
		return key{code: keyBackTab}, true
	case '~':
		return tildeKey(first, modifier)
	case 'u':
		return unicodeKey(first, modifier)
	}
	return cursorKey(final, modifier)
}

// tildeKey covers the VT sequences and the Home and End variants of xterm,
// rxvt, tmux and screen.
func tildeKey(first, rest string) (key, bool) {
	switch first {
	case "1", "7":
		return key{code: keyHome}, true
	case "4", "8":
		return key{code: keyEnd}, true
	case "3":
		return key{code: keyDelete}, true
	case "200":
		return key{code: keyPaste}, true
	case "27": // modifyOtherKeys: 27;modifier;code
		_, which, _ := strings.Cut(rest, ";")
		return unicodeKey(which, "")
	}
	return key{}, false
}

// unicodeKey covers the keys of the kitty protocol that plain bytes cannot say.
func unicodeKey(which, modifier string) (key, bool) {
	switch which {
	case "13":
		return key{code: keyNewline}, true
	case "27":
		return key{code: keyEscape}, true
	case "9":
		if modifier == "2" {
			return key{code: keyBackTab}, true
		}
		return key{code: keyTab}, true
	case "127":
		return key{code: keyBackspace}, true
	}
	return key{}, false
}

func cursorKey(final byte, modifier string) (key, bool) {
	word := modifier == "3" || modifier == "5" || modifier == "7"
	switch final {
	case 'A':
		return key{code: keyUp}, true
	case 'B':
		return key{code: keyDown}, true
	case 'C':
		if word {
			return key{code: keyWordRight}, true
		}
		return key{code: keyRight}, true
	case 'D':
		if word {
			return key{code: keyWordLeft}, true
		}
		return key{code: keyLeft}, true
	case 'H':
		return key{code: keyHome}, true
	case 'F':
		return key{code: keyEnd}, true
	case 'M': // SS3 M is Enter on the keypad
		return key{code: keyEnter}, modifier == ""
	}
	return key{}, false
}
