package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/visible"
)

const (
	// maxReportLog bounds the log that is counted for a report at the end of a
	// session, so that ending does not take long.
	maxReportLog = 8 << 20
	// maxListed bounds every list of a report.
	maxListed = 200
	// maxInline bounds a foreign text in a line, in characters.
	maxInline = 300
)

// Report writes final-report.md, from the files of the session as they stand
// and the facts. A report that stands there and was written or edited by
// somebody else is moved to quarantine first.
func (f *Folder) Report(facts Facts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.flush()
	}
	d, err := read(f.o.FS, f.o.Dir, maxReportLog)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if d.Meta.SessionID == "" {
		d.Meta.SessionID = f.o.SessionID
	}
	path := filepath.Join(f.o.Dir, reportFile)
	return reach(&f.o, path, func() error {
		old, err := durable.ReadFile(f.o.FS, path, maxFileBytes)
		switch {
		case errors.Is(err, durable.ErrTooLarge), err == nil && len(bytes.TrimSpace(old)) > 0 && !ours(old):
			err = setAside(&f.o, path)
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
		if err != nil {
			return err
		}
		text := f.o.Redact(string(d.withoutReport().render(facts)))
		return durable.Replace(f.o.FS, path, sealed(text), 0o600)
	})
}

// withoutReport leaves out what the old report says, which the new one
// replaces.
func (d Data) withoutReport() Data {
	d.Report.SessionID, d.Report.Name, d.Report.Date, d.Report.Status = "", "", "", ""
	d.ids = maps.Clone(d.ids)
	delete(d.ids, reportFile)
	d.Files = slices.DeleteFunc(slices.Clone(d.Files), func(n string) bool { return n == reportFile })
	return d
}

const sealPrefix = "<!-- made by ralph from the files of this session: "

// sealed ends a report with a checksum, by which one that somebody edited is
// told.
func sealed(text string) []byte {
	return []byte(text + "\n" + sealPrefix + checksum([]byte(text)) + " -->\n")
}

