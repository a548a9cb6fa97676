package tools

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readable turns a page into Markdown for reading: headings, paragraphs, lists,
// code, tables row by row and links; scripts, styles and forms are dropped. The
// parser refuses pages nested deeper than 512 elements, which bounds the
// recursion here; such a page comes back as its bare text.
func readable(ctx context.Context, page string, base *url.URL) (text, title string) {
	doc, err := html.Parse(until(ctx, strings.NewReader(page)))
	if err != nil {
		return bareText(ctx, page), ""
	}
	m := &markdown{base: base}
	m.node(doc)
	return strings.TrimSpace(m.out.String()) + "\n", squeeze(m.title)
}

// bareText is the text between the tags.
func bareText(ctx context.Context, page string) string {
	var b strings.Builder
	skip := 0
	z := html.NewTokenizer(until(ctx, strings.NewReader(page)))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(b.String()) + "\n"
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) == "script" || string(name) == "style" {
				skip++
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "script" || string(name) == "style" {
				skip = max(skip-1, 0)
			}
		case html.TextToken:
			if t := squeeze(string(z.Text())); skip == 0 && t != "" {
				b.WriteString(t + "\n")
			}
		}
	}
}

// markdown writes a tree of HTML. Text is joined with single spaces; blocks are
// set apart by blank lines.
type markdown struct {
	base   *url.URL
	out    strings.Builder
	title  string
	indent string // of list items
	marks  []int  // per open list: the next number, or 0 for a bullet
	pre    bool
	gap    int  // newlines owed before the next text
	space  bool // a space is owed before the next text
}

func (m *markdown) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		m.text(n.Data)
	case html.ElementNode:
		m.element(n)
	default:
		m.children(n)
	}
}

func (m *markdown) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		m.node(c)
	}
}

func (m *markdown) element(n *html.Node) {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Form, atom.Button, atom.Select:
	case atom.Head:
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom == atom.Title && c.FirstChild != nil {
				m.title = c.FirstChild.Data
			}
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		m.block(2)
		m.word(strings.Repeat("#", int(n.Data[1]-'0')) + " ")
		m.children(n)
		m.block(2)
	case atom.Br:
		m.block(1)
	case atom.Hr:
		m.block(2)
		m.word("---")
		m.block(2)
	case atom.Pre:
		m.preformatted(n)
	case atom.Code:
		m.wrapped(n, "`")
	case atom.Strong, atom.B:
		m.wrapped(n, "**")
	case atom.A:
		m.link(n)
	case atom.Img:
		if alt := squeeze(attr(n, "alt")); alt != "" {
			m.word("[image: " + alt + "]")
		}
	case atom.Ul, atom.Ol, atom.Menu:
		m.list(n)
	case atom.Li:
		m.item(n)
	case atom.Tr:
		m.block(1)
		m.children(n)
		m.block(1)
	case atom.Td, atom.Th:
		m.word("| ")
		m.children(n)
		m.space = true
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside,
		atom.Table, atom.Blockquote, atom.Dl, atom.Figure, atom.Details, atom.Body:
		m.block(2)
		m.children(n)
		m.block(2)
	case atom.Dt, atom.Dd, atom.Summary, atom.Figcaption, atom.Option:
		m.block(1)
		m.children(n)
		m.block(1)
	default:
		m.children(n)
	}
}

// block asks for at least n newlines before what follows.
func (m *markdown) block(n int) {
	m.gap = max(m.gap, n)
	m.space = false
}

// word writes s as it is, after the gap or space that is owed.
func (m *markdown) word(s string) {
	switch {
	case m.out.Len() == 0:
	case m.gap > 0:
		m.out.WriteString(strings.Repeat("\n", min(m.gap, 2)) + m.indent)
	case m.space:
		m.out.WriteByte(' ')
	}
	m.gap, m.space = 0, false
	m.out.WriteString(s)
}

func (m *markdown) text(s string) {
	if m.pre {
		m.out.WriteString(s)
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		m.space = m.space || s != ""
		return
	}
	if first := s[0]; first == ' ' || first == '\n' || first == '\t' || first == '\r' {
		m.space = m.space || !strings.HasSuffix(m.out.String(), " ")
	}
	m.word(strings.Join(words, " "))
	last := s[len(s)-1]
	m.space = last == ' ' || last == '\n' || last == '\t' || last == '\r'
}

func (m *markdown) wrapped(n *html.Node, mark string) {
	if m.pre || n.FirstChild == nil {
		m.children(n)
		return
	}
	m.word(mark)
	m.children(n)
	m.space = false
	m.out.WriteString(mark)
}

func (m *markdown) preformatted(n *html.Node) {
	m.block(2)
	m.word("```\n")
	m.pre = true
	m.children(n)
	m.pre = false
	if !strings.HasSuffix(m.out.String(), "\n") {
		m.out.WriteByte('\n')
	}
	m.out.WriteString("```")
	m.block(2)
}

func (m *markdown) link(n *html.Node) {
	target := attr(n, "href")
	u, err := m.base.Parse(target)
	if m.pre || target == "" || err != nil || strings.HasPrefix(target, "#") || u.Scheme != "http" && u.Scheme != "https" {
		m.children(n)
		return
	}
	before := m.out.Len()
	m.word("[")
	start := m.out.Len()
	m.children(n)
	m.gap, m.space = 0, false
	if m.out.Len() == start {
		kept := m.out.String()[:before]
		m.out.Reset()
		m.out.WriteString(kept)
		return
	}
	m.out.WriteString("](" + u.String() + ")")
}

func (m *markdown) list(n *html.Node) {
	gap := 1
	if len(m.marks) == 0 {
		gap = 2
	}
	m.block(gap)
	number := 0
	if n.DataAtom == atom.Ol {
		number = 1
	}
	m.marks = append(m.marks, number)
	m.children(n)
	m.marks = m.marks[:len(m.marks)-1]
	m.block(gap)
}

func (m *markdown) item(n *html.Node) {
	m.block(1)
	mark := "- "
	if i := len(m.marks) - 1; i >= 0 && m.marks[i] > 0 {
		mark = strconv.Itoa(m.marks[i]) + ". "
		m.marks[i]++
	}
	m.word(mark)
	outer := m.indent
	m.indent += strings.Repeat(" ", len(mark))
	m.children(n)
	m.indent = outer
	m.block(1)
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
