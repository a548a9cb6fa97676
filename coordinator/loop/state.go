package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// stateVersion is the form of the state that is kept in a snapshot.
const stateVersion = 1

// state is all that a run remembers beyond what its plan says, as the snapshot
// keeps it.
type state struct {
	Version   int      `json:"version"`
	Settings  Settings `json:"-"`         // see Granted
	Kept      kept     `json:"settings"`  // of them, what a snapshot gives back
	Iteration int      `json:"iteration"` // the last that began

	// Tasks has those of which the run knows more than the plan.
	Tasks map[string]*taskState `json:"tasks"`
	// Active are the attempts that are under way, in the order in which they began.
	Active []active `json:"active"`
	// Owed are the marks that the plan was not seen to take yet.
	Owed []owed `json:"owed,omitempty"`

	Usage       agent.Usage   `json:"usage"`
	CostUSD     *float64      `json:"cost_usd"` // nil: nothing was priced yet
	CostUnknown bool          `json:"cost_unknown,omitempty"`
	Turns       int           `json:"turns"`
	Worked      time.Duration `json:"worked_ns"`
	// Entered says how long the run had worked when each phase began last.
	Entered map[string]time.Duration `json:"entered_ns,omitempty"`

	Tally    tally                `json:"tally"`
	Breaker  breaker.State        `json:"breaker"`
	History  decide.History       `json:"history"`
	Limited  map[string]time.Time `json:"limited,omitempty"` // agents that may not work, until when
	Limits   map[string]int       `json:"limits,omitempty"`  // how often in a row that was so
	Gates    map[string]string    `json:"gates,omitempty"`   // passed, failed, errored, accepted
	Reached  map[string]bool      `json:"reached,omitempty"` // milestones
	Guidance []string             `json:"guidance,omitempty"`
	Approved bool                 `json:"-"` // see Granted
	Question *permission.Question `json:"question,omitempty"`
}

// tally counts what conditions are about.
type tally struct {
	Ended         int     `json:"ended"`  // iterations
	Failed        int     `json:"failed"` // of them
	Errors        int     `json:"errors"`
	Retries       int     `json:"retries"`
	Checks        int     `json:"checks"`
	CheckFailures int     `json:"check_failures"`
	InARow        int     `json:"consecutive_failures"`
	Idle          int     `json:"no_progress"`
	Questions     int     `json:"questions"`
	Confidence    float64 `json:"confidence"` // of the task that was decided about last
	Confidences   float64 `json:"confidences"`
	Decided       int     `json:"decided"`
}

// taskState is what a run knows of a task.
type taskState struct {
	Attempts  int       `json:"attempts,omitempty"`  // that began, since it was opened
	Failures  int       `json:"failures,omitempty"`  // of them
	Iteration int       `json:"iteration,omitempty"` // that was cut off and goes on; 0: none
	Agent     string    `json:"agent,omitempty"`     // whose conversation goes on
	Worker    string    `json:"worker,omitempty"`    // who worked it last, of the agents that there are
	Other     bool      `json:"other,omitempty"`     // the fallback works it from now on
	Feedback  string    `json:"feedback,omitempty"`
	Guidance  []string  `json:"guidance,omitempty"`
	Question  string    `json:"question,omitempty"` // of its agent, that has no answer yet
	NotBefore time.Time `json:"not_before,omitzero"`

	// Over is what it came to in this run: done, failed, skipped; "" as long as it is
	// open. Print is the task as the plan had it then, so that an edit opens it again.
	Over     plan.Status `json:"over,omitempty"`
	Print    string      `json:"print,omitempty"`
	Why      string      `json:"why,omitempty"`
	Verified bool        `json:"verified,omitempty"`
	Mine     bool        `json:"mine,omitempty"`   // this run has done it
	Commit   string      `json:"commit,omitempty"` // with which its work was merged

	// Ticked reports that the plan has it as done by somebody who may have been an
	// agent: that does not count.
	Ticked bool `json:"ticked,omitempty"`

	Again bool `json:"again,omitempty"` // it was done, and was opened again

	Sure      float64 `json:"sure,omitempty"`     // the confidence with which it was begun
	Held      string  `json:"held,omitempty"`     // why it is not worked, until a human says so
	Refused   string  `json:"refused,omitempty"`  // why it was too unsure
	Asked     bool    `json:"asked,omitempty"`    // about its confidence, without an answer
	Permitted bool    `json:"-"`                  // see Granted
	Adjusted  bool    `json:"adjusted,omitempty"` // a breaker gave it another attempt
	Tried     bool    `json:"tried,omitempty"`    // the alternative was tried
	Last      string  `json:"last,omitempty"`     // fingerprint of the last result
}

// active is an attempt that is under way.
type active struct {
	Task      string    `json:"task"`
	Title     string    `json:"title"`
	Iteration int       `json:"iteration"`
	Attempt   int       `json:"attempt"`
	Agent     string    `json:"agent,omitempty"` // its id; "" as long as that is not known
	Worker    string    `json:"worker,omitempty"`
	Since     time.Time `json:"since"`
}

