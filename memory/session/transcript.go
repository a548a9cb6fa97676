package session

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// maxUnsaid bounds the text that waits for a disk that does not take it.
const maxUnsaid = 1 << 20

// Say appends to the transcript that people read: who spoke, and what. The
// text stands in a quotation that it cannot end. The transcript only repeats
// what the journal holds: it is synced by Close, and what cannot be written
// waits for the next text; Close reports it.
func (s *Session) Say(who, content string) {
	who = strings.Join(strings.Fields(text.VisibleLine(s.o.Redact(who))), " ")
	content = strings.TrimRight(text.Visible(s.o.Redact(content)), "\n \t")
	if content == "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s %s\n\n", s.o.Now().UTC().Format("2006-01-02 15:04:05"), who)
	for line := range strings.SplitSeq(content, "\n") {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	b.WriteString("\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed {
		s.unsaid += "\n"
	}
	s.listed = false
	s.tell(b.String())
}

// Note appends a line to the transcript as an item of a list, such as
// "decision: retry with backoff". It may hold Markdown: foreign text in it is
// the caller's to quote. Errors are as with Say.
func (s *Session) Note(line string) {
	line = strings.TrimSpace(text.VisibleLine(s.o.Redact(line)))
	if line == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = true
	s.tell("- " + line + "\n")
}

// NoteChange appends that a file of the project was changed, and how, with a
// link that works from where the transcript is. The path is relative to the
// project's root, with slashes.
func (s *Session) NoteChange(path, how string) {
	rel, err := filepath.Rel(s.dir, filepath.Join(filepath.Dir(s.o.StateDir), filepath.FromSlash(path)))
	if err != nil {
		rel = path
	}
	var link []string
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		link = append(link, strings.NewReplacer("(", "%28", ")", "%29").Replace(url.PathEscape(part)))
	}
	s.Note(fmt.Sprintf("changed: [%s](%s) %s", escaped(path), strings.Join(link, "/"), escaped(how)))
}

// escaped keeps foreign text from being read as Markdown.
func escaped(content string) string {
	var b strings.Builder
	for _, r := range text.VisibleLine(content) {
		if strings.ContainsRune("\\`*_[]<>#!~&|", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// tell writes a text and what waits before it; mu is held.
func (s *Session) tell(text string) {
	s.unsaid += text
	if n := len(s.unsaid) - maxUnsaid; n > 0 {
		s.unsaid = s.unsaid[n:]
	}
	path := filepath.Join(s.dir, ConversationFile)
	err := appendText(s.o.FS, path, s.unsaid)
	if errors.Is(err, fs.ErrNotExist) {
		// The directory was removed meanwhile.
		if err = durable.MkdirAll(s.o.FS, s.dir, 0o700); err == nil {
			err = appendText(s.o.FS, path, s.unsaid)
		}
	}
	if s.lasting = err; err == nil {
		s.unsaid = ""
	}
}

// appendText appends to a text file without syncing it; it begins on a line of
// its own. After an error nothing was appended, as far as that can be undone.
func appendText(fsys afero.Fs, path, text string) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("append to transcript: %w", err)
	}
	err = appendTo(f, text)
	_ = f.Close() // what was written is written: the text must not come twice
	if err != nil {
		return fmt.Errorf("append to transcript %q: %w", path, err)
	}
	return nil
}

func appendTo(f afero.File, text string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return durable.ErrNotRegular
	}
	end := info.Size()
	if end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = "\n" + text
		}
	}
	if _, err := f.Seek(end, 0); err != nil {
		return err
	}
	if _, err := f.Write([]byte(text)); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	return nil
}

// syncTranscript brings the transcript to disk.
func (s *Session) syncTranscript() error {
	f, err := s.o.FS.OpenFile(filepath.Join(s.dir, ConversationFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sync transcript: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}
