package retention

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// Spent is what a session used, as its journal says.
type Spent struct {
	Known       bool  `json:"-"` // the journal was read whole
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"`
	Output      int64 `json:"output"`
	Total       int64 `json:"total"`
	// CostUSD is nil when some usage had no price.
	CostUSD *float64 `json:"cost_usd"`
}

// usageEvent is the part of a record that tells usage.
type usageEvent struct {
	Kind    string
	Payload struct {
		Type  string
		RunID string `json:"run_id"`
		Agent string
		Turn  int
		Usage *struct {
			Input       int64
			CachedInput int64 `json:"cached_input"`
			Output      int64
			Total       int64
		}
		CostUSD *float64 `json:"cost_usd"`
	}
}

// Usage adds up what the journal in dir says was used. A journal beyond
// maxBytes is not read: the result is not Known then, as where there is no
// journal. Lines that cannot be read are passed over.
func Usage(fsys afero.Fs, dir string, maxBytes int64) (Spent, error) {
	var s Spent
	name := filepath.Join(dir, session.JournalFile)
	info, err := durable.Lstat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > maxBytes {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return s, fmt.Errorf("read journal %q: %w", name, durable.ErrNotRegular)
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	m := meter{spent: &s, open: map[string]loop{}}
	if err := m.read(f); err != nil {
		return s, fmt.Errorf("read journal %q: %w", name, err)
	}
	m.end()
	s.Known = true
	return s, nil
}

// loop is the cost that one agent's work has come to; it is told as a running
// sum that begins anew with each piece of work.
type loop struct {
	turn int
	cost float64
}

type meter struct {
	spent   *Spent
	open    map[string]loop
	cost    float64
	unknown bool
	seen    bool
}

func (m *meter) read(r io.Reader) error {
	// Only few lines tell usage; the others are not decoded.
	mark := []byte(`"usage"`)
	return durable.Lines(r, func(line []byte, _ bool) error {
		var e usageEvent
		if bytes.Contains(line, mark) && json.Unmarshal(line, &e) == nil && e.Kind == "event" {
			m.add(e)
		}
		return nil
	})
}

func (m *meter) add(e usageEvent) {
	p := e.Payload
	if p.Type != "usage" || p.Usage == nil {
		return
	}
	m.seen = true
	m.spent.Input += p.Usage.Input
	m.spent.CachedInput += p.Usage.CachedInput
	m.spent.Output += p.Usage.Output
	m.spent.Total += p.Usage.Total
	if p.CostUSD == nil {
		m.unknown = m.unknown || p.Usage.Total > 0
		return
	}
	key := p.RunID + " " + p.Agent
	last := m.open[key]
	if p.Turn <= last.turn || *p.CostUSD < last.cost {
		m.cost += last.cost
	}
	m.open[key] = loop{p.Turn, *p.CostUSD}
}

func (m *meter) end() {
	for _, l := range m.open {
		m.cost += l.cost
	}
	if m.seen && !m.unknown {
		m.spent.CostUSD = &m.cost
	}
}
