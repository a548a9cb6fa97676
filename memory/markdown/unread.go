package markdown

import (
	"regexp"
	"strings"
	"sync"
)

// Heading is a heading with an id.
type Heading struct {
	ID   string
	Line int // from 1
}

// Unread returns the headings that begin with an id and are no tasks, because others
// have ids of stories.
func (d *Document) Unread() []Heading {
	if !d.stories {
		return nil
	}
	return d.other
}

// Stray is a line that looks like a task and is none.
type Stray struct {
	Text string
	Line int  // from 1
	Box  bool // it has a box, in a form that is not read
}

// oddBox matches what begins with a box as it is not read, behind what may be a bullet.
var oddBox = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[-*+•◦▪·–—]+[\s\x{a0}]*|\w{1,3}[.)]\s*)*[*_~\\]*(?:\[[\s\x{a0}\x{3000}]*[xX✓✔√?~!*./>-]?[\s\x{a0}\x{3000}]*\\?\](?:[^(:\[]|$)|[☐☑☒])`)
})

// taskHeading matches a heading that says in other words that it is a task.
var taskHeading = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:task|story)\s*(?:#\s*\d|:)`) })

// Strays returns the lines that look like tasks and are none: items without a box in a list
// of tasks, or with the id of a story, headings that call themselves tasks and have no id, and
// lines that begin with a box in a form that is not read.
func (d *Document) Strays() []Stray {
	var out, items []Stray // items: those of the list at hand
	width, tasks, open := -1, false, false
	end := func() {
		if tasks {
			out = append(out, items...)
		}
		items, width, tasks, open = nil, -1, false, false
	}
	k := 0 // the task that begins on this line, or the next one
	for i := range d.lines.n {
		l := d.lines.at(i)
		w, body := indent(strings.TrimPrefix(l.text, bom))
		if l.kind != lineText || body == "" {
			continue
		}
		for k < len(d.tasks) && d.starts[k] < i {
			k++
		}
		task := k < len(d.tasks) && d.starts[k] == i
		bullet, rest := cutBullet(body)
		level, title := heading(body)
		switch {
		case level > 0:
			end()
			rest = title
		case bullet == "" && w == 0 && d.blank(i-1), bullet != "" && w < width:
			end()
		}
		if bullet != "" && width < 0 {
			width = w
		}
		_, _, boxed := cutBox(rest)
		boxed = boxed && bullet != ""
		stray := Stray{Text: strings.TrimSpace(rest), Line: i + 1}
		switch {
		case task && w > width && open: // the open item groups tasks
			items, open = items[:len(items)-1], false
		case task:
			tasks = tasks || w == width
			open = false
		case level > 0 && taskHeading().MatchString(rest):
			out = append(out, stray)
		case d.odd(bullet, body, rest) && !boxed:
			stray.Box = true
			out = append(out, stray)
		case bullet != "" && w == width && (k == 0 || d.end(d.tasks[k-1]) <= i):
			if id, _, _ := cutID(rest); storyID().MatchString(id) && d.find(id) == nil {
				out, open = append(out, stray), false
				continue
			}
			items, open = append(items, stray), true
		}
	}
	end()
	return out
}

// odd reports whether a line begins with a box that is not read.
func (d *Document) odd(bullet, body, rest string) bool {
	if bullet != "" && strings.ContainsAny(firstRune(rest), "⬜🔲⏳") {
		return true
	}
	return oddBox().MatchString(strings.TrimLeft(body, "# "))
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// blank reports whether a line is empty, or there is none.
func (d *Document) blank(i int) bool {
	return i < 0 || strings.TrimSpace(d.lines.at(i).text) == ""
}
