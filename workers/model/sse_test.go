package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"":                   nil,
		"a":                  {"a"},
		"a\n":                {"a"},
		"a\nb\r\nc\rd":       {"a", "b", "c", "d"},
		"\n\r\n\r":           {"", "", ""},
		"a\r\n\r\nb\r\r":     {"a", "", "b", ""},
		"data: x\n\n: c\r\n": {"data: x", "", ": c"},
		strings.Repeat("x", firstBuffer+5) + "\n" + strings.Repeat("y", 3*firstBuffer): {strings.Repeat("x", firstBuffer+5), strings.Repeat("y", 3*firstBuffer)},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)), "eof with data": iotest.DataErrReader(strings.NewReader(in))} {
			l := lines{r: r}
			var got []string
			var err error
			for {
				var line []byte
				if line, err = l.next(); err != nil {
					break
				}
				got = append(got, string(line))
			}
			if err != io.EOF || strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
				t.Errorf("%s %.40q: %.80q, %v", name, in, got, err)
			}
		}
	}
}

// play reads a stream as a try does.
func play(r io.Reader) (*draft, []agent.Delta, *Error) {
	var deltas []agent.Delta
	d := new(draft)
	w := &watch{r: r, d: time.Minute, cancel: func(error) {}}
	w.timer = time.AfterFunc(time.Hour, func() {})
	defer w.timer.Stop()
	s := &stream{sink: func(d agent.Delta) { deltas = append(deltas, d) }, draft: d, watch: w, host: "test"}
	s.lines.r = w
	err := s.read(context.Background())
	return d, deltas, err
}

// FuzzStream checks that a stream means the same however it arrives, that
// deltas are whole runes and make up the text, and that nothing breaks.
func FuzzStream(f *testing.F) {
	for _, fault := range modeltest.Faults() {
		for _, r := range fault.Replies {
			if body := r.Body(); len(body) < 20_000 {
				f.Add([]byte(body))
			}
		}
	}
	f.Add([]byte(geminiStream()))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, deltas, err := play(bytes.NewReader(data))
		e, _, again := play(iotest.OneByteReader(bytes.NewReader(data)))
		if (err == nil) != (again == nil) || err != nil && err.Kind != again.Kind {
			t.Fatalf("whole %v, by bytes %v", err, again)
		}
		m, n := d.message(nil), e.message(nil)
		if m.Text != n.Text || m.Reasoning != n.Reasoning || len(m.Calls) != len(n.Calls) {
			t.Fatalf("whole %+v, by bytes %+v", m, n)
		}
		ids := make(map[string]bool)
		for i := range m.Calls {
			if !reflect.DeepEqual(m.Calls[i], n.Calls[i]) || ids[m.Calls[i].ID] || m.Calls[i].ID == "" || !utf8.ValidString(m.Calls[i].Args+m.Calls[i].Name+string(m.Calls[i].Extra)) ||
				m.Calls[i].Extra != nil && !isObject(m.Calls[i].Extra) {
				t.Fatalf("whole %+v, by bytes %+v", m, n)
			}
			ids[m.Calls[i].ID] = true
		}
		text := ""
		for _, delta := range deltas {
			if !utf8.ValidString(delta.Text) || delta.Text == "" {
				t.Fatalf("delta %q", delta.Text)
			}
			if delta.Kind == agent.DeltaText {
				text += delta.Text
			}
		}
		if m.Text != text {
			t.Fatalf("text %q, deltas %q", m.Text, text)
		}
		if d.tokens(100).Total < 0 {
			t.Fatal("negative usage")
		}
	})
}

// FuzzChunk compares the chunk decoder with encoding/json.
func FuzzChunk(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","choices":[{"index":0,"delta":{"content":"a\u00e9\ud83d\udc4b\"\\\n"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"choices":[{"delta":{"content":null,"tool_calls":[{"index":1,"id":"x","function":{"name":"n","arguments":"{}"}}]}}]}`,
		`{"a":[1,2,{"b":[]}],"choices":[],"c":true,"d":-1.5e3}`, `{"choices":[{"delta":{"content":"x"}}]}}`, `{`, `{"choices":[{"delta":{"content":"x`, `[]`, ` {} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var k chunk
		v := k.decode(data)
		var want struct {
			Choices []struct {
				Index *int
				Delta struct{ Content *string }
			}
		}
		valid := json.Valid(data) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
		if valid != (v == whole) && valid {
			t.Fatalf("%q is valid and decodes as %v", data, v)
		}
		if valid && utf8.Valid(data) {
			// A text that is cut off anywhere is too short, never whole.
			cut := bytes.TrimSpace(data)
			var short chunk
			if got := short.decode(cut[:len(cut)-1]); got == whole {
				t.Fatalf("%q decodes as whole", cut[:len(cut)-1])
			}
		}
		// Only where both read the same keys can the texts be compared.
		if !valid || json.Unmarshal(data, &want) != nil || len(want.Choices) != 1 || bytes.Count(data, []byte("content")) != 1 ||
			bytes.Count(data, []byte(`"delta"`)) != 1 || bytes.Count(data, []byte(`"choices"`)) != 1 || bytes.Contains(data, []byte(`"message"`)) ||
			want.Choices[0].Delta.Content == nil || want.Choices[0].Index != nil || !bytes.Contains(data, []byte(`"content"`)) || bytes.Contains(bytes.ToLower(data), []byte(`index`)) || bytes.Contains(data, []byte(`"refusal"`)) || bytes.Contains(data, []byte(`"text"`)) {
			return
		}
		var r runes
		r.add(k.text)
		r.finish()
		if got := r.String(); utf8.Valid(data) && got != *want.Choices[0].Delta.Content {
			t.Fatalf("%q: text %q, want %q", data, got, *want.Choices[0].Delta.Content)
		}
	})
}

func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x00\u2028é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		enc := appendString(nil, s)
		if err := json.Unmarshal(enc, &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q encodes as %s: %q, %v", s, enc, back, err)
		}
		var c cursor
		c.reset(enc)
		if got, ok := c.str(); !ok || string(got) != back {
			t.Fatalf("%q decodes as %q", enc, got)
		}
	})
}

func TestTooLongLine(t *testing.T) {
	_, _, err := play(io.LimitReader(endless('x'), 50<<20))
	if err == nil || err.Kind != KindProtocol || !errors.Is(err, errLineTooLong) {
		t.Errorf("err %v", err)
	}
}

// endless is a reader of one byte over and over.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}
