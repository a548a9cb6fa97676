//go:build linux

package exec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/exec/sandbox"
)

// What a confined command writes is seen, by whatever call it is written, and what
// somebody else writes meanwhile is not.
func TestWritesAreSeen(t *testing.T) {
	r := newRunner(t)
	for name, c := range map[string]struct{ script, want string }{
		"append":            {"echo x >> rc2", "rc2"},
		"truncate":          {": > src/main", "src/main"},
		"python":            {"python3 -c 'open(\"src/py\",\"w\").write(\"x\")'", "src/py"},
		"in place":          {"python3 -c 'f=open(\"src/main\",\"r+\"); f.write(\"x\")'", "src/main"},
		"sed -i":            {"sed -i s/c/d/ src/main", "src/main"},
		"mv":                {"mv src/main src/other", "src/main src/other"},
		"rm":                {"rm src/main", "src/main"},
		"directory":         {"mv src dst", "dst src"},
		"link":              {"ln src/main src/hard; ln -s main src/soft", "src/hard src/main src/soft"},
		"through a link":    {"ln -s main src/soft; echo x > src/soft", "src/main src/soft"},
		"through one to be": {"ln -s soon src/soft; ln -s soft src/softer; echo x > src/softer", "src/soft src/softer src/soon"},
		"a link took over":  {"echo x > src/main; mv src dst; ln -s dst src; echo y > src/main; rm src; ln -s a/b src; echo z > src/new", "a/b/new dst dst/main src src/main"},
		"a link alone":      {"ln -s src l; mv l k; ln k j; rm k", "j k l"},
		"a link changed":    {"ln -s src l; echo x > l/one; rm l; ln -s a/b l; echo y > l/two", "a/b/two l src/one"},
		"absolute":          {"cd /; echo x > $PROJ/abs", "abs"},
		"another place":     {"cd a/b; echo x > ../../up; (cd ../../src && echo x > in)", "src/in up"},
		"chmod":             {"chmod +x src/main", "src/main"},
		"a descendant":      {"(setsid sh -c 'echo x > late' &) ; while [ ! -s late ]; do :; done", "late"},
		"truncate(1)":       {"truncate -s 0 src/main", "src/main"},
		"reading":           {"cat src/main >/dev/null; ls -R . >/dev/null; test -w src/main", ""},
		"outside":           {"echo x > /tmp/x", ""},
		"python truncate":   {"python3 -c 'import os; os.truncate(\"src/main\",1)'", "src/main"},
		"os.open of a dir":  {"python3 -c 'import os; d=os.open(\"src\",os.O_RDONLY); os.close(os.open(\"at\",os.O_WRONLY|os.O_CREAT,dir_fd=d)); os.rename(\"at\",\"to\",src_dir_fd=d,dst_dir_fd=d)'", "src/at src/to"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.held.Protect = nil
			proj := filepath.Join(y.base, "proj")
			var got []string
			res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", c.script}, Dir: proj, Env: y.env, Confine: &y.held, Record: NewRecord(proj, "", func(list []sandbox.Write) {
				for _, w := range list {
					if p := strings.TrimPrefix(w.Path, proj+"/"); !strings.HasPrefix(p, "src/sed") {
						got = append(got, p)
					}
				}
			})})
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%v, exit %d: %s", err, res.ExitCode, res.Stdout.String())
			}
			slices.Sort(got)
			got = slices.Compact(got)
			if want := strings.Fields(c.want); !slices.Equal(got, want) || !res.Watched {
				t.Errorf("seen %q (all: %v), want %q", got, res.Watched, want)
			}
		})
	}
}

// A record says when a file had changed before, and is whole when the command is killed.
func TestWritesOfAKilledCommand(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	proj := filepath.Join(y.base, "proj")
	info, err := os.Stat(filepath.Join(proj, "src/main"))
	if err != nil {
		t.Fatal(err)
	}
	var got []sandbox.Write
	res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", "echo x > src/main; echo x > new; kill -9 $$"}, Dir: proj, Env: y.env, Confine: &y.held,
		Record: NewRecord(proj, "", func(list []sandbox.Write) { got = append(got, list...) })})
	if err != nil || !res.Watched || len(got) != 2 || got[0].Before.Before(info.ModTime()) || !got[1].Before.IsZero() {
		t.Errorf("%v, all: %v, seen %v", err, res.Watched, got)
	}
}

// Commands that are not confined are watched too.
func TestWritesOfAnUnconfinedCommand(t *testing.T) {
	r := newRunner(t)
	dir := newYard(t).base
	var got []string
	res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", "echo x > proj/new; sh -c 'rm proj/rc'"}, Dir: dir, Record: NewRecord(dir, "", func(list []sandbox.Write) {
		for _, w := range list {
			got = append(got, strings.TrimPrefix(w.Path, dir+"/"))
		}
	})})
	if err != nil || !res.Watched || !slices.Equal(got, []string{"proj/new", "proj/rc"}) {
		t.Errorf("%v, all: %v, seen %v", err, res.Watched, got)
	}
}

// What a command wrote is on record from the moment it writes it, also for who comes after
// a Ralph that is killed then.
func TestRecordsThatAreLeft(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	proj, place := filepath.Join(y.base, "proj"), t.TempDir()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	done := make(chan error, 1)
	go func() {
		res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", "echo x > src/main; echo x > new; read"}, Dir: proj, Env: y.env, Confine: &y.held, Stdin: in,
			Record: NewRecord(proj, place, func([]sandbox.Write) {})})
		if err == nil && !res.Watched {
			err = errors.New("not all was seen")
		}
		done <- err
	}()
	for data := []byte(nil); len(data) == 0; data, _ = os.ReadFile(filepath.Join(proj, "new")) {
	}
	left := LeftRecords(place)
	if len(left) != 1 || len(left[0].Writes) != 2 || left[0].Writes[1].Path != filepath.Join(proj, "new") || !left[0].Unseen.IsZero() {
		t.Errorf("left: %+v", left)
	}
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left := LeftRecords(place); len(left) != 0 {
		t.Errorf("left at the end: %+v", left)
	}
}
