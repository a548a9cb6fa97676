package history

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"
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
	names    []string // the terms by number
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
			name := string(term)
			x.terms[name] = t
			x.names = append(x.names, name)
			x.postings = append(x.postings, nil)
			x.bytes += int64(len(term)) + 88 // the map's entry and the slices' heads
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

// aspect is one word of a query, with the terms that may stand for it.
type aspect []related

// related is a term of the index and how much one hit of it counts.
type related struct {
	term   int32
	weight float64
}

// kinship is how much a term counts that is only akin to the word asked for.
const kinship = 0.5

// aspects takes a query apart: each of its words once, in order, with what texts
// may say in its place. Words that no text has anything for are left out.
func (x *Index) aspects(query string) []aspect {
	var words []string
	seen := map[string]bool{}
	terms(query, func(term []byte) {
		if w := string(term); !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	})
	out := make([]aspect, len(words))
	most := make([]float64, len(words))
	for i, w := range words {
		most[i] = math.Inf(1)
		if t, ok := x.terms[w]; ok {
			most[i] = x.weight(len(x.postings[t]))
			out[i] = aspect{{t, most[i]}}
		}
	}
	for t, name := range x.names {
		for i, w := range words {
			if akin(name, w) {
				out[i] = append(out[i], related{int32(t), kinship * min(most[i], x.weight(len(x.postings[t])))})
			}
		}
	}
	return slices.DeleteFunc(out, func(a aspect) bool { return len(a) == 0 })
}

// akin reports whether two different terms are likely to be forms or short forms
// of the same word, as config and configuration or mail and email.
func akin(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 4 || a == b || a[0] < 'a' || a[0] > 'z' {
		return false
	}
	if b[0] != a[0] {
		return (len(a) > 4 || len(b) == 5) && strings.HasSuffix(b, a)
	}
	same := 1
	for same < len(a) && a[same] == b[same] {
		same++
	}
	return same == len(a) && len(b) <= 2*len(a)+2 || same > 4 && 4*same >= 3*len(b)
}

// fit calls each with how well every text that has it fits an aspect; the best
// term that a text has counts.
func (x *Index) fit(a aspect, best []float64, each func(id int, score float64)) {
	average := max(float64(x.total)/float64(len(x.lengths)), 1)
	for _, r := range a {
		for _, p := range x.postings[r.term] {
			id, count := p>>countBits, float64(p&maxCount)
			length := 1 - lengthPart + lengthPart*float64(x.lengths[id])/average
			score := r.weight * count * (saturation + 1) / (count + saturation*length)
			best[id] = max(best[id], score)
		}
	}
	for _, r := range a {
		for _, p := range x.postings[r.term] {
			if id := p >> countBits; best[id] > 0 {
				each(int(id), best[id])
				best[id] = 0
			}
		}
	}
}

// Search returns the texts that share a word with the query, the best first; of
// two that fit as well, the newer. At most n are returned; 0 is all.
func (x *Index) Search(query string, n int) []Hit { return x.search(x.aspects(query), n) }