// owed is a mark that the plan has to take. Was and Print are how the plan had the
// task when the mark was made, so that the word of a human that came after it can be
// told from a mark that was not taken.
type owed struct {
	Task  string      `json:"task"`
	Mark  plan.Mark   `json:"mark"`
	Was   plan.Status `json:"was,omitempty"` // "" in a state that an older Ralph kept
	Print string      `json:"print,omitempty"`
}

func newState(s Settings) state {
	return state{Version: stateVersion, Settings: s, Tasks: map[string]*taskState{}, Active: []active{}, Limited: map[string]time.Time{},
		Limits: map[string]int{}, Gates: map[string]string{}, Reached: map[string]bool{}, Tally: tally{Confidence: 1}}
}

// task is what is known of a task, which is made when there is nothing.
func (s *state) task(id string) *taskState {
	t := s.Tasks[id]
	if t == nil {
		t = &taskState{}
		s.Tasks[id] = t
	}
	return t
}

// known is the same without making it: never nil, and not to be changed.
func (s *state) known(id string) *taskState {
	if t := s.Tasks[id]; t != nil {
		return t
	}
	return &taskState{}
}

// reopen forgets what a task came to: it is worked again from the beginning.
func (t *taskState) reopen() {
	*t = taskState{Guidance: t.Guidance, Again: t.Again || t.Over == plan.Done}
}

// restored reads the state that is kept in a snapshot, without anything that a
// human granted. lost says what is not in it.
func restored(s *feature.Snapshot) (st state, lost string, err error) {
	st = newState(Settings{})
	switch {
	case len(s.Run) == 0:
		st.Settings, st.Iteration = keptBy(s).settings(), s.Iteration
		st.Usage = agent.Usage{Input: int(s.Tokens.Input), Output: int(s.Tokens.Output), CachedInput: int(s.Tokens.CachedInput), Total: int(s.Tokens.Input + s.Tokens.Output)}
		for _, id := range s.ActiveTaskIDs {
			st.Active = append(st.Active, active{Task: id})
		}
		return st, "retries, costs and decisions: the snapshot does not have them", nil
	default:
		if err := json.Unmarshal(s.Run, &st); err != nil {
			return st, "", fmt.Errorf("read the state of run %q: %w", s.Feature, err)
		}
	}
	if st.Version != stateVersion {
		return st, "", fmt.Errorf("read the state of run %q: version %d is not known", s.Feature, st.Version)
	}
	st.Settings = st.Kept.settings()
	maps.DeleteFunc(st.Gates, func(_, stands string) bool { return stands == gateAccepted })
	// A map that is null in the file is nil now.
	empty := newState(Settings{})
	if st.Tasks == nil {
		st.Tasks = empty.Tasks
	}
	for id, t := range st.Tasks {
		if t == nil {
			delete(st.Tasks, id)
		}
	}
	if st.Limited == nil {
		st.Limited = empty.Limited
	}
	if st.Limits == nil {
		st.Limits = empty.Limits
	}
	if st.Gates == nil {
		st.Gates = empty.Gates
	}
	if st.Reached == nil {
		st.Reached = empty.Reached
	}
	return st, "", nil
}

// spend adds what an attempt used.
func (s *state) spend(r Report) {
	s.Usage = s.Usage.Add(r.Usage)
	s.Turns += r.Turns
	switch {
	case r.CostUSD != nil:
		sum := *r.CostUSD
		if s.CostUSD != nil {
			sum += *s.CostUSD
		}
		s.CostUSD = &sum
	case r.Usage.Total > 0:
		s.CostUnknown = true
	}
}

// SpentBy returns what the run of a snapshot has used so far.
func SpentBy(s *feature.Snapshot) agent.Spent {
	if s == nil {
		return agent.Spent{}
	}
	st, _, err := restored(s)
	if err != nil { // the run does not begin
		return agent.Spent{}
	}
	return agent.Spent{Turns: st.Turns, Usage: st.Usage, CostUSD: st.cost(), CostUnknown: st.CostUnknown}
}

// cost is what the run has cost; nil when some of it has no price.
func (s *state) cost() *float64 {
	if s.CostUnknown {
		return nil
	}
	return s.CostUSD
}

// owe notes a mark, in place of an older one of the same task, which is t as the plan
// has it.
func (s *state) owe(t *plan.Task, m plan.Mark) {
	s.quit(t.ID)
	s.Owed = append(s.Owed, owed{t.ID, m, t.Status, wordsOf(t)})
}

// quit drops the mark that is owed about a task.
func (s *state) quit(id string) {
	s.Owed = slices.DeleteFunc(s.Owed, func(o owed) bool { return o.Task == id })
}

// rest takes an attempt off those under way.
func (s *state) rest(id string) {
	s.Active = slices.DeleteFunc(s.Active, func(a active) bool { return a.Task == id })
}

// say keeps what a human said, the newest, each within bounds.
func say(list []string, content string) []string {
	const most, bytes = 20, 8 << 10
	list = append(slices.Clone(list), text.Clip(content, bytes))
	return list[max(0, len(list)-most):]
}
