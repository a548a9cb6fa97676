package analysis

// Meter tells what each request of an agent cost from what its loop had cost by
// then, which is what the events state. A loop goes on in another attempt and with
// another Ralph; of a Ralph that was killed it may go on from an earlier turn, as
// it was saved. The zero Meter is one of an agent that made no request. It is for
// one goroutine.
type Meter struct {
	began int       // the turn that began last
	turn  int       // the last that was paid
	paid  float64   // by then
	sums  []float64 // by the end of each turn, from the first
}

// maxTurns bounds the turns of which a Meter remembers what was paid by then.
const maxTurns = 1000

// Begins notes that a turn begins, from 1.
func (m *Meter) Begins(turn int) {
	if turn <= m.began {
		m.back(turn)
	}
	m.began = turn
}

// back goes back to before a turn.
func (m *Meter) back(turn int) {
	m.turn, m.paid = max(turn-1, 0), 0
	if m.sums = m.sums[:min(len(m.sums), m.turn)]; len(m.sums) > 0 {
		m.paid = m.sums[len(m.sums)-1]
	}
}

// Cost is what the request of a turn cost, by whose end the loop had cost sofar.
// A turn that was paid already belongs to another loop, where no beginning of it
// said so.
func (m *Meter) Cost(turn int, sofar float64) float64 {
	if turn <= m.turn {
		m.back(1)
	}
	cost := sofar
	if sofar >= m.paid {
		cost -= m.paid
	}
	for len(m.sums) < min(turn-1, maxTurns) {
		m.sums = append(m.sums, m.paid)
	}
	if m.turn, m.paid = turn, sofar; len(m.sums) < maxTurns {
		m.sums = append(m.sums, sofar)
	}
	return cost
}
