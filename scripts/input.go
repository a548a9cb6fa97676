package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxTaskBytes   = 4 << 20
	maxStdinBytes  = 10 << 20
	maxSchemaBytes = 1 << 20
)

// readTask returns the task and the text that came along on standard input.
func (inv *invocation) readTask(ctx context.Context, words []string) (task, along string, err error) {
	if len(words) == 1 && words[0] == "-" {
		task, err = inv.readStdin(ctx, true, maxTaskBytes)
		if err != nil {
			return "", "", err
		}
		task = strings.TrimRight(strings.TrimPrefix(task, "\uFEFF"), "\r\n")
		return task, "", checkTask(task, "standard input holds no task", "printf '%s' \"the task\" | ralph -")
	}
	task = strings.Join(words, " ")
	if err := checkTask(task, "no task given", `ralph "what to do" gives Ralph a task, ralph chat talks with it`); err != nil {
		return "", "", err
	}
	along, err = inv.readStdin(ctx, false, maxStdinBytes)
	return task, along, err
}

func checkTask(task, empty, hint string) error {
	switch {
	case len(task) > maxTaskBytes:
		return usage("put the long part in a file and name the file in the task, or give it with --files",
			"the task has %d bytes; the limit is %d", len(task), maxTaskBytes)
	case strings.TrimSpace(task) == "":
		return usage(hint, "%s", empty)
	case !utf8.ValidString(task):
		return usage("write the task in UTF-8", "the task is not valid UTF-8")
	}
	return nil
}

// openStdin opens standard input when it is one to read; it is nil otherwise.
// wanted says that it was asked for by name; otherwise only a pipe, a socket or
// a file is read, and one that stays silent because nobody is going to write is
// left alone. waiting is what a person is told who is waited for. done is called
// when it was read.
func (inv *invocation) openStdin(ctx context.Context, wanted bool, waiting string) (in io.Reader, done func(), err error) {
	done = func() {}
	if inv.Stdin == nil {
		return nil, done, nil
	}
	f, ok := inv.Stdin.(*os.File)
	if !ok {
		return inv.Stdin, done, nil
	}
	info, err := f.Stat()
	if err != nil {
		if wanted {
			return nil, done, unreadable(err)
		}
		return nil, done, nil // closed: nothing came along
	}
	piped := info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
	switch {
	case info.Mode().IsRegular():
		return f, done, nil
	case !wanted && !piped:
		return nil, done, nil
	}
	r, err := newPatientReader(ctx, f)
	if err != nil {
		return nil, done, unreadable(err)
	}
	r.notice = func() { inv.note(waiting) }
	r.leave = !wanted
	return r, r.close, nil
}

// readStdin reads standard input when it is one to read: see openStdin.
func (inv *invocation) readStdin(ctx context.Context, wanted bool, limit int) (string, error) {
	waiting := "reading standard input; < /dev/null goes on without it"
	if wanted {
		waiting = "reading the task from standard input"
	}
	in, done, err := inv.openStdin(ctx, wanted, waiting)
	if err != nil || in == nil {
		return "", err
	}
	defer done()
	text, err := readText(in, limit)
	switch {
	case errors.Is(err, errSilent):
		inv.warning("standard input is open and silent: it was left out (< /dev/null says that nothing comes, `ralph -` waits)")
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return text, err
}

// readText reads at most limit bytes of text.
func readText(in io.Reader, limit int) (string, error) {
	var b bytes.Buffer
	chunk := make([]byte, 64<<10)
	for {
		n, err := in.Read(chunk)
		if bytes.IndexByte(chunk[:n], 0) >= 0 {
			return "", usage("save it to a file and name the file in the task", "standard input is binary, not text")
		}
		if b.Len()+n > limit {
			return "", usage("save it to a file and name the file in the task, or give files with --files",
				"standard input is longer than the limit of %s", sizeText(int64(limit)))
		}
		b.Write(chunk[:n])
		switch {
		case err == io.EOF:
			if !utf8.Valid(b.Bytes()) {
				return "", usage("convert it to UTF-8, or save it to a file and name the file in the task",
					"standard input is not valid UTF-8 text")
			}
			return b.String(), nil
		case errors.Is(err, errSilent):
			return "", err
		case err != nil:
			return "", unreadable(err)
		}
	}
}

// unreadable is the error of a standard input that is none.
func unreadable(err error) error {
	return usage("give it a pipe or a text file; < /dev/null says that nothing comes", "read standard input: %s", reason(err))
}

// readSchema reads and checks the JSON Schema of --schema.
func readSchema(path string) (json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("--schema takes a file with a JSON Schema", "open schema %q: %s", path, reason(err))
	}
	defer f.Close() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxSchemaBytes+1))
	switch {
	case err != nil:
		return nil, usage("--schema takes a file with a JSON Schema", "read schema %q: %s", path, reason(err))
	case len(data) > maxSchemaBytes:
		return nil, usage("a schema of that size is of no use to a model", "schema %q is longer than %s", path, sizeText(maxSchemaBytes))
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := checkSchema(data); err != nil {
		return nil, usage("a JSON Schema of draft 2020-12 or draft-07 is needed", "schema %q: %s", path, err)
	}
	return data, nil
}

// checkSchema says where and why data is no JSON Schema that can be used.
func checkSchema(data []byte) error {
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", position(data, err), err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return errors.New("the schema is not a JSON object")
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		return wrongType(err)
	}
	switch strings.TrimSuffix(s.Schema, "#") {
	case "", "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema":
	default:
		return fmt.Errorf("$schema: %q is not supported", s.Schema)
	}
	if err := checkTypes(doc, ""); err != nil {
		return err
	}
	if _, err := s.Resolve(nil); err != nil {
		// The library names schemas by how they came to it, which says nothing here.
		return errors.New(strings.ReplaceAll(err.Error(), "jsonschema.Schema: <anonymous schema>: ", ""))
	}
	return nil
}

// wrongType says in the words of JSON what does not fit a keyword.
func wrongType(err error) error {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return err
	}
	keyword := t.Field[strings.LastIndexByte(t.Field, '.')+1:]
	return fmt.Errorf("%s: a %s cannot stand here", keyword, t.Value)
}

// checkTypes finds names of types that JSON Schema does not have; the library
// would take them and then let no value pass.
func checkTypes(v any, at string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for _, name := range typeNames(object["type"]) {
		switch name {
		case "null", "boolean", "object", "array", "number", "string", "integer":
		default:
			return fmt.Errorf("%s/type: %q is not a type of JSON Schema", at, name)
		}
	}
	for _, key := range []string{"items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames"} {
		if err := checkTypes(object[key], at+"/"+key); err != nil {
			return err
		}
	}
	for _, key := range []string{"properties", "$defs", "definitions", "patternProperties"} {
		named, _ := object[key].(map[string]any)
		for name, sub := range named {
			if err := checkTypes(sub, at+"/"+key+"/"+name); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		list, _ := object[key].([]any)
		for i, sub := range list {
			if err := checkTypes(sub, fmt.Sprintf("%s/%s/%d", at, key, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func typeNames(v any) []string {
	switch t := v.(type) {
	case string:
		return []string{t}
	case []any:
		var names []string
		for _, x := range t {
			if s, ok := x.(string); ok {
				names = append(names, s)
			}
		}
		return names
	}
	return nil
}

// position says where in data a JSON error lies.
func position(data []byte, err error) string {
	offset := int64(len(data))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = min(syntax.Offset, offset)
	}
	before := data[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, max(len(before)-bytes.LastIndexByte(before, '\n')-1, 1))
}

// reason returns the bare cause of a file error, without the path that the
// message names already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func sizeText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
