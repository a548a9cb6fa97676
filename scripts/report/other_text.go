package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ralph/memory/markdown"
	"ralph/memory/text"
	"ralph/scripts/report/analysis"
	"ralph/scripts/report/insights"
)

// InsightsText is what the rules found in a session, as Markdown. The session
// was read with findings.
func InsightsText(s *Session) string {
	t := &markdownText{}
	t.line("# Insights into %s\n", titleOf(s.Analysis.Session))
	n := len(insights.Rules())
	if len(s.Findings) == 0 {
		t.line("None of the %s found anything.", text.Count(n, "rule"))
	} else {
		t.line("%s found %s.", "The "+text.Count(n, "rule"), text.Count(len(s.Findings), "thing"))
	}
	for _, f := range s.Findings {
		t.line("\n## %s (%s)\n", inline(f.Title), inline(string(f.Severity)))
		t.line("%s\n", inlineLong(f.Evidence))
		t.line("- **Do:** %s", inlineLong(f.Suggestion))
		t.line("- **Rule:** %s, %s", inline(f.Rule), inline(f.Threshold))
		if len(f.TaskIDs) > 0 {
			t.line("- **Tasks:** %s", joined(f.TaskIDs, len(f.TaskIDs)))
		}
		if len(f.Events) > 0 {
			t.line("- **Shown by:** %s", joined(f.Events, f.Count))
		}
		if f.First != nil && f.Last != nil {
			when := f.First.UTC().Format("2006-01-02 15:04:05")
			if !f.Last.Equal(*f.First) {
				when += " to " + f.Last.UTC().Format("2006-01-02 15:04:05")
			}
			t.line("- **When:** %s UTC", when)
		}
	}
	if len(s.Findings) > 0 {
		t.line("\n%s", follow(s))
	}
	return t.String()
}

// follow says how to go on from what was found, with an event of it.
func follow(s *Session) string {
	id := s.Analysis.Session.ID
	if !plainID(id) {
		id = "SESSION"
	}
	for _, f := range s.Findings {
		for _, e := range f.Events {
			if strings.HasPrefix(e, "e") {
				return fmt.Sprintf("`ralph logs %s --where 'id == \"%s\"'` shows an event;\n`ralph insights %s --append` keeps what was found in AGENT.md.", id, e, id)
			}
		}
	}
	return fmt.Sprintf("`ralph insights %s --append` keeps what was found in AGENT.md.", id)
}

// plainID says that an id can be typed as it is.
func plainID(id string) bool {
	return id != "" && len(id) <= 40 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == "" && id[0] != '-'
}

// inlineLong is foreign text of some sentences.
func inlineLong(s string) string { return markdown.Escape(s, 1000) }

// joined lists ids, and how many there are besides.
func joined(ids []string, n int) string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, inline(id))
	}
	text := strings.Join(list, ", ")
	if n > len(ids) {
		text += fmt.Sprintf(" and %d more", n-len(ids))
	}
	return text
}

// RulesText are the rules of the insights as Markdown.
func RulesText() string {
	t := &markdownText{}
	t.line("# The rules of ralph insights")
	for _, r := range insights.Rules() {
		t.line("\n## %s\n", inline(r.Title))
		t.line("%s\n", inlineLong(r.Means))
		t.line("- **Name:** %s, severity %s", inline(r.Name), inline(string(r.Severity)))
		t.line("- **Threshold:** %s", inline(r.Threshold))
		t.line("- **Do:** %s", inlineLong(r.Suggestion))
	}
	return t.String()
}

// maxColumns is how many sessions stand side by side in one table.
const maxColumns = 3

// CompareText puts sessions side by side as Markdown. More than three are in
// several tables, each with the first.
func CompareText(sessions []*Session) string {
	c, t := compared(sessions), &markdownText{}
	names, times := make([]string, len(c.Sessions)), map[string]int{}
	for i, s := range c.Sessions {
		names[i] = cell(cmp.Or(s.ID, s.Dir), 14)
		if times[names[i]]++; times[names[i]] > 1 {
			names[i] += fmt.Sprintf(" (%d)", times[names[i]])
		}
	}
	t.line("# Sessions %s\n", strings.Join(names, ", "))
	rows := [][]string{}
	for i, s := range c.Sessions {
		began := unknown
		if s.StartedAt != nil {
			began = s.StartedAt.Format("2006-01-02 15:04")
		}
		rows = append(rows, []string{names[i], cell(s.Name, 24), cell(strings.ReplaceAll(s.Status, "_", " "), 14), began})
	}
	t.table([]string{"session", "name", "status", "began (UTC)"}, 4, rows)
	for _, n := range c.Notes {
		t.line("%s.\n", inline(strings.ToUpper(n[:1])+n[1:]))
	}
	t.section("Figures")
	for from := 1; from < len(c.Sessions) || from == 1; from += maxColumns - 1 {
		writeFigures(t, c, names, from, min(from+maxColumns-1, len(c.Sessions)))
	}
	t.section("Settings that differ")
	writeSettings(t, c, names)
	t.section("Tasks that came out otherwise")
	writeChanges(t, c, names)
	for i, o := range c.Only {
		if o.N > 0 && len(c.Only) > 1 {
			t.line("- Only in %s: %s: %s", names[i], text.Count(o.N, "task"), joined(o.Tasks, o.N))
		}
	}
	return t.String()
}

