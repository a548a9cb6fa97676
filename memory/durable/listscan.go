package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/afero"
)

// tailWindow is how much of a list's end is looked at when it is opened: more
// than can have been in flight when the power went.
const tailWindow = 2 * maxUnsynced

// layout is where the parts of a list stand.
type layout struct {
	garbage bool  // it is no list at all
	torn    bool  // what is behind at is damaged
	at      int64 // behind the last whole element before any damage
	some    bool  // there is an element before at
	key     int64 // where a key can be put in before the array's
	first   bool  // nothing stands between the opening brace and key
	after   []byte
}

// adopt takes an open file as the list's own when it is whole, or can be made
// so in place. again says that another file was put at path, to be opened in
// its stead.
func (l *List) adopt(f afero.File) (again bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if err := regular(info); err != nil {
		return false, err
	}
	size := info.Size()
	lay, marked, err := l.scan(f, size)
	if err != nil {
		return false, err
	}
	if marked {
		return true, l.unmark(f, size)
	}
	if lay.garbage {
		return true, l.moveAway(f, size)
	}
	if lay.torn && size-lay.at > MaxDamage {
		if err := l.moveAway(f, size); err != nil {
			return false, err
		}
		return true, l.rebuild(f, lay, nil)
	}
	if lay.torn || len(lay.after) > 0 {
		var rest, kept []byte
		if lay.torn {
			if rest, err = readAll(f, lay.at, size); err != nil {
				return false, err
			}
			if bytes.Contains(rest, []byte("\n  \""+l.o.Name+"\": [")) {
				return true, l.moveAway(f, size)
			}
			kept = salvage(rest)
			l.damage = Damage{TornBytes: int64(len(rest))}
			if !brackets(rest) {
				err = l.quarantine(fmt.Sprintf("torn-%d", lay.at), rest)
			}
			if err != nil {
				return false, err
			}
		}
		if len(kept) > 0 || len(lay.after) > 0 {
			return true, l.rebuild(f, lay, kept)
		}
		if size, err = l.close(f, lay.at, size); err != nil {
			return false, err
		}
	}
	l.f, l.at, l.some, l.synced = f, lay.at, lay.some, lay.at
	l.pending, l.broken = nil, false
	l.seen(size)
	return false, nil
}

// scan finds the parts of a list. marked says that it begins with a byte order
// mark, as some editors put there.
func (l *List) scan(f afero.File, size int64) (lay layout, marked bool, err error) {
	head, err := readAll(f, 0, min(size, int64(len(byteOrderMark))))
	if err != nil || string(head) == byteOrderMark {
		return layout{}, err == nil, err
	}
	lay, ok, err := scanTail(f, size)
	if err != nil || ok && !lay.torn {
		return lay, false, err
	}
	if ok {
		rest, err := readAll(f, lay.at, size)
		if err != nil || brackets(rest) || !bytes.HasSuffix(bytes.TrimSpace(rest), []byte{'}'}) {
			return lay, false, err
		}
		// It ends as a document does: somebody may have written some of its
		// elements otherwise.
		if whole, err := scanList(f, size, l.o.Name); err != nil || !whole.torn && !whole.garbage {
			return whole, false, err
		}
		return lay, false, nil
	}
	lay, err = scanList(f, size, l.o.Name)
	return lay, false, err
}

const byteOrderMark = "\ufeff"

// unmark puts a file without its byte order mark in its place: JSON has none.
// One that is no list without it either is moved away as it is.
func (l *List) unmark(f afero.File, size int64) error {
	if size > MaxDamage {
		return l.moveAway(f, size)
	}
	data, err := readAll(f, int64(len(byteOrderMark)), size)
	if err != nil {
		return err
	}
	s := listScanner{dec: json.NewDecoder(bytes.NewReader(data)), name: l.o.Name, seen: map[string]bool{}}
	if lay := s.list(); lay.garbage || lay.torn {
		return l.moveAway(f, size)
	}
	return Replace(l.fs, l.path, data, l.o.Perm)
}

