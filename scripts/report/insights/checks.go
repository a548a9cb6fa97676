package insights

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"ralph/memory/session/folder"
)

// maxRuns bounds the checks on trees that are remembered; the older half of them
// is forgotten then.
const maxRuns = 40_000

// run is how a check came out on a tree.
type run struct {
	first          mark // of those that came out as the first
	passed, failed uint16
}

// flake is a check that came out both ways on a tree.
type flake struct {
	proof
	check, tree    string
	passed, failed int
}

// checks finds checks that come out both ways.
type checks struct {
	seed     maphash.Seed
	now, old map[uint64]run
	flakes   map[uint64]*flake
	order    []uint64
}

func newChecks() *checks {
	return &checks{seed: maphash.MakeSeed(), now: map[uint64]run{}, flakes: map[uint64]*flake{}}
}

func (c *checks) event(m mark, task string, e folder.Event, d details) {
	c.add(m, task, checkName(e, d), treeOf(d), gateResult(e.Result, d))
}

// checkName is what tells a check from another: everything that names it.
func checkName(e folder.Event, d details) string {
	var parts []string
	for _, k := range []string{"gate", "gatename", "name", "check", "checkname", "command", "cmd", "test", "suite", "metric", "condition"} {
		if s := asText(d.own(k)); s != "" && !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 && e.TaskName != "" {
		parts = append(parts, e.TaskName)
	}
	return strings.Join(parts, ": ")
}

// treeOf is the id of the tree that was checked. That of the tree says more than
// that of a commit.
func treeOf(d details) string {
	return d.text("tree", "treehash", "treeid", "treesha", "gittree", "worktreehash", "worktreeid", "workingtree", "workingtreehash", "snapshot", "snapshotid", "contenthash", "fingerprint",
		"commit", "commithash", "commitid", "commitsha", "gitcommit", "githash", "gitsha", "sha", "revision", "rev", "gitrevision", "head", "githead", "headsha", "headcommit")
}

func gateResult(result string, d details) verdict {
	for _, v := range []any{result, d.own("result", "outcome", "status"), d.own("passed", "success", "ok")} {
		switch o := outcome(asText(v)); o {
		case good, bad, open:
			return o
		}
	}
	if code, ok := d.number("exitcode", "exit", "returncode"); ok {
		if code == 0 {
			return good
		}
		return bad
	}
	return unknown
}

func (c *checks) add(m mark, task, check, tree string, came verdict) {
	if tree == "" || came != good && came != bad {
		return
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.WriteString(check) // never fails
	_ = h.WriteByte(0)          // never fails
	_, _ = h.WriteString(tree)  // never fails
	key := h.Sum64()
	if x := c.flakes[key]; x != nil {
		x.came(m, task, came)
		return
	}
	r, ok := c.now[key]
	if !ok {
		r, ok = c.old[key]
	}
	if !ok {
		r.first = m
	}
	if r.passed > 0 && came == bad || r.failed > 0 && came == good {
		c.found(key, m, task, check, tree, came, r)
		return
	}
	if came == good {
		r.passed = min(r.passed, 1<<15) + 1
	} else {
		r.failed = min(r.failed, 1<<15) + 1
	}
	if c.now[key] = r; len(c.now) >= maxRuns/2 {
		c.old, c.now = c.now, map[uint64]run{}
	}
}

func (c *checks) found(key uint64, m mark, task, check, tree string, came verdict, r run) {
	if len(c.order) >= maxFindings {
		return
	}
	x := &flake{proof: newProof(), check: keep(check), tree: keep(tree), passed: int(r.passed), failed: int(r.failed)}
	x.add(r.first, "")
	x.n = x.passed + x.failed
	x.came(m, task, came)
	c.flakes[key] = x
	c.order = append(c.order, key)
}

func (x *flake) came(m mark, task string, v verdict) {
	x.add(m, task)
	if v == good {
		x.passed++
	} else {
		x.failed++
	}
}

// flaky makes the findings of both files: the journal tells of checks that the
// log does not.
func flaky(both [2]*checks, b *board) (found []Finding) {
	trees := map[string]bool{}
	for i, c := range both {
		for _, key := range c.order {
			x := c.flakes[key]
			if i > 0 && trees[x.tree] {
				continue
			}
			if i == 0 {
				trees[x.tree] = true
			}
			found = append(found, x.finding(flakyCheck, fmt.Sprintf("The check “%s” passed %s and failed %s on the same tree %s.",
				named(cmp.Or(x.check, "(without a name)")), times(x.passed), times(x.failed), named(x.tree))))
		}
	}
	return found
}
