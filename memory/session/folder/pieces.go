package folder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"
)

// pieceBytes is from which size on a file's list is read in pieces, about as
// large: the tree of a whole file takes forty times its bytes.
const pieceBytes = 256 << 10

var errOtherwise = errors.New("spelled otherwise")

// fromTasks reads progress-tracking.yaml and shows each entry of its tasks
// instead of keeping them, when the file is spelled as Ralph does: a line "tasks:"
// with an entry at each line that begins with "- ", between other keys. What stands
// before, between and behind such lines is read as documents of their own, and
// each must be one: where all of them are, nothing that spans a boundary, such
// as a quoted text, an anchor or a flow list, is cut. Of anything else it returns
// errOtherwise, and what was shown is void.
func fromTasks(data []byte, each func(any)) (object, error) {
	const begin = "\ntasks:\n"
	at := bytes.Index(data, []byte(begin+"- "))
	if at < 0 {
		return nil, errOtherwise
	}
	for _, mark := range []string{"\n---", "\n...", "\n%"} {
		if bytes.HasPrefix(data, []byte(mark[1:])) || bytes.Contains(data, []byte(mark)) {
			return nil, errOtherwise
		}
	}
	left := maxNodes - 1 // the list
	o, err := mappingOf(data[:at], &left)
	if err != nil {
		return nil, err
	}
	if _, twice := o["tasks"]; twice {
		return nil, errOtherwise
	}
	list := data[at+len(begin):]
	for bytes.HasPrefix(list, []byte("- ")) {
		n := endOfPiece(list)
		root, err := pieceOf(list[:n], yaml.SequenceNode)
		if err != nil {
			return nil, err
		}
		for _, e := range root.Content {
			v, err := fromNode(e, 2, &left)
			if err != nil {
				return nil, err
			}
			each(v)
		}
		list = list[n:]
	}
	if len(list) == 0 {
		return o, nil
	}
	left++ // the mapping, which counts once
	tail, err := mappingOf(list, &left)
	for k, v := range tail {
		if _, twice := o[k]; twice {
			return nil, errOtherwise
		}
		o[k] = v
	}
	if _, twice := tail["tasks"]; twice {
		return nil, errOtherwise
	}
	return o, err
}

// endOfPiece is where a list that begins at 0 ends, or one of its entries behind
// enough of it.
func endOfPiece(list []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(list[i:], '\n')
		if i += n + 1; n < 0 || i >= len(list) {
			return len(list)
		}
		switch list[i] {
		case ' ', '#', '\n', '\r', '\t':
		case '-':
			if i >= pieceBytes && bytes.HasPrefix(list[i:], []byte("- ")) {
				return i
			}
		default:
			return i
		}
	}
}

func mappingOf(text []byte, left *int) (object, error) {
	root, err := pieceOf(text, yaml.MappingNode)
	if err != nil {
		return nil, err
	}
	v, err := fromNode(root, 0, left)
	o, _ := v.(object)
	return o, err
}

// pieceOf parses a piece that is a block of a kind at the margin.
func pieceOf(text []byte, kind yaml.Kind) (*yaml.Node, error) {
	var doc yaml.Node
	if yaml.Load(text, &doc) != nil || len(doc.Content) != 1 {
		return nil, errOtherwise
	}
	root := doc.Content[0]
	if root.Kind != kind || root.Style != 0 || root.Anchor != "" || root.Column != 1 {
		return nil, errOtherwise
	}
	return root, nil
}

// fromLists reads a JSON document and shows each entry of its lists instead of
// keeping them: of those that stand under the keys of each or, where the document
// is a list itself, of that, under main. What was shown is void after an error;
// errOtherwise means that the document must be read whole.
func fromLists(r io.Reader, main string, each map[string]func(any)) (any, error) {
	in := bufio.NewReader(r)
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark)) // it was peeked
	}
	d := json.NewDecoder(in)
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return nil, err
	}
	var v any = []any{}
	switch first {
	case json.Delim('['):
		err = listed(d, each[main])
	case json.Delim('{'):
		v, err = members(d, each)
	default:
		return nil, errOtherwise
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the value")
	}
	return v, nil
}

