package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// CheckpointDir returns the directory of the checkpoints of the project at root. It
// depends on the project's path and not on its id: whatever a command does to
// `.ralph/`, what takes it back is found. It is empty when there is no home outside
// of the project.
func CheckpointDir(home, root string) string {
	home, err := Outside(home, root)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(home, "checkpoints", filepath.Base(root)+"-"+hex.EncodeToString(sum[:8]))
}
