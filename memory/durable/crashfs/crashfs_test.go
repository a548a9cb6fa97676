package crashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"
	"pgregory.net/rapid"

	"ralph/memory/durable/crashfs"
)

// outcome is what an operation says, the same on any filesystem.
func outcome(err error) string {
	for _, e := range []error{fs.ErrNotExist, fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY, io.EOF, fs.ErrClosed, syscall.EBADF} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

// TestLikeTheDisk: whatever is done, it does what the real disk does.
func TestLikeTheDisk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		both := []afero.Fs{afero.NewBasePathFs(afero.NewOsFs(), dir), crashfs.New()}
		var open [2][]afero.File
		names := rapid.SampledFrom([]string{"/a", "/b", "/d", "/d/a", "/d/b", "/d/e", "/d/e/f", "/a/x"})
		step := func(what string, do func(i int) string) {
			rt.Helper()
			if x, y := do(0), do(1); x != y {
				rt.Fatalf("%s: %q on the disk, %q here", what, x, y)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				name := names.Draw(rt, "name")
				flag := rapid.SampledFrom([]int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY}).Draw(rt, "mode") |
					rapid.SampledFrom([]int{0, os.O_CREATE, os.O_CREATE | os.O_EXCL, os.O_CREATE | os.O_TRUNC, os.O_CREATE | os.O_APPEND}).Draw(rt, "flags")
				step("open "+name, func(i int) string {
					f, err := both[i].OpenFile(name, flag, 0o644)
					if err == nil {
						open[i] = append(open[i], f)
					}
					return outcome(err)
				})
			},
			"name": func(rt *rapid.T) {
				a, b := names.Draw(rt, "name"), names.Draw(rt, "other")
				do := rapid.SampledFrom([]string{"mkdir", "mkdirall", "remove", "rename", "stat", "chmod"}).Draw(rt, "op")
				if do == "rename" && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)) {
					do = "stat"
				}
				step(do+" "+a+" "+b, func(i int) string {
					var err error
					switch do {
					case "mkdir":
						err = both[i].Mkdir(a, 0o755)
					case "mkdirall":
						err = both[i].MkdirAll(a, 0o755)
					case "remove":
						err = both[i].Remove(a)
					case "rename":
						err = both[i].Rename(a, b)
					case "chmod":
						err = both[i].Chmod(a, 0o700)
					default:
						info, err := both[i].Stat(a)
						if err == nil && info.IsDir() {
							return info.Mode().String()
						}
						if err == nil {
							return fmt.Sprint(info.Size(), info.Mode(), info.Name())
						}
						return outcome(err)
					}
					return outcome(err)
				})
			},
			"file": func(rt *rapid.T) {
				if len(open[0]) == 0 {
					return
				}
				at := rapid.IntRange(0, len(open[0])-1).Draw(rt, "file")
				data := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(rt, "data")
				n := rapid.IntRange(0, 30).Draw(rt, "n")
				do := rapid.SampledFrom([]string{"write", "writeat", "read", "readat", "truncate", "seek", "sync", "close", "stat"}).Draw(rt, "op")
				step(do, func(i int) string {
					f, buf, k := open[i][at], make([]byte, n+1), 0
					var err error
					switch do {
					case "write":
						k, err = f.Write(data)
					case "writeat":
						if k, err = f.WriteAt(data, int64(n)); err != nil && outcome(err)[:2] != "ok" {
							return "refused"
						}
					case "read":
						k, err = f.Read(buf)
					case "readat":
						k, err = f.ReadAt(buf, 3)
					case "truncate":
						if err = f.Truncate(int64(n)); err != nil {
							return "refused"
						}
					case "seek":
						_, err = f.Seek(int64(n), io.SeekStart)
					case "sync":
						err = f.Sync()
					case "close":
						err = f.Close()
					case "stat":
						info, err := f.Stat()
						if err == nil && !info.IsDir() {
							return fmt.Sprint(info.Size())
						}
						return outcome(err)
					}
					return fmt.Sprint(k, outcome(err), string(buf[:k*b2i(do[0] == 'r')]))
				})
			},
			"": func(rt *rapid.T) {
				step("tree", func(i int) string {
					var b strings.Builder
					_ = afero.Walk(both[i], "/", func(path string, info fs.FileInfo, err error) error {
						if err == nil && !info.IsDir() {
							data, rerr := afero.ReadFile(both[i], path)
							fmt.Fprintf(&b, "%s %v %q %v\n", path, info.Mode(), data, rerr)
						} else {
							fmt.Fprintf(&b, "%s %v\n", path, err)
						}
						return nil
					})
					return b.String()
				})
			},
		})
		for i := range open {
			for _, f := range open[i] {
				_ = f.Close()
			}
		}
	})
}

