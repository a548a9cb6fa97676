package scripts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// logSink brings events out in the form that was asked for. Its buffer is flushed
// by whoever waits for more.
type logSink struct {
	form string
	out  *output
	w    *bufio.Writer
	text logText
	some bool // of the list in a document
	head logsDocument
}

// logsDocument is `ralph logs --output json`, ralph.logs/1, without its events.
type logsDocument struct {
	Type    string     `json:"type"`
	Schema  string     `json:"schema"`
	Root    *string    `json:"project_root"`
	Session *string    `json:"session_id"`
	Path    string     `json:"path"`
	Where   *string    `json:"where"`
	Since   *time.Time `json:"since"`
	Until   *time.Time `json:"until"`
	Tail    *int       `json:"tail"`
}

// logsTail is what follows the events in the document. It is known only then: what
// goes wrong in the middle stands here too, so that there is one whole document.
type logsTail struct {
	OK         bool     `json:"ok"`
	Error      *Failure `json:"error"`
	Matched    int      `json:"matched"`
	Read       int      `json:"read"`
	Skipped    int      `json:"skipped"`
	Unanswered int      `json:"unanswered"`
	Warnings   []string `json:"warnings"`
}

// logLine is an event as JSON: the fields that it has in the log, and its id.
type logLine struct {
	ID       string         `json:"id"`
	Time     *time.Time     `json:"timestamp"` // null when the log does not say it
	Type     string         `json:"event_type"`
	TaskID   string         `json:"task_id,omitempty"`
	TaskName string         `json:"task_name,omitempty"`
	Result   string         `json:"result,omitempty"`
	Seconds  *float64       `json:"duration_seconds,omitempty"`
	Details  map[string]any `json:"details"`
}

func (inv *invocation) newLogSink(w watched, f *logsFlags) *logSink {
	s := &logSink{form: inv.form, out: inv.out, w: bufio.NewWriterSize(inv.out, 64<<10)}
	s.text = logText{colour: inv.coloured(), columns: columnsOf(inv.out.w)}
	if w.Live { // what comes is seen as it comes, and only then what is asked for
		s.text.taskWidth = 6
	}
	s.head = logsDocument{Type: "logs", Schema: "ralph.logs/1", Root: optional(w.root), Session: optional(folder.SessionID(w.ID)), Path: w.dir, Where: optional(f.where)}
	if filter, err := f.filter(inv.Now()); err == nil {
		s.head.Since, s.head.Until = instant(filter.since), instant(filter.until)
	}
	if f.tail >= 0 {
		s.head.Tail = &f.tail
	}
	return s
}

// coloured says whether what goes to standard output has colours.
func (inv *invocation) coloured() bool {
	return inv.out.terminal && inv.Getenv("NO_COLOR") == "" && inv.Getenv("TERM") != "dumb"
}

// put brings out one event.
func (s *logSink) put(e logEntry) error {
	switch s.form {
	case outputJSON:
		line, err := s.json(e)
		if err != nil {
			return err
		}
		if s.some {
			s.write(",")
		} else if err := s.begin(); err != nil {
			return err
		}
		s.some = true
		s.write(line)
	case outputJSONL:
		line, err := s.json(e)
		if err != nil {
			return err
		}
		s.write(line + "\n")
	default:
		s.write(s.text.line(e) + "\n")
	}
	return s.out.trouble()
}

func (s *logSink) json(e logEntry) (string, error) {
	line, err := encode(e.document())
	if err != nil {
		return "", broken("internal", "", err, "encode event %s", e.id)
	}
	return string(line), nil
}

func (e logEntry) document() logLine {
	l := logLine{ID: e.id, Time: instant(e.Time), Type: string(e.Type), TaskID: e.TaskID, TaskName: e.TaskName, Result: e.Result, Details: e.Details}
	if e.Duration != 0 {
		seconds := float64(e.Duration.Milliseconds()) / 1000
		l.Seconds = &seconds
	}
	if l.Details == nil {
		l.Details = map[string]any{}
	}
	return l
}

// entry is the event of a line again.
func (l logLine) entry() logEntry {
	e := folder.Event{Type: folder.EventType(l.Type), TaskID: l.TaskID, TaskName: l.TaskName, Result: l.Result, Details: l.Details}
	if l.Time != nil {
		e.Time = *l.Time
	}
	if l.Seconds != nil {
		e.Duration = time.Duration(*l.Seconds * float64(time.Second))
	}
	return logEntry{e, l.ID}
}

func (s *logSink) write(text string) { _, _ = s.w.WriteString(text) } // the output keeps the error

// begin writes what stands before the events of the document.
func (s *logSink) begin() error {
	head, err := encode(s.head)
	if err != nil {
		return broken("internal", "", err, "encode the document")
	}
	s.write(strings.TrimSuffix(string(head), "}") + `,"events":[`)
	return nil
}

// flush brings out what is gathered.
func (s *logSink) flush() error {
	_ = s.w.Flush() // the output keeps the error
	return s.out.trouble()
}

