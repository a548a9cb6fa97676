package queue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
)

// record is one line of the log: what is known of a message from then on. That
// of a message that ended has no text.
type record struct {
	Entry
	// Rev counts the changes of the class or the text.
	Rev int `json:"rev,omitempty"`
	// Raw is a text that is no UTF-8, which JSON cannot hold.
	Raw []byte `json:"raw,omitempty"`
}

const (
	sumKey    = `,"mac":"`
	sumLength = 16 // hex digits, of a checksum
)

func sum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:sumLength]
}

// signer authenticates records. Without a key it only detects damage.
type signer struct{ key identity.Key }

const macPurpose = "queue"

// code returns what stands behind the bytes of a record.
func (g signer) code(body []byte) string {
	if len(g.key) == 0 {
		return sum(body)
	}
	return g.key.Sum(macPurpose, body)
}

// encode puts the authentication code of a record's bytes behind them.
func (g signer) encode(r record) ([]byte, error) {
	if !utf8.ValidString(r.Text) {
		r.Raw, r.Text = []byte(r.Text), ""
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", r.ID, err)
	}
	return append(body[:len(body)-1], sumKey+g.code(body)+`"}`...), nil
}

// decode reads a record whose code verifies.
func (g signer) decode(line []byte) (record, bool) {
	at := bytes.LastIndex(line, []byte(sumKey))
	if at < 1 || !bytes.HasSuffix(line, []byte(`"}`)) {
		return record{}, false
	}
	body, code := append(bytes.Clone(line[:at]), '}'), line[at+len(sumKey):len(line)-2]
	if subtle.ConstantTimeCompare([]byte(g.code(body)), code) != 1 {
		return record{}, false
	}
	var r record
	if json.Unmarshal(body, &r) != nil || r.N == 0 || r.N >= maxNumber || r.State == "" {
		return record{}, false
	}
	if r.Raw != nil {
		r.Text, r.Raw = string(r.Raw), nil
	}
	r.ID = idOf(r.N)
	return r, true
}

// key names a message. The number alone does, unless `.ralph` was deleted while
// a Ralph ran and another process accepted one there meanwhile.
type key struct {
	n  uint64
	at int64
}

func keyOf(e Entry) key { return key{e.N, e.At.UnixNano()} }

// table is what a log says.
type table struct {
	last  uint64
	final Entry // of those that ended, the one with the highest number
	open  map[key]*record
	size  int64 // of the log, about
	bad   [][]byte
	lost  int // bad lines that are too long to be kept
}

const (
	// maxBadBytes bounds the bad lines that are brought to quarantine; each counts
	// badLineBytes at least, which it takes in memory.
	maxBadBytes  = 16 << 20
	badLineBytes = 64
	// maxLogBytes bounds a log that is read. A longer one, as a hostile repository may have,
	// would keep every start waiting.
	maxLogBytes = 256 << 20
)

func newTable() *table { return &table{open: map[key]*record{}} }

// load reads a log; none is an empty one. A torn last line, which is just being
// written or is moved to quarantine by Open, is no bad one.
func load(fsys afero.Fs, path string, sign signer) (*table, error) {
	t := newTable()
	if info, err := durable.Lstat(fsys, path); err == nil && info.Size() > maxLogBytes {
		return t, fmt.Errorf("read %q: it is longer than %d MiB, which no queue of Ralph's gets: move it away", path, maxLogBytes>>20)
	}
	kept := 0
	err := durable.ReadLines(fsys, path, func(line []byte, whole bool) error {
		t.size += int64(len(line)) + 1
		r, ok := sign.decode(line)
		switch {
		case ok:
			t.apply(r)
		case !whole:
		case kept+len(line) > maxBadBytes, line == nil:
			t.lost++
		default:
			kept += max(len(line), badLineBytes)
			t.bad = append(t.bad, bytes.Clone(line))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, line := range t.bad {
		t.last = max(t.last, t.hint(line))
	}
	return t, err
}

// maxHint is how far ahead a damaged line is believed.
const maxHint = 1 << 20

// hint is the number in a damaged line, so that it is not given again; 0 when
// none is found.
func (t *table) hint(line []byte) uint64 {
	_, rest, ok := bytes.Cut(line, []byte(`"n":`))
	var n uint64
	for i := 0; ok && i < len(rest) && rest[i] >= '0' && rest[i] <= '9' && n < maxNumber; i++ {
		n = n*10 + uint64(rest[i]-'0')
	}
	if n > t.last+maxHint {
		return 0
	}
	return n
}

// apply takes up one record.
func (t *table) apply(r record) {
	t.last = max(t.last, r.N)
	k := keyOf(r.Entry)
	m := t.open[k]
	switch {
	case r.State != queued:
		delete(t.open, k)
		if r.N >= t.final.N {
			t.final = r.Entry
		}
	case m == nil && r.Rev > 0 && r.N == t.final.N && k == keyOf(t.final):
		// It ended before the change came.
	default:
		t.open[k] = &r
	}
}

// rank orders classes as they are delivered.
func rank(class string) int {
	return slices.Index([]string{"stop", "urgent", "ask", "steer", "later"}, class) & 0xff
}

// messages returns copies of what waits, in the order of delivery.
func (t *table) messages() []record {
	all := make([]record, 0, len(t.open))
	for _, m := range t.open {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b record) int {
		return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), cmp.Compare(a.N, b.N), a.At.Compare(b.At))
	})
	return all
}

func (t *table) waiting() []Entry {
	all := make([]Entry, 0, len(t.open))
	for _, m := range t.messages() {
		all = append(all, m.Entry)
	}
	return all
}

// find returns the message that waits under a number.
func (t *table) find(n uint64, at time.Time) *record { return t.open[key{n, at.UnixNano()}] }

// renumber gives every message but the first of a number a new one, and says
// whether there was any.
func (t *table) renumber() bool {
	seen, changed := map[uint64]bool{}, false
	for _, m := range t.byAge() {
		if !seen[m.N] {
			seen[m.N] = true
			continue
		}
		delete(t.open, keyOf(m.Entry))
		t.last++
		m.N, m.ID, changed = t.last, idOf(t.last), true
		t.open[keyOf(m.Entry)] = &m
	}
	return changed
}

func (t *table) byAge() []record {
	all := t.messages()
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.N, b.N)) })
	return all
}

// text is the log that says the same in few lines. The highest number stays in
// it even when nothing waits.
func (t *table) text(sign signer) ([]byte, error) {
	var b bytes.Buffer
	put := func(r record) error {
		line, err := sign.encode(r)
		b.Write(line)
		b.WriteByte('\n')
		return err
	}
	last := t.final
	if last.N < t.last {
		last = Entry{N: t.last, State: "cancelled"}
	}
	last.ID, last.Text = idOf(last.N), ""
	if last.N > 0 {
		if err := put(record{Entry: last}); err != nil {
			return nil, err
		}
	}
	all := t.messages()
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(cmp.Compare(a.N, b.N), a.At.Compare(b.At)) })
	for _, m := range all {
		if err := put(m); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
