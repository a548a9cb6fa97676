package pick

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/repl/line"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func models() []Item {
	return []Item{{Value: "gpt-large", Detail: "now"}, {Value: "gpt-small"}, {Value: "llama-tiny", Detail: "local \x1b[2J"}}
}

func TestList(t *testing.T) {
	stop := errors.New("stopped")
	for _, c := range []struct {
		answer string
		err    error
		want   string
		fails  error
	}{
		{"2", nil, "gpt-small", nil},
		{"llama-tiny", nil, "llama-tiny", nil},
		{" ltn ", nil, "llama-tiny", nil},
		{"local", nil, "llama-tiny", nil},
		{"", nil, "", ErrCancelled},
		{"9", nil, "", nil},
		{"x", stop, "", stop},
	} {
		var shown string
		p := &Picker{
			Print:  func(text string) { shown += text },
			Answer: func(context.Context, string) (string, error) { return c.answer, c.err },
		}
		got, err := p.Pick(t.Context(), "model", models())
		if got != c.want || c.fails != nil && !errors.Is(err, c.fails) || c.want == "" && err == nil {
			t.Errorf("%q chose %q, %v", c.answer, got, err)
		}
		if !strings.Contains(shown, "   3  llama-tiny  local ␛[2J\n") {
			t.Errorf("the list is %q", shown)
		}
	}
}

func TestNothingToPick(t *testing.T) {
	if _, err := (&Picker{}).Pick(t.Context(), "model", nil); err == nil || errors.Is(err, ErrCancelled) {
		t.Errorf("got %v", err)
	}
	if _, err := (&Picker{}).Pick(t.Context(), "model", models()); !errors.Is(err, ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

func TestTinyTerminalGetsTheList(t *testing.T) {
	p := &Picker{
		Lend: func(context.Context, func(context.Context, line.Keys, io.Writer) error) error {
			t.Error("the terminal was lent")
			return nil
		},
		Size:   func() (int, int) { return 30, 5 },
		Print:  func(string) {},
		Answer: func(context.Context, string) (string, error) { return "1", nil },
	}
	if got, err := p.Pick(t.Context(), "model", models()); got != "gpt-large" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// typed hands out keys one by one, then nothing.
type typed struct{ keys []string }

func (k *typed) Next() []byte {
	if len(k.keys) == 0 {
		return nil
	}
	b := k.keys[0]
	k.keys = k.keys[1:]
	return []byte(b)
}

// TestMenu runs go-prompt on keys from here; where there is no /dev/tty it
// cannot be built, and the list takes over.
func TestMenu(t *testing.T) {
	if _, err := newMenu(); err != nil {
		t.Skip("no /dev/tty: ", err)
	}
	p := &Picker{Size: func() (int, int) { return 80, 24 }}
	for _, c := range []struct {
		keys []string
		want string
		err  error
	}{
		{[]string{"s", "m", "\r"}, "gpt-small", nil},
		{[]string{"\x1b[B", "\x1b[B", "\r"}, "gpt-small", nil},
		{[]string{"\x1b[A", "\r"}, "llama-tiny", nil},
		{[]string{"\x1b[B", "t", "i", "n", "\r"}, "llama-tiny", nil},
		{[]string{"x", "\x1b"}, "", ErrCancelled},
		{[]string{"\x04"}, "", ErrCancelled},
		{[]string{"\r"}, "", ErrCancelled},
	} {
		var out bytes.Buffer
		p.Lend = func(ctx context.Context, f func(context.Context, line.Keys, io.Writer) error) error {
			return f(ctx, &typed{c.keys}, &out)
		}
		got, err := p.Pick(t.Context(), "model", models())
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q chose %q, %v; want %q", c.keys, got, err, c.want)
		}
		if strings.Contains(out.String(), "\x1b]") || strings.Contains(out.String(), "\x1b[2J") {
			t.Errorf("wrote %q", out.String())
		}
	}
}

func TestMenuEndsWithItsContext(t *testing.T) {
	if _, err := newMenu(); err != nil {
		t.Skip("no /dev/tty: ", err)
	}
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &Picker{Size: func() (int, int) { return 80, 24 }}
	p.Lend = func(ctx context.Context, f func(context.Context, line.Keys, io.Writer) error) error {
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		return f(ctx, &typed{}, io.Discard)
	}
	if _, err := p.Pick(ctx, "model", models()); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
