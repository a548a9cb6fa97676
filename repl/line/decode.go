package line

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// code names a key.
type code int

const (
	keyRune          code = iota // key.r is what was typed
	keyAlt                       // ESC before key.r
	keyControl                   // key.r is the control byte
	keyEnter                     // submit
	keyNewline                   // a line break inside the text
	keyTab                       //
	keyBackTab                   //
	keyBackspace                 //
	keyDelete                    //
	keyUp                        //
	keyDown                      //
	keyLeft                      //
	keyRight                     //
	keyWordLeft                  //
	keyWordRight                 //
	keyWordBackspace             //
	keyWordDelete                //
	keyHome                      //
	keyEnd                       //
	keyPageUp                    //
	keyPageDown                  //
	keyEscape                    //
	keyPaste                     // key.text was pasted
	keyStopped                   // a Ctrl-C that has done its work; no terminal sends it
)

// key is one decoded key press or one whole paste.
type key struct {
	code code
	r    rune
	text string
	ask  int // the Prompt.Ask that was on the screen
}

const (
	// maxSequence bounds an escape sequence; a longer one is not a key.
	maxSequence = 64
	// maxReply bounds a terminal's answer to a query, which is swallowed.
	maxReply = 4096
)

// decoder turns the terminal's bytes into keys. It does no I/O and never
// blocks; what may go on is kept until the next feed or flush.
type decoder struct {
	buf []byte
	paster
}

// patience is how long the caller waits for more before it flushes; below zero
// when nothing waits.
func (d *decoder) patience() time.Duration {
	switch {
	case d.pasting && !d.closing:
		return pasteWait
	case d.pasting || len(d.bulk) > 0 || len(d.buf) > 0:
		return escapeWait
	}
	return -1
}

// feed decodes p. A line feed that arrives in one burst with other bytes is
// what a program that types for the user sends for Enter; alone it is Ctrl-J,
// which breaks the line.
func (d *decoder) feed(p []byte) []key {
	if !d.pasting && len(d.buf) == 0 {
		if keys, taken := d.gather(p); taken {
			return keys
		}
	}
	keys := d.endBulk()
	burst := len(p) > 1
	d.buf = append(d.buf, p...)
	return append(keys, d.decode(burst)...)
}