// writeFigures writes the figures of the first session and some others; rows of
// which nothing is known are left out.
func writeFigures(t *markdownText, c analysis.Comparison, names []string, from, to int) {
	head := []string{"", names[0]}
	for i := from; i < to; i++ {
		head = append(head, names[i], "±")
	}
	rows := [][]string{}
	for _, f := range c.Figures {
		told := f.Values[0] != nil
		row := []string{f.Group + ": " + f.Name, value(f.Unit, f.Values[0])}
		if f.Group == "tasks" && f.Name == "total" || f.Group == "cost" && f.Name == "total" || f.Group == "tokens" && f.Name == "total" || f.Group == "time" && f.Name == "total" {
			row[0] = f.Group
		}
		for i := from; i < to; i++ {
			told = told || f.Values[i] != nil
			row = append(row, value(f.Unit, f.Values[i]), change(f, i))
		}
		if told {
			rows = append(rows, row)
		}
	}
	t.table(head, 1, rows)
}

func value(unit string, v *float64) string {
	if v == nil {
		return unknown
	}
	switch unit {
	case "seconds":
		return length(v)
	case "usd":
		return money(v)
	case "rate":
		return percent(v)
	case "score":
		return strconv.FormatFloat(math.Round(*v*1000)/1000, 'f', -1, 64)
	}
	return text.Grouped(int64(math.Round(*v)))
}

// change writes the difference to the first session: in percent when there is
// one, else as the figure itself.
func change(f analysis.Figure, i int) string {
	switch d, p := f.Deltas[i], f.Percents[i]; {
	case d == nil:
		return unknown
	case *d == 0:
		return "="
	case p != nil && math.Abs(*p) < 1000:
		return signed(*d) + strconv.FormatFloat(math.Round(math.Abs(*p)), 'f', 0, 64) + "%"
	default:
		size := math.Abs(*d)
		return signed(*d) + value(f.Unit, &size)
	}
}

func signed(v float64) string {
	if v < 0 {
		return "−"
	}
	return "+"
}

func writeSettings(t *markdownText, c analysis.Comparison, names []string) {
	if len(c.Config) == 0 {
		t.line("None.")
		return
	}
	for from := 0; from < len(names); from += maxColumns {
		to := min(from+maxColumns, len(names))
		rows := [][]string{}
		for _, s := range c.Config {
			row := []string{cell(s.Key, 24)}
			for _, v := range s.Values[from:to] {
				if v == nil {
					row = append(row, unknown)
				} else {
					row = append(row, cell(fmt.Sprint(v), 14))
				}
			}
			rows = append(rows, row)
		}
		t.table(append([]string{"setting"}, names[from:to]...), to-from+1, rows)
	}
}

func writeChanges(t *markdownText, c analysis.Comparison, names []string) {
	if len(c.Tasks) == 0 {
		switch c.Common {
		case 0:
			t.line("None: they have no task in common.\n")
		default:
			t.line("None: %s in common, with the same outcome.\n", text.Count(c.Common, "task"))
		}
		return
	}
	listed := c.Tasks[:min(len(c.Tasks), 4*maxRows)]
	for from := 0; from < len(names); from += maxColumns {
		to := min(from+maxColumns, len(names))
		rows := [][]string{}
		for _, x := range listed {
			row := []string{cell(x.ID, 10), cell(x.Name, 22)}
			for _, o := range x.Outcomes[from:to] {
				if o == nil {
					row = append(row, unknown)
				} else {
					row = append(row, cell(strings.ReplaceAll(*o, "_", " "), 11))
				}
			}
			rows = append(rows, row)
		}
		t.table(append([]string{"task", "title"}, names[from:to]...), to-from+2, rows)
	}
	if c.Changed > len(listed) {
		t.line("… and %s more; `--output json` has them.\n", text.Grouped(c.Changed-len(listed)))
	}
}
