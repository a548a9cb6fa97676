package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReadNeverWaits reads what can stand where a file is expected.
func TestReadNeverWaits(t *testing.T) {
	t.Chdir(t.TempDir()) // the path of a socket is short
	l, err := net.Listen("unix", "socket")
	if err == nil {
		defer l.Close()
		err = errors.Join(syscall.Mkfifo("pipe", 0o600), syscall.Mkfifo("held", 0o600), os.Symlink("/dev/zero", "device"), os.Symlink("pipe", "link"),
			os.Mkdir("directory", 0o700), os.WriteFile("file", []byte("12345"), 0o600), os.Symlink("file", "other"))
	}
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile("held", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	for _, name := range []string{"pipe", "held", "device", "link", "socket", "file"} {
		got := make(chan error, 1)
		go func() { _, err := Read(filepath.Join(".", name), 4); got <- err }()
		select {
		case err := <-got:
			var bad *Error
			if !errors.As(err, &bad) || bad.Path != name {
				t.Errorf("read %s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("read %s waits", name)
		}
	}
	for _, name := range []string{"file", "other"} {
		if text, err := Read(name, 5); err != nil || string(text) != "12345" {
			t.Errorf("read %s: %q, %v", name, text, err)
		}
	}
	if _, err := Read("directory", 5); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("read a directory: %v", err)
	}
	if _, err := Read("absent", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read nothing: %v", err)
	}
	if _, err := Open("other", syscall.O_NOFOLLOW); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("follow a link: %v", err)
	}
}
