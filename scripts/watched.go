package scripts

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"ralph/coordinator/sessions"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// watched is a session of which somebody wants to know how it stands, and how to
// tell whether anybody still works in it.
type watched struct {
	retention.Session
	dir     string // of its files, absolute
	root    string // of its project, "" when it stands in none
	foreign bool   // it is in a project's state that is somebody else's
	// holder is who worked in it when it was found, if anybody did.
	holder memory.Holder
}

// sessionNamed is the session that a command was told to look at: --session is
// another spelling of its argument. "" means the newest.
func (inv *invocation) sessionNamed(c *cobra.Command, args []string) (string, error) {
	f := c.Flags().Lookup("session")
	if f == nil || !f.Changed {
		if which := strings.Join(args, " "); which != "last" {
			return which, nil
		}
		return "", nil
	}
	named := ""
	if v, ok := f.Value.(*flagValue); ok && len(v.values) > 0 {
		named = strings.TrimSpace(v.values[len(v.values)-1])
	}
	example := "ralph " + c.Name() + " 7 and ralph " + c.Name() + " --session 7 are the same"
	switch {
	case named == "":
		return "", usage(example, "--session needs the id of a session")
	case named == "new":
		return "", usage(example, "--session new: there is nothing to see of a session that is not begun yet")
	case len(args) > 0 && args[0] != named:
		return "", usage(example, "%q and --session %s: name one session", args[0], named)
	case named == "last":
		return "", nil
	}
	return named, nil
}

// watch finds the session that which names, as Sessions.Find does; "" means the
// one that is worked in now, else the newest. It is called after lightly.
func (inv *invocation) watch(which string) (watched, error) {
	if err := inv.unlinked(); err != nil {
		return watched{}, err
	}
	debug.SetMemoryLimit(leanBytes)
	s := inv.quietSessions(inv.root)
	found, dir, err := s.Find(which, inv.Dir)
	if err != nil {
		return watched{}, err
	}
	w := watched{Session: found, dir: dir, root: inv.root}
	if found.ID == "" { // a path
		w.root = projectOf(dir)
		w.ID = numberOf(filepath.Base(dir))
		if w.root != "" && w.ID != "" {
			if own, at, err := inv.quietSessions(w.root).Find(w.ID, w.root); err == nil && samePlace(at, dir) {
				w.Session = own
			}
		}
		w.fromFiles()
	}
	if w.root != "" {
		if h, alive := memory.Locked(nil, w.root); alive && w.Live {
			w.holder = h
		}
	}
	return w, nil
}

// fromFiles takes what the metadata says where the project's list did not say it.
func (w *watched) fromFiles() {
	if w.Status != "" {
		return
	}
	m, err := folder.ReadMeta(durable.Disk(), w.dir)
	if err != nil {
		w.Err = err // told when there is nothing else to tell
	}
	w.ID, w.Status = cmp.Or(w.ID, folder.Number(m.SessionID)), session.Status(m.Status)
	w.Start, w.End, w.ExitReason, w.Done, w.Total = m.Start, m.End, m.ExitReason, m.Completed, m.Total
	w.Name = cmp.Or(m.Name, w.Name)
}

// quietSessions is the hand on the sessions of a project, with the settings that a
// light command has.
func (inv *invocation) quietSessions(root string) *sessions.Sessions {
	return sessions.Open(sessions.Options{Root: root, Config: inv.cfg, RunID: inv.result.RunID, Getenv: inv.Getenv, Now: inv.Now}, inv.warning)
}

// projectOf is the root of the project in whose `.ralph` a directory lies, "" for
// none.
func projectOf(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if filepath.Base(at) == ".ralph" {
			return filepath.Dir(at)
		}
		if filepath.Dir(at) == at {
			return ""
		}
	}
}

// numberOf is the number in the name of a session's directory, "" for none.
func numberOf(name string) string {
	rest, ok := strings.CutPrefix(name, "session-")
	number, _, _ := strings.Cut(rest, "-")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
		return ""
	}
	return number
}

func samePlace(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// over says that nothing of the session can change any more, and how it ended, in
// a sentence. last is the last event of its log, "" for none.
func (w watched) over(last folder.EventType) (string, bool) {
	m, err := folder.ReadMeta(durable.Disk(), w.dir)
	if _, gone := os.Stat(w.dir); os.IsNotExist(gone) {
		return w.title() + " is not there any more: " + w.dir, true
	}
	status := w.Status
	if err == nil {
		status = session.Status(m.Status)
	}
	ended := status == session.Completed || status == session.Failed || status == session.Paused && last == folder.SessionEnd
	how := w.title() + " ended: " + m.Status
	if reason := session.Reason(m.ExitReason); reason != "" && reason != m.Status {
		how += ", " + oneLine(reason, 120)
	}
	if w.holder.PID != 0 {
		h, alive := memory.Locked(nil, w.root)
		there := alive && h.PID == w.holder.PID && h.StartTime == w.holder.StartTime
		switch {
		case there && ended:
			// What it writes last may be on its way.
			return how, last == folder.SessionEnd
		case there:
			return "", false
		case ended || status == session.Paused:
			return how, true
		}
		return w.title() + " reads interrupted: its Ralph is gone", true
	}
	switch {
	case ended, status == session.Paused:
		return how, true
	case w.root != "" && w.Standing() == stateInterrupted:
		return w.title() + " reads interrupted: its Ralph is gone", true
	case w.root != "":
		return w.title() + " is not worked in: " + w.Standing(), true
	case last == folder.SessionEnd:
		return w.title() + " ended", true
	}
	return "", false // nobody knows who works in a folder somewhere
}

// title names the session in a sentence.
func (w watched) title() string {
	if w.ID == "" {
		return "session " + oneLine(filepath.Base(w.dir), 60)
	}
	return "session " + oneLine(w.ID, 40)
}
