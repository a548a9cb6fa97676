package history

import (
	"cmp"
	"math"
	"slices"
)

const (
	// The usual parameters of BM25; length counts less than in prose, since a
	// long message of a session holds more facts, not the same at more length.
	saturation = 1.2
	lengthPart = 0.5

	// maxIndexedBytes bounds what of one text is indexed: its beginning, and a
	// quarter of that from its end.
	maxIndexedBytes = 8 << 10

	// A posting is the number of a text with how often the term is in it.
	countBits = 6
	maxCount  = 1<<countBits - 1
)

// Index says which of many texts fit a query best, by BM25 over the terms of
// names, paths, words, numbers and CJK text. Texts are added one by one, each at
// a cost that does not depend on how many there are. The zero value is ready. It
// is not safe for concurrent use.
type Index struct {
	terms    map[string]int32
	postings [][]uint32
	lengths  []uint16 // of each text, in terms
	forward  []int32  // the terms of each text, one text after the other
	ends     []int    // where those of a text end in forward
	total    int64    // terms of all texts
	bytes    int64
	counts   map[int32]int // of the text that is being added
	order    []int32
}

// Hit is a text that fits a query.
type Hit struct {
	// ID is the number of the text: the first that was added is 0.
	ID int
	// Score says how well it fits; it compares only with those of one query.
	Score float64
}

// Add takes in a text and returns its number.
func (x *Index) Add(text string) int {
	if x.terms == nil {
		x.terms, x.counts = map[string]int32{}, map[int32]int{}
	}
	id := len(x.lengths)
	n := 0
	clear(x.counts)
	x.order = x.order[:0]
	take := func(term []byte) {
		t, ok := x.terms[string(term)]
		if !ok {
			t = int32(len(x.postings))
			x.terms[string(term)] = t
			x.postings = append(x.postings, nil)
			x.bytes += int64(len(term)) + 72 // the map's entry and the slice's head
		}
		if x.counts[t] == 0 {
			x.order = append(x.order, t)
		}
		x.counts[t]++
		n++
	}
	head, tail := ends(text)
	terms(head, take)
	terms(tail, take)
	for _, t := range x.order {
		before := cap(x.postings[t])
		x.postings[t] = append(x.postings[t], uint32(id)<<countBits|uint32(min(x.counts[t], maxCount)))
		x.bytes += 4 * int64(cap(x.postings[t])-before)
	}
	x.forward = append(x.forward, x.order...)
	x.ends = append(x.ends, len(x.forward))
	x.lengths = append(x.lengths, uint16(min(n, math.MaxUint16)))
	x.total += int64(n)
	return id
}

// ends is what of a text is indexed.
func ends(text string) (head, tail string) {
	if len(text) <= maxIndexedBytes {
		return text, ""
	}
	cut := maxIndexedBytes * 3 / 4
	return text[:cut], text[len(text)-(maxIndexedBytes-cut):]
}

// Len returns how many texts were added.
func (x *Index) Len() int { return len(x.lengths) }

// Bytes returns about how much memory the index takes.
func (x *Index) Bytes() int64 {
	return x.bytes + 2*int64(cap(x.lengths)) + 4*int64(cap(x.forward)) + 8*int64(cap(x.ends))
}

// weight is how much a term tells texts apart.
func (x *Index) weight(docs int) float64 {
	n, df := float64(len(x.lengths)), float64(docs)
	return math.Log(1 + (n-df+0.5)/(df+0.5))
}

// queryTerms returns the known terms of a query, each once, in order.
func (x *Index) queryTerms(query string) []int32 {
	var out []int32
	seen := map[int32]bool{}
	terms(query, func(term []byte) {
		if t, ok := x.terms[string(term)]; ok && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	})
	return out
}

// Search returns the texts that share a term with the query, the best first; of
// two that fit as well, the newer. At most n are returned; 0 is all.
func (x *Index) Search(query string, n int) []Hit {
	wanted := x.queryTerms(query)
	if len(wanted) == 0 {
		return nil
	}
	scores := make([]float64, len(x.lengths))
	average := max(float64(x.total)/float64(len(x.lengths)), 1)
	for _, t := range wanted {
		weight := x.weight(len(x.postings[t]))
		for _, p := range x.postings[t] {
			id, count := p>>countBits, float64(p&maxCount)
			length := 1 - lengthPart + lengthPart*float64(x.lengths[id])/average
			scores[id] += weight * count * (saturation + 1) / (count + saturation*length)
		}
	}
	var hits []Hit
	for id, s := range scores {
		if s > 0 {
			hits = append(hits, Hit{ID: id, Score: s})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), b.ID-a.ID) })
	if n > 0 && len(hits) > n {
		hits = hits[:n]
	}
	return hits
}

const (
	// least is the part of the best score below which a text is left out: it
	// shares a common word at best.
	least = 0.2
	// maxWeighed bounds how many of the best hits are weighed against each other.
	maxWeighed = 1000
	// repeated is what a text still counts that says nothing which those chosen
	// before it do not say.
	repeated = 0.25
)

// Choose returns texts that fit the query and cost at most the budget together,
// in the order in which they were added. The best goes first, but a text counts
// the less the more of its words are in those that were chosen before it: what
// is said over and over takes the room of what was said once. cost says what one
// costs; a negative cost leaves it out.
func (x *Index) Choose(query string, cost func(id int) int, budget int) []Hit {
	var waiting []candidate
	best := 0.0
	for _, h := range x.Search(query, 0) {
		c := cost(h.ID)
		if c < 0 || c > budget {
			continue
		}
		best = max(best, h.Score)
		if h.Score < best*least || len(waiting) == maxWeighed {
			break
		}
		waiting = append(waiting, candidate{Hit: h, cost: c, worth: h.Score})
	}
	var chosen []Hit
	said := map[int32]bool{}
	for len(waiting) > 0 {
		i := x.next(waiting, said)
		c := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		if c.cost > budget {
			continue
		}
		budget -= c.cost
		chosen = append(chosen, c.Hit)
		for _, t := range x.termsOf(c.ID) {
			said[t] = true
		}
	}
	slices.SortFunc(chosen, func(a, b Hit) int { return a.ID - b.ID })
	return chosen
}

// candidate is a hit that may be chosen.
type candidate struct {
	Hit
	cost  int
	worth float64 // as it was last weighed
}

// next is the most valuable candidate. Worth only falls as more is said, so one
// that was worth less before need not be weighed again.
func (x *Index) next(waiting []candidate, said map[int32]bool) int {
	at, most := 0, -1.0
	for i := range waiting {
		c := &waiting[i]
		if c.worth <= most {
			continue
		}
		c.worth = c.Score * (repeated + (1-repeated)*x.novelty(c.ID, said))
		if c.worth > most {
			at, most = i, c.worth
		}
	}
	return at
}

// novelty is how much of what a text says was not said yet, from 0 to 1.
func (x *Index) novelty(id int, said map[int32]bool) float64 {
	fresh, all := 0.0, 0.0
	for _, t := range x.termsOf(id) {
		w := x.weight(len(x.postings[t]))
		all += w
		if !said[t] {
			fresh += w
		}
	}
	if all == 0 {
		return 0
	}
	return fresh / all
}

func (x *Index) termsOf(id int) []int32 {
	from := 0
	if id > 0 {
		from = x.ends[id-1]
	}
	return x.forward[from:x.ends[id]]
}
