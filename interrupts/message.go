package interrupts

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Class says what a message does to the work that runs. A lower class goes
// first.
type Class uint8

// The classes, in order of priority.
const (
	// ClassStop ends all work, or that of one agent, inside Push.
	ClassStop Class = iota
	// ClassUrgent ends the step that runs and is handled before queued work.
	ClassUrgent
	// ClassAsk is a side question; the work goes on.
	ClassAsk
	// ClassSteer is delivered at the next boundary.
	ClassSteer
	// ClassLater is delivered when the present work has ended.
	ClassLater

	classes = int(ClassLater) + 1
)

// String is the class as a word: stop, urgent, ask, steer or later.
func (c Class) String() string {
	switch c {
	case ClassStop:
		return "stop"
	case ClassUrgent:
		return "urgent"
	case ClassAsk:
		return "ask"
	case ClassSteer:
		return "steer"
	case ClassLater:
		return "later"
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// ParseClass reads one of the five words that [Class.String] writes.
func ParseClass(s string) (Class, error) {
	for c := ClassStop; c <= ClassLater; c++ {
		if s == c.String() {
			return c, nil
		}
	}
	return 0, fmt.Errorf("class %q: want stop, urgent, ask, steer or later", s)
}

// State says how far a message has come. It begins as Queued and ends, once, in
// one of the other four.
type State string

// The states.
const (
	Queued    State = "queued"    // it waits, or somebody is about to deliver it
	Delivered State = "delivered" // it reached the model; of a stop: rest was reached
	Answered  State = "answered"  // the side question has its answer
	Cancelled State = "cancelled" // dropped by its author, or covered by a stop
	Returned  State = "returned"  // covered by a stop and given back to its author
)

// Message is one thing that a human said. It is a value: what the queue hands
// out does not change afterwards.
type Message struct {
	// N is the accept number: 1, 2, … within the project, never given twice. A
	// stop covers the numbers below its own and none above.
	N     uint64
	Class Class
	// Text is kept byte for byte, control bytes and invalid UTF-8 included: who
	// shows it makes it safe, who takes it in bounds its size.
	Text string
	// From is who said it: "chat", "signal", or a client's conversation.
	From string
	// To is the agent that it is for, "" the coordinator; of a stop, the agent
	// that it ends, "" everything.
	To string
	// Session is the session that it is for, "" whichever runs. The queue only
	// carries it.
	Session string
	// Signal is the signal behind a stop, or 0.
	Signal syscall.Signal
	At     time.Time
	State  State
	// Kept says that this very state of the message is on disk. Without it the
	// message is held, not saved, and obeyed all the same.
	Kept bool
	// Edited says that its text or class was changed after it was accepted.
	Edited bool
}

// ID is the message's name: m-17.
func (m Message) ID() string { return "m-" + strconv.FormatUint(m.N, 10) }

// number is the accept number in an id that Message.ID wrote, or 0.
func number(id string) uint64 {
	digits, ok := strings.CutPrefix(id, "m-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || (Message{N: n}).ID() != id {
		return 0
	}
	return n
}

// Amendment changes a message that waits.
type Amendment struct {
	Drop  bool    // cancel it; the rest is ignored
	Text  *string // its new text
	Class *Class  // its new class, not a stop
}
