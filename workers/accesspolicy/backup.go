package accesspolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/backup"
)

// backupTime bounds how long it takes to copy a repository, or to put it back.
const backupTime = 5 * time.Minute

// backups are copies of the repositories that one command can write to, where no
// mounts keep it from that.
type backups struct {
	ctx  context.Context // a stop does not end it
	list []*backup.Backup
	in   []string // the beginning of the lines about each
}

// backUp copies the user's repositories before a command, which it returns with what
// there is to say.
func (s *Sandbox) backUp(ctx context.Context, c *sandbox.Policy) (b backups, told []string) {
	b.ctx = context.WithoutCancel(ctx)
	if c == nil || s.o.ReadOnly || s.o.Root != s.o.Project || s.overlaid() {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, backupTime)
	defer cancel()
	for _, loc := range s.guarded() {
		in := "in " + s.rel(loc.CommonDir) + ": "
		copied := s.backupOf(loc)
		if copied == nil {
			continue
		}
		lines, err := copied.Begin(ctx)
		told = append(told, prefixed(in, lines)...)
		if err != nil {
			told = append(told, in+"what the command destroys in the git repository cannot be put back: "+err.Error())
			continue
		}
		b.list, b.in = append(b.list, copied), append(b.in, in)
	}
	return b, told
}

// end puts back what the command destroyed, and reports it.
func (b backups) end() (told []string) {
	ctx, cancel := context.WithTimeout(b.ctx, backupTime)
	defer cancel()
	for i, copied := range b.list {
		lines, err := copied.End(ctx)
		told = append(told, prefixed(b.in[i], lines)...)
		if err != nil {
			told = append(told, b.in[i]+err.Error())
		}
	}
	return told
}

// backupOf opens the copy of a repository once; nil where there is no place for it, or
// where commands cannot write to the repository.
func (s *Sandbox) backupOf(loc git.Location) *backup.Backup {
	if s.o.State == "" || !below(s.o.Root, loc.CommonDir) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backups == nil {
		s.backups = map[string]*backup.Backup{}
	}
	if s.backups[loc.CommonDir] == nil && len(s.backups) <= maxLayers {
		dir := filepath.Join(s.backupDir(), hashed(loc.CommonDir))
		s.backups[loc.CommonDir] = backup.Open(backup.Options{Proc: s.o.Own, Git: loc, Dir: dir})
	}
	return s.backups[loc.CommonDir]
}

// backupDir holds the copies of the project's repositories.
func (s *Sandbox) backupDir() string { return filepath.Join(s.o.State, "backups", hashed(s.o.Project)) }

func hashed(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// recoverBackups puts back what commands destroyed when the last Ralph was killed, and
// reports it. Where commands cannot write to the repository any more it removes the
// copies.
func (s *Sandbox) recoverBackups(ctx context.Context) (told []string) {
	if s.o.State == "" {
		return nil
	}
	entries, err := os.ReadDir(s.backupDir())
	for _, e := range entries {
		lines, e := backup.Recover(ctx, s.o.Own, filepath.Join(s.backupDir(), e.Name()))
		told = append(told, lines...)
		err = errors.Join(err, e)
	}
	if err == nil && s.overlaid() {
		err = os.RemoveAll(s.backupDir())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		told = append(told, err.Error())
	}
	return told
}
