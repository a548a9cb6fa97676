package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	yaml "go.yaml.in/yaml/v4"
)

const (
	wantCases    = 300
	wantFamilies = 20
	// part is how many cases of a family run unless RALPH_HOSTILE is "all", and
	// shortPart with -short: spread over the family, the same each time.
	part, shortPart = 15, 4
	// wantBite is the part of the cases, in percent, that must succeed when the
	// defence is off.
	wantBite = 95
)

// family is one file of the corpus.
type family struct {
	Family  string
	Promise string // of safety, under attack
	Door    string // of its cases, unless they name another
	Flags   []string
	Setup   string // before that of each case
	Plain   string // what is done naively instead of the attack itself
	Program string
	Allow   string
	Deny    string
	Proof   proof
	Cases   []attack
}

// attack is one case. Its texts may hold {P}, {H}, {O} (project, home, outside),
// {ID} and the other names of world.names.
type attack struct {
	Name    string
	Door    string
	Needs   []string // programs, or "root"
	Setup   string   // by the harness, in the project
	Run     string   // a command
	Calls   []toolCall
	Text    string // what is said, shown or kept
	Via     string // where it is shown
	Config  string // of the project
	File    string // that Config is in
	Environ []string
	Flags   []string
	Allow   string
	Deny    string
	Program string   // that Allow or Deny names
	Answers []string // of the user
	During  string   // done by the harness while the user is asked
	Wait    float64  // seconds to wait for the proof
	Plain   string
	Proof   proof
}

type toolCall struct {
	Tool string
	Args map[string]any
}

// proof is what must be seen for an escape: any of these.
type proof struct {
	File    string   // exists, and holds the id
	Changed string   // is no longer as the set-up left it
	Output  string   // is in what the model or the user gets
	Caught  bool     // a listener of ours got the id
	Alive   bool     // a process with the id is left
	Host    string   // a command of the harness succeeds
	Told    string   // is in a message to the model that is not a tool's
	Kept    string   // is in a file that Ralph wrote, or in what it printed
	Seen    []string // what the user must see of a question, at least one of them
	Hung    bool     // no end within a few seconds
	Wild    bool     // the terminal gets a control that it obeys
	Broken  bool     // a document is not valid JSON
	Listens bool     // a port is open
	Bigger  int64    // bytes came back, or were written
}

func (p proof) empty() bool {
	return p.File+p.Changed+p.Output+p.Host+p.Told+p.Kept == "" && !p.Caught && !p.Alive && len(p.Seen) == 0 &&
		!p.Hung && !p.Wild && !p.Broken && !p.Listens && p.Bigger == 0
}

func corpus(t *testing.T) []family {
	t.Helper()
	names, err := filepath.Glob("../../testdata/hostile/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []family
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		var f family
		if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range f.Cases {
			f.Cases[i].fill(f)
			if f.Cases[i].Proof.empty() {
				t.Errorf("%s: %s proves nothing", name, f.Cases[i].Name)
			}
		}
		all = append(all, f)
	}
	return all
}

// fill takes from the family what the case does not say.
func (a *attack) fill(f family) {
	for to, from := range map[*string]string{&a.Door: f.Door, &a.Plain: f.Plain, &a.Program: f.Program, &a.Allow: f.Allow, &a.Deny: f.Deny} {
		if *to == "" {
			*to = from
		}
	}
	if a.Proof.empty() {
		a.Proof = f.Proof
	}
	a.Setup = f.Setup + "\n" + a.Setup
	a.Flags = slices.Concat(f.Flags, a.Flags)
}

// chosen are the cases of this run.
func (f family) chosen() []attack {
	n := part
	if testing.Short() {
		n = shortPart
	}
	if os.Getenv("RALPH_HOSTILE") == "all" || len(f.Cases) <= n {
		return f.Cases
	}
	var out []attack
	for i := range n {
		out = append(out, f.Cases[i*len(f.Cases)/n])
	}
	return out
}

// row is one line of the table.
type row struct {
	family                          string
	cases, escaped, bitten, skipped int
	refused                         int // with the defences on the attack was not even tried
}

