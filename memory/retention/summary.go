package retention

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

const (
	summariesDir    = "sessions/summaries"
	maxSummaryBytes = 32 << 20
	// maxUsageBytes is the largest journal that is read for its usage.
	maxUsageBytes = 256 << 20
	maxNoted      = 20  // decisions, errors and tasks of a session that are named
	maxWords      = 160 // characters of each
)

// The marks around what Ralph writes in a summary; the rest is the user's.
const (
	blockBegin   = "<!-- ralph:summary:begin -->"
	blockEnd     = "<!-- ralph:summary:end -->"
	sectionBegin = "<!-- ralph:session "
)

// Summaries plans the summaries of the quarters in which sessions began that
// have ended, in the archive or not: an Action for each file that would change.
// What it once said of a session whose raw files are deleted, or that is gone,
// is kept as it was; and so is every byte outside of the marked block. Learnings
// are those of AGENT.md in the directory above stateDir. unread has the sessions,
// by id, of which not everything could be read, and AGENT.md: their raw files
// must not be deleted, since the summary does not say yet what is in them.
func Summaries(fsys afero.Fs, stateDir string, st State) (actions []Action, unread map[string]error, err error) {
	unread = map[string]error{}
	quarters := map[string][]Session{}
	for _, s := range st.Sessions {
		if s.Err == nil && !s.Resumable() && !s.Live && !s.Start.IsZero() {
			q := quarter(s.Start)
			quarters[q] = append(quarters[q], s)
		}
	}
	names := make([]string, 0, len(quarters))
	for q := range quarters {
		names = append(names, q)
	}
	slices.Sort(names)
	learned, err := learnings(fsys, filepath.Join(filepath.Dir(stateDir), "AGENT.md"))
	if err != nil {
		unread["AGENT.md"] = err
	}
	for _, q := range names {
		a, err := summarize(fsys, stateDir, q, quarters[q], learned[q], unread)
		if err != nil {
			return actions, unread, fmt.Errorf("summarize %s: %w", q, err)
		}
		if a != nil {
			actions = append(actions, *a)
		}
	}
	return actions, unread, nil
}

// quarter is the quarter of a year in which t lies: 2026-Q4.
func quarter(t time.Time) string {
	return fmt.Sprintf("%04d-Q%d", t.UTC().Year(), (int(t.UTC().Month())+2)/3)
}

// summarize plans the file of one quarter; nil when it says already what it
// would.
func summarize(fsys afero.Fs, stateDir, q string, sessions []Session, learned []string, unread map[string]error) (*Action, error) {
	rel := path.Join(summariesDir, q+".md")
	was, err := durable.ReadFile(fsys, filepath.Join(stateDir, filepath.FromSlash(rel)), maxSummaryBytes)
	if errors.Is(err, fs.ErrNotExist) {
		was, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	before, old, after := splitBlock(was)
	sections := parseSections(old)
	for _, s := range sessions {
		if _, had := sections[s.ID]; had && !s.Deleted.IsZero() {
			continue // more than can be told now
		}
		text, err := section(fsys, stateDir, s)
		if err != nil {
			unread[s.ID] = err
		}
		sections[s.ID] = text
	}
	data := append(append(before, block(sections, learned)...), after...)
	if was == nil {
		head := "# Sessions of " + q + "\n\nWhat stands outside of the marked block is yours: `ralph sessions summarize` keeps it.\n\n"
		data = append([]byte(head), data...)
	}
	if bytes.Equal(was, data) {
		return nil, nil
	}
	why := fmt.Sprintf("%d sessions began in it and have ended", len(sessions))
	if len(sessions) == 1 {
		why = "1 session began in it and has ended"
	}
	return &Action{Kind: Summarize, ID: q, Path: path.Join(".ralph", rel), Bytes: int64(len(data)), Why: why, was: was, data: data}, nil
}

// splitBlock parts a summary into what stands before Ralph's block, the block
// and what follows. Where there is no whole block all of it stands before.
func splitBlock(text []byte) (before, block, after []byte) {
	begin := bytes.LastIndex(text, []byte(blockBegin))
	if begin >= 0 {
		if end := bytes.Index(text[begin:], []byte(blockEnd)); end >= 0 {
			end += begin + len(blockEnd)
			return slices.Clone(text[:begin]), text[begin:end], slices.Clone(text[end:])
		}
	}
	before = slices.Clone(text)
	for len(before) > 0 && !bytes.HasSuffix(before, []byte("\n\n")) {
		before = append(before, '\n')
	}
	return before, nil, []byte("\n")
}

var sectionMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + sectionBegin + `(\d{3,9}) done=(\d+) total=(\d+) tokens=(\d+) cost=([0-9.]*) -->$`)
})

