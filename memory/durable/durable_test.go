package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
)

func errnos() []error {
	return []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.EACCES}
}

// filesystems returns a fresh directory on the real disk and one in memory.
func filesystems(t *testing.T) map[string]afero.Fs {
	t.Helper()
	return map[string]afero.Fs{
		"disk":   afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()),
		"memory": afero.NewMemMapFs(),
	}
}

func read(t *testing.T, fsys afero.Fs, path string) string {
	t.Helper()
	data, err := afero.ReadFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReplaceSweep: whatever operation fails, and how, the old or the new
// content is whole, and no temporary file is left but where removing fails.
func TestReplaceSweep(t *testing.T) {
	before, after := strings.Repeat("old\n", 1000), strings.Repeat("the new\n", 900)
	for name := range filesystems(t) {
		for _, errno := range errnos() {
			failed := 0
			for n := 1; ; n++ {
				base := filesystems(t)[name]
				if err := afero.WriteFile(base, "/f", []byte(before), 0o640); err != nil {
					t.Fatal(err)
				}
				ff := faultfs.New(base)
				ff.FailAt(n, errno)
				err := durable.Replace(ff, "/f", []byte(after), 0o600)
				if len(ff.Ops()) < n {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				got := read(t, base, "/f")
				if got != before && got != after {
					t.Fatalf("%s, operation %d (%s), %v: %d bytes, neither old nor new", name, n, ff.Ops()[n-1], errno, len(got))
				}
				var de *durable.Error
				if err == nil {
					continue // a failure that does not matter, such as chown
				}
				failed++
				if !errors.As(err, &de) || !errors.Is(err, errno) || de.Hint == "" || de.Path != "/f" {
					t.Fatalf("operation %d: error %#v", n, err)
				}
				entries, rerr := afero.ReadDir(base, "/")
				if rerr != nil || len(entries) != 1 {
					t.Fatalf("operation %d (%s): left over: %v %v", n, ff.Ops()[n-1], entries, rerr)
				}
			}
			if failed < 8 {
				t.Errorf("%s: only %d operations can fail", name, failed)
			}
		}
	}
}

func TestReplaceKeepsModeAndRefuses(t *testing.T) {
	dir := t.TempDir()
	osfs := afero.NewOsFs()
	path := filepath.Join(dir, "f")
	if err := durable.Replace(osfs, path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(osfs, path, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o664 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.Symlink(path, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]error{link: durable.ErrSymlink, fifo: durable.ErrNotRegular, dir: durable.ErrNotRegular} {
		if err := durable.Replace(osfs, p, []byte("x"), 0o600); !errors.Is(err, want) {
			t.Errorf("Replace %s: %v", p, err)
		}
		if err := durable.AppendLine(osfs, p, []byte("x"), 0o600); !errors.Is(err, want) {
			t.Errorf("AppendLine %s: %v", p, err)
		}
		if _, err := durable.ReadFile(osfs, p, 10); !errors.Is(err, want) {
			t.Errorf("ReadFile %s: %v", p, err)
		}
		if err := durable.ReadLines(osfs, p, nil); !errors.Is(err, want) {
			t.Errorf("ReadLines %s: %v", p, err)
		}
	}
	if got := read(t, osfs, path); got != "2" {
		t.Errorf("written through a link: %q", got)
	}
	if _, err := durable.ReadFile(osfs, path, 0); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("ReadFile: %v", err)
	}
	if _, err := durable.ReadFile(osfs, path+"x", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile: %v", err)
	}
	err := durable.Replace(osfs, filepath.Join(dir, "no", "f"), nil, 0o600)
	if want := fmt.Sprintf("replace %q: no such file or directory", filepath.Join(dir, "no", "f")); err == nil || err.Error() != want {
		t.Errorf("error = %v", err)
	}
}

func TestHintNamesTheFilesystem(t *testing.T) {
	ff := faultfs.New(afero.NewOsFs())
	ff.FailAt(2, syscall.ENOSPC)
	err := durable.Replace(ff, filepath.Join(t.TempDir(), "f"), []byte("x"), 0o600)
	var de *durable.Error
	if !errors.As(err, &de) || !strings.Contains(de.Hint, "mounted at /") || !strings.Contains(de.Hint, "no space") {
		t.Errorf("%v %+v", err, de)
	}
}

func lines(t *testing.T, fsys afero.Fs, path string) (got []string) {
	t.Helper()
	if err := durable.ReadLines(fsys, path, func(line []byte, whole bool) error {
		if !whole {
			line = append(bytes.Clone(line), '~')
		}
		got = append(got, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLogSweep: whatever operation fails while three records are appended,
// each acknowledged record is in the log once, none is torn, and the log works
// on as soon as the disk does.
func TestLogSweep(t *testing.T) {
	for name := range filesystems(t) {
		for _, errno := range errnos() {
			for n := 1; ; n++ {
				base := filesystems(t)[name]
				ff := faultfs.New(base)
				l, _, err := durable.OpenLog(ff, "/log", durable.LogOptions{})
				if err != nil {
					t.Fatal(err)
				}
				ff.FailAt(n, errno)
				var want []string
				for i := range 3 {
					record := fmt.Sprintf("record %d %s", i, strings.Repeat("x", 50))
					err := l.Append([]byte(record))
					for tries := 0; err != nil; tries++ {
						if tries > 2 || !errors.Is(err, errno) {
							t.Fatalf("operation %d: %v", n, err)
						}
						err = l.Append([]byte(record))
					}
					want = append(want, record)
				}
				if err := l.Close(); err != nil && !errors.Is(err, errno) {
					t.Fatal(err)
				}
				done := len(ff.Ops()) < n
				if got := lines(t, base, "/log"); strings.Join(got, "|") != strings.Join(want, "|") {
					t.Fatalf("%s, operation %d (%v), %v: %q", name, n, ff.Ops(), errno, got)
				}
				if done {
					break
				}
			}
		}
	}
}

func TestTornTail(t *testing.T) {
	for name, fsys := range filesystems(t) {
		valid := func(b []byte) bool { return bytes.HasSuffix(b, []byte("}")) }
		for _, tc := range []struct {
			content string
			torn    string
			want    []string
		}{
			{"{a}\n{b}\n", "", []string{"{a}", "{b}", "{c}"}},
			{"{a}\n{b", "{b", []string{"{a}", "{c}"}},
			{"{a}\n{b}", "", []string{"{a}", "{b}", "{c}"}},
			{"{b", "{b", []string{"{c}"}},
			{"{a}\n\x00\x00\x00", "\x00\x00\x00", []string{"{a}", "{c}"}},
			{"{a}\nbad\n{b}\n", "", []string{"{a}", "bad", "{b}", "{c}"}},
			{"{a}\n" + strings.Repeat("z", 200<<10), strings.Repeat("z", 200<<10), []string{"{a}", "{c}"}},
			{"", "", []string{"{c}"}},
		} {
			_ = fsys.RemoveAll("/q")
			if err := afero.WriteFile(fsys, "/log", []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, damage, err := durable.OpenLog(fsys, "/log", durable.LogOptions{Quarantine: "/q/deep", Valid: valid})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Append([]byte("{c}")), l.Close(), l.Close()); err != nil {
				t.Fatal(err)
			}
			if got := lines(t, fsys, "/log"); strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("%s: %.40q: %.200q", name, tc.content, got)
			}
			if damage.TornBytes != int64(len(tc.torn)) {
				t.Errorf("%s: %.40q: damage %+v", name, tc.content, damage)
			}
			if tc.torn != "" && read(t, fsys, damage.Moved) != tc.torn {
				t.Errorf("%s: %.40q: quarantine differs", name, tc.content)
			}
		}
	}
}

func TestAppendLine(t *testing.T) {
	for name, fsys := range filesystems(t) {
		for i, want := range []string{"one\n", "one\ntwo\n"} {
			if err := durable.AppendLine(fsys, "/f", []byte([]string{"one", "two"}[i]), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := read(t, fsys, "/f"); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
		if err := afero.WriteFile(fsys, "/f", []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := durable.AppendLine(fsys, "/f", []byte("next"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, fsys, "/f"); got != "torn\nnext\n" {
			t.Errorf("%s: %q", name, got)
		}
		if err := durable.AppendLine(fsys, "/f", []byte("a\nb"), 0o600); err == nil {
			t.Error("two lines as one")
		}
	}
}

// TestLogFollowsARename: an editor that saves by renaming takes no records
// with it.
func TestLogFollowsARename(t *testing.T) {
	dir := t.TempDir()
	osfs, path := afero.NewOsFs(), filepath.Join(dir, "log")
	l, _, err := durable.OpenLog(osfs, path, durable.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(l.Append([]byte("one")))
	step(os.WriteFile(path+".new", []byte("one (edited)"), 0o600))
	step(os.Rename(path+".new", path))
	step(l.Append([]byte("two")))
	step(os.Remove(path))
	step(l.Append([]byte("three")))
	if got := read(t, osfs, path); got != "three\n" {
		t.Errorf("%q", got)
	}
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	osfs := afero.NewOsFs()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := durable.MkdirAll(osfs, deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(deep); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
	link := filepath.Join(dir, "l")
	if err := os.Symlink(deep, link); err != nil {
		t.Fatal(err)
	}
	if err := durable.MkdirAll(osfs, link, 0o700); !errors.Is(err, durable.ErrSymlink) {
		t.Error(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	l, _, err := durable.OpenLog(afero.NewOsFs(), filepath.Join(b.TempDir(), "log"), durable.LogOptions{})
	if err != nil {
		b.Fatal(err)
	}
	record := bytes.Repeat([]byte("x"), 300)
	for b.Loop() {
		if err := l.Append(record); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// FuzzOpenLog: whatever a log holds, a record appended to it is a line of its
// own, and nothing is lost: what is not in the log is in quarantine.
func FuzzOpenLog(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\nb", "\n\n", "\x00\x00", "a\r\nb\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := afero.NewMemMapFs()
		if err := afero.WriteFile(fsys, "/log", content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, damage, err := durable.OpenLog(fsys, "/log", durable.LogOptions{Quarantine: "/q"})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Append([]byte("record")), l.Close()); err != nil {
			t.Fatal(err)
		}
		now, err := afero.ReadFile(fsys, "/log")
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := bytes.CutSuffix(now, []byte("record\n"))
		if damage.Moved != "" {
			tail, err := afero.ReadFile(fsys, damage.Moved)
			if err != nil {
				t.Fatal(err)
			}
			rest = append(bytes.Clone(rest), tail...)
		}
		if !ok || !bytes.Equal(rest, content) {
			t.Fatalf("%q became %q with %+v", content, now, damage)
		}
	})
}
