package crew

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"

	"ralph/memory/identity"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// The kinds of records in the journal of an agent.
const (
	// recordAgent holds how an agent stands; the last counts.
	recordAgent = "agent"
	// recordMessage holds a message of its conversation.
	recordMessage = "message"
	// recordShorter says that the conversation goes on with fewer messages, which
	// it holds.
	recordShorter = "compacted"
)

// record is where an agent's journal is; it belongs to one goroutine at a time.
type record struct {
	journal *session.Journal
	failed  bool // it cannot be written, which was said
}

// kept is how an agent stands, as its journal has it.
type kept struct {
	Agent
	Check string      `json:"check,omitempty"`
	Hints []string    `json:"hints,omitempty"`
	Mends string      `json:"mends,omitempty"`
	Base  string      `json:"base,omitempty"`
	With  string      `json:"content,omitempty"`
	Early bool        `json:"early,omitempty"`
	Spent agent.Spent `json:"spent"`
}

// keep writes how a member stands.
func (c *Crew) keep(m *member) {
	c.mu.Lock()
	k := kept{Agent: m.Agent, Check: m.check, Hints: m.files, Mends: m.mends, Base: m.base, With: m.content, Early: m.early, Spent: m.spent}
	c.mu.Unlock()
	c.write(m, recordAgent, k)
}

// write appends a record to the journal of a member. What a disk does not take is
// said once per agent; the work goes on.
func (c *Crew) write(m *member, kind string, value any) {
	payload, err := json.Marshal(value)
	if err == nil {
		m.recording.Lock()
		defer m.recording.Unlock()
		if err = c.open(m); err == nil && m.record.journal != nil {
			if c.o.Redact != nil {
				payload = c.o.Redact(payload)
			}
			err = m.record.journal.Append(0, session.Record{Kind: kind, Time: c.o.Now(), Payload: payload})
		}
	}
	if err != nil && !m.record.failed {
		m.record.failed = true
		c.o.Warn(fmt.Sprintf("what agent %s does is not kept: %v", m.ID, err))
	}
}

// open opens the journal of a member; recording is held.
func (c *Crew) open(m *member) error {
	if m.record.journal != nil {
		return nil
	}
	dir := c.o.Dir()
	if m.dir != "" {
		dir = m.dir
	}
	if dir == "" {
		return nil
	}
	j, err := session.OpenJournal(c.o.FS, filepath.Join(dir, m.ID, session.JournalFile), c.o.Quarantine(), c.key())
	if err != nil {
		return err
	}
	c.mu.Lock()
	m.dir = dir
	c.mu.Unlock()
	m.record.journal = j
	return nil
}

// key authenticates the journals.
func (c *Crew) key() identity.Key {
	if c.o.Key == nil {
		return nil
	}
	return c.o.Key()
}

// shut closes the journal of a member; it is opened again when it is written to.
func (c *Crew) shut(m *member) {
	m.recording.Lock()
	defer m.recording.Unlock()
	if m.record.journal == nil {
		return
	}
	if err := m.record.journal.Close(); err != nil {
		c.o.Warn(fmt.Sprintf("close the journal of agent %s: %v", m.ID, err))
	}
	m.record.journal = nil
}

// Load takes up the agents whose journals are in a directory, of which none is at
// work any more: those that had not ended were cut off. It gives the ids of those.
func (c *Crew) Load(dir string) (cut []string, err error) {
	entries, err := afero.ReadDir(c.o.FS, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("read agents: %w", err)
	}
	var errs []error
	for _, e := range entries {
		m, err := c.read(filepath.Join(dir, e.Name(), session.JournalFile))
		if err != nil || m == nil {
			errs = append(errs, err)
			continue
		}
		m.dir = dir
		if !m.settled() {
			m.State, m.Problem = Interrupted, cutOff
			if m.Ended.IsZero() {
				m.Ended = m.Beat
			}
			cut = append(cut, m.ID)
		}
		c.mu.Lock()
		if c.find(m.ID) == nil {
			c.members = append(c.members, m)
		}
		c.mu.Unlock()
	}
	return cut, errors.Join(errs...)
}

// read reads how an agent stood; nil when there is no such journal.
func (c *Crew) read(path string) (*member, error) {
	var m *member
	_, err := session.ReadRecords(c.o.FS, path, c.key(), func(r session.Record) error {
		var k kept
		if r.Kind != recordAgent || json.Unmarshal(r.Payload, &k) != nil {
			return nil
		}
		if m == nil {
			m = newMember(k.Agent)
			m.past = true
		}
		m.Agent, m.check, m.files, m.mends, m.base, m.content, m.early, m.spent = k.Agent, k.Check, k.Hints, k.Mends, k.Base, k.With, k.Early, k.Spent
		m.Beat = r.Time
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	return m, nil
}

// conversation reads what an agent and its model have said, without the system
// prompt.
func (c *Crew) conversation(m *member) ([]agent.Message, error) {
	if m.dir == "" {
		return nil, nil
	}
	var talk []agent.Message
	_, err := session.ReadRecords(c.o.FS, filepath.Join(m.dir, m.ID, session.JournalFile), c.key(), func(r session.Record) error {
		switch r.Kind {
		case recordMessage:
			var x agent.Message
			if json.Unmarshal(r.Payload, &x) == nil {
				talk = append(talk, x)
			}
		case recordShorter:
			var list []agent.Message
			if json.Unmarshal(r.Payload, &list) == nil {
				talk = list
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the conversation of agent %s: %w", m.ID, err)
	}
	return talk, nil
}

// cutOff is why an agent did not end that was at work when Ralph was killed.
const cutOff = "Ralph was cut off"

// search finds the journal of an agent in the first of dirs that has it.
func (c *Crew) search(id string, dirs []string) (*member, error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, id, session.JournalFile)
		if _, err := c.o.FS.Stat(path); err != nil {
			continue
		}
		m, err := c.read(path)
		if m != nil {
			m.dir = dir
		}
		return m, err
	}
	return nil, nil
}
