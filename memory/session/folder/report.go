package folder

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// ReportOptions say what a report holds beyond what the files say, and where it
// may leave what it replaces.
type ReportOptions struct {
	// Lessons are what was found in the session, a line each.
	Lessons []string
	// Redact takes secrets out of the text; nil keeps all.
	Redact func(string) string
	// MaxLogBytes leaves out a log that is larger, which the report says; 0 means
	// no bound.
	MaxLogBytes int64
	// Quarantine is where Write moves a report that somebody else wrote or edited;
	// empty means a directory of that name in the session's.
	Quarantine string
}

// Text is final-report.md of the session in dir, made from its files as they
// stand and from nothing else: the same files give the same bytes. It writes
// nothing; a nil fsys is the real disk.
func (o ReportOptions) Text(fsys afero.Fs, dir string) ([]byte, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	d, err := read(fsys, dir, o.MaxLogBytes, nil)
	if err != nil {
		return nil, fmt.Errorf("make report: %w", err)
	}
	return o.Of(d), nil
}

// Of is Text of a session that was read already.
func (o ReportOptions) Of(d Data) []byte {
	text := string(d.withoutReport().render(o.Lessons))
	if o.Redact != nil {
		text = o.Redact(text)
	}
	return sealed(text)
}

// Write makes the report and writes it to final-report.md. One that stands there
// and was written or edited by somebody else is moved to the quarantine first.
func (o ReportOptions) Write(fsys afero.Fs, dir string) error {
	text, err := o.Text(fsys, dir)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return o.Put(fsys, dir, text)
}

// Put is Write of a report that was made already.
func (o ReportOptions) Put(fsys afero.Fs, dir string, text []byte) error {
	at := Options{FS: fsys, Dir: dir, Quarantine: o.Quarantine}.withDefaults()
	path := filepath.Join(dir, reportFile)
	return reach(&at, path, func() error {
		old, err := durable.ReadFile(at.FS, path, maxFileBytes)
		switch {
		case errors.Is(err, durable.ErrTooLarge), err == nil && len(bytes.TrimSpace(old)) > 0 && !ours(old):
			err = setAside(&at, path)
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return err
		}
		return durable.Replace(at.FS, path, text, 0o600)
	})
}

// withoutReport leaves out what the old report says, which the new one
// replaces.
func (d Data) withoutReport() Data {
	d.Report.SessionID, d.Report.Name, d.Report.Date, d.Report.Status = "", "", "", ""
	d.ids = maps.Clone(d.ids)
	delete(d.ids, reportFile)
	d.Files = slices.DeleteFunc(slices.Clone(d.Files), func(n string) bool { return n == reportFile })
	// Who reads the journal as well adds what is wrong with it; the report is made
	// without it.
	d.Problems = slices.DeleteFunc(slices.Clone(d.Problems), func(p Problem) bool { return p.File == journalFile })
	return d
}

const sealPrefix = "<!-- made by ralph from the files of this session: "

// sealed ends a report with a checksum, by which one that somebody edited is
// told.
func sealed(text string) []byte {
	return []byte(text + "\n" + sealPrefix + checksum([]byte(text)) + " -->\n")
}

func ours(report []byte) bool {
	at := bytes.LastIndex(report, []byte("\n"+sealPrefix))
	return at >= 0 && string(bytes.TrimSpace(report[at:])) == sealPrefix+checksum(report[:at])+" -->"
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

var boldLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t>*-]*\*\*(Session Name|Session|Name|Date|Status):?\*\*:?[ \t]*(.*?)[ \t\r]*$`)
})

var titleLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^#[ \t]+Session Final Report:?[ \t]*(.*?)[ \t#\r]*$`)
})

// readReport reads the head of the report that stands there.
func (d *Data) readReport(fsys afero.Fs, dir string, names []string) {
	if !slices.Contains(names, reportFile) {
		return
	}
	d.Files = append(d.Files, reportFile)
	data, err := durable.ReadFile(fsys, filepath.Join(dir, reportFile), maxFileBytes)
	if err != nil {
		d.problem(reportFile, err)
		return
	}
	// The head stands before the first section; what follows may quote anything.
	head, _, _ := strings.Cut(string(data), "\n## ")
	if m := titleLine().FindStringSubmatch(head); m != nil {
		d.Report.SessionID = m[1]
		if strings.HasPrefix(strings.ToLower(m[1]), "session-") {
			d.ids[reportFile] = m[1]
		}
	}
	for _, m := range boldLine().FindAllStringSubmatch(head, -1) {
		switch m[1] {
		case "Date":
			d.Report.Date = m[2]
		case "Status":
			d.Report.Status = m[2]
		default:
			d.Report.Name = m[2]
		}
	}
}

// readIterations finds the files that link to a report beside those that are read.
func (d *Data) readIterations(fsys afero.Fs, dir string, names []string) {
	for _, name := range []string{documentsFile, "conversation.md", journalFile} {
		if slices.Contains(names, name) {
			d.others = append(d.others, name)
		}
	}
	if !slices.Contains(names, iterationsDir) {
		return
	}
	f, err := fsys.OpenFile(filepath.Join(dir, iterationsDir), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return // it is no directory, and nothing is said of it
	}
	files, err := f.Readdirnames(-1)
	if errors.Join(err, f.Close()) != nil {
		return
	}
	slices.Sort(files)
	d.iterations = map[int]string{}
	for _, name := range files {
		number, _, ok := strings.Cut(name, "-")
		n, err := strconv.Atoi(number)
		if ok && err == nil && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" {
			d.iterations[n] = name
		}
	}
}

// iterationsDir is the directory of what each iteration of a run did.
const iterationsDir = "iterations"
