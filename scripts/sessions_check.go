package scripts

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ralph/memory/retention"
	"ralph/memory/session/check"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// checkDocument is what `ralph sessions check --json` prints.
type checkDocument struct {
	Type        string         `json:"type"`
	Schema      string         `json:"schema"`
	Root        string         `json:"project_root"`
	OK          bool           `json:"ok"`
	Sessions    []checkedEntry `json:"sessions"`
	Differences int            `json:"differences"` // in all
	Warnings    []string       `json:"warnings"`
}

// checkedEntry is one session of it.
type checkedEntry struct {
	ID          string              `json:"session_id"`
	Name        string              `json:"name"`
	Path        string              `json:"path"`
	Live        bool                `json:"live"`
	Events      int                 `json:"events"`
	Records     int                 `json:"records"`
	Differences []folder.Difference `json:"differences"`
	Omitted     int                 `json:"omitted"`
	Notes       []string            `json:"notes"`
}

func (inv *invocation) checkSessionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions check [ID…]",
		Short: "hold the files of sessions against each other",
		Long: "Hold the files of sessions against each other and against themselves: ids, status words, counts, statistics, times and their order, the journal's numbers, features and documents, " +
			"iterations, the snapshot of a run and the registry. Each difference is told with what the two sides say and the events that show it (e17 is the 17th event of the log, j341 the record " +
			"with that number of the journal, d5 a decision, x3 an error); none is mended. Without an ID all sessions of the project are checked. What a session at work has not written yet is no difference.\n" +
			"It exits with 0 when there is none and with 1 when there are.\nExample: ralph sessions check\nExample: ralph sessions check 7 --json | jq '.sessions[].differences[].field'",
		RunE: func(c *cobra.Command, args []string) error { return inv.checkSessions(c, args) },
	}
	return c
}

func (inv *invocation) checkSessions(c *cobra.Command, which []string) error {
	s, err := inv.sessions(c)
	if err != nil {
		return err
	}
	doc := checkDocument{Type: "sessions_check", Schema: "ralph.sessions.check/1", Root: inv.root, Sessions: []checkedEntry{}}
	checked, differing := 0, 0
	err = s.Check(c.Context(), which, inv.fromHere("."), func(x retention.Session, dir string, found check.Report) error {
		n := len(found.Differences) + found.Omitted
		doc.Differences += n
		checked++
		if n > 0 {
			differing++
		}
		if inv.form == outputText {
			return inv.out.print(checkedText(x, found))
		}
		doc.Sessions = append(doc.Sessions, checkedEntry{ID: folder.SessionID(x.ID), Name: x.Name, Path: dir, Live: x.Live, Events: found.Events, Records: found.Records,
			Differences: emptyList(found.Differences), Omitted: found.Omitted, Notes: orEmpty(found.Notes)})
		return nil
	})
	if err != nil {
		return err
	}
	if doc.OK = doc.Differences == 0; !doc.OK {
		inv.code = 1
	}
	if inv.form != outputText {
		doc.Warnings = orEmpty(inv.result.Warnings)
		return inv.out.printJSON(doc)
	}
	if checked == 0 {
		inv.note("no sessions here yet: ralph chat begins one")
	}
	if doc.Differences > 0 {
		inv.note(fmt.Sprintf("%s in %s; none was mended", text.Count(doc.Differences, "difference"), text.Count(differing, "session")))
	}
	return nil
}

// checkedText is one session as people read it; what foreign text there is is
// made visible, a line each.
func checkedText(x retention.Session, found check.Report) string {
	var b strings.Builder
	n := len(found.Differences) + found.Omitted
	says := "no differences"
	if n > 0 {
		says = text.Count(n, "difference")
	}
	what := []string{text.Count(found.Events, "event")}
	if found.Records > 0 {
		what = append(what, text.Count(found.Records, "record"))
	}
	if x.Live {
		what = append(what, "at work: only what cannot change any more was compared")
	}
	fmt.Fprintf(&b, "%s: %s (%s)\n", strings.TrimSpace(x.ID+" "+cell(x.Name, 60)), says, strings.Join(what, ", "))
	for _, d := range found.Differences {
		fmt.Fprintf(&b, "  %s", text.VisibleLine(d.String()))
		if len(d.IDs) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(d.IDs, ", "))
		}
		b.WriteByte('\n')
	}
	if found.Omitted > 0 {
		fmt.Fprintf(&b, "  and %d more\n", found.Omitted)
	}
	for _, note := range found.Notes {
		fmt.Fprintf(&b, "  note: %s\n", text.VisibleLine(note))
	}
	return b.String()
}
