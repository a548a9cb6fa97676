package home

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// maxCredential bounds a file of credentials, maxToken a value in it.
const (
	maxCredential = 256 << 10
	maxToken      = 16 << 10
)

// credential is a file whose tokens come back.
type credential struct {
	users string // the user's file, without links
	own   string // the copy, relative to the home
	shown string // for people
	base  []byte // the user's, as it was seen last
	taken []byte // the copy, as it was seen last
}

// track notes a file of credentials that was copied.
func (h *Home) track(users, own, shown string) {
	real, err := filepath.EvalSymlinks(users)
	if err != nil {
		return
	}
	base, err := readFile(os.OpenFile(real, flags, 0))
	if err == nil {
		h.creds = append(h.creds, &credential{real, own, shown, base, base})
	}
}

// Sync takes refreshed credentials back, and brings those to the copy that the user's own
// program has refreshed. It is called now and then while the program runs, so that neither
// side uses a token that the other has replaced, and after its end, by which told are whole
// sentences about what was not taken: before, the program may be writing.
func (h *Home) Sync() (told []string) {
	for _, c := range h.creds {
		if err := h.sync(c); err != nil {
			told = append(told, fmt.Sprintf("what it made of its credentials %s was not taken: %v", c.shown, err))
		}
	}
	return told
}

func (h *Home) sync(c *credential) error {
	users, err := readFile(os.OpenFile(c.users, flags, 0))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the user has logged out
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(users, c.base) { // the user's program was first
		c.base, c.taken = users, users
		return h.give(c, users)
	}
	own, err := readFile(h.root.OpenFile(c.own, flags, 0))
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(own, c.taken) {
		return nil
	}
	if err != nil {
		return err
	}
	next, err := refreshed(users, own)
	if err == nil && !bytes.Equal(next, users) {
		err = replace(c.users, users, next)
	}
	if err != nil {
		return err
	}
	c.base, c.taken = next, own
	return nil
}

// give puts credentials into the copy. No link that the program made is followed.
func (h *Home) give(c *credential, text []byte) error {
	name := path.Join(path.Dir(c.own), ".ralph-"+path.Base(c.own))
	_ = h.root.Remove(name) // of an earlier try
	f, err := h.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = h.root.Rename(name, c.own)
	}
	if err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	return nil
}

// flags open what may be a link, a FIFO or a device, without effect on it.
const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// readFile reads a whole file of credentials and closes it.
func readFile(f *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no file")
	case info.Size() > maxCredential:
		return nil, errors.New("it is too large")
	}
	return io.ReadAll(io.LimitReader(f, maxCredential))
}

// replace puts text into the user's file, in one step, if that is still what it was.
func replace(name string, was, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".ralph-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		var now []byte
		now, err = readFile(os.OpenFile(name, flags, 0))
		if err == nil && !bytes.Equal(now, was) {
			err = errors.New("another program has changed it")
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// refreshes matches the names of values that a refresh replaces: tokens, and when they end
// or were made. Identities, kinds, addresses and all else stay the user's.
var refreshes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^((access|refresh)(_?token)?|id_?token|((access|refresh)_?token_?|refresh_?)?expir(y|es|ation)(_?(at|in|date|time))?|last_?refresh(ed)?(_?at)?)$`)
})

// token is what the value of a token or of a time looks like.
var token = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._~+/=:-]+$`) })

// refreshed is the user's file with the tokens of the program's. Values of the user's
// that have no counterpart of the same kind stay.
func refreshed(users, own []byte) ([]byte, error) {
	to, err := parse(users)
	if err != nil {
		return nil, fmt.Errorf("the user's file: %w", err)
	}
	from, err := parse(own)
	if err != nil {
		return nil, err
	}
	before, err := parse(users)
	if err != nil {
		return nil, err
	}
	if err := merge(to, from, ""); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(to, before) {
		return users, nil
	}
	indent := ""
	if i := bytes.Index(users, []byte("\n")); i >= 0 {
		rest := users[i+1:]
		indent = string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(to); err != nil {
		return nil, err
	}
	text := out.Bytes()
	if !bytes.HasSuffix(users, []byte("\n")) {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return text, nil
}

// parse reads an object, with numbers as they are spelled.
func parse(text []byte) (map[string]any, error) {
	var v map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil || v == nil {
		return nil, errors.New("it is no JSON object")
	}
	if dec.More() {
		return nil, errors.New("it is more than a JSON object")
	}
	return v, nil
}

// merge replaces in to the values that a refresh replaces, by those of from.
func merge(to, from map[string]any, at string) error {
	for name, now := range to {
		new, ok := from[name]
		if !ok {
			continue
		}
		where := strings.TrimPrefix(at+"."+name, ".")
		switch now := now.(type) {
		case map[string]any:
			if below, ok := new.(map[string]any); ok {
				if err := merge(now, below, where); err != nil {
					return err
				}
			}
		case string, json.Number:
			if !refreshes().MatchString(name) || reflect.DeepEqual(now, new) {
				continue
			}
			if !alike(now, new) {
				return fmt.Errorf("%s is no token or time", strconv.Quote(where))
			}
			to[name] = new
		}
	}
	return nil
}

// alike reports whether a value is of the kind of another, and looks like a token or time.
func alike(now, new any) bool {
	switch new := new.(type) {
	case json.Number:
		_, same := now.(json.Number)
		return same && len(new) <= 32
	case string:
		_, same := now.(string)
		return same && len(new) <= maxToken && token().MatchString(new)
	}
	return false
}