// decode takes what is complete out of buf.
func (d *decoder) decode(burst bool) []key {
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

// flush gives up waiting: a lone ESC is the Escape key, an unfinished sequence is
// dropped, and a paste without an end has ended.
func (d *decoder) flush() []key {
	if len(d.bulk) > 0 {
		return d.endBulk()
	}
	if d.pasting {
		keys := d.endPaste()
		return append(keys, d.decode(true)...)
	}
	b := d.buf
	d.buf = nil
	switch {
	case len(b) == 1 && b[0] == esc:
		return []key{{code: keyEscape}}
	case len(b) == 2 && b[0] == esc && b[1] == esc:
		return []key{{code: keyEscape}, {code: keyEscape}}
	case len(b) == 2 && b[0] == esc:
		return []key{{code: keyAlt, r: rune(b[1])}}
	}
	return nil
}

// decodeOne decodes the key at the start of b. n is how many bytes it took, 0
// when more are needed; ok is false for bytes that are no key. keyPaste says
// that a paste begins.
func decodeOne(b []byte, burst bool) (k key, n int, ok bool) {
	if b[0] == esc {
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
	case esc:
		return decodeTwice(b)
	case '[':
		return decodeCSI(b)
	case 'O':
		if len(b) == 2 {
			return key{}, 0, false
		}
		k, ok = ss3Key(b[2])
		return k, 3, ok
	case ']', 'P', '_', '^':
		return key{}, replyLength(b), false
	case '\r', '\n':
		return key{code: keyNewline}, 2, true
	case 0x7f, 0x08:
		return key{code: keyWordBackspace}, 2, true
	}
	if b[1] < 0x20 {
		return key{code: keyEscape}, 1, true // and a control key, such as Ctrl-C
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

// decodeTwice decodes ESC ESC: with a sequence behind it what rxvt and others send
// for a key with Alt, else the Escape key and something else.
func decodeTwice(b []byte) (k key, n int, ok bool) {
	if len(b) == 2 {
		return key{}, 0, false
	}
	if b[2] != '[' && b[2] != 'O' {
		return key{code: keyEscape}, 1, true
	}
	k, n, ok = decodeEscape(b[1:])
	if n == 0 {
		return key{}, 0, false
	}
	if k.code == keyPaste {
		return key{code: keyEscape}, 1, true
	}
	return withWord(k, true), 1 + n, ok
}

// replyLength measures an OSC, DCS, APC or PM string, 0 while it is unfinished.
func replyLength(b []byte) int {
	for i := 2; i < len(b); i++ {
		if b[i] == 0x07 {
			return i + 1
		}
		if b[i] == 3 {
			return i // no terminal says that; somebody pressed Ctrl-C
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
	if final == 'M' && params == "" { // a mouse of old: three bytes follow
		if len(b) < i+4 {
			return key{}, 0, false
		}
		return key{}, i + 4, false
	}
	k, ok = csiKey(final, params)
	return k, i + 1, ok
}

func csiKey(final byte, params string) (key, bool) {
	first, rest, _ := strings.Cut(params, ";")
	switch final {
	case 'Z':
		return key{code: keyBackTab}, true
	case '~':
		return tildeKey(first, rest)
	case '^', '@': // rxvt's Ctrl, and Ctrl with Shift
		k, ok := tildeKey(first, "5")
		return k, ok && k.code != keyPaste
	case 'u':
		return unicodeKey(first, rest)
	}
	m, pressed := modifiers(rest)
	k, ok := cursorKey(final)
	return withWord(k, m&(modAlt|modControl) != 0), ok && pressed
}

// The modifiers of xterm and kitty, as bits.
const (
	modShift = 1 << iota
	modAlt
	modControl
	modSuper
	modAny = modShift | modAlt | modControl | modSuper
)

// modifiers reads "5", or "5:1" of kitty, in which 3 behind the colon says that
// the key was let go. The locks count for nothing.
func modifiers(field string) (mods int, pressed bool) {
	field, _, _ = strings.Cut(field, ";")
	value, event, _ := strings.Cut(field, ":")
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		n = 1
	}
	return (n - 1) & modAny, event != "3"
}

// withWord makes a key that goes by characters one that goes by words.
func withWord(k key, word bool) key {
	if !word {
		return k
	}
	switch k.code {
	case keyLeft:
		k.code = keyWordLeft
	case keyRight:
		k.code = keyWordRight
	case keyBackspace:
		k.code = keyWordBackspace
	case keyDelete:
		k.code = keyWordDelete
	}
	return k
}

// tildeKey covers the VT sequences and the Home and End variants of xterm,
// rxvt, tmux, screen and the Linux console.
func tildeKey(first, rest string) (key, bool) {
	m, pressed := modifiers(rest)
	word := m&(modAlt|modControl) != 0
	switch first {
	case "1", "7":
		return key{code: keyHome}, pressed
	case "4", "8":
		return key{code: keyEnd}, pressed
	case "3":
		return withWord(key{code: keyDelete}, word), pressed
	case "5":
		return key{code: keyPageUp}, pressed
	case "6":
		return key{code: keyPageDown}, pressed
	case "200":
		return key{code: keyPaste}, true
	case "27": // modifyOtherKeys: 27;modifier;code
		mods, which, _ := strings.Cut(rest, ";")
		return unicodeKey(which, mods)
	}
	return key{}, false
}

// unicodeKey covers the keys that kitty's protocol and modifyOtherKeys send as
// numbers. Nothing here asks a terminal for them, but one may be left in that mode
// by the program before.
func unicodeKey(which, rest string) (key, bool) {
	which, _, _ = strings.Cut(which, ":") // other layouts follow
	n, err := strconv.Atoi(which)
	if err != nil || n < 0 || n > utf8.MaxRune {
		return key{}, false
	}
	m, pressed := modifiers(rest)
	if !pressed {
		return key{}, false
	}
	word := m&(modAlt|modControl) != 0
	switch n {
	case '\r', 57414: // the keypad's
		if m != 0 {
			return key{code: keyNewline}, true
		}
		return key{code: keyEnter}, true
	case esc:
		return key{code: keyEscape}, true
	case '\t':
		if m&modShift != 0 {
			return key{code: keyBackTab}, true
		}
		return key{code: keyTab}, true
	case 0x7f, 0x08:
		return withWord(key{code: keyBackspace}, word), true
	}
	if n < 0x20 || n >= 0x80 && n < 0xa0 || n >= 57344 && n <= 63743 || !utf8.ValidRune(rune(n)) {
		return key{}, false // kitty's names of keys without a character
	}
	return letterKey(rune(n), m)
}

// letterKey is a letter with modifiers.
func letterKey(r rune, m int) (key, bool) {
	if m&modShift != 0 && r >= 'a' && r <= 'z' {
		r -= 'a' - 'A'
	}
	switch {
	case m&modSuper != 0:
		return key{}, false
	case m&modControl != 0:
		if r == ' ' || r >= '@' && r < 0x7f {
			return control(byte(r)&0x1f, false), true
		}
		return key{}, false
	case m&modAlt != 0:
		return key{code: keyAlt, r: r}, true
	}
	return key{code: keyRune, r: r}, true
}

// ss3Key covers the cursor keys and the keypad in application mode.
func ss3Key(c byte) (key, bool) {
	switch {
	case c == 'M':
		return key{code: keyEnter}, true
	case c == 'X':
		return key{code: keyRune, r: '='}, true
	case c >= 'j' && c <= 'y':
		return key{code: keyRune, r: rune(c - 0x40)}, true
	case c >= 'a' && c <= 'd': // rxvt's Ctrl
		k, ok := cursorKey(c - 'a' + 'A')
		return withWord(k, true), ok
	}
	return cursorKey(c)
}

func cursorKey(final byte) (key, bool) {
	switch final {
	case 'A', 'a': // the small letters are rxvt's Shift
		return key{code: keyUp}, true
	case 'B', 'b':
		return key{code: keyDown}, true
	case 'C', 'c':
		return key{code: keyRight}, true
	case 'D', 'd':
		return key{code: keyLeft}, true
	case 'H':
		return key{code: keyHome}, true
	case 'F':
		return key{code: keyEnd}, true
	}
	return key{}, false
}
