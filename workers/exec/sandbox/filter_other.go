//go:build linux && !amd64 && !arm64

package sandbox

const (
	machine = 0 // no filter
	foreign = 0x40000000
)

func watchedHere() map[int]watchedCall { return nil }

func refusedHere() []int { return nil }

func modesHere() []modeCall { return nil }
