package page

import (
	"cmp"
	"slices"
)

// The bounds of what is kept and drawn.
const (
	maxTaskBars  = 240
	maxAgentBars = 120
	maxWaitBars  = 40
	maxMarks     = 1000
	maxTaskRows  = 40
	maxAgentRows = 24
	maxTracked   = 4096 // tasks or agents that are known at a time
	maxSittings  = 200
)

// state is how a bar ended.
type state uint8

const (
	stateDone state = iota
	stateSkipped
	stateOpen // its end is not told
	stateRunning
	stateStopped
	stateFailed // the worst: what is merged with it shows it
)

// word names a state.
func (s state) word() string {
	switch s {
	case stateDone:
		return "done"
	case stateSkipped:
		return "skipped"
	case stateRunning:
		return "running"
	case stateStopped:
		return "stopped"
	case stateFailed:
		return "failed"
	}
	return "no end"
}

// bar is something that lasted; times are milliseconds since 1970.
type bar struct {
	from, to int64
	row      string // the task's or the agent's id
	state    state
	n        int // how many are drawn as this one
	attempt  int
	text     string
}

// bars holds at most limit bars: when there are more, short ones that lie next
// to each other become one. It knows how wide what it merged is.
type bars struct {
	limit  int
	mixed  bool // bars of different rows may become one
	list   []bar
	merged int
}

func (b *bars) add(x bar) {
	x.to = max(x.from, x.to)
	x.n = max(1, x.n)
	if b.list = append(b.list, x); len(b.list) > b.limit {
		b.squeeze(!b.mixed)
	}
}

// squeeze merges until half of the limit is left. With rows, only bars of one
// row are merged.
func (b *bars) squeeze(rows bool) {
	type key struct {
		row   string
		state state
		slot  int64
	}
	before := len(b.list)
	from, to := b.list[0].from, b.list[0].to
	for _, x := range b.list {
		from, to = min(from, x.from), max(to, x.to)
	}
	span := to - from + 1
	for width := span/256 + 1; len(b.list) > b.limit/2; width *= 2 {
		all := width > span
		b.list = merge(b.list, func(x bar) (key, bool) {
			k := key{x.row, x.state, (x.from - from) / width}
			if !rows {
				k.row = ""
			}
			if all {
				k.state = 0
			}
			return k, x.to-x.from < width
		}, func(into *bar, x bar) {
			into.from, into.to, into.n = min(into.from, x.from), max(into.to, x.to), into.n+x.n
			into.state = max(into.state, x.state)
		})
		if width > 2*span {
			rows = false // even one bar a row is too much
		}
	}
	b.merged += before - len(b.list)
}

// merge joins those of a list that share a key, in the place of the first.
func merge[T any, K comparable](list []T, key func(T) (K, bool), join func(*T, T)) []T {
	at := make(map[K]int, len(list))
	out := list[:0]
	for _, x := range list {
		k, ok := key(x)
		if i, known := at[k]; ok && known {
			join(&out[i], x)
			continue
		}
		if ok {
			at[k] = len(out)
		}
		out = append(out, x)
	}
	return out
}

// lane is what kind of thing a mark is; each has its row.
type lane uint8

const (
	laneSaid lane = iota
	laneInterrupt
	laneError
	laneRetry
	lanePassed
	laneGateFailed
	laneBreaker
	laneCheckpoint
	laneHandoff
	lanes
)

// mark is something that happened at one time.
type mark struct {
	at, last int64 // first and last, when it stands for several
	lane     lane
	n        int
	text     string
}

// marks holds at most maxMarks; beyond, those next to each other become one.
type marks struct {
	list   []mark
	merged int
	count  [lanes]int
}

func (m *marks) add(x mark) {
	x.last, x.n = max(x.at, x.last), max(1, x.n)
	m.count[x.lane] += x.n
	if m.list = append(m.list, x); len(m.list) > maxMarks {
		m.squeeze()
	}
}

func (m *marks) squeeze() {
	type key struct {
		lane lane
		slot int64
	}
	before := len(m.list)
	lo := slices.MinFunc(m.list, func(a, b mark) int { return cmp.Compare(a.at, b.at) }).at
	hi := slices.MaxFunc(m.list, func(a, b mark) int { return cmp.Compare(a.at, b.at) }).at
	for width := (hi-lo)/512 + 1; len(m.list) > maxMarks/2; width *= 2 {
		m.list = merge(m.list, func(x mark) (key, bool) { return key{x.lane, (x.at - lo) / width}, true }, func(into *mark, x mark) {
			into.at, into.last, into.n = min(into.at, x.at), max(into.last, x.last), into.n+x.n
		})
	}
	m.merged += before - len(m.list)
}

// amount is what a request used.
type amount struct {
	fresh, cached, output int64
	cost                  float64
	priced, unpriced      bool // the cost of some is known, of some is not
}

func (a *amount) add(b amount) {
	a.fresh, a.cached, a.output, a.cost, a.priced, a.unpriced = a.fresh+b.fresh, a.cached+b.cached, a.output+b.output, a.cost+b.cost, a.priced || b.priced, a.unpriced || b.unpriced
}

func (a amount) tokens() int64 { return a.fresh + a.cached + a.output }

// timed is an amount and when it was used.
type timed struct {
	at int64
	amount
}

// flow holds amounts over time: each of the first, then sums over slots that
// become wider as the time does.
type flow struct {
	raw         []timed
	from, width int64
	slots       []amount
	n           int
}

const (
	maxRaw    = 2000
	flowSlots = 1024
)

func (f *flow) add(x timed) {
	f.n++
	if f.slots == nil && len(f.raw) < maxRaw {
		f.raw = append(f.raw, x)
		return
	}
	if f.slots == nil {
		f.from, f.width, f.slots = f.raw[0].at, 1, make([]amount, flowSlots)
		for _, r := range f.raw {
			f.pour(r)
		}
		f.raw = nil
	}
	f.pour(x)
}

func (f *flow) pour(x timed) {
	for x.at < f.from || x.at >= f.from+f.width*flowSlots {
		wide := make([]amount, flowSlots)
		shift := 0
		if x.at < f.from {
			f.from -= f.width * flowSlots
			shift = flowSlots / 2
		}
		for i, a := range f.slots {
			wide[shift+i/2].add(a)
		}
		f.slots, f.width = wide, f.width*2
	}
	f.slots[(x.at-f.from)/f.width].add(x.amount)
}

// samples gives what is held, in order of time, and how wide the slots are; 0
// when each amount stands for itself.
func (f *flow) samples() (list []timed, width int64) {
	if f.slots == nil {
		list = slices.Clone(f.raw)
		slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
		return list, 0
	}
	for i, a := range f.slots {
		if a != (amount{}) {
			list = append(list, timed{f.from + int64(i)*f.width, a})
		}
	}
	return list, f.width
}
