package scripts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ralph/memory"
	"ralph/memory/identity"
	"ralph/memory/text"
	"ralph/workers/git"
)

const (
	// lowSpace and lowInodes are the room below which the doctor warns.
	lowSpace  = 512 << 20
	lowInodes = 10000
	// largeState is the size of the state above which the doctor warns.
	largeState = 1 << 30
	// noSpace is the room below which nothing more can be counted on to be saved.
	noSpace = 1 << 20
	// shownParts bounds how many parts of the state are named.
	shownParts = 4
)

// space says how much room the state has and takes.
func (d *doctor) space() {
	sp, err := memory.Measure(nil, d.inv.root)
	if sp.FreeBytes >= 0 {
		content, status, hint := sizeText(sp.FreeBytes)+" free", checkOK, ""
		if sp.FreeInodes >= 0 {
			content += " and room for " + text.Count(int(sp.FreeInodes), "more file")
		}
		if sp.FreeBytes < lowSpace || sp.FreeInodes >= 0 && sp.FreeInodes < lowInodes {
			status, hint = checkWarn, "make room there (df -h, df -i): what cannot be saved is held in memory"
		}
		if sp.FreeBytes < noSpace || sp.FreeInodes == 0 {
			status = checkFail
		}
		d.add("space", status, hint, "%s on the filesystem mounted at %s", content, orWord(sp.Mount, "(not known)"))
	}
	if dir := identity.CheckpointDir(identity.Home(d.inv.Getenv), d.inv.root); dir == "" {
		d.add("checkpoints", checkWarn, "set HOME or RALPH_STATE_DIR", "there is no state directory of the user: nothing can be undone")
	} else if size, err := git.StoreSize(dir); err != nil {
		d.add("checkpoints", checkWarn, "", "%s", err)
	} else {
		d.add("checkpoints", checkOK, "", "%s in %s", sizeText(size), dir)
	}
	parts := slices.SortedFunc(maps.Keys(sp.Parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(sp.Parts[b], sp.Parts[a]), strings.Compare(a, b))
	})
	var named []string
	for i, p := range parts {
		if i == shownParts {
			named = append(named, fmt.Sprintf("and %d more", len(parts)-shownParts))
			break
		}
		named = append(named, p+" "+sizeText(sp.Parts[p]))
	}
	switch {
	case err != nil:
		d.add("size", checkFail, "", "%s", err)
	case len(parts) == 0:
		d.add("size", checkOK, "", "there is no state yet")
	case sp.StateBytes > largeState:
		d.add("size", checkWarn, "ralph sessions archive --dry-run shows what can be packed", "%s in .ralph: %s", sizeText(sp.StateBytes), strings.Join(named, ", "))
	default:
		d.add("size", checkOK, "", "%s in .ralph: %s", sizeText(sp.StateBytes), strings.Join(named, ", "))
	}
}

// files says how the five state files stand; it only looks.
func (d *doctor) files(ctx context.Context) {
	states, err := memory.Inspect(ctx, memory.Options{Root: d.inv.root, Now: d.inv.Now})
	if err != nil {
		d.add("files", checkFail, "ralph recover tells more", "%s", err)
		return
	}
	var good, bad []string
	for _, f := range states {
		switch i := slices.IndexFunc(f.Sources, func(s memory.Source) bool { return s.Kind == "file" }); {
		case f.State == "absent":
		case f.State != "ok":
			content := f.Name + " is " + f.State
			if f.Err != nil {
				content += " (" + f.Err.Error() + ")"
			}
			bad = append(bad, content)
		case f.Name == memory.TasksFile && i >= 0:
			good = append(good, fmt.Sprintf("%s (%s, %d open)", f.Name, text.Count(f.Sources[i].Tasks, "task"), f.Sources[i].Open))
		default:
			good = append(good, f.Name)
		}
	}
	if len(bad) > 0 {
		d.add("files", checkWarn, "ralph recover brings them back from log, backup or git; ralph recover --dry-run only looks", "%s", strings.Join(bad, "\n"))
		return
	}
	d.add("files", checkOK, "", "%s", orWord(strings.Join(good, ", "), "there are none yet"))
}

// holder says who works in the project, without touching its lock.
func (d *doctor) holder() {
	switch h, alive := memory.Locked(nil, d.inv.root); {
	case alive:
		d.add("holder", checkOK, "", "a Ralph is running here: %s", h)
	case h.PID != 0:
		d.add("holder", checkWarn, "ralph recover puts in order what it left; ralph resume goes on with its session", "nobody now; the last Ralph (%s) ended without closing the project", h)
	default:
		d.add("holder", checkOK, "", "nobody works in this project now")
	}
}
