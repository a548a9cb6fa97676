package beads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/workers/tempdir"
)

const maxExportBytes = 256 << 20

// Snapshot is all issues at one moment.
type Snapshot struct {
	// Issues, without deleted ones (tombstones) and templates.
	Issues []Issue
	// Gone are the ids of deleted issues: nothing waits for them.
	Gone []string
	// Stamp changes when anything does that Ralph reads.
	Stamp string
	// JSONL is the export as bd made it.
	JSONL []byte
	// Source is the file that the lines of the issues are of, as it is on disk;
	// "" when they are not in a file of the project.
	Source string

	at []int // the lines of the issues in the export
}

// DataError is data that bd keeps but that cannot be trusted, with all faults.
type DataError struct {
	Path   string
	Faults []Fault
	Hint   string
}

// Error names the first fault and how many there are.
func (e *DataError) Error() string {
	text := fmt.Sprintf("read beads data %q", e.Path)
	if len(e.Faults) > 0 {
		text += fmt.Sprintf(": line %d: %s", e.Faults[0].Line, e.Faults[0].Text)
	}
	if n := len(e.Faults) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Snapshot reads all issues by one export into a file outside the project; when
// the files of the database are still those of the last one, or that one was made
// for its stamp a moment ago, it is that. It is shared, and not to be changed.
//
// bd 0.x serves old data without a word when its issues.jsonl was changed by
// git or by hand. That is found by comparing the two, and mended by an import,
// which is what bd itself does at the next write; the file is looked at before,
// because an import drops edges of a cycle. A file that cannot be trusted is a
// *DataError.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	if s := c.current(); s != nil {
		return s, nil
	}
	c.mu.Lock()
	s, fresh := c.kept, c.unread && time.Since(c.made) < handOver
	c.unread = false
	c.mu.Unlock()
	if fresh {
		return s, nil
	}
	return c.snapshot(ctx)
}

// handOver is for how long a snapshot that was made for its stamp is the one that
// is read: whoever reads it later compares its stamp again.
const handOver = time.Second

// current is the last snapshot, if the files of the database say that it is still
// one; nil when they do not.
func (c *Client) current() *Snapshot {
	c.mu.Lock()
	last, s := c.last, c.kept
	c.mu.Unlock()
	if s == nil || last.before == "" || last != (prints{before: c.before(), after: c.after()}) {
		return nil
	}
	return s
}

// snapshot makes one.
func (c *Client) snapshot(ctx context.Context) (*Snapshot, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	mark := prints{before: c.before()}
	s, err := c.export(ctx)
	if err != nil {
		return nil, err
	}
	if !v.Modern() {
		if s, err = c.fresh(ctx, s); err != nil {
			return nil, err
		}
	}
	if mark.before != "" {
		mark.after = c.after()
	}
	c.mu.Lock()
	c.last, c.kept, c.unread, c.made = mark, s, false, time.Now()
	c.mu.Unlock()
	return s, nil
}

// Stamp is the stamp that a Snapshot would have now. It starts bd only when the
// files of the database are not those of a snapshot that was made before, or are
// not here.
func (c *Client) Stamp(ctx context.Context) (string, error) {
	if s := c.current(); s != nil {
		return s.Stamp, nil
	}
	s, err := c.snapshot(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.unread = c.kept == s
	c.mu.Unlock()
	return s.Stamp, nil
}

// export reads what bd exports into a file of its own. Its stdout is no way: in
// 0.x an export to stdout marks issues as written to issues.jsonl that are not.
func (c *Client) export(ctx context.Context) (s *Snapshot, err error) {
	const op = "export the issues"
	temp, err := tempdir.Make("", "beads")
	if err != nil {
		return nil, &Error{Op: op, Path: c.data.Dir, Err: err}
	}
	dir := temp.Path
	defer func() {
		if e := temp.Remove(); e != nil && err == nil {
			s, err = nil, &Error{Op: op, Path: dir, Err: e}
		}
	}()
	file := filepath.Join(dir, "issues.jsonl")
	a, err := c.call(ctx, op, "", "export", "-o", file)
	if err != nil {
		return nil, err
	}
	data, err := readFile(file)
	if a.exit != 0 || err != nil {
		if e := ctx.Err(); e != nil {
			return nil, &Error{Op: op, Path: c.data.Dir, Err: context.Cause(ctx)}
		}
		if a.said == "" && err != nil {
			a.said = "there is no export: " + err.Error()
		}
		return nil, c.unproven(op, a)
	}
	issues, faults := Parse(data)
	if len(faults) > 0 {
		return nil, &DataError{Path: c.data.Dir, Faults: faults, Hint: "bd exports what Ralph cannot read: bd doctor"}
	}
	s = &Snapshot{JSONL: data}
	for _, i := range issues {
		if i.Status == "tombstone" {
			s.Gone = append(s.Gone, i.ID)
			continue
		}
		s.at = append(s.at, i.Line)
		i.Line = 0
		s.Issues = append(s.Issues, i)
	}
	s.Stamp = stampOf(s.Issues)
	return s, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a regular file", path)
	case info.Size() > maxExportBytes:
		return nil, fmt.Errorf("%q has %d bytes, more than Ralph reads", path, info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxExportBytes))
}

