package line

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

func TestZZOracle(t *testing.T) {
	path := os.Getenv("A1_CASES")
	if path == "" {
		t.Skip("no cases")
	}
	f, _ := os.Open(path)
	out, _ := os.Create(path + ".out")
	w := bufio.NewWriter(out)
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	var c struct {
		Mode, Line string
		Pos        int
		Keys       string
		Hist       []string
	}
	for s.Scan() {
		c.Hist = nil
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		h := newHand(t, Options{EditMode: c.Mode, History: c.Hist})
		h.put([]rune(c.Line), c.Pos)
		h.loop.edit.undo = undo{}
		if c.Mode == "vi" {
			h.loop.edit.vi.normal = true
			h.clamp()
		}
		h.types(c.Keys)
		b, _ := json.Marshal(map[string]any{"line": string(h.loop.now.line), "pos": h.loop.now.pos})
		w.Write(append(b, '\n'))
		h.loop.engine.close()
	}
	w.Flush()
	out.Close()
}
