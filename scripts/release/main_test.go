package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestRelease: each archive holds what it should, with the times and owners that
// were asked for; the sums are right; and twice gives the same bytes.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	linux, mac := put("build/a", "a program"), put("build/b", "another")
	readme := put("README.md", "read me")
	put("share/man/man1/ralph.1", ".TH")
	put("share/fish/ralph.fish", "complete")
	var first map[string]string
	for range 2 {
		out := t.TempDir()
		var said bytes.Buffer
		err := run([]string{"-out", out, "-version", "v1.2.3-4-gabc", "-time", "1700000000", "-share", filepath.Join(dir, "share"), "-extra", readme, "linux/amd64=" + linux, "darwin/arm64=" + mac}, &said)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		list, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			data, err := os.ReadFile(filepath.Join(out, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[f.Name()] = string(data)
			if !strings.Contains(said.String(), f.Name()) {
				t.Errorf("%s is not told: %s", f.Name(), said.String())
			}
		}
		if first != nil && !reflect.DeepEqual(first, got) {
			t.Error("the same files gave other bytes")
		}
		first = got
	}
	want := ""
	for _, name := range []string{"ralph_v1.2.3-4-gabc_darwin_arm64.tar.gz", "ralph_v1.2.3-4-gabc_linux_amd64.tar.gz"} {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(first[name])), name)
	}
	if first["SHA256SUMS"] != want || len(first) != 3 {
		t.Errorf("%s\nwant\n%s\nof %d files", first["SHA256SUMS"], want, len(first))
	}
	z, err := gzip.NewReader(strings.NewReader(first["ralph_v1.2.3-4-gabc_linux_amd64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	var inside []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		data, err2 := io.ReadAll(r)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if h.ModTime.Unix() != 1700000000 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
		inside = append(inside, fmt.Sprintf("%s %o %s", strings.TrimPrefix(h.Name, "ralph_v1.2.3-4-gabc_linux_amd64/"), h.Mode, data))
	}
	if got := strings.Join(inside, "\n"); got != "README.md 644 read me\nralph 755 a program\nshare/fish/ralph.fish 644 complete\nshare/man/man1/ralph.1 644 .TH" {
		t.Error(got)
	}
}

// TestReleaseRefuses: what is not named well, or not there.
func TestReleaseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-version", "v1"}, {"-version", "../v1", "linux/amd64=x"}, {"-version", "v1", "linux=x"}, {"-version", "v1", "linux/amd64"},
		{"-version", "v1", "linux/../etc=x"}, {"-version", "v1", "linux/amd64=not/there"}, {"-nonsense"},
	} {
		if err := run(append([]string{"-out", t.TempDir()}, args...), io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
