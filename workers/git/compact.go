package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// fullSample of loose objects in one of 256 directories, and fullPacks, are from
	// where on a store is worth packing.
	fullSample = 16
	fullPacks  = 20
	// unreachableTime is how long objects stay that no checkpoint needs: one that is
	// being taken may.
	unreachableTime = "2.hours.ago"
)

// Full reports whether Compact has something to pack. It reads two directories.
func (c *Checkpoints) Full() bool {
	return count(filepath.Join(c.gitDir, "objects", "17")) >= fullSample || count(filepath.Join(c.gitDir, "objects", "pack")) >= 2*fullPacks
}

func count(dir string) int {
	entries, _ := os.ReadDir(dir) // what is not there holds nothing
	return len(entries)
}

// Compact forgets the checkpoints from before a time, all but the newest keep of
// them, and packs the rest when the store is full. It may run while checkpoints are
// taken, and be killed at any time.
func (c *Checkpoints) Compact(ctx context.Context, before time.Time, keep int) error {
	list, err := c.List(ctx)
	if err != nil {
		return err
	}
	var old []string
	for _, p := range list[min(keep, len(list)):] {
		if p.Time.Before(before) {
			old = append(old, p.ID)
		}
	}
	if err := c.Drop(ctx, old...); err != nil {
		return err
	}
	if !c.Full() {
		return nil
	}
	for _, args := range [][]string{
		{"repack", "-A", "-d", "-q", "--unpack-unreachable=" + unreachableTime},
		{"prune", "--expire=" + unreachableTime},
	} {
		if _, err := c.run(ctx, call{args: args}); err != nil {
			return fmt.Errorf("pack checkpoints: %w", err)
		}
	}
	return nil
}

// StoreSize is the size in bytes of the checkpoints kept in the directory store.
func StoreSize(store string) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(store, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return bytes, err
}
