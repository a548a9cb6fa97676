package git

import (
	"slices"
	"strings"
)

// The endings of the names of a turn's checkpoints, and the beginning of those of a turn that was
// undone and can be redone. Kept is only there when something that changed in the turn is not
// surely Ralph's: it is the state before the turn, while that of Before has such changes already.
const (
	BeforeTurn = ".before"
	AfterTurn  = ".after"
	KeptOfTurn = ".kept"
	UndoneTurn = "undone/"
)

// CutTurn returns the checkpoint before the turn that was cut off: the newest, when it is one
// before a turn and has none after it. What came after an older one is not of its turn alone. The
// newest is the first of list.
func CutTurn(list []Checkpoint) (Checkpoint, bool) {
	list = slices.DeleteFunc(slices.Clone(list), func(p Checkpoint) bool { return strings.HasPrefix(p.ID, UndoneTurn) })
	if len(list) == 0 || !strings.HasSuffix(list[0].ID, BeforeTurn) {
		return Checkpoint{}, false
	}
	after := strings.TrimSuffix(list[0].ID, BeforeTurn) + AfterTurn
	return list[0], !slices.ContainsFunc(list, func(p Checkpoint) bool { return p.ID == after })
}
