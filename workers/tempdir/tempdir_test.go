package tempdir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ralph/workers/tempdir"
)

// makerEnv has the test binary make a directory and wait to be killed.
const makerEnv = "RALPH_TEST_TEMPDIR"

func TestMain(m *testing.M) {
	if base := os.Getenv(makerEnv); base != "" {
		d, err := tempdir.Make(base, "x")
		if err != nil {
			os.Exit(1)
		}
		_ = os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600)
		_ = os.Mkdir(filepath.Join(d.Path, "closed"), 0)
		_, _ = os.Stdout.WriteString("made\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSweep kills the process that made a directory, and sweeps: before that the
// directory stays, after that it goes. A directory of another name stays.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), makerEnv+"="+base)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(base, "ralph-other-1")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	left := func() []string {
		found, err := filepath.Glob(filepath.Join(base, "ralph-tmp-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	made := left()
	if len(made) != 1 {
		t.Fatalf("made %q", made)
	}
	if err := tempdir.Sweep(base); err != nil || len(left()) != 1 {
		t.Errorf("young: %q, %v", left(), err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(made[0], old, old); err != nil {
		t.Fatal(err)
	}
	if err := tempdir.Sweep(base); err != nil || len(left()) != 1 {
		t.Errorf("while its process lives: %q, %v", left(), err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := tempdir.Sweep(base); err != nil || len(left()) != 0 {
		t.Errorf("after its death: %q, %v", left(), err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

// TestRemove makes a directory and removes it, with what lost its rights.
func TestRemove(t *testing.T) {
	d, err := tempdir.Make(t.TempDir(), "y")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.Path, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(d.Path, "a"), 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path); !os.IsNotExist(err) {
		t.Error(err)
	}
}