// members reads the rest of an object.
func members(d *json.Decoder, each map[string]func(any)) (object, error) {
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if _, twice := o[key]; twice {
			return nil, errOtherwise
		}
		show, is := each[key]
		if !is {
			var v any
			if err := d.Decode(&v); err != nil {
				return nil, err
			}
			o[key] = plain(v)
			continue
		}
		if t, err = d.Token(); err != nil {
			return nil, err
		}
		if t != json.Delim('[') {
			return nil, errOtherwise
		}
		if err := listed(d, show); err != nil {
			return nil, err
		}
		o[key] = []any{}
	}
	_, err := d.Token()
	return o, err
}

// listed shows the entries of a list up to its end.
func listed(d *json.Decoder, show func(any)) error {
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		show(plain(v))
	}
	_, err := d.Token()
	return err
}

// inPieces reads a large file whose list need not be held as a whole; false means
// that it is to be read as any other.
func (d *Data) inPieces(fsys afero.Fs, dir, name string) (odd int, ok bool, err error) {
	if !slices.Contains([]string{progressFile, decisionsFile, errorsFile}, name) {
		return 0, false, nil
	}
	f, info, err := openRegular(fsys, filepath.Join(dir, name))
	if err != nil {
		return 0, false, nil // as reading it whole says
	}
	defer func() { _ = f.Close() }() // it was only read
	if info.Size() <= pieceBytes || info.Size() > maxFileBytes {
		return 0, false, nil
	}
	before := *d
	v, err := d.takePieces(name, f, info.Size(), &odd)
	switch o, is := v.(object); {
	case errors.Is(err, errOtherwise):
		*d = before
		d.packed.number = nil // of words that are gone
		return 0, false, nil
	case err != nil:
		*d = before
		d.packed.number = nil
		return 0, true, fmt.Errorf("parse: %w", err)
	case is:
		d.says(name, o)
	}
	return odd, true, nil
}

// takePieces takes what a file holds, and counts the entries that are none.
func (d *Data) takePieces(name string, r io.Reader, size int64, odd *int) (any, error) {
	entry := func(take func(object)) func(any) {
		return func(v any) {
			if o, is := v.(object); is {
				take(o)
			} else {
				*odd++
			}
		}
	}
	same := sameWords{}
	switch name {
	case decisionsFile:
		return fromLists(r, "decisions", map[string]func(any){"decisions": entry(func(o object) {
			d.takeDecision(o)
			if same.decision(d.Decisions); d.lean {
				d.Decisions = d.packed.decision(d.Decisions)
			}
		})})
	case errorsFile:
		return fromLists(r, "errors", map[string]func(any){"circuit_breaker_trips": entry(d.takeTrip), "errors": entry(func(o object) {
			d.takeError(o)
			x := &d.Failures[len(d.Failures)-1]
			same.of(&x.TaskID, &x.ErrorType, (*string)(&x.Severity), &x.RecoveryAction)
			if d.lean {
				d.Failures = d.packed.failure(d.Failures)
			}
		})})
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, errOtherwise // it is being written
	}
	var tasks []TaskState
	o, err := fromTasks(data, entry(func(o object) {
		t := taskOf(o)
		same.of((*string)(&t.Status), (*string)(&t.Result), &t.Details)
		tasks = append(tasks, t)
	}))
	if err != nil {
		return nil, errOtherwise // the whole says what is wrong with it
	}
	*odd += d.takeProgress(o)
	d.Progress.Tasks = tasks
	return o, nil
}

// alike returns one of two lists that say the same, so that the other can go.
func alike[T comparable](last, list []T) []T {
	if slices.Equal(last, list) {
		return last
	}
	return slices.Clip(list)
}

// sameWords gives an entry the short texts that others before it have.
type sameWords map[string]string

func (w sameWords) of(texts ...*string) {
	for _, t := range texts {
		if len(*t) > maxWordBytes {
			continue
		}
		s, known := w[*t]
		if !known {
			if len(w) >= maxWords {
				clear(w) // others are in use by now
			}
			s = *t
			w[s] = s
		}
		*t = s
	}
}

// decision gives the last of the decisions what it has in common with others.
func (w sameWords) decision(list []Decision) {
	x := &list[len(list)-1]
	w.of(&x.TaskID, &x.DecisionType, &x.Outcome, &x.Context.CurrentTask, &x.Decision.Action)
	if len(list) > 1 {
		last := &list[len(list)-2]
		x.Context.AvailableActions = alike(last.Context.AvailableActions, x.Context.AvailableActions)
		x.Decision.Alternatives = alike(last.Decision.Alternatives, x.Decision.Alternatives)
	}
}