// close puts the closing brackets behind the last whole element and cuts off
// what follows, which is in quarantine.
func (l *List) close(f afero.File, at, size int64) (int64, error) {
	end := at + int64(len(listClosing))
	if _, err := f.WriteAt([]byte(listClosing), at); err != nil {
		return 0, err
	}
	if size > end {
		if err := f.Truncate(end); err != nil {
			return 0, err
		}
	}
	return end, f.Sync()
}

// rebuild puts a new file in place of one that cannot be mended by its tail.
func (l *List) rebuild(f afero.File, lay layout, kept []byte) error {
	whole, err := readAll(f, 0, lay.at)
	if err != nil {
		return err
	}
	head, rest := whole[:lay.key], whole[lay.key:]
	var b bytes.Buffer
	b.Write(head)
	switch {
	case len(lay.after) > 0 && lay.first:
		b.Write(lay.after)
		b.WriteByte(',')
	case len(lay.after) > 0:
		b.WriteByte(',')
		b.Write(lay.after)
	}
	b.Write(rest)
	if len(kept) > 0 && !lay.some {
		kept = kept[1:] // the comma
	}
	b.Write(kept)
	b.WriteString(listClosing)
	return Replace(l.fs, l.path, b.Bytes(), l.o.Perm)
}

// quarantine keeps what is cut off. Named by content: a crash before the cut
// leaves no second copy.
func (l *List) quarantine(what string, data []byte) error {
	sum := sha256.Sum256(data)
	moved := filepath.Join(l.o.Quarantine, fmt.Sprintf("%s.%s-%s", filepath.Base(l.path), what, hex.EncodeToString(sum[:4])))
	if err := MkdirAll(l.fs, l.o.Quarantine, 0o700); err != nil {
		return err
	}
	if err := Replace(l.fs, moved, data, 0o600); err != nil {
		return err
	}
	l.damage = Damage{TornBytes: int64(len(data)), Moved: moved}
	return nil
}

// moveAway moves the whole file to quarantine, over nothing that is there.
func (l *List) moveAway(f afero.File, size int64) error {
	data, err := readAll(f, max(0, size-tailWindow), size)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	moved, err := moveTo(l.fs, l.path, l.o.Quarantine, fmt.Sprintf("%s.damaged-%d-%s", filepath.Base(l.path), size, hex.EncodeToString(sum[:4])))
	if err != nil {
		return err
	}
	l.damage = Damage{TornBytes: size, Moved: moved, Whole: true}
	return errors.Join(SyncDir(l.fs, l.o.Quarantine), SyncDir(l.fs, filepath.Dir(l.path)))
}

// scanTail looks at the end of a list as it is written here: lines that are each
// one whole element, and the closing. What is torn begins behind the first lines
// that are whole. ok is false when there are none within the window, which says
// nothing about the file.
//
// What is left of an element never looks like a whole one: compact JSON has
// four spaces within strings only, so that behind them what is a string and
// what is not are the other way round, and the line would end within one.
func scanTail(f afero.File, size int64) (lay layout, ok bool, err error) {
	for window := int64(tailWindow); window < size && window <= MaxDamage; window *= 4 {
		tail, err := readAll(f, size-window, size)
		if err != nil {
			return layout{}, false, err
		}
		body, closed := bytes.CutSuffix(tail, []byte(listClosing))
		cut := bytes.IndexByte(body, '\n')
		if cut < 0 {
			continue // an element longer than the window
		}
		lay.torn = true
		begin := size - window + int64(cut) + 1
		lines := bytes.Split(body[cut+1:], []byte{'\n'})
		for i, line := range lines {
			whole, comma := bytes.CutSuffix(line, []byte{','})
			if !element(whole) {
				break
			}
			lay.at, lay.some = begin+int64(len(whole)), true
			if !comma {
				lay.torn = i < len(lines)-1 || !closed
				break
			}
			begin += int64(len(line)) + 1
		}
		if !lay.some {
			return layout{}, false, nil
		}
		rest := tail[lay.at-(size-window):]
		if lay.torn && !brackets(rest) && bytes.HasPrefix(bytes.TrimSpace(rest), []byte{']'}) {
			return layout{}, false, nil // there are keys behind the array
		}
		return lay, true, nil
	}
	return layout{}, false, nil
}

