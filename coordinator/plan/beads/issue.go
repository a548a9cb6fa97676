package beads

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dependency is one edge of an issue.
type Dependency struct {
	// On is the issue that it leads to.
	On string `json:"depends_on_id"`
	// Type is blocks, parent-child, related, discovered-from, …
	Type string `json:"type"`
	// Metadata is JSON in a string, for waits-for.
	Metadata string `json:"metadata,omitempty"`
}

// Issue is one issue as bd exports it; what Ralph does not use is left out.
type Issue struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	Design      string    `json:"design,omitempty"`
	Acceptance  string    `json:"acceptance_criteria,omitempty"`
	Notes       string    `json:"notes,omitempty"`
	Status      string    `json:"status"`
	Priority    int       `json:"priority"`
	Type        string    `json:"issue_type"`
	Assignee    string    `json:"assignee,omitempty"`
	Minutes     int       `json:"estimated_minutes,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
	CloseReason string    `json:"close_reason,omitempty"`
	ExternalRef string    `json:"external_ref,omitempty"`
	DeferUntil  time.Time `json:"defer_until,omitzero"`
	Labels      []string  `json:"labels,omitempty"`
	Pinned      bool      `json:"pinned,omitempty"`
	Template    bool      `json:"is_template,omitempty"`

	Dependencies []Dependency `json:"dependencies,omitempty"`

	// Line is where it stands in the file that was read, from 1.
	Line int `json:"-"`
}

// Closed says that nothing waits for it any more.
func (i Issue) Closed() bool { return i.Status == "closed" || i.Status == "tombstone" }

// Parent is the id of the issue that it is a child of, "" for none.
func (i Issue) Parent() string {
	for _, d := range i.Dependencies {
		if d.Type == "parent-child" {
			return d.On
		}
	}
	return ""
}

// same says that two records of an issue mean the same to Ralph; times are left
// aside.
func (i Issue) same(o Issue) bool {
	for _, v := range []*Issue{&i, &o} {
		v.CreatedAt, v.UpdatedAt, v.Line = time.Time{}, time.Time{}, 0
		v.DeferUntil = v.DeferUntil.UTC()
		v.Labels = slices.Sorted(slices.Values(v.Labels))
		v.Dependencies = edges(v.Dependencies)
	}
	a, errA := json.Marshal(i)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// edges are dependencies in order, without metadata that says nothing.
func edges(list []Dependency) []Dependency {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Metadata == "{}" {
			out[i].Metadata = ""
		}
	}
	slices.SortFunc(out, func(a, b Dependency) int {
		return strings.Compare(a.On+"\x00"+a.Type, b.On+"\x00"+b.Type)
	})
	return out
}

// Fault is a line of a JSONL file that cannot be read.
type Fault struct {
	Line int
	Text string
}

const maxLineBytes = 16 << 20

// Parse reads the issues of a JSONL file. A line that is no issue is a fault, a
// record of another type (bd 1.x exports memories too) is passed over, as are
// templates. Of two lines with the same id both are returned.
func Parse(data []byte) (issues []Issue, faults []Fault) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	n := 0
	for scan.Scan() {
		n++
		line := bytes.TrimSpace(scan.Bytes())
		if len(line) == 0 {
			continue
		}
		issue, skip, why := parseLine(line)
		switch {
		case why != "":
			faults = append(faults, Fault{Line: n, Text: why})
		case !skip:
			issue.Line = n
			issues = append(issues, issue)
		}
	}
	if scan.Err() != nil {
		faults = append(faults, Fault{Line: n + 1, Text: fmt.Sprintf("line is longer than %d MiB", maxLineBytes>>20)})
	}
	return issues, faults
}

func parseLine(line []byte) (i Issue, skip bool, why string) {
	for _, mark := range []string{"<<<<<<<", "=======", ">>>>>>>", "|||||||"} {
		if bytes.HasPrefix(line, []byte(mark)) {
			return i, false, "a conflict of git that is not resolved"
		}
	}
	var record struct {
		Kind string `json:"_type"`
		Issue
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return i, false, "is not a record of an issue: " + clip(err.Error())
	}
	i = record.Issue
	switch {
	case record.Kind != "" && record.Kind != "issue":
		return i, true, ""
	case i.ID == "":
		return i, false, "an issue without id"
	case i.Template:
		return i, true, ""
	case i.Status == "":
		i.Status = "open"
	}
	if i.Type == "" {
		i.Type = "task"
	}
	return i, false, ""
}

// stampOf is a fingerprint of what the issues mean, in whatever order they come.
func stampOf(issues []Issue) string {
	sorted := slices.Clone(issues)
	slices.SortFunc(sorted, func(a, b Issue) int { return strings.Compare(a.ID, b.ID) })
	h := sha256.New()
	for _, i := range sorted {
		i.CreatedAt, i.UpdatedAt, i.DeferUntil = i.CreatedAt.UTC(), i.UpdatedAt.UTC(), i.DeferUntil.UTC()
		i.Dependencies = edges(i.Dependencies)
		line, err := json.Marshal(i)
		if err != nil {
			line = []byte(i.ID + i.Status)
		}
		h.Write(append(line, '\n'))
	}
	return "beads:" + hex.EncodeToString(h.Sum(nil)[:12])
}
