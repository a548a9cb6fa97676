package session

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/text"
)

// HandedOn is the exit reason of a session whose conversation goes on in another
// one; once that is known it reads "handed to 003".
const HandedOn = "handed on"

// cutOff is how the exit reason of a session begins whose holder died.
const cutOff = "cut off"

// Standing says how a session stands and how it ended, in a few words:
// "completed, handed to 003", "paused, Ctrl-C".
func (m Metadata) Standing() string {
	if m.ExitReason == "" {
		return string(m.Status)
	}
	why := m.ExitReason
	if strings.HasPrefix(why, cutOff) {
		why = cutOff
	}
	return string(m.Status) + ", " + cut(Reason(why), 40)
}

// Reason is an exit reason as a person knows it: by the key that was pressed, and
// not by the number of a signal.
func Reason(why string) string {
	why = text.VisibleLine(why)
	for _, as := range [][2]string{
		{"interrupted by SIGINT", "Ctrl-C"}, {"interrupted by SIGHUP", "its terminal was closed"}, {"ended by SIGHUP", "its terminal was closed"},
		{"interrupted by SIGPIPE", "its output was closed"}, {"interrupted by signal 13", "its output was closed"}, {"ended by SIGPIPE", "its output was closed"},
	} {
		why = strings.ReplaceAll(why, as[0], as[1])
	}
	return why
}

// Unmarked is the first row of Markdown in which something is said, without the
// marks of headings, lists, emphasis and code, for a list that shows it as it is.
// A fence that begins a block of code is no such row.
func Unmarked(text string) string {
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		if strings.HasPrefix(row, "```") || strings.HasPrefix(row, "~~~") {
			continue
		}
		row = strings.TrimLeft(row, "#>")
		for _, item := range []string{" - ", " * ", " + "} {
			if rest, ok := strings.CutPrefix(" "+strings.TrimSpace(row), item); ok {
				row = rest
			}
		}
		if row = strings.TrimSpace(strings.NewReplacer("**", "", "`", "").Replace(row)); row != "" && strings.Trim(row, "-=*_ ") != "" {
			return row
		}
	}
	return ""
}

func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return text
}

// Empty says that a chat with a directory was opened and nothing was said in it:
// there is nothing to go on with. One whose journal is gone is not known to be so,
// and a run, or a session that was given a name, is something without a word.
func Empty(fsys afero.Fs, dir string) bool {
	if !strings.HasSuffix(filepath.Base(dir), "-chat") {
		return false
	}
	if info, err := fsys.Stat(filepath.Join(dir, JournalFile)); err != nil || info.Size() > 0 {
		return false
	}
	info, err := fsys.Stat(filepath.Join(dir, ConversationFile))
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}
