package beads

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
)

const maxPrintFiles = 4000

// fileprint is a fingerprint of the states of files. It tells nothing once there
// are too many or one cannot be looked at.
type fileprint struct {
	h     hash.Hash
	files int
	mute  bool
}

func newPrint() *fileprint { return &fileprint{h: sha256.New()} }

// sum is the fingerprint, "" when it tells nothing.
func (p *fileprint) sum() string {
	if p.mute {
		return ""
	}
	return hex.EncodeToString(p.h.Sum(nil))
}

// state adds size, time and name of a file.
func (p *fileprint) state(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		fmt.Fprintf(p.h, "%q none\n", path)
		return
	}
	fmt.Fprintf(p.h, "%q %d %d %v\n", path, info.Size(), info.ModTime().UnixNano(), info.Mode())
}

// tree adds the state of all files below a directory.
func (p *fileprint) tree(dir string) {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p.files++; p.files > maxPrintFiles {
			return errors.New("too many files")
		}
		if e.Type().IsRegular() && e.Name() != "LOCK" {
			p.state(path)
		}
		return nil
	})
	if err != nil {
		p.mute = true
	}
}