func write(fsys afero.Fs, path, data string, flag int, sync bool) error {
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(data))
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(fsys afero.Fs, dir string) error {
	d, err := fsys.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// found collects what images show of one file.
func found(fsys *crashfs.FS, path string, n int) map[string]int {
	all := map[string]int{}
	for i := range n {
		data, err := afero.ReadFile(fsys.Image(fsys.Len(), uint64(i)), path)
		key := string(data)
		if err != nil {
			key = outcome(err)
		}
		all[key]++
	}
	return all
}

// TestModel: what can be lost is lost in some image, and what cannot in none.
func TestModel(t *testing.T) {
	gone := fs.ErrNotExist.Error()
	join := func(steps ...error) error { return errors.Join(steps...) }
	for _, tc := range []struct {
		name     string
		do       func(f *crashfs.FS) error
		sometime []string
		never    []string
		always   string
	}{
		{"nothing synced", func(f *crashfs.FS) error { return write(f, "/f", "new!", 0, false) },
			[]string{gone, "", "n", "new!", "\x00\x00\x00\x00"}, nil, ""},
		{"file synced, directory not", func(f *crashfs.FS) error { return write(f, "/f", "new!", 0, true) },
			[]string{gone, "new!"}, []string{"", "n", "\x00\x00\x00\x00"}, ""},
		{"directory synced, file not", func(f *crashfs.FS) error { return join(write(f, "/f", "new!", 0, false), syncDir(f, "/")) },
			[]string{"", "new!"}, []string{gone}, ""},
		{"both synced", func(f *crashfs.FS) error { return join(write(f, "/f", "new!", 0, true), syncDir(f, "/")) },
			nil, nil, "new!"},
		{"truncate and write", func(f *crashfs.FS) error {
			return join(write(f, "/f", "old", 0, true), syncDir(f, "/"), write(f, "/f", "newer", os.O_TRUNC, false))
		}, []string{"old", "", "newer", "new"}, []string{gone}, ""},
		{"rename without sync of the file", func(f *crashfs.FS) error {
			return join(write(f, "/f", "old", 0, true), syncDir(f, "/"), write(f, "/t", "new", 0, false), f.Rename("/t", "/f"))
		}, []string{"old", "", "new"}, []string{gone}, ""},
		{"rename without sync of the directory", func(f *crashfs.FS) error {
			return join(write(f, "/f", "old", 0, true), syncDir(f, "/"), write(f, "/t", "new", 0, true), f.Rename("/t", "/f"))
		}, []string{"old", "new"}, []string{gone, ""}, ""},
		{"exchange", func(f *crashfs.FS) error {
			return join(write(f, "/f", "old", 0, true), write(f, "/t", "new", 0, true), syncDir(f, "/"), f.Exchange("/t", "/f"))
		}, []string{"old", "new"}, []string{gone, ""}, ""},
		{"remove", func(f *crashfs.FS) error {
			return join(write(f, "/f", "old", 0, true), syncDir(f, "/"), f.Remove("/f"))
		}, []string{"old", gone}, nil, ""},
		{"in a directory that is not synced", func(f *crashfs.FS) error {
			return join(f.Mkdir("/d", 0o700), write(f, "/d/f", "x", 0, true), syncDir(f, "/d"), f.Rename("/d", "/e"), f.Rename("/e", "/d"))
		}, nil, []string{""}, ""},
	} {
		f := crashfs.New()
		if err := tc.do(f); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got := found(f, "/f", 3000)
		for _, want := range tc.sometime {
			if got[want] == 0 {
				t.Errorf("%s: never %q in %v", tc.name, want, got)
			}
		}
		for _, not := range tc.never {
			if got[not] > 0 {
				t.Errorf("%s: %q in %v", tc.name, not, got)
			}
		}
		if tc.always != "" && got[tc.always] != 3000 {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestReordered: blocks that were written in one go arrive in any order.
func TestReordered(t *testing.T) {
	f := crashfs.New()
	data := strings.Repeat("a", 4096) + strings.Repeat("b", 4096) + strings.Repeat("c", 4096)
	if err := errors.Join(write(f, "/f", "", 0, true), syncDir(f, "/"), write(f, "/f", data, os.O_APPEND, false)); err != nil {
		t.Fatal(err)
	}
	hole, torn, same := 0, 0, f.Image(f.Len(), 7)
	for i := range 2000 {
		got, err := afero.ReadFile(f.Image(f.Len(), uint64(i)), "/f")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == len(data) && bytes.HasPrefix(got, make([]byte, 4096)) && got[len(got)-1] == 'c' {
			hole++
		}
		if len(got)%512 != 0 {
			torn++
		}
	}
	if hole < 20 || torn < 20 {
		t.Errorf("%d images with a hole, %d torn", hole, torn)
	}
	a, _ := afero.ReadFile(same, "/f")
	b, _ := afero.ReadFile(f.Image(f.Len(), 7), "/f")
	if !bytes.Equal(a, b) {
		t.Error("one seed, two images")
	}
	if err := write(same, "/f", "over", 0, false); err != nil {
		t.Fatal(err)
	}
	if now, _ := afero.ReadFile(f, "/f"); string(now) != data {
		t.Error("writing on an image changed the original")
	}
}

func TestReaddir(t *testing.T) {
	f := crashfs.New()
	for _, n := range []string{"b", "a", "c"} {
		if err := write(f, filepath.Join("/", n), n, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	d, err := f.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		names, err := d.Readdirnames(2)
		got = append(got, names...)
		if err != nil {
			break
		}
	}
	if strings.Join(got, "") != "abc" || d.Close() != nil {
		t.Error(got)
	}
}

func BenchmarkImages(b *testing.B) {
	report := crashfs.Sweep(func(f *crashfs.FS) error {
		for i := range 20 {
			name := fmt.Sprintf("/t%d", i)
			if err := errors.Join(write(f, name, strings.Repeat("x", 300), 0, true), f.Rename(name, "/f"), write(f, "/log", strings.Repeat("y", 200), os.O_APPEND, true), syncDir(f, "/")); err != nil {
				return err
			}
		}
		return nil
	}, func(*crashfs.FS, []string) error { return nil }, crashfs.Options{Images: b.N})
	b.ReportMetric(float64(report.Images)/report.Elapsed.Seconds(), "images/s")
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
