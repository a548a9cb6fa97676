package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ralph/coordinator/desk"
	"ralph/coordinator/prompt"
	"ralph/coordinator/transcript"
	"ralph/memory/text"
	"ralph/workers/agent"
)

const (
	// maxFileAlong bounds what goes along of one file that is mentioned, maxAlong
	// of all in a message.
	maxFileAlong = 16 << 10
	maxAlong     = 48 << 10
	// maxListed bounds the entries of a directory that are named.
	maxListed = 200
)

// mentionsNote begins what goes along with a message that mentions files.
const mentionsNote = "\n\n" + transcript.NoteTitle + "\nThe user mentions these with @; this is how they are now."

// along is a file or directory that goes along with a message.
type along struct {
	name  string
	text  string
	brief string // what of it: "120 lines"
	bare  bool   // only that it is there is said
	fine  bool   // there is nothing more to say
}

// mentioned reads the files and directories that the human mentions in a message
// and gives the note that goes along with it, "" for none; the human is told.
// What is outside of the project, also through a link, and the insides of .git and
// .ralph does not go along: the human is told so.
func (c *Coordinator) mentioned(text string) string {
	if !strings.Contains(text, "@") {
		return ""
	}
	got := map[string]along{}
	left := maxAlong
	refused := map[string]string{}
	names := desk.Mentions(text, func(name string) bool {
		a, why := c.takeAlong(name, left)
		if _, known := got[name]; why == "" && !known {
			got[name], left = a, left-len(a.text)
		} else if why != "" && why != absent {
			refused[name] = why
		}
		return why != absent
	})
	if len(names) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(mentionsNote)
	var briefs, without []string
	for _, name := range names {
		if why := refused[name]; why != "" {
			without = append(without, fmt.Sprintf("@%s (%s)", strings.ToValidUTF8(name, "\ufffd"), why))
			continue
		}
		a := got[name]
		if brief := fmt.Sprintf("@%s (%s)", a.name, a.brief); a.bare && !a.fine {
			without = append(without, brief)
		} else {
			briefs = append(briefs, brief)
		}
		fmt.Fprintf(&b, "\n\n%s (%s)", a.name, a.brief)
		if !a.bare {
			b.WriteString(":\n" + prompt.Fence("", a.text))
		}
	}
	c.start()
	for _, told := range []struct {
		status string
		list   []string
	}{{"with", briefs}, {"without", without}} {
		if len(told.list) > 0 {
			c.events.emit(agent.Event{Type: agent.EventInbox, Status: told.status, Text: strings.Join(told.list, ", ")})
		}
	}
	if len(got) == 0 {
		return ""
	}
	return b.String()
}

// absent is why a word that names nothing does not go along: nobody is told.
const absent = "it is not there"

// takeAlong reads what a mention names, at most left bytes of it; why says why it
// may not go along.
func (c *Coordinator) takeAlong(name string, left int) (a along, why string) {
	if internal(name) {
		return along{}, c.barred(name)
	}
	f, real, err := c.station.work.Open(name)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return c.listing(name, left)
	case err != nil:
		return along{}, c.unopened(name, err)
	}
	defer f.Close()
	if internal(real) {
		return along{}, barredInside
	}
	return c.excerpt(path.Clean(name), f, min(left, maxFileAlong)), ""
}

const (
	barredInside  = "it is inside of .git or .ralph"
	barredOutside = "it is outside of the project"
)

// barred says why a path does not go along that is internal: absent when there is
// nothing.
func (c *Coordinator) barred(name string) string {
	at := name
	if !path.IsAbs(name) {
		at = filepath.Join(c.opt.Root, filepath.FromSlash(name))
	}
	_, err := os.Lstat(at)
	switch inside, rerr := filepath.Rel(c.opt.Root, at); {
	case err != nil:
		return absent
	case rerr != nil || !filepath.IsLocal(inside):
		return barredOutside
	case path.IsAbs(name) && !internal(filepath.ToSlash(inside)):
		return "name it by its path in the project: @" + filepath.ToSlash(inside)
	}
	return barredInside
}

// unopened says why a path that could not be opened does not go along.
func (c *Coordinator) unopened(name string, err error) string {
	at := filepath.Join(c.opt.Root, filepath.FromSlash(name))
	if _, lerr := os.Stat(at); lerr != nil && !errors.Is(lerr, fs.ErrPermission) {
		return absent // also a link that leads nowhere
	}
	real, rerr := filepath.EvalSymlinks(at)
	if inside, err := filepath.Rel(c.opt.Root, real); rerr == nil && (err != nil || !filepath.IsLocal(inside)) {
		return "it leads out of the project"
	}
	if errors.Is(err, fs.ErrPermission) {
		return "it cannot be read"
	}
	return "it is no ordinary file"
}

// internal says that a path is of git's or of Ralph's own, or not below the root.
func internal(name string) bool {
	if path.IsAbs(name) || !fs.ValidPath(path.Clean(name)) {
		return true
	}
	return slices.ContainsFunc(strings.Split(path.Clean(name), "/"), func(part string) bool {
		return strings.EqualFold(part, ".git") || strings.EqualFold(part, ".ralph")
	})
}

// excerpt is the beginning of a file, if it is text.
func (c *Coordinator) excerpt(name string, f *os.File, most int) along {
	a := along{name: name, bare: true}
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileAlong+1))
	switch {
	case err != nil:
		a.brief = "it cannot be read"
		return a
	case bytes.IndexByte(data, 0) >= 0:
		a.brief = "not text, " + sizeText(size)
		return a
	}
	content := c.redactor.String(strings.ToValidUTF8(string(data), "\ufffd"))
	cut := head(content, most)
	switch whole := len(data) <= maxFileAlong; {
	case content == "":
		a.brief, a.fine = "empty", true
	case cut == "":
		a.brief = "left out: the others take all the room"
	case whole && cut == content:
		a.text, a.brief, a.bare = content, text.Count(lines(content), "line"), false
	default:
		a.text, a.brief, a.bare = cut, fmt.Sprintf("the first %s of %s", text.Count(lines(cut), "line"), sizeText(size)), false
	}
	return a
}

// lines counts the lines of a text.
func lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

func sizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// listing names what is in a directory, one level of it.
func (c *Coordinator) listing(name string, left int) (a along, why string) {
	dir, real, err := c.station.work.OpenDir(name)
	if err != nil {
		return along{}, c.unopened(name, err)
	}
	defer dir.Close()
	if internal(real) {
		return along{}, barredInside
	}
	a = along{name: strings.TrimSuffix(path.Clean(name), "/") + "/", bare: true}
	f, err := dir.Open(".")
	if err != nil {
		a.brief = "it cannot be read"
		return a, ""
	}
	defer f.Close()
	const most = 10_000 // a directory with more is not read to its end
	entries, err := f.ReadDir(most)
	if err != nil && !errors.Is(err, io.EOF) {
		a.brief = "it cannot be read"
		return a, ""
	}
	a.fine = true
	var names []string
	for _, e := range entries {
		switch {
		case internal(e.Name()):
		case e.IsDir():
			names = append(names, e.Name()+"/")
		default:
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	a.brief = fmt.Sprintf("a directory with %d entries", len(names))
	if len(names) == 1 {
		a.brief = "a directory with 1 entry"
	}
	text := strings.Join(names[:min(len(names), maxListed)], "\n")
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf("\n… and %d more", more)
	}
	if text = c.redactor.String(head(strings.ToValidUTF8(text, "\ufffd"), min(left, maxFileAlong))); text != "" {
		a.text, a.bare = text, false
	}
	return a, ""
}
