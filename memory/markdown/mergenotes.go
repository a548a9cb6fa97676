package markdown

import "strings"

// noteLine is a line of a task that is neither its head nor a field nor what
// is kept of a conflict.
type noteLine struct {
	at   int // in the block
	text string
}

func noteLines(block []line, n *node) []noteLine {
	var out []noteLine
	for i := 1; i < len(block); i++ {
		s := norm(block[i].text)
		if s != "" && !n.isField(i) && !strings.HasPrefix(s, conflictKey) {
			out = append(out, noteLine{i, s})
		}
	}
	return out
}

func noteTexts(lines []noteLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.text
	}
	return out
}

// mergeNotes puts what Ralph changed of a task's other lines into the user's
// block. It returns the block and what of Ralph's cannot be put in.
func mergeNotes(mine []line, n *node, b, r taskSide, user *Document) ([]line, []string) {
	bn, rn, un := noteLines(b.block, b.n), noteLines(r.block, r.n), noteLines(mine, n)
	b2r, b2u := align(noteTexts(bn), noteTexts(rn)), align(noteTexts(bn), noteTexts(un))
	fresh := map[string]int{} // what the user's has more
	for _, l := range un {
		fresh[l.text]++
	}
	for i, k := range b2u {
		if k >= 0 {
			fresh[bn[i].text]--
		}
	}
	var disputed []string
	instead, behind, gone := map[int]string{}, map[int][]line{}, map[int]bool{}
	anchor := max(n.lastField, 0)
	prev := -1 // last of Ralph's lines that base has too
	for i := 0; i <= len(bn); i++ {
		if i < len(bn) && b2r[i] < 0 {
			continue
		}
		// Ralph put the lines from prev+1 to next in the place of those of base
		// that end at i.
		next := len(rn)
		if i < len(bn) {
			next = b2r[i]
		}
		from := i
		for from > 0 && b2r[from-1] < 0 {
			from--
		}
		for k := prev + 1; k < next; k++ {
			o := from + k - prev - 1
			switch {
			case fresh[rn[k].text] > 0:
				fresh[rn[k].text]--
			case o < i && b2u[o] >= 0:
				at := un[b2u[o]].at
				anchor = at
				text := mine[at].text
				instead[at] = strings.TrimSuffix(text, bn[o].text) + rn[k].text
				if !strings.HasSuffix(text, bn[o].text) {
					instead[at] = lead(text) + rn[k].text
				}
			case o < i:
				disputed = append(disputed, rn[k].text)
			default:
				behind[anchor] = append(behind[anchor], line{text: reindent(r, rn[k].at, mine, n), eol: user.eol})
			}
		}
		for o := from + max(0, next-prev-1); o < i; o++ {
			if b2u[o] >= 0 {
				gone[un[b2u[o]].at] = true
			}
		}
		if i < len(bn) {
			if prev = next; b2u[i] >= 0 {
				anchor = max(anchor, un[b2u[i]].at)
			}
		}
	}
	if len(instead)+len(behind)+len(gone) == 0 {
		return mine, disputed
	}
	var out []line
	for i, l := range mine {
		if text, ok := instead[i]; ok {
			l.text = text
		}
		if !gone[i] {
			out = append(out, l)
		}
		out = append(out, behind[i]...)
	}
	return out, disputed
}

// reindent gives one of Ralph's lines the indentation that lines have in the
// user's version of the task.
func reindent(r taskSide, at int, mine []line, n *node) string {
	text := r.block[at].text
	if n.kind == nodeHeading || r.n.kind == nodeHeading {
		return text
	}
	inner, _ := indent(r.block[at].text)
	head, _ := indent(r.block[0].text)
	return lead(mine[0].text) + strings.Repeat(" ", max(2, inner-head)) + strings.TrimLeft(text, " \t")
}
