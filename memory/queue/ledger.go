package queue

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/text"
)

// ledger is what the user's side knows of a queue: which numbers were given, and
// which of them wait. A record that verifies but was delivered before is a replay
// by it. It is written without a sync: one that a power cut took only knows less.
type ledger struct {
	Last    uint64   `json:"last"`
	Waiting []uint64 `json:"waiting"`
}

// ledgerFile is the ledger's name in the user's directory of the project.
const ledgerFile = "queue.json"

const maxLedgerBytes = 1 << 20

// readLedger reads the ledger; one that is missing or damaged knows nothing.
func readLedger(fsys afero.Fs, dir string) ledger {
	var g ledger
	if dir == "" {
		return g
	}
	data, err := durable.ReadFile(fsys, filepath.Join(dir, ledgerFile), maxLedgerBytes)
	if err != nil || json.Unmarshal(data, &g) != nil {
		return ledger{}
	}
	return g
}

// replayed removes from t what ended before, and returns its lines.
func (g ledger) replayed(t *table, sign signer) (lines [][]byte) {
	waits := make(map[uint64]bool, len(g.Waiting))
	for _, n := range g.Waiting {
		waits[n] = true
	}
	for k, m := range t.open {
		if m.N > g.Last || waits[m.N] {
			continue
		}
		delete(t.open, k)
		if line, err := sign.encode(*m); err == nil {
			lines = append(lines, line)
		}
	}
	t.last = max(t.last, g.Last)
	return lines
}

// quoted shows the texts of the first lines that are set aside.
func quoted(lines [][]byte) string {
	const most, bytes = 3, 80
	var texts []string
	for _, line := range lines {
		var r struct{ Text string }
		if json.Unmarshal(line, &r) == nil && r.Text != "" && len(texts) < most {
			texts = append(texts, strconv.Quote(text.VisibleLine(strings.ToValidUTF8(r.Text[:min(len(r.Text), bytes)], ""))))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

func (l *Log) sign() signer { return signer{l.o.Key} }

// note writes the ledger of a table.
func (l *Log) note() error {
	if l.o.UserDir == "" {
		return nil
	}
	g := ledger{Last: l.table.last, Waiting: []uint64{}}
	for _, m := range l.table.messages() {
		g.Waiting = append(g.Waiting, m.N)
	}
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	to := filepath.Join(l.o.UserDir, ledgerFile)
	temp := to + ".tmp" // nobody else writes it: the lock on the queue is ours
	if err := afero.WriteFile(l.o.FS, temp, data, 0o600); err != nil {
		return err
	}
	return l.o.FS.Rename(temp, to)
}