// fresh compares a snapshot of bd 0.x with its issues.jsonl, and gives the lines
// of the issues in it.
func (c *Client) fresh(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	raw, err := readFile(c.data.JSONL)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, &Error{Op: "read issues", Path: c.data.JSONL, Err: err}
	}
	if bytes.Equal(raw, s.JSONL) {
		s.Source = c.data.JSONL
		for k := range s.Issues {
			s.Issues[k].Line = s.at[k]
		}
		return s, nil
	}
	issues, faults := Parse(raw)
	faults = append(faults, circles(issues)...)
	if len(faults) > 0 {
		return nil, &DataError{Path: c.data.JSONL, Faults: faults,
			Hint: "mend the file (its last good state is in git); or, if only the database counts: bd export --force -o " + c.data.JSONL}
	}
	if len(c.behind(s, issues)) > 0 {
		if s, err = c.takeOver(ctx, issues); err != nil {
			return nil, err
		}
		// bd has written the file anew.
		if raw, err = readFile(c.data.JSONL); err == nil {
			issues, _ = Parse(raw)
		}
	}
	lines := make(map[string]int, len(issues))
	for _, i := range issues {
		lines[i.ID] = i.Line
	}
	s.Source = c.data.JSONL
	for k := range s.Issues {
		s.Issues[k].Line = lines[s.Issues[k].ID]
	}
	return s, nil
}

// takeOver imports issues.jsonl and proves that its content has arrived.
func (c *Client) takeOver(ctx context.Context, issues []Issue) (*Snapshot, error) {
	const op = "import the changed issues.jsonl"
	a, err := c.call(ctx, op, "", "import", "-i", c.data.JSONL)
	if err == nil && a.exit != 0 && strings.Contains(a.said, "invalid issue type") {
		if err = c.allowTypes(ctx, issues); err == nil {
			a, err = c.call(ctx, op, "", "import", "-i", c.data.JSONL)
		}
	}
	if err != nil {
		return nil, err
	}
	if a.exit != 0 {
		return nil, c.unproven(op, a)
	}
	s, err := c.export(ctx)
	if err != nil {
		return nil, err
	}
	if left := c.behind(s, issues); len(left) > 0 {
		return nil, &DataError{Path: c.data.JSONL, Faults: left,
			Hint: "bd has imported the file but not all that is in it; compare bd show ID --json with the line"}
	}
	c.o.Warn(fmt.Sprintf("%s was changed outside bd: imported into its database", c.data.JSONL))
	return s, nil
}

// builtinTypes are the types that bd 0.47 takes without being told of them.
func builtinTypes() []string {
	return []string{"bug", "feature", "task", "epic", "chore", "message", "merge-request", "molecule", "gate", "agent", "role", "rig", "convoy", "event", "slot"}
}

