package trees

import "os"

// swapByLink is for file systems that cannot exchange two names. What is written
// by renaming another file over this one in the same moment is lost; what is
// written into the file is not.
func swapByLink(fresh, old string, at place) error {
	if err := os.Link(at.full, old); err != nil {
		return err
	}
	return os.Rename(fresh, at.full)
}

func moveInByLink(fresh string, at place) error {
	if err := os.Link(fresh, at.full); err != nil {
		return err
	}
	return os.Remove(fresh)
}