// parseSections finds what a block says of each session.
func parseSections(block []byte) map[string]string {
	sections := map[string]string{}
	id := ""
	for line := range strings.Lines(string(block)) {
		bare := strings.TrimRight(line, "\r\n")
		switch m := sectionMark().FindStringSubmatch(bare); {
		case m != nil:
			id = m[1]
		case bare == blockEnd || bare == "## Learnings":
			id = ""
		}
		if id != "" {
			sections[id] += line
		}
	}
	for id, text := range sections {
		sections[id] = strings.TrimRight(text, "\r\n") + "\n"
	}
	return sections
}

// block joins the sections under their sum.
func block(sections map[string]string, learned []string) []byte {
	ids := make([]string, 0, len(sections))
	for id := range sections {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return number(a) - number(b) })
	var done, total, tokens int64
	var cost float64
	priced := true
	var b strings.Builder
	for _, id := range ids {
		first, _, _ := strings.Cut(sections[id], "\n")
		if m := sectionMark().FindStringSubmatch(first); m != nil {
			done, total, tokens = done+integer(m[2]), total+integer(m[3]), tokens+integer(m[4])
			c, err := strconv.ParseFloat(m[5], 64)
			cost += c
			priced = priced && err == nil
		}
		b.WriteString("\n" + sections[id])
	}
	sum := fmt.Sprintf("%d sessions, %d of %d tasks done, %d tokens", len(ids), done, total, tokens)
	if len(ids) == 1 {
		sum = strings.Replace(sum, "sessions", "session", 1)
	}
	if priced && cost > 0 {
		sum += fmt.Sprintf(", $%.2f", cost)
	}
	text := blockBegin + "\n" + sum + ".\n" + b.String()
	if len(learned) > 0 {
		text += "\n## Learnings\n\n" + strings.Join(learned, "\n") + "\n"
	}
	return []byte(text + blockEnd)
}

func integer(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the pattern lets digits through only
	return n
}

