package crew

import (
	"time"

	"ralph/workers/agent"
)

// State says how far an agent is.
type State string

// The states of an agent.
const (
	Waiting     State = "waiting" // for others whose work it needs
	Queued      State = "queued"  // for room
	Running     State = "running"
	Paused      State = "paused"
	Stopping    State = "stopping"
	Done        State = "done"
	Partial     State = "partial"     // it ended by itself before all was done
	Failed      State = "failed"      // it gave up, broke, or its check failed
	Interrupted State = "interrupted" // it was stopped, or Ralph was; it can be resumed
	Orphaned    State = "orphaned"    // only its worktree or branch was found
)

// Landing says how far the work of an agent has come into the user's tree.
type Landing string

// The steps of a landing.
const (
	Unmerged  Landing = ""
	Merging   Landing = "merging"
	Merged    Landing = "merged"    // it is in the user's tree
	Held      Landing = "held"      // merged, and not in the user's tree: they changed the same
	Conflict  Landing = "conflict"  // it does not fit what was merged before it
	Unchanged Landing = "unchanged" // it changed nothing
	TakenBack Landing = "undone"    // it was merged, and the user has undone that
)

// Agent is an agent at one moment. It is a value.
type Agent struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth"` // 0 is the coordinator
	// Label is what it does in a few words, Task all that it was told.
	Label string   `json:"label,omitempty"`
	Task  string   `json:"task,omitempty"`
	After []string `json:"after,omitempty"` // whose work it needs
	State State    `json:"state"`
	// Since is when it began, or was asked for while it waits; Ended is zero until
	// it has.
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended,omitzero"`
	// Beat is its last sign of life, Doing what it did then. Stalled says that it
	// was too long ago.
	Beat    time.Time   `json:"beat"`
	Doing   string      `json:"doing,omitempty"`
	Stalled bool        `json:"stalled,omitempty"`
	Turns   int         `json:"turns"`
	Usage   agent.Usage `json:"usage"`
	CostUSD *float64    `json:"cost_usd"` // nil: not known
	// Result is its answer, or what there is of it (Cut); Problem is why it did
	// not get there.
	Result  string `json:"result,omitempty"`
	Cut     bool   `json:"partial,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Branch and Worktree are where its work is, Landing how far that has come;
	// Commit is the last one of it, Files what it changed.
	Branch   string   `json:"branch,omitempty"`
	Worktree string   `json:"worktree,omitempty"`
	Landing  Landing  `json:"merge,omitempty"`
	Commit   string   `json:"commit,omitempty"`
	Files    []string `json:"files,omitempty"`
	// Combined reports that the branch it was merged into held work that its tree lacked
	// when its checks ran.
	Combined bool `json:"combined,omitempty"`
	// Errand names what it does of a plan, Weakened what in its changes makes a
	// check or a test prove less: such work is merged by the user alone.
	Errand   string   `json:"errand,omitempty"`
	Weakened []string `json:"weakened,omitempty"`
	// Transcript is the file with its conversation, absolute.
	Transcript string `json:"transcript,omitempty"`
}