// typeName matches what bd takes as a type of the user's own.
var typeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`) })

// allowTypes makes types of issues that bd does not know types of the user's own: an
// import refuses the whole file for one of them.
func (c *Client) allowTypes(ctx context.Context, issues []Issue) error {
	const op = "make the types of issues.jsonl known to bd"
	a, err := c.call(ctx, op, "", "config", "get", "types.custom", "--json")
	if err != nil {
		return err
	}
	var have struct {
		Value string `json:"value"`
	}
	if a.exit != 0 || json.Unmarshal(a.stdout, &have) != nil {
		return c.unproven(op, a)
	}
	all := strings.FieldsFunc(have.Value, func(r rune) bool { return r == ',' || r == ' ' })
	var fresh []string
	var faults []Fault
	for _, i := range issues {
		switch {
		case slices.Contains(builtinTypes(), i.Type) || slices.Contains(all, i.Type) || i.Status == "tombstone":
		case !typeName().MatchString(i.Type):
			faults = append(faults, Fault{Line: i.Line, Text: fmt.Sprintf("issue %s has the type %q, which bd cannot have", i.ID, clip(i.Type))})
		default:
			all, fresh = append(all, i.Type), append(fresh, i.Type)
		}
	}
	if len(faults) > 0 {
		return &DataError{Path: c.data.JSONL, Faults: faults, Hint: "give the issues a type of letters, digits and dashes"}
	}
	if a, err = c.call(ctx, op, "", "config", "set", "types.custom", strings.Join(all, ",")); err != nil {
		return err
	}
	if a.exit != 0 {
		return c.unproven(op, a)
	}
	c.o.Warn(fmt.Sprintf("%s has issues of types that bd does not know (%s): they are in its setting types.custom now", c.data.JSONL, strings.Join(fresh, ", ")))
	return nil
}

// behind are the records of issues.jsonl that a snapshot does not know yet. What
// differs but is older than the database is the database's word.
func (c *Client) behind(s *Snapshot, file []Issue) []Fault {
	known := make(map[string]*Issue, len(s.Issues))
	for k := range s.Issues {
		known[s.Issues[k].ID] = &s.Issues[k]
	}
	gone := make(map[string]bool, len(s.Gone))
	for _, id := range s.Gone {
		gone[id] = true
	}
	lagging := c.daemon()
	var out []Fault
	for _, f := range file {
		have, ok := known[f.ID]
		switch {
		case f.Status == "tombstone" || gone[f.ID]:
		case !ok:
			out = append(out, Fault{Line: f.Line, Text: fmt.Sprintf("issue %s is not in the database", f.ID)})
		case f.same(*have):
		case f.UpdatedAt.After(have.UpdatedAt):
			out = append(out, Fault{Line: f.Line, Text: fmt.Sprintf("issue %s is newer than in the database", f.ID)})
		case !lagging && f.UpdatedAt.Equal(have.UpdatedAt):
			if on := lost(f, *have); on != "" {
				out = append(out, Fault{Line: f.Line, Text: fmt.Sprintf("the dependency of issue %s on %s is not in the database", f.ID, on)})
			}
		}
	}
	return out
}

// daemon says that a daemon of bd 0.x serves the data: it writes issues.jsonl
// some seconds late, so that an edge there may be one that was removed.
func (c *Client) daemon() bool {
	_, err := os.Lstat(filepath.Join(c.data.Dir, "bd.sock"))
	return err == nil
}

// lost is the target of an edge that one record has and another has not.
func lost(file, have Issue) string {
	there := map[string]bool{}
	for _, d := range have.Dependencies {
		there[d.On+"\x00"+d.Type] = true
	}
	for _, d := range file.Dependencies {
		if !there[d.On+"\x00"+d.Type] {
			return d.On
		}
	}
	return ""
}

// prints tell the files of the database apart: before and after are to be taken
// before and after an export, and together name what was exported. Both are ""
// when the files do not tell.
//
// bd 0.x rewrites pages of beads.db each time that it opens it, for reading too,
// so that its state is only known afterwards. Somebody else's change in between
// shows in issues.jsonl, which every writer brings up to date behind its change,
// and which is therefore looked at before.
type prints struct{ before, after string }

func (c *Client) before() string {
	if c.data.Server {
		return ""
	}
	p := newPrint()
	if c.sqlite() {
		p.state(c.data.JSONL)
		return p.sum()
	}
	for _, name := range []string{"embeddeddolt", "dolt"} {
		dir := filepath.Join(c.data.Dir, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			p.tree(dir)
			return p.sum()
		}
	}
	return ""
}

func (c *Client) after() string {
	if !c.sqlite() {
		return ""
	}
	p := newPrint()
	p.state(filepath.Join(c.data.Dir, "beads.db"))
	p.state(filepath.Join(c.data.Dir, "beads.db-wal"))
	return p.sum()
}

func (c *Client) sqlite() bool {
	_, err := os.Lstat(filepath.Join(c.data.Dir, "beads.db"))
	return err == nil
}