// brackets says that a torn tail holds nothing to keep.
func brackets(rest []byte) bool { return len(bytes.Trim(rest, " \t\r\n]},")) == 0 }

// element says that a line, less its comma, is one whole element that is an
// object.
func element(line []byte) bool {
	return bytes.HasPrefix(line, []byte("    {")) && json.Valid(line[4:])
}

// salvage returns the whole elements that stand on lines of their own behind a
// damaged one, each as it is to be appended.
func salvage(rest []byte) []byte {
	var kept []byte
	for i, line := range bytes.Split(rest, []byte{'\n'}) {
		if line, _ = bytes.CutSuffix(line, []byte{','}); i > 0 && element(line) {
			kept = append(append(append(kept, ','), '\n'), line...)
		}
	}
	return kept
}

// scanList reads a whole list.
func scanList(f afero.File, size int64, name string) (layout, error) {
	r := &faultReader{r: io.NewSectionReader(f, 0, size)}
	s := listScanner{dec: json.NewDecoder(r), name: name, seen: map[string]bool{}}
	lay := s.list()
	if r.err != nil {
		return layout{}, r.err
	}
	if lay.garbage || lay.torn {
		return lay, nil
	}
	// Behind the document only white space may follow.
	if size-s.dec.InputOffset() > MaxDamage {
		lay.torn = true
		return lay, nil
	}
	rest, err := readAll(f, s.dec.InputOffset(), size)
	lay.torn = len(bytes.TrimSpace(rest)) > 0
	return lay, err
}

// faultReader remembers the error of a read, which must not be taken for
// damage.
type faultReader struct {
	r   io.Reader
	err error
}

// Read reads from what is underneath.
func (r *faultReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// listScanner reads a document and notes where the parts of its list are.
type listScanner struct {
	dec  *json.Decoder
	name string
	seen map[string]bool
	lay  layout
}

func (s *listScanner) list() layout {
	garbage := layout{garbage: true}
	if t, err := s.dec.Token(); err != nil || t != json.Delim('{') {
		return garbage
	}
	for first := true; ; first = false {
		key := s.dec.InputOffset()
		t, err := s.dec.Token()
		k, ok := t.(string)
		if err != nil || !ok {
			return garbage
		}
		s.seen[k] = true
		if k == s.name {
			s.lay.key, s.lay.first = key, first
			break
		}
		var value json.RawMessage
		if s.dec.Decode(&value) != nil {
			return garbage
		}
	}
	if t, err := s.dec.Token(); err != nil || t != json.Delim('[') {
		return garbage
	}
	s.lay.torn = true
	s.lay.at = s.dec.InputOffset()
	for s.dec.More() {
		var value json.RawMessage
		if s.dec.Decode(&value) != nil {
			return s.lay
		}
		s.lay.at, s.lay.some = s.dec.InputOffset(), true
	}
	if t, err := s.dec.Token(); err != nil || t != json.Delim(']') {
		return s.lay
	}
	return s.after()
}

// after reads the keys behind the array.
func (s *listScanner) after() layout {
	for {
		t, err := s.dec.Token()
		if err != nil {
			return s.lay
		}
		if t == json.Delim('}') {
			s.lay.torn = false
			return s.lay
		}
		k, ok := t.(string)
		if !ok {
			return s.lay
		}
		if k == s.name {
			return layout{garbage: true}
		}
		var value json.RawMessage
		if s.dec.Decode(&value) != nil {
			return s.lay
		}
		key, err := json.Marshal(k)
		if err != nil {
			return s.lay
		}
		if len(s.lay.after) > 0 {
			s.lay.after = append(s.lay.after, ',')
		}
		s.lay.after = append(append(append(append(s.lay.after, "\n  "...), key...), ": "...), value...)
	}
}

// readAll reads what stands in a file between two offsets.
func readAll(f afero.File, from, to int64) ([]byte, error) {
	data := make([]byte, to-from)
	n, err := io.ReadFull(io.NewSectionReader(f, from, to-from), data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return data[:n], nil // it is shorter by now
	}
	return data, err
}