func (x *Index) search(wanted []aspect, n int) []Hit {
	if len(wanted) == 0 {
		return nil
	}
	scores, best := make([]float64, len(x.lengths)), make([]float64, len(x.lengths))
	for _, a := range wanted {
		x.fit(a, best, func(id int, score float64) { scores[id] += score })
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
	least = 0.05
	// maxWeighed bounds how many of the best hits are weighed against each other.
	maxWeighed = 2000
	// covered is how much a word of the query still counts after each chosen text
	// that has it.
	covered = 0.9
	// repeated is what a text still counts that says nothing but the query and
	// what those chosen before it say.
	repeated = 0.02
	// numeral is how much a term with a digit counts as news: each run and each
	// line of a log has new ones.
	numeral = 0.1
)

// Choose returns texts that fit the query and cost at most the budget together,
// in the order in which they were added. The best goes first, but a text counts
// the less the more of its words are in the query or in those that were chosen
// before it, and the more of them have the same words of the query: what is said
// over and over takes the room of what was said once. cost says what one costs;
// a negative cost leaves it out.
func (x *Index) Choose(query string, cost func(id int) int, budget int) []Hit {
	wanted := x.aspects(query)
	var waiting candidates
	most := 0.0
	for _, h := range x.search(wanted, 0) {
		if h.Score < most*least || len(waiting) == maxWeighed {
			break
		}
		c := cost(h.ID)
		if c < 0 || c > budget {
			continue
		}
		most = max(most, h.Score)
		waiting = append(waiting, candidate{Hit: h, cost: c, worth: h.Score})
	}
	x.takeApart(waiting, wanted)
	v := view{said: make([]bool, len(x.names)), news: make([]float64, len(x.names)), counts: make([]float64, len(wanted))}
	for i, a := range wanted {
		v.counts[i] = 1
		for _, r := range a {
			v.said[r.term] = true
		}
	}
	var chosen []Hit
	heap.Init(&waiting)
	for len(waiting) > 0 {
		// Worth only falls as more is said, so the first that keeps its place when
		// it is weighed again is the most valuable.
		if c := &waiting[0]; c.weighed != len(chosen)+1 {
			c.worth, c.weighed = x.worth(c, v), len(chosen)+1
			heap.Fix(&waiting, 0)
			continue
		}
		c := heap.Pop(&waiting).(candidate)
		if c.cost > budget {
			continue
		}
		budget -= c.cost
		chosen = append(chosen, c.Hit)
		for _, t := range x.termsOf(c.ID) {
			v.said[t] = true
		}
		for _, p := range c.parts {
			v.counts[p.aspect] *= covered
		}
	}
	slices.SortFunc(chosen, func(a, b Hit) int { return a.ID - b.ID })
	return chosen
}

// candidate is a hit that may be chosen.
type candidate struct {
	Hit
	cost    int
	worth   float64 // as it was last weighed
	weighed int     // when that was: 1 + how many were chosen
	parts   []part
}

// candidates is a heap: the most valuable first, of two the newer.
type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].worth > c[j].worth || c[i].worth == c[j].worth && c[i].ID > c[j].ID
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(v any)   { *c = append(*c, v.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// part is what one aspect of the query adds to a score.
type part struct {
	aspect int
	score  float64
}

// view is what the chosen texts say so far.
type view struct {
	said   []bool    // by term
	news   []float64 // what a term that was not said counts, 0 when not weighed yet
	counts []float64 // how much each aspect of the query still counts
}

// takeApart says of each candidate which aspects make its score.
func (x *Index) takeApart(waiting []candidate, wanted []aspect) {
	at := make([]int32, len(x.lengths))
	for i, c := range waiting {
		at[c.ID] = int32(i) + 1
	}
	best := make([]float64, len(x.lengths))
	for i, a := range wanted {
		x.fit(a, best, func(id int, score float64) {
			if k := at[id]; k > 0 {
				waiting[k-1].parts = append(waiting[k-1].parts, part{i, score})
			}
		})
	}
}

func (x *Index) worth(c *candidate, v view) float64 {
	score := 0.0
	for _, p := range c.parts {
		score += p.score * v.counts[p.aspect]
	}
	return score * (repeated + (1-repeated)*x.novelty(c.ID, v))
}

// novelty is how much of what a text says was not said yet, from 0 to 1.
func (x *Index) novelty(id int, v view) float64 {
	fresh, all := 0.0, 0.0
	for _, t := range x.termsOf(id) {
		w := v.news[t]
		if w == 0 {
			w = x.weight(len(x.postings[t]))
			if strings.ContainsAny(x.names[t], "0123456789") {
				w *= numeral
			}
			v.news[t] = w
		}
		all += w
		if !v.said[t] {
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