// section tells what came of a session. Its data may be anybody's words.
func section(fsys afero.Fs, stateDir string, s Session) (string, error) {
	dir := filepath.Join(stateDir, filepath.FromSlash(s.Path))
	data, err := folder.Read(fsys, dir)
	spent, uerr := Usage(fsys, dir, maxUsageBytes)
	for _, p := range data.Problems {
		err = errors.Join(err, fmt.Errorf("%s: %w", p.File, p.Err))
	}
	cost := ""
	if spent.CostUSD != nil {
		cost = strconv.FormatFloat(*spent.CostUSD, 'f', 4, 64)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s done=%d total=%d tokens=%d cost=%s -->\n", sectionBegin, s.ID, s.Done, s.Total, spent.Total, cost)
	fmt.Fprintf(&b, "## %s %s\n\n", s.ID, words(s.Name))
	line := fmt.Sprintf("- %s: %s", s.Start.Format("2006-01-02 15:04"), s.Status)
	if d := s.Duration(); d > 0 {
		line += " after " + text.Length(d.Round(time.Second).Seconds())
	}
	if reason := words(s.ExitReason); reason != "" {
		line += " (" + reason + ")"
	}
	fmt.Fprintf(&b, "%s\n- tasks: %d of %d done\n", line, s.Done, s.Total)
	if spent.Total > 0 {
		fmt.Fprintf(&b, "- tokens: %d in, %d out", spent.Input, spent.Output)
		if spent.CostUSD != nil {
			fmt.Fprintf(&b, ", $%.2f", *spent.CostUSD)
		}
		b.WriteByte('\n')
	}
	outcomes(&b, data)
	return b.String(), errors.Join(err, uerr)
}

// outcomes lists tasks, decisions and errors, the newest that fit.
func outcomes(b *strings.Builder, data folder.Data) {
	var tasks, decisions, failures []string
	for _, t := range data.Progress.Tasks {
		line := fmt.Sprintf("- task %s: %s", words(t.TaskID), words(string(t.Status)))
		if r := words(cmp.Or(t.Details, string(t.Result))); r != "" {
			line += ", " + r
		}
		tasks = append(tasks, line)
	}
	for _, d := range data.Decisions {
		line := "- decision: " + words(d.Decision.Action)
		if r := words(d.Decision.Rationale); r != "" {
			line += ", because " + r
		}
		if o := words(d.Outcome); o != "" {
			line += " (" + o + ")"
		}
		decisions = append(decisions, line)
	}
	for _, f := range data.Failures {
		failures = append(failures, "- error: "+words(f.ErrorType+": "+f.ErrorMessage))
	}
	for _, list := range [][]string{tasks, decisions, failures} {
		if n := len(list) - maxNoted; n > 0 {
			fmt.Fprintf(b, "- … %d earlier\n", n)
			list = list[n:]
		}
		for _, line := range list {
			b.WriteString(line + "\n")
		}
	}
}

// words makes somebody's text one short line that no mark of ours can hide in.
func words(s string) string {
	s = text.VisibleLine(strings.Join(strings.Fields(s), " "))
	s = strings.NewReplacer("<!--", "<! --", "-->", "-- >").Replace(s)
	if r := []rune(s); len(r) > maxWords {
		s = string(r[:maxWords-1]) + "…"
	}
	return strings.Trim(s, ": ")
}

var learningHead = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^##\s+(\d{4}-\d{2}-\d{2})\S*\s+-\s+(.+?)\s*$`)
})

// learnings are the entries of AGENT.md by quarter, a line each.
func learnings(fsys afero.Fs, name string) (map[string][]string, error) {
	found := map[string][]string{}
	data, err := durable.ReadFile(fsys, name, maxSummaryBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		m := learningHead().FindStringSubmatch(strings.TrimRight(line, "\r"))
		if m == nil {
			continue
		}
		day, err := time.Parse(time.DateOnly, m[1])
		if err != nil {
			continue
		}
		entry := "- " + m[1] + " " + words(m[2])
		if text := words(learned(lines[i+1:])); text != "" {
			entry += ": " + text
		}
		found[quarter(day)] = append(found[quarter(day)], entry)
	}
	return found, nil
}

// learned is the point of an entry: its learning, or else what happened.
func learned(lines []string) string {
	what := ""
	for i, line := range lines {
		if strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "# ") {
			break
		}
		name, text, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "- "), "**"), "**")
		if !ok {
			continue
		}
		text = strings.TrimSpace(strings.TrimLeft(text, ": "))
		if text == "" && i+1 < len(lines) {
			text = strings.TrimSpace(following(lines[i+1:]))
		}
		switch strings.ToLower(strings.Trim(name, ": ")) {
		case "learning":
			return text
		case "what":
			what = text
		}
	}
	return what
}

// following is the first line that is neither empty nor a fence.
func following(lines []string) string {
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "```") && !strings.HasPrefix(l, "~~~") {
			return l
		}
	}
	return ""
}

// writeSummary puts a summary in place unless the user wrote in it meanwhile.
func writeSummary(fsys afero.Fs, name string, a Action) error {
	if err := durable.MkdirAll(fsys, filepath.Dir(name), 0o700); err != nil {
		return err
	}
	_, err := durable.Swap(fsys, name, a.was, a.data, 0o644)
	return err
}
