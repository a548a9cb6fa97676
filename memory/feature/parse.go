package feature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// version is the form of the file that this package writes.
const version = 1

// maxName bounds a feature's name, in bytes.
const maxName = 60

// parse reads a snapshot strictly enough to tell ours from others: version 1,
// with a name, a session and a status word. The error matches ErrForeign.
func parse(data []byte) (Snapshot, error) {
	var snap Snapshot
	data, _ = unsigned(data)
	err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &snap)
	switch {
	case err != nil:
		err = where(data, err)
	case snap.Version > version:
		err = fmt.Errorf("it has version %d: a newer Ralph wrote it", snap.Version)
	case snap.Version != version:
		err = errors.New("it has no version 1")
	case snap.Feature == "" || snap.SessionID == "":
		err = errors.New("it names no feature and session")
	case !snap.Status.known():
		err = fmt.Errorf("its status is %q", text.Clip(string(snap.Status), maxName))
	case snap.Iteration < 0 || snap.MaxIterations < 0:
		err = errors.New("it counts iterations below zero")
	default:
		return snap, nil
	}
	return Snapshot{}, fmt.Errorf("it %w: %w", ErrForeign, err)
}

// where adds the line at which JSON is broken.
func where(data []byte, err error) error {
	at := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = e.Offset
	}
	if at < 0 || at > int64(len(data)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:at], []byte("\n")), err)
}

// load reads a feature's file, or the copy in backups of one that broke.
func load(o Options, name string) (Snapshot, []byte, error) {
	path := o.path(name)
	data, err := durable.ReadFile(o.FS, path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, nil, fmt.Errorf("read feature %q: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return Snapshot{}, nil, err
	}
	snap, err := parse(data)
	if err == nil && !o.written(name, data) {
		err = fmt.Errorf("it %w: your Ralph did not write it", ErrForeign)
	}
	if err == nil && snap.Feature != name {
		err = fmt.Errorf("it %w: it is that of feature %q", ErrForeign, text.Clip(snap.Feature, maxName))
	}
	if err == nil {
		return snap, data, nil
	}
	// Whole JSON that is not ours is another tool's; what is none at all may be
	// ours that broke, and then there is a copy.
	if !json.Valid(data) {
		if spare, err := durable.ReadFile(o.FS, o.spare(name), maxBytes); err == nil {
			if snap, err := parse(spare); err == nil && snap.Feature == name && o.written(name, spare) {
				o.Warn(fmt.Sprintf("%s cannot be read: the copy of %s counts", path, snap.UpdatedAt.Local().Format("2006-01-02 15:04:05")))
				return snap, data, nil
			}
		}
	}
	return Snapshot{}, data, &durable.Error{Op: "open feature", Path: path, Err: err,
		Hint: "ralph sessions import " + path + " takes over what another tool left, --feature gives the work another name; or move the file away"}
}

// Name makes a text fit to name a feature: a plain file name, which is no
// session's. What cannot be made one is an error.
func Name(content string) (string, error) {
	var b strings.Builder
	for _, r := range strings.TrimSpace(content) {
		if b.Len()+utf8.RuneLen(r) > maxName {
			break
		}
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '.' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-.")
	if name == "" || !utf8.ValidString(name) {
		return "", fmt.Errorf("%q has no letter or digit that could name a feature", text.Clip(content, maxName))
	}
	if strings.HasPrefix(name, "session-") || name == "archive" || name == "summaries" {
		return "", fmt.Errorf("a feature cannot be named %q: sessions are", name)
	}
	return name, nil
}

// lines breaks encoded JSON into lines: one for each value of the two outer
// levels, and one for each element of the long lists. Much of it is lists, which
// a line for each of their values would make several times as long.
func lines(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/8)
	var open []byte // the brackets that are open
	pad := func() {
		out = append(out, '\n')
		for range len(open) {
			out = append(out, ' ', ' ')
		}
	}
	broken := func() bool { return len(open) <= 2 || len(open) == 3 && open[2] == '[' }
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '"':
			end := i + 1
			for ; end < len(data) && data[end] != '"'; end++ {
				if data[end] == '\\' {
					end++
				}
			}
			end = min(end, len(data)-1)
			out = append(out, data[i:end+1]...)
			i = end
		case '{', '[':
			out = append(out, c)
			if i+1 < len(data) && data[i+1] == c+2 { // empty
				out, i = append(out, c+2), i+1
				continue
			}
			if open = append(open, c); broken() {
				pad()
			}
		case '}', ']':
			if b := broken(); len(open) > 0 {
				if open = open[:len(open)-1]; b {
					pad()
				}
			}
			out = append(out, c)
		case ',':
			if out = append(out, c); broken() {
				pad()
			} else {
				out = append(out, ' ')
			}
		case ':':
			out = append(out, c, ' ')
		default:
			out = append(out, c)
		}
	}
	return append(out, '\n')
}
