package home

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const creds = `{
  "account": {"id": "me", "email": "me@example.com"},
  "tokens": {"access_token": "a-1", "refresh_token": "r-1", "id_token": "i-1", "expires_at": 1, "scope": "x"},
  "helper": "",
  "last_refresh": "2026-01-01T00:00:00Z"
}
`

type yard struct {
	t    *testing.T
	user string
	h    *Home
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newYard(t *testing.T, environ ...string) *yard {
	t.Helper()
	y := &yard{t: t, user: t.TempDir()}
	put(t, filepath.Join(y.user, ".tool/auth.json"), creds)
	y.open(environ, Store{Path: "~/.tool", Env: "TOOL_HOME", Keep: []string{"*.json", "plugins", "linked"}, Credentials: []string{"auth.json"}})
	return y
}

func (y *yard) open(environ []string, stores ...Store) []string {
	y.t.Helper()
	h, told, err := New(Options{User: y.user, Environ: environ, Stores: stores, Temp: y.t.TempDir()})
	if err != nil {
		y.t.Fatal(err)
	}
	y.h = h
	y.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			y.t.Error(err)
		}
	})
	return told
}

func (y *yard) users() string { return filepath.Join(y.user, ".tool/auth.json") }
func (y *yard) own() string   { return filepath.Join(y.h.Path(), ".tool/auth.json") }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestARefreshComesBack: the values of a refresh, and nothing else of what the program made.
func TestARefreshComesBack(t *testing.T) {
	y := newYard(t)
	next := strings.NewReplacer(`a-1`, `a-2.x/y+z=`, `r-1`, `1//r-2`, `"expires_at": 1`, `"expires_at": 12345678901234567`, `01T00`, `02T00`,
		`"id": "me"`, `"id": "another"`, `"scope": "x"`, `"scope": "all", "hooks": "id"`, `"helper": ""`, `"helper": "id"`, "{\n", "{\n  \"mcpServers\": {},\n").Replace(creds)
	put(t, y.own(), next)
	if told := y.h.Sync(); told != nil {
		t.Error(told)
	}
	got := read(t, y.users())
	want := strings.NewReplacer(`a-1`, `a-2.x/y+z=`, `r-1`, `1//r-2`, `"expires_at": 1`, `"expires_at": 12345678901234567`, `01T00`, `02T00`).Replace(creds)
	if strip(got) != strip(sorted(t, want)) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if info, err := os.Lstat(y.users()); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if read(t, y.own()) != next {
		t.Error("the copy was changed under the program")
	}
	if told := y.h.Sync(); told != nil || read(t, y.users()) != got {
		t.Errorf("once more: %v", told)
	}
	if left, _ := filepath.Glob(filepath.Join(y.user, ".tool/.ralph-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func strip(s string) string { return strings.Join(strings.Fields(s), "") }

// sorted is an object as encoding/json writes it.
func sorted(t *testing.T, text string) string {
	t.Helper()
	out, err := refreshed([]byte(strings.Replace(text, `"i-1"`, `"i-0"`, 1)), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestNothingElseComesBack: whatever is in the place of the credentials, the user's stay.
func TestNothingElseComesBack(t *testing.T) {
	replace := func(pairs ...string) func(*yard) {
		return func(y *yard) { put(y.t, y.own(), strings.NewReplacer(pairs...).Replace(creds)) }
	}
	for name, tc := range map[string]struct {
		do   func(*yard)
		told bool
	}{
		"a link":               {func(y *yard) { y.link(y.users(), "/etc/passwd") }, true},
		"a link to the user's": {func(y *yard) { y.link(y.users(), y.users()) }, true},
		"a link in the home": {func(y *yard) {
			put(y.t, y.h.Path()+"/x", strings.ReplaceAll(creds, "a-1", "a-2"))
			y.link(y.users(), y.h.Path()+"/x")
		}, true},
		"a directory": {func(y *yard) { y.gone(); _ = os.Mkdir(y.own(), 0o700) }, true},
		"a FIFO":      {func(y *yard) { y.gone(); _ = syscall.Mkfifo(y.own(), 0o600) }, true},
		"a socket":    {func(y *yard) { y.gone(); y.socket() }, true},
		"nothing":     {func(y *yard) { y.gone() }, false},
		"a directory above that is a link": {func(y *yard) {
			_ = os.RemoveAll(filepath.Dir(y.own()))
			put(y.t, y.user+"/elsewhere/auth.json", strings.ReplaceAll(creds, "a-1", "a-2"))
			_ = os.Symlink(y.user+"/elsewhere", filepath.Dir(y.own()))
		}, true},
		"settings":                {func(y *yard) { put(y.t, y.own(), "notify = ['id']\n") }, true},
		"a list":                  {func(y *yard) { put(y.t, y.own(), `["a-2"]`) }, true},
		"null":                    {func(y *yard) { put(y.t, y.own(), `null`) }, true},
		"nothing in it":           {func(y *yard) { put(y.t, y.own(), ``) }, true},
		"an object without":       {func(y *yard) { put(y.t, y.own(), `{}`) }, false},
		"two objects":             {func(y *yard) { put(y.t, y.own(), creds+`{"x": 1}`) }, true},
		"too large":               {func(y *yard) { put(y.t, y.own(), creds+strings.Repeat(" ", maxCredential)) }, true},
		"a token too large":       {replace("a-1", strings.Repeat("a", maxToken+1)), true},
		"a program":               {replace("a-1", "!id > /tmp/x"), true},
		"a line":                  {replace("a-1", `a\nb`), true},
		"an escape":               {replace("a-1", `a\u001b]0;`), true},
		"another kind":            {replace(`"a-1"`, `{"command": "id"}`), true},
		"a list for a token":      {replace(`"a-1"`, `["a"]`), true},
		"a text for a time":       {replace(`"expires_at": 1`, `"expires_at": "id"`), true},
		"a number for a token":    {replace(`"a-1"`, `7`), true},
		"no token":                {replace(`"a-1"`, `null`), true},
		"more keys":               {replace("{\n", "{\n  \"OPENAI_API_KEY\": \"x\", \"access_token\": \"y\",\n"), false},
		"another account":         {replace(`"id": "me"`, `"id": "you"`), false},
		"another scope":           {replace(`"scope": "x"`, `"scope": "all"`), false},
		"a helper":                {replace(`"helper": ""`, `"helper": "id"`), false},
		"an object for a token's": {replace(`"tokens": {`, `"tokens": [{`, `"scope": "x"}`, `"scope": "x"}]`), false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			tc.do(y)
			told := y.h.Sync()
			if (len(told) > 0) != tc.told {
				t.Errorf("told: %v", told)
			}
			if got := read(t, y.users()); got != creds {
				t.Errorf("the user's are %s", got)
			}
		})
	}
}

func (y *yard) gone() { _ = os.Remove(y.own()) }
func (y *yard) link(_, to string) {
	y.gone()
	if err := os.Symlink(to, y.own()); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) socket() {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		y.t.Cleanup(func() { _ = syscall.Close(fd) })
		err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: y.own()})
	}
	if err != nil {
		y.t.Skip("no socket can be made at such a path:", err)
	}
}

// What the user's own program made of them meanwhile wins, and the copy gets it.
func TestTheUserWasFirst(t *testing.T) {
	y := newYard(t)
	put(t, y.users(), strings.ReplaceAll(creds, "a-1", "users"))
	put(t, y.own(), strings.ReplaceAll(creds, "a-1", "own"))
	y.h.Sync()
	if got := read(t, y.users()); !strings.Contains(got, "users") || read(t, y.own()) != got {
		t.Errorf("%s, the copy %s", got, read(t, y.own()))
	}
	put(t, y.own(), strings.ReplaceAll(creds, "a-1", "own-2"))
	y.h.Sync()
	if got := read(t, y.users()); !strings.Contains(got, "own-2") {
		t.Errorf("a later refresh: %s", got)
	}
	if err := os.Remove(y.users()); err != nil { // logged out
		t.Fatal(err)
	}
	put(t, y.own(), strings.ReplaceAll(creds, "a-1", "own-3"))
	y.h.Sync()
	if _, err := os.Stat(y.users()); err == nil {
		t.Error("a login came back that the user had ended")
	}
}

// A file that is being written changes nothing, and is not changed.
func TestAHalfWrittenCopyWaits(t *testing.T) {
	y := newYard(t)
	next := strings.ReplaceAll(creds, "a-1", "a-2")
	for i := range len(next) - 1 {
		put(t, y.own(), next[:i])
		y.h.Sync()
		if read(t, y.users()) != creds || read(t, y.own()) != next[:i] {
			t.Fatalf("%q: %s", next[:i], read(t, y.users()))
		}
	}
	put(t, y.own(), next)
	if told := y.h.Sync(); told != nil || !strings.Contains(read(t, y.users()), "a-2") {
		t.Errorf("%v: %s", told, read(t, y.users()))
	}
}

// What the program puts in the way of the copy holds nothing up.
func TestNothingHoldsASyncUp(t *testing.T) {
	y := newYard(t)
	if err := syscall.Mkfifo(filepath.Join(filepath.Dir(y.own()), ".ralph-auth.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	y.gone()
	if err := syscall.Mkfifo(y.own(), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, y.users(), strings.ReplaceAll(creds, "a-1", "a-2"))
	y.h.Sync()
	if !strings.Contains(read(t, y.own()), "a-2") {
		t.Errorf("the copy is %s", read(t, y.own()))
	}
}

// replace is refused when the file is not what it was thought to be.
func TestReplaceComparesFirst(t *testing.T) {
	y := newYard(t)
	if err := replace(y.users(), []byte("other"), []byte("new")); err == nil || read(t, y.users()) != creds {
		t.Errorf("%v: %s", err, read(t, y.users()))
	}
	if left, _ := filepath.Glob(filepath.Join(y.user, ".tool/.ralph-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The user's file may be a link, and stays one.
func TestALinkOfTheUsersStays(t *testing.T) {
	y := newYard(t)
	real := filepath.Join(y.user, "dotfiles/auth.json")
	put(t, real, creds)
	if err := os.Remove(y.users()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, y.users()); err != nil {
		t.Fatal(err)
	}
	y.open(nil, Store{Path: "~/.tool", Credentials: []string{"auth.json"}})
	put(t, y.own(), strings.ReplaceAll(creds, "a-1", "a-2"))
	if told := y.h.Sync(); told != nil || !strings.Contains(read(t, real), "a-2") {
		t.Errorf("%v: %s", told, read(t, real))
	}
	if to, err := os.Readlink(y.users()); err != nil || to != real {
		t.Errorf("%s, %v", to, err)
	}
}

// Sessions and logs are not copied, nor what is too large; what is below a link leads
// nowhere else; the rest of the home is shown by links.
func TestWhatIsCopied(t *testing.T) {
	y := newYard(t)
	put(t, y.user+"/.tool/sessions/old", "another project's")
	put(t, y.user+"/.ssh/id", "a secret")
	put(t, y.user+"/.bashrc", "rc")
	put(t, y.user+"/.config/other/x", "other")
	put(t, y.user+"/.config/tool/x", "tool")
	put(t, y.user+"/skills/SKILL.md", "skill")
	for from, to := range map[string]string{"/skills/leak": y.user + "/.ssh/id", "/.tool/linked": y.user + "/skills"} {
		if err := os.Symlink(to, y.user+from); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(y.user+"/.tool/fifo.json", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(y.user+"/.tool/plugins", 0o700); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(y.user + "/.tool/plugins/big")
	if err == nil {
		err = big.Truncate(maxBytes + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = big.Close()
	began := time.Now()
	told := y.open(nil, Store{Path: "~/.tool", Keep: []string{"*.json", "plugins", "linked"}}, Store{Path: "~/.config/tool"}, Store{Path: "~/.absent"})
	t.Logf("made in %s", time.Since(began))
	if len(told) != 1 || !strings.Contains(told[0], "~/.tool/plugins is too large") {
		t.Error(told)
	}
	at := func(name string) string { return filepath.Join(y.h.Path(), name) }
	for name, there := range map[string]bool{".tool/sessions": false, ".tool/plugins": false, ".tool/linked/leak": false, ".tool/fifo.json": false, ".tool/auth.json": true, ".tool/linked/SKILL.md": true,
		".bashrc": true, ".config/other/x": true, ".config/tool/x": true} {
		if _, err := os.Stat(at(name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, link := range map[string]bool{".bashrc": true, ".config/other": true, ".config": false, ".config/tool": false, ".tool": false, ".tool/linked": false} {
		if info, err := os.Lstat(at(name)); err != nil || (info.Mode()&os.ModeSymlink != 0) != link {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The user's own variables for such places are followed, and lead to the copy.
func TestVariables(t *testing.T) {
	y := newYard(t)
	elsewhere, config := t.TempDir(), t.TempDir()
	put(t, elsewhere+"/below/x.json", "from elsewhere")
	put(t, config+"/tool/x", "from config")
	y.open([]string{"TOOL_HOME=" + elsewhere, "XDG_CONFIG_HOME=" + config, "GOPATH=/g"}, Store{Path: "~/.tool", Env: "TOOL_HOME", Below: "below"}, Store{Path: "~/.config/tool"})
	env := strings.Join(y.h.Environ(), "\n") + "\n"
	if read(t, y.h.Path()+"/.tool/x.json") != "from elsewhere" || read(t, y.h.Path()+"/.config/tool/x") != "from config" {
		t.Error("it is not the user's")
	}
	for _, want := range []string{"HOME=" + y.h.Path() + "\n", "XDG_CONFIG_HOME=" + y.h.Path() + "/.config\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in %q", want, env)
		}
	}
	if strings.Contains(env, "GOPATH=") {
		t.Errorf("%q", env)
	}
}

// Without a home there is an empty one.
func TestNoHome(t *testing.T) {
	y := &yard{t: t, user: filepath.Join(t.TempDir(), "absent")}
	y.open(nil, Store{Path: "~/.tool", Credentials: []string{"auth.json"}})
	if entries, err := os.ReadDir(y.h.Path()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
