package retention

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/memory/text"
)

// Row is one line of a list of sessions. Of one in a project that is gone only
// the registry's words are known.
type Row struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Status   string  `json:"status"` // interrupted for one at work whose Ralph is dead
	Archived bool    `json:"archived"`
	Live     bool    `json:"live"` // somebody works in it now
	Reason   *string `json:"exit_reason"`

	Started    *time.Time `json:"started_at"`
	Ended      *time.Time `json:"ended_at"`
	DurationMS int64      `json:"duration_ms"`
	Done       int        `json:"tasks_done"`
	Total      int        `json:"tasks_total"`
	// Usage is nil when the journal is gone or too large to be added up here.
	Usage *Spent `json:"usage"`
	// Words are the first words of the user.
	Words string `json:"first_words"`
	Path  string `json:"path"` // of the directory, relative to the project's root
	// RawDeleted is when the raw files were deleted.
	RawDeleted *time.Time `json:"raw_deleted_at"`
	Error      *string    `json:"error"`

	// Empty says that nothing was said in it.
	Empty bool `json:"-"`

	Project string `json:"project_root"`
	// Gone says that the project's directory does not exist any more.
	Gone bool `json:"gone"`
}

// Row is the session as a list shows it; usage is added up when its journal has
// at most *left bytes, which become fewer by what was read.
func (s Session) Row(fsys afero.Fs, stateDir string, left *int64) Row {
	r := Row{ID: s.ID, Name: s.Name, Kind: s.Kind, Status: s.Standing(), Archived: s.Archived, Live: s.Live, DurationMS: s.Duration().Milliseconds(),
		Done: s.Done, Total: s.Total, Path: ".ralph/" + s.Path, Project: filepath.Dir(stateDir), Started: known(s.Start), Ended: known(s.End), RawDeleted: known(s.Deleted)}
	if s.ExitReason != "" {
		r.Reason = &s.ExitReason
	}
	dir := filepath.Join(stateDir, filepath.FromSlash(s.Path))
	r.Empty = session.Empty(fsys, dir)
	r.Words = firstWords(fsys, filepath.Join(dir, session.ConversationFile))
	spent, err := Usage(fsys, dir, *left)
	if spent.Known {
		r.Usage = &spent
		if info, serr := durable.Lstat(fsys, filepath.Join(dir, session.JournalFile)); serr == nil {
			*left -= min(*left, info.Size())
		}
	}
	if s.Err != nil {
		err = s.Err
	}
	if err != nil {
		text := err.Error()
		r.Error = &text
	}
	return r
}

// Standing is the session's status in one word: interrupted when it says that
// somebody is at work and nobody is.
func (s Session) Standing() string {
	switch {
	case s.Status == session.InProgress && !s.Live:
		return "interrupted"
	case s.Status == "":
		return "unknown"
	}
	return string(s.Status)
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

const headBytes = 16 << 10

// firstWords are the first words that the user said, from the head of the
// transcript.
func firstWords(fsys afero.Fs, name string) string {
	f, err := fsys.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read from
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	head, _ := io.ReadAll(io.LimitReader(f, headBytes)) // what could be read is enough
	said := false
	for line := range strings.Lines(string(head)) {
		if rest, ok := strings.CutPrefix(line, "## "); ok {
			who := strings.ToLower(strings.TrimSpace(rest))
			said = strings.HasSuffix(who, " user") || strings.HasSuffix(who, " you")
			continue
		}
		if content, ok := strings.CutPrefix(line, ">"); ok && said && strings.TrimSpace(content) != "" {
			return text.VisibleLine(strings.Join(strings.Fields(strings.ToValidUTF8(content, "�")), " "))
		}
	}
	return ""
}