// close ends the document.
func (s *logSink) close(l *logScan) error {
	if s.form == outputJSON {
		if !s.some {
			if err := s.begin(); err != nil {
				return err
			}
		}
		if err := s.finish(l, nil); err != nil {
			return err
		}
	}
	s.out.half = nil
	return s.flush()
}

// finish writes what stands behind the events of the document.
func (s *logSink) finish(l *logScan, failure *Failure) error {
	rest, err := encode(logsTail{OK: failure == nil, Error: failure, Matched: l.matched, Read: l.seen, Skipped: l.reader.Skipped(), Unanswered: l.filter.unanswered,
		Warnings: orEmpty(l.inv.result.Warnings)})
	if err != nil {
		return broken("internal", "", err, "encode the document")
	}
	s.write("]," + strings.TrimPrefix(string(rest), "{") + "\n")
	return nil
}

// half ends what is begun when something goes wrong: a document tells it, lines are
// whole.
func (s *logSink) half(l *logScan, failure *Failure) (told bool) {
	if s.form == outputJSON {
		told = s.some && s.finish(l, failure) == nil
	}
	_ = s.flush() // the output keeps the error
	return told
}

// logText makes lines of events. The columns grow with what stands in them.
type logText struct {
	colour              bool
	columns             int // of the terminal; 0: lines are whole
	idWidth, taskWidth  int
	typeWidth, endWidth int
}

// line is an event as people read it: time, id, type, task, how it ended and the
// rest. Foreign text is shown, never obeyed, and stays on the line.
func (t *logText) line(e logEntry) string {
	stamp, layout := "-", "2006-01-02T15:04:05.000Z"
	switch {
	case t.columns == 0:
	case t.columns >= 100:
		layout = "2006-01-02 15:04:05"
	default:
		layout = "15:04:05"
	}
	if !e.Time.IsZero() {
		stamp = e.Time.UTC().Format(layout)
	}
	end := oneLine(e.Result, 400)
	if e.Duration != 0 {
		end = strings.TrimSpace(end + " " + secondsText(e.Duration))
	}
	kind, task := oneLine(string(e.Type), 40), oneLine(e.TaskID, 60)
	cells := []string{
		fixed(stamp, len(layout)), padded(e.id, &t.idWidth, 5, 9), t.paint(eventColour(e.Event), padded(kind, &t.typeWidth, 14, 20)),
		padded(orWord(task, "-"), &t.taskWidth, 4, 16), padded(orWord(end, "-"), &t.endWidth, 6, 18),
	}
	line := strings.Join(cells, "  ")
	if about := aboutText(e.Event); about != "" {
		line += "  " + about
	}
	line = strings.TrimRight(line, " ")
	if t.columns > 0 {
		line = cutTo(line, t.columns)
	}
	return line
}

// secondsText is how long something took, exactly enough for a log.
func secondsText(d time.Duration) string {
	if d < 0 || d >= 10*time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + "s"
}

func fixed(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-width(text)))
}

// padded fills a cell up to the width of its column, which grows with it up to a
// bound.
func padded(text string, column *int, least, most int) string {
	*column = max(*column, least, min(width(text), most))
	return fixed(text, *column)
}

// aboutText is the name of the task and the details, sorted by key; what says
// nothing is left out.
func aboutText(e folder.Event) string {
	var words []string
	if e.TaskName != "" {
		words = append(words, oneLine(e.TaskName, 400))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Details)) {
		if value := valueText(e.Details[key]); value != "" {
			words = append(words, text.VisibleLine(key)+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// valueText is the value of a detail: a word as it is, a text in quotes, anything
// deeper as JSON; "" for nothing.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v == "" {
			return ""
		}
		if strings.ContainsAny(v, " \t\n\"=,") {
			return text.VisibleLine(asText(v))
		}
		return text.VisibleLine(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		if len(v) == 0 {
			return ""
		}
	case map[string]any:
		if len(v) == 0 {
			return ""
		}
	}
	line, err := encode(v)
	if err != nil {
		return text.VisibleLine(fmt.Sprint(v))
	}
	return text.VisibleLine(string(line))
}

// asText is a text as a JSON string, without the escapes that only HTML needs.
func asText(text string) string {
	line, err := encode(text)
	if err != nil || !json.Valid(line) {
		return strconv.Quote(text)
	}
	return string(line)
}

// The colours of events, as SGR parameters.
const (
	colourBad  = "31"
	colourWarn = "33"
	colourGood = "32"
	colourHead = "1"
	colourSoft = "2"
)

// eventColour is the colour of an event's type, "" for none.
func eventColour(e folder.Event) string {
	bad := strings.HasPrefix(e.Result, "fail") || e.Result == "error"
	switch e.Type {
	case folder.Errored:
		return colourBad
	case folder.Retried, folder.Interrupted, folder.Tripped:
		return colourWarn
	case folder.TaskComplete, folder.GateChecked:
		if bad {
			return colourBad
		}
		return colourGood
	case folder.SessionStart, folder.SessionEnd, folder.PhaseStart, folder.PhaseComplete:
		return colourHead
	}
	return ""
}

func (t *logText) paint(colour, text string) string { return painted(t.colour, colour, text) }

// painted gives text a colour where there are any.
func painted(on bool, colour, text string) string {
	if !on || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
