// Command release packs the programs that `make release` has built: for each
// target an archive with the program, its manual and its completions, and one
// file with the checksums of all. It builds nothing and asks no network. The
// same files give the same bytes: names are sorted, owners and times are set.
//
//	go run ./scripts/release -out dist -version v1.2.0 -time 1700000000 \
//		-share dist/share -extra README.md,LICENSE linux/amd64=dist/build/linux-amd64/ralph
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sumsFile is what sha256sum -c reads.
const sumsFile = "SHA256SUMS"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release says what is packed.
type release struct {
	out, version string
	stamp        time.Time
	share        string   // the directory of the manual and the completions
	extra        []string // files that go along
}

func run(args []string, w io.Writer) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var r release
	var seconds int64
	var extra string
	f.StringVar(&r.out, "out", "dist", "where the archives go")
	f.StringVar(&r.version, "version", "", "the version, in the names of the archives")
	f.Int64Var(&seconds, "time", 0, "the time of all files, in seconds since 1970")
	f.StringVar(&r.share, "share", "", "the directory of manual and completions")
	f.StringVar(&extra, "extra", "", "more files, separated by commas")
	if err := f.Parse(args); err != nil {
		return err
	}
	if !named(r.version) {
		return fmt.Errorf("-version %q: it takes letters, digits, dots and dashes", r.version)
	}
	r.stamp, r.extra = time.Unix(seconds, 0).UTC(), strings.FieldsFunc(extra, func(c rune) bool { return c == ',' })
	if f.NArg() == 0 {
		return errors.New("no program is named: linux/amd64=PATH")
	}
	var sums []string
	for _, arg := range f.Args() {
		target, program, _ := strings.Cut(arg, "=")
		system, machine, ok := strings.Cut(target, "/")
		if !ok || !named(system) || !named(machine) || program == "" {
			return fmt.Errorf("%q: it should be SYSTEM/MACHINE=PATH", arg)
		}
		name := fmt.Sprintf("ralph_%s_%s_%s.tar.gz", r.version, system, machine)
		data, err := r.pack(strings.TrimSuffix(name, ".tar.gz"), program)
		if err != nil {
			return fmt.Errorf("pack %s: %w", target, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, name), data, 0o644); err != nil {
			return err
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name))
		fmt.Fprintf(w, "%s  %.1f MB\n", filepath.Join(r.out, name), float64(len(data))/1e6)
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	fmt.Fprintln(w, filepath.Join(r.out, sumsFile))
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(strings.Join(sums, "")), 0o644)
}

// named says that a word can stand in the name of a file.
func named(word string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`).MatchString(word)
}

// pack makes one archive, whose files lie in a directory called base.
func (r release) pack(base, program string) ([]byte, error) {
	files := map[string]string{"ralph": program}
	for _, e := range r.extra {
		files[filepath.Base(e)] = e
	}
	if r.share != "" {
		err := filepath.WalkDir(r.share, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(r.share, at)
			files[path.Join("share", filepath.ToSlash(rel))] = at
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, name := range names {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if name == "ralph" {
			mode = 0o755
		}
		if err := t.WriteHeader(&tar.Header{Name: path.Join(base, name), Mode: mode, Size: int64(len(data)), ModTime: r.stamp, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := t.Write(data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