type table struct {
	mu   sync.Mutex
	rows map[string]*row
}

func (tb *table) note(name string, f func(*row)) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	f(tb.rows[name])
}

func TestCorpus(t *testing.T) {
	all := corpus(t)
	tb := &table{rows: map[string]*row{}}
	names := map[string]bool{}
	t.Run("", func(t *testing.T) {
		for _, f := range all {
			tb.rows[f.Family] = &row{family: f.Family}
			for _, a := range f.chosen() {
				if names[f.Family+"/"+a.Name] {
					t.Errorf("%s/%s stands twice", f.Family, a.Name)
				}
				names[f.Family+"/"+a.Name] = true
				t.Run(f.Family+"/"+a.Name, func(t *testing.T) {
					t.Parallel()
					attempt(t, tb, f, a)
				})
			}
		}
	})
	tb.print(t, len(all), len(names))
}

// attempt runs a case with and without the defences.
func attempt(t *testing.T, tb *table, f family, a attack) {
	if why := missing(a.Needs); why != "" {
		tb.note(f.Family, func(r *row) { r.cases++; r.skipped++ })
		t.Skip(why)
	}
	tb.note(f.Family, func(r *row) { r.cases++ })
	with := newWorld(t, a, true)
	got := with.defended()
	if got.skip != "" {
		tb.note(f.Family, func(r *row) { r.skipped++ })
		t.Skip(got.skip)
	}
	if why := with.proven(got); why != "" {
		tb.note(f.Family, func(r *row) { r.escaped++ })
		t.Errorf("ESCAPED: %s\n%s", why, got.tail())
	} else if testing.Verbose() {
		t.Logf("held: %s", got.tail())
	}
	if got.vacuous {
		t.Errorf("the attack never came to the defence:\n%s", got.tail())
	}
	if got.refused {
		tb.note(f.Family, func(r *row) { r.refused++ })
	}
	without := newWorld(t, a, false)
	bare := without.naive()
	if without.proven(bare) == "" {
		t.Logf("NO BITE: without the defence the attack proves nothing\n%s", bare.tail())
		return
	}
	tb.note(f.Family, func(r *row) { r.bitten++ })
}

func missing(needs []string) string {
	for _, n := range needs {
		if n == "sweep" { // it makes everything else wait
			if os.Getenv("RALPH_HOSTILE") != "all" {
				return "needs RALPH_HOSTILE=all"
			}
			continue
		}
		if n == "root" {
			if os.Getuid() != 0 {
				return "needs root"
			}
			continue
		}
		if _, err := exec.LookPath(n); err != nil {
			return "needs " + n
		}
	}
	return ""
}

func (tb *table) print(t *testing.T, families, cases int) {
	var all row
	var text bytes.Buffer
	fmt.Fprintf(&text, "\n%-18s %6s %8s %8s %8s %8s\n", "family", "cases", "escaped", "refused", "bites", "skipped")
	for _, name := range slices.Sorted(keys(tb.rows)) {
		r := tb.rows[name]
		fmt.Fprintf(&text, "%-18s %6d %8d %8d %8d %8d\n", r.family, r.cases, r.escaped, r.refused, r.bitten, r.skipped)
		all.cases += r.cases
		all.escaped += r.escaped
		all.refused += r.refused
		all.bitten += r.bitten
		all.skipped += r.skipped
	}
	fmt.Fprintf(&text, "%-18s %6d %8d %8d %8d %8d\n", fmt.Sprintf("all %d", families), all.cases, all.escaped, all.refused, all.bitten, all.skipped)
	t.Log(text.String())
	if (cases < wantCases && !testing.Short()) || families < wantFamilies {
		t.Errorf("the corpus has %d cases in %d families, want %d in %d", cases, families, wantCases, wantFamilies)
	}
	if ran := all.cases - all.skipped; all.bitten*100 < ran*wantBite {
		t.Errorf("%d of %d attacks succeed without the defences, want %d %%", all.bitten, ran, wantBite)
	}
}
