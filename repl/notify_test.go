package repl

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode"

	"ralph/coordinator/permission"
	"ralph/coordinator/result"
)

func TestNotice(t *testing.T) {
	for name, c := range map[string]struct {
		setting string
		env     map[string]string
		want    string
	}{
		"off":                {"off", map[string]string{"TERM_PROGRAM": "iTerm.app"}, ""},
		"the bell":           {"bell", map[string]string{"TERM_PROGRAM": "iTerm.app"}, "\a"},
		"an unknown one":     {"auto", map[string]string{"TERM": "xterm-256color"}, "\a"},
		"no setting":         {"", nil, "\a"},
		"iTerm":              {"auto", map[string]string{"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;Ralph: done, all, of it\x1b\\"},
		"kitty":              {"auto", map[string]string{"KITTY_WINDOW_ID": "1"}, "\x1b]9;Ralph: done, all, of it\x1b\\"},
		"GNOME":              {"auto", map[string]string{"VTE_VERSION": "7600"}, "\x1b]777;notify;Ralph;done, all, of it\x1b\\"},
		"foot":               {"auto", map[string]string{"TERM": "foot-extra"}, "\x1b]777;notify;Ralph;done, all, of it\x1b\\"},
		"iTerm through tmux": {"auto", map[string]string{"TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/x"}, "\a"},
	} {
		if got := notice(c.setting, func(k string) string { return c.env[k] }, "done; all; of it"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	long := notice("auto", func(k string) string { return map[string]string{"TERM_PROGRAM": "WezTerm"}[k] }, "a\x1b\\b\x07c\u009cd\n"+strings.Repeat("日本", 500))
	body := strings.TrimSuffix(strings.TrimPrefix(long, "\x1b]9;"), "\x1b\\")
	if strings.IndexFunc(body, unicode.IsControl) >= 0 || len([]rune(body)) > noticeRunes+len("Ralph: ") {
		t.Errorf("foreign text gave %q", long)
	}
}

// TestCalls: long work that ends or asks calls the user; short work, work that the
// user stopped or spoke to just now, and the setting off do not.
func TestCalls(t *testing.T) {
	const bell = "\a"
	long := func(o *Options) { o.notifyAfter = 150 * time.Millisecond }
	slow := func(ctx context.Context, f *fake, task string) result.Outcome {
		time.Sleep(300 * time.Millisecond)
		if task == "ask" {
			_, _ = f.link.Ask(ctx, permission.Question{Kind: "question", Text: "which one?"})
		}
		return result.Outcome{StartedAt: time.Now().Add(-300 * time.Millisecond)}
	}
	for name, c := range map[string]struct {
		turn  turnFunc
		typed string
		opts  []func(*Options)
		rings int
	}{
		"long":     {slow, "work\r", []func(*Options){long}, 1},
		"asks":     {slow, "ask\r", []func(*Options){long}, 1},
		"off":      {slow, "work\r", []func(*Options){long, func(o *Options) { o.Notify = "off" }}, 0},
		"short":    {echo, "work\r", []func(*Options){long}, 0},
		"too soon": {slow, "work\r", nil, 0},
		"plain":    {slow, "work\r", []func(*Options){long, func(o *Options) { o.Plain = true }}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := open(t, c.turn, c.opts...)
			y.Until("a prompt", func(s string) bool { return strings.Contains(s, "❯ ▏") || strings.Contains(s, "ralph> ▏") })
			y.Type(c.typed)
			if name == "asks" {
				y.Has("which one?")
				y.Has("answer ? ▏")
				y.Until("the bell", func(string) bool { return y.Received(bell) == c.rings })
				y.Type("this\r") // whoever answers is there
			}
			y.Until("the end of the turn", func(s string) bool {
				return strings.Contains(s, " ms\n") && (strings.Contains(s, "ralph ❯ ▏") || strings.Contains(s, "ralph> ▏"))
			})
			y.Type("/exit\r")
			y.left(0)
			if got := y.Received(bell); got != c.rings {
				t.Errorf("the bell rang %d times, want %d", got, c.rings)
			}
		})
	}
}

func TestStopIsNoCall(t *testing.T) {
	y := open(t, hang, func(o *Options) { o.notifyAfter = time.Millisecond })
	y.idle()
	y.Type("work\r")
	y.Has("thinking about it")
	y.Type("\x03")
	y.Has("ralph talk ❯ ▏")
	y.Type("\x04")
	y.left(0)
	if got := y.Received("\a"); got != 0 {
		t.Errorf("a stop by the user rang the bell %d times", got)
	}
}