func ours(report []byte) bool {
	at := bytes.LastIndex(report, []byte("\n"+sealPrefix))
	return at >= 0 && string(bytes.TrimSpace(report[at:])) == sealPrefix+checksum(report[:at])+" -->"
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// page collects the text of a report.
type page struct{ b strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *page) section(title string) { p.line("\n## %s\n", title) }

// items writes a list, or that there is nothing.
func (p *page) items(items []string) {
	for i, item := range items {
		if i == maxListed {
			p.line("- … and %d more", len(items)-maxListed)
			break
		}
		p.line("- %s", item)
	}
	if len(items) == 0 {
		p.line("None recorded.")
	}
}

// inline makes foreign text a part of a line: what Markdown would obey is
// escaped.
func inline(s string) string {
	s = strings.Join(strings.Fields(visible.Line(s)), " ")
	if r := []rune(s); len(r) > maxInline {
		s = string(r[:maxInline-1]) + "…"
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*[]<~&", r),
			i == 0 && strings.ContainsRune(">#+-=", r),
			r == '_' && !(wordAt(s[:i], true) && wordAt(s[i+1:], false)):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// wordAt says that a text ends, or begins, with a letter or a digit: an
// underscore between such begins no emphasis.
func wordAt(s string, last bool) bool {
	r, _ := utf8.DecodeRuneInString(s)
	if last {
		r, _ = utf8.DecodeLastRuneInString(s)
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (d Data) render(facts Facts) []byte {
	p := &page{}
	p.line("# Session Final Report: session-%s\n", inline(d.number()))
	date := "unknown"
	if !d.Meta.Start.IsZero() {
		date = d.Meta.Start.UTC().Format(time.DateOnly)
	}
	name := inline(d.Meta.Name)
	if name == "" {
		name = inline(d.Dir)
	}
	p.line("**Session Name:** %s\n\n**Date:** %s\n\n**Status:** %s", name, date, titled(d.Meta.Status))
	differences := d.Differences()
	p.section("Executive Summary")
	p.line("%s", d.summary())
	if n := len(differences); n > 0 {
		p.line("\nThe files of this session contradict each other in %s; see Raw Data.", count(n, "point"))
	}
	if s := strings.TrimSpace(visible.Text(facts.Summary)); s != "" {
		p.line("\nWhat was said at the end:\n\n%s", strings.TrimSuffix(markdown.Fence(s, "text"), "\n"))
	}
	p.section("Progress")
	d.writeProgress(p)
	p.section("Artifacts Generated")
	p.items(d.artifacts(facts))
	p.section("Metrics")
	p.items(d.metrics())
	p.section("Challenges & Solutions")
	p.items(d.challenges())
	p.section("Lessons Learned")
	p.items(each(slices.Concat(facts.Lessons, d.Log.Lessons)))
	p.section("Next Steps")
	p.items(d.nextSteps(facts))
	p.section("Raw Data")
	d.writeRaw(p, differences)
	return []byte(p.b.String())
}

func each(texts []string) (items []string) {
	for _, t := range texts {
		if t = inline(t); t != "" {
			items = append(items, t)
		}
	}
	return items
}

func titled(status string) string {
	switch statusWord(status) {
	case "in_progress":
		return "In Progress"
	case "completed":
		return "Completed"
	case "paused":
		return "Paused"
	case "error":
		return "Error"
	}
	if s := inline(status); s != "" {
		return s
	}
	return "Unknown"
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// length writes a duration for people.
func length(seconds float64) string {
	if seconds < 60 {
		return number(seconds) + " s"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func (d Data) summary() string {
	m := d.Meta
	var s []string
	when := "When the session began is not recorded."
	if !m.Start.IsZero() {
		when = "The session began at " + moment(m.Start)
		if !m.End.IsZero() {
			when += " and ended at " + moment(m.End) + fmt.Sprintf(" (%s)", length(max(0, m.End.Sub(m.Start).Seconds())))
		} else {
			when += " and has no end yet"
		}
		when += "."
	}
	s = append(s, when)
	if reason := inline(m.ExitReason); reason != "" {
		s = append(s, "It ended because: "+strings.TrimSuffix(reason, ".")+".")
	}
	n := d.tally()
	switch {
	case len(d.Progress.Tasks) > 0:
		s = append(s, fmt.Sprintf("Of %s %d were completed, %d given up and %d left out.", count(len(d.Progress.Tasks), "task"), n[TaskCompleted], n[TaskError], n[TaskSkipped]))
	case m.Total > 0:
		s = append(s, fmt.Sprintf("Of %s %d were completed.", count(m.Total, "task"), m.Completed))
	default:
		s = append(s, "No tasks were recorded.")
	}
	open := 0
	for _, e := range d.Failures {
		if !e.Resolved {
			open++
		}
	}
	if len(d.Failures) == 0 {
		s = append(s, "No errors were recorded.")
	} else {
		s = append(s, fmt.Sprintf("Errors: %d, of which %d were not resolved.", len(d.Failures), open))
	}
	return strings.Join(s, " ")
}

func (d Data) writeProgress(p *page) {
	var items []string
	if phase := cmpText(d.Progress.Progress.CurrentPhase, d.Meta.PhaseName); phase != "" {
		items = append(items, "Phase: "+inline(phase))
	}
	for _, t := range d.Progress.Tasks {
		item := fmt.Sprintf("%s: %s", inline(t.TaskID), inline(string(t.Status)))
		if t.DurationSeconds != nil {
			item += ", " + length(*t.DurationSeconds)
		}
		if t.Result != "" {
			item += ": " + inline(t.Result)
		}
		items = append(items, item)
	}
	for _, m := range d.Progress.Milestones {
		state := "not achieved"
		if m.Achieved {
			state = "achieved"
		}
		items = append(items, fmt.Sprintf("Milestone %s (%s): %s", inline(m.Name), inline(m.Target), state))
	}
	for _, g := range d.Progress.QualityGates {
		state := "not passed"
		if g.Passed {
			state = "passed"
		}
		items = append(items, fmt.Sprintf("Gate %s (%s): %s", inline(g.Name), inline(g.Metric+" "+g.Operator+" "+number(g.Threshold)), state))
	}
	p.items(items)
}

func cmpText(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}

func (d Data) artifacts(facts Facts) []string {
	var items, named []string
	for _, t := range d.Progress.Tasks {
		for _, a := range t.Artifacts {
			items = append(items, inline(a)+" ("+inline(t.TaskID)+")")
			named = append(named, a)
		}
	}
	for _, a := range slices.Concat(facts.Artifacts, d.Log.Artifacts) {
		if !slices.Contains(named, a) {
			items = append(items, each([]string{a})...)
			named = append(named, a)
		}
	}
	if n := len(d.Inventory.Features); n > 0 {
		items = append(items, fmt.Sprintf("[%s](%s): %s", inventoryFile, inventoryFile, count(n, "feature")))
	}
	return items
}

func (d Data) metrics() []string {
	m := d.Meta
	var items []string
	if d.has(metadataFile) {
		items = append(items, "Duration: "+length(m.TotalDuration), "Average task: "+length(m.AverageTask),
			"Success rate: "+number(m.SuccessRate), fmt.Sprintf("Errors: %d", m.Errors),
			fmt.Sprintf("Help requests: %d", m.HelpRequests), fmt.Sprintf("Human interventions: %d", m.Interventions))
	}
	if d.Log.Events > 0 {
		var kinds []string
		for _, t := range slices.Sorted(maps.Keys(d.Log.ByType)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", inline(string(t)), d.Log.ByType[t]))
		}
		items = append(items, fmt.Sprintf("Events: %d (%s)", d.Log.Events, strings.Join(kinds[:min(len(kinds), maxListed)], ", ")))
	}
	if d.Log.Cut {
		items = append(items, fmt.Sprintf("Events: not counted, the log has %d bytes", d.Log.Bytes))
	}
	if n := len(d.Decisions); n > 0 {
		items = append(items, fmt.Sprintf("Decisions: %d", n))
	}
	for _, q := range d.Metrics {
		item := fmt.Sprintf("%s: %s %s", inline(q.Name), number(q.Value), inline(q.Unit))
		item = strings.TrimSpace(item)
		if q.Target != nil {
			item += ", target " + number(*q.Target)
		}
		items = append(items, item+" ("+inline(cmpText(q.Source, "no source"))+")")
	}
	return items
}

func (d Data) challenges() []string {
	var items []string
	for _, e := range d.Failures {
		item := fmt.Sprintf("**%s** %s", inline(cmpText(string(e.Severity), "unknown")), inline(e.ErrorType))
		if e.TaskID != "" {
			item += " in " + inline(e.TaskID)
		}
		item += ": " + inline(e.ErrorMessage)
		switch {
		case e.Resolved && e.ResolutionTimeSeconds != nil:
			item += fmt.Sprintf(" — resolved after %s, %s: %s", length(*e.ResolutionTimeSeconds), count(e.RetryCount, "retry"), inline(cmpText(e.RecoveryAction, "no action recorded")))
		case e.Resolved:
			item += fmt.Sprintf(" — resolved, %s: %s", count(e.RetryCount, "retry"), inline(cmpText(e.RecoveryAction, "no action recorded")))
		default:
			item += fmt.Sprintf(" — not resolved, %s", count(e.RetryCount, "retry"))
		}
		items = append(items, item)
	}
	for _, t := range d.Trips {
		state := "still open"
		if t.Resolved {
			state = "closed again after " + length(t.DurationSeconds)
		}
		items = append(items, fmt.Sprintf("Circuit breaker: %s, so %s; %s", inline(t.Condition), inline(t.ActionTaken), state))
	}
	return items
}

func (d Data) nextSteps(facts Facts) []string {
	var items []string
	for _, t := range d.Progress.Tasks {
		if !t.Status.over() {
			items = append(items, fmt.Sprintf("Go on with %s (%s)", inline(t.TaskID), inline(string(t.Status))))
		}
	}
	for _, g := range d.Progress.QualityGates {
		if !g.Passed {
			items = append(items, "Pass the gate "+inline(g.Name))
		}
	}
	return append(items, each(facts.NextSteps)...)
}

func (d Data) writeRaw(p *page, differences []Difference) {
	var items []string
	for _, name := range d.Files {
		items = append(items, fmt.Sprintf("[%s](%s)", name, name))
	}
	p.items(items)
	if len(d.Problems) > 0 {
		p.line("\nCould not be read:\n")
		items = nil
		for _, x := range d.Problems {
			items = append(items, inline(x.File)+": "+inline(x.Err.Error()))
		}
		p.items(items)
	}
	if len(differences) > 0 {
		p.line("\nContradictions, none of them mended:\n")
		items = nil
		for _, x := range differences {
			items = append(items, inline(x.String()))
		}
		p.items(items)
	}
}

var boldLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t>*-]*\*\*(Session Name|Session|Name|Date|Status):?\*\*:?[ \t]*(.*?)[ \t\r]*$`)
})

var titleLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^#[ \t]+Session Final Report:?[ \t]*(.*?)[ \t#\r]*$`)
})

// readReport reads the head of the report that stands there.
func (d *Data) readReport(fsys afero.Fs, dir string, names []string) {
	if !slices.Contains(names, reportFile) {
		return
	}
	d.Files = append(d.Files, reportFile)
	data, err := durable.ReadFile(fsys, filepath.Join(dir, reportFile), maxFileBytes)
	if err != nil {
		d.problem(reportFile, err)
		return
	}
	// The head stands before the first section; what follows may quote anything.
	head, _, _ := strings.Cut(string(data), "\n## ")
	if m := titleLine().FindStringSubmatch(head); m != nil {
		d.Report.SessionID = m[1]
		if strings.HasPrefix(strings.ToLower(m[1]), "session-") {
			d.ids[reportFile] = m[1]
		}
	}
	for _, m := range boldLine().FindAllStringSubmatch(head, -1) {
		switch m[1] {
		case "Date":
			d.Report.Date = m[2]
		case "Status":
			d.Report.Status = m[2]
		default:
			d.Report.Name = m[2]
		}
	}
}
