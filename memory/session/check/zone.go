package check

import "bytes"

// zoner finds the zones of the events' times in a log, which the events as they
// are read do not have any more. It takes the file's bytes as they come and
// allocates nothing for one.
type zoner struct {
	found map[string]*marks

	depth   int
	lists   uint64 // of the open brackets which are those of lists, the last first
	begin   int    // the depth at which events begin
	events  int    // that have begun
	text    bool   // within a text
	escaped bool
	key     bool // the next text is a key
	buf     [64]byte
	n       int // of buf; beyond it the text is too long to be of interest
	wanted  bool
}

// take reads on.
func (z *zoner) take(data []byte) {
	for _, b := range data {
		if z.text {
			z.letter(b)
			continue
		}
		switch b {
		case '"':
			z.text, z.n = true, 0
		case '{':
			z.depth++
			// The events are the objects of the first list of objects.
			if z.begin == 0 && z.lists&1 != 0 {
				z.begin = z.depth
			}
			z.lists <<= 1
			if z.depth == z.begin {
				z.events++
			}
			z.key, z.wanted = true, false
		case '[':
			z.depth++
			z.lists = z.lists<<1 | 1
			z.key, z.wanted = false, false
		case '}', ']':
			z.depth, z.lists = max(0, z.depth-1), z.lists>>1
			z.key, z.wanted = b == '}', false
		case ',':
			z.key, z.wanted = true, false
		case ':':
			z.key = false
		case ' ', '\n', '\t', '\r':
		default:
			z.wanted = false // a number, a word
		}
	}
}

// letter takes a byte of a text.
func (z *zoner) letter(b byte) {
	switch {
	case z.escaped:
		z.escaped = false
	case b == '\\':
		z.escaped = true
	case b == '"':
		z.text = false
		z.end()
		return
	}
	if z.n < len(z.buf) {
		z.buf[z.n] = b
	}
	z.n++
}

// end is the end of a text.
func (z *zoner) end() {
	word := z.buf[:min(z.n, len(z.buf))]
	if z.depth != z.begin || z.begin == 0 {
		return
	}
	if z.key {
		z.wanted = string(word) == "timestamp" || string(word) == "time"
		return
	}
	if !z.wanted || z.n > len(z.buf) || len(word) < len("2006-01-02T15:04") || word[4] != '-' {
		return
	}
	z.wanted = false
	zone := zoneOf(word)
	m := z.found[string(zone)]
	if m == nil {
		if len(z.found) >= maxTypes {
			return
		}
		m = &marks{}
		z.found[string(zone)] = m
	}
	if m.n++; len(m.ids) < maxIDs {
		m.ids = append(m.ids, eventID(z.events))
	}
}

// zoneOf is the zone of a time: Z, +02:00 or "none".
func zoneOf(text []byte) []byte {
	if last := text[len(text)-1]; last == 'Z' || last == 'z' {
		return []byte("Z")
	}
	if at := bytes.LastIndexAny(text[11:], "+-"); at >= 0 {
		zone := text[11+at:]
		if s := string(zone); s == "+00:00" || s == "-00:00" || s == "+0000" {
			return []byte("Z")
		}
		return zone
	}
	return []byte("none")
}
