package beads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// validID says that a text can be given to bd as an id: not a flag, not a
// pattern, not nothing (which bd takes for the issue that was touched last).
func validID(id string) bool {
	if id == "" || len(id) > 200 || id[0] == '-' {
		return false
	}
	for _, r := range id {
		ok := r == '-' || r == '_' || r == '.' || r == ':' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !ok {
			return false
		}
	}
	return true
}

// checked refuses what bd would take for something else, and makes sure that bd
// and its data are what they should be before anything is changed.
func (c *Client) checked(ctx context.Context, op, id, actor string) error {
	if !validID(id) {
		return &Error{Op: op, Path: c.data.Dir, Err: fmt.Errorf("%w: %q is no id", ErrNoIssue, id)}
	}
	if actor == "" || strings.HasPrefix(actor, "-") || strings.ContainsAny(actor, "\x00\n\r") {
		return &Error{Op: op, Path: c.data.Dir, Err: fmt.Errorf("%q is no name of an actor", actor)}
	}
	_, err := c.Version(ctx)
	return err
}

// change runs a call that changes one issue and gives it as bd shows it then; ok
// is false when bd does not show it.
func (c *Client) change(ctx context.Context, op, actor, id string, args ...string) (i Issue, a answer, ok bool, err error) {
	c.mu.Lock()
	c.unread = false // what was read before is not what is read after
	c.mu.Unlock()
	a, err = c.call(ctx, op, actor, args...)
	if err != nil || a.exit != 0 {
		return Issue{}, a, false, err
	}
	i, ok = pick(a.stdout, id)
	return i, a, ok, nil
}

// pick finds an issue in what bd said: an object, a list of them, or the
// {"closed": [...]} of some calls.
func pick(stdout []byte, id string) (Issue, bool) {
	stdout = bytes.TrimSpace(stdout)
	var list []Issue
	if json.Unmarshal(stdout, &list) != nil {
		var o struct {
			Issue
			Closed []Issue `json:"closed"`
		}
		if json.Unmarshal(stdout, &o) != nil {
			return Issue{}, false
		}
		list = append(o.Closed, o.Issue)
	}
	for _, i := range list {
		if i.ID == id {
			return i, true
		}
	}
	return Issue{}, false
}

// shown is an issue as show gives it. Its dependencies are whole issues there
// and are left out here.
type shown struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	Assignee    string `json:"assignee"`
	CloseReason string `json:"close_reason"`
}

// now is an issue as it stands. A snapshot of which the files of the database say
// that it holds spares bd the question.
func (c *Client) now(ctx context.Context, op, id string) (shown, error) {
	if i, ok := c.current().find(id); ok {
		return i, nil
	}
	return c.show(ctx, op, id)
}

// changed is an issue as it stands after a change. Whoever works by snapshots needs
// one of the change anyway, and it proves as much as show does.
func (c *Client) changed(ctx context.Context, op, id string) (shown, error) {
	c.mu.Lock()
	tells := c.kept != nil && c.last.before != ""
	c.mu.Unlock()
	if tells {
		if s, err := c.snapshot(ctx); err == nil {
			if i, ok := s.find(id); ok {
				return i, nil
			}
		}
	}
	return c.show(ctx, op, id)
}

func (s *Snapshot) find(id string) (shown, bool) {
	if s != nil {
		for k := range s.Issues {
			if i := &s.Issues[k]; i.ID == id {
				return shown{ID: i.ID, Status: i.Status, Assignee: i.Assignee, CloseReason: i.CloseReason}, true
			}
		}
	}
	return shown{}, false
}

func (c *Client) show(ctx context.Context, op, id string) (shown, error) {
	a, err := c.call(ctx, op, "", "show", id, "--json")
	if err != nil {
		return shown{}, err
	}
	var list []shown
	if a.exit == 0 && json.Unmarshal(a.stdout, &list) == nil {
		for _, i := range list {
			if i.ID == id {
				return i, nil
			}
		}
	}
	return shown{}, c.unproven(op, a)
}

// Claim gives an issue to an actor and puts it to work. It fails with ErrTaken
// when another has it or it is closed, and succeeds when the actor has it
// already: a claim that was cut off can be made again.
//
// Claims of one Client are made one after the other. Against the claim of another
// program at the same moment, which bd 0.x would let both win, the issue is looked
// at once more afterwards: the last one has it.
func (c *Client) Claim(ctx context.Context, id, actor string) error {
	op := "claim " + id
	if err := c.checked(ctx, op, id, actor); err != nil {
		return err
	}
	select {
	case c.claiming <- struct{}{}:
		defer func() { <-c.claiming }()
	case <-ctx.Done():
		return &Error{Op: op, Path: c.data.Dir, Err: context.Cause(ctx)}
	}
	// bd claims closed issues too: it only looks at the assignee.
	before, err := c.now(ctx, op, id)
	if err != nil {
		return err
	}
	if before.Status == "closed" || before.Status == "tombstone" {
		return &Error{Op: op, Path: c.data.Dir, Err: ErrTaken, Said: "it is " + before.Status}
	}
	i, a, ok, err := c.change(ctx, op, actor, id, "update", id, "--claim", "--json")
	if err != nil && !errors.Is(err, ErrSlow) {
		return err
	}
	won := ok && i.Status == "in_progress" && i.Assignee == actor
	now, errShow := c.changed(ctx, op, id)
	switch {
	case errShow != nil:
		return errors.Join(err, errShow)
	case now.Assignee == actor && now.Status == "in_progress":
		return nil
	case won:
		return &Error{Op: op, Path: c.data.Dir, Err: ErrTaken, Said: fmt.Sprintf("at the same moment by %q, it is %s now", now.Assignee, now.Status)}
	case now.Assignee == actor && now.Status == "open":
		// What a release without the assignee has left: bd refuses the claim also to
		// the one who has it.
		return c.update(ctx, op, actor, id, "in_progress", actor)
	case err != nil:
		return err
	}
	return c.unproven(op, a)
}

// update sets status and assignee, and proves it.
func (c *Client) update(ctx context.Context, op, actor, id, status, assignee string) error {
	i, a, ok, err := c.change(ctx, op, actor, id, "update", id, "--status", status, "--assignee", assignee, "--json")
	if err != nil {
		return err
	}
	if !ok || i.Status != status || i.Assignee != assignee {
		return c.unproven(op, a)
	}
	return nil
}

// Release gives an issue back: open, and nobody's. A closed one is opened again.
// Setting the status alone would leave the assignee, and the next claim would
// lose.
func (c *Client) Release(ctx context.Context, id, actor string) error {
	op := "release " + id
	if err := c.checked(ctx, op, id, actor); err != nil {
		return err
	}
	return c.update(ctx, op, actor, id, "open", "")
}

// GiveBack releases an issue unless it is somebody's who is none of ours: whose
// name does not begin as the actor's does, up to the first slash. Then the error
// matches ErrTaken. What is open and nobody's stays as it is.
func (c *Client) GiveBack(ctx context.Context, id, actor string) error {
	op := "release " + id
	if err := c.checked(ctx, op, id, actor); err != nil {
		return err
	}
	now, err := c.now(ctx, op, id)
	if err != nil {
		return err
	}
	house, _, _ := strings.Cut(actor, "/")
	owner, _, _ := strings.Cut(now.Assignee, "/")
	switch {
	case now.Status == "open" && now.Assignee == "":
		return nil
	case now.Assignee != "" && owner != house:
		return &Error{Op: op, Path: c.data.Dir, Err: ErrTaken, Said: "it is " + now.Assignee + "'s now"}
	}
	return c.Release(ctx, id, actor)
}

// Close closes an issue, for good reason; one that is closed already stays as it
// is, with its own reason. bd refuses while issues that block it are open:
// ErrOpenBlockers.
func (c *Client) Close(ctx context.Context, id, reason, actor string) error {
	return c.shut(ctx, id, reason, actor, false)
}

// CloseBlocked is Close of an issue that ours has claimed, also while issues that
// block it are open: they were opened again when it was being worked.
func (c *Client) CloseBlocked(ctx context.Context, id, reason, actor string) error {
	return c.shut(ctx, id, reason, actor, true)
}

func (c *Client) shut(ctx context.Context, id, reason, actor string, force bool) error {
	op := "close " + id
	if err := c.checked(ctx, op, id, actor); err != nil {
		return err
	}
	before, err := c.now(ctx, op, id)
	if err != nil {
		return err
	}
	if before.Status == "closed" {
		return nil
	}
	args := []string{"close", id, "--reason", reason, "--json"}
	house, _, _ := strings.Cut(actor, "/")
	if owner, _, _ := strings.Cut(before.Assignee, "/"); force && before.Status == "in_progress" && owner == house {
		args = append(args, "--force")
	}
	i, a, ok, err := c.change(ctx, op, actor, id, args...)
	if ok && i.Status == "closed" {
		return nil
	}
	if err != nil && !errors.Is(err, ErrSlow) {
		return err
	}
	now, errShow := c.show(ctx, op, id)
	switch {
	case errShow != nil:
		return errors.Join(err, errShow)
	case now.Status == "closed" && now.CloseReason == reason:
		return nil
	case err != nil:
		return err
	}
	return c.unproven(op, a)
}

const maxCommentBytes = 16 << 10

// Comment adds a remark to an issue; more than 16 KiB of it are cut off.
func (c *Client) Comment(ctx context.Context, id, text, actor string) error {
	op := "comment on " + id
	if err := c.checked(ctx, op, id, actor); err != nil {
		return err
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if len(text) > maxCommentBytes {
		text = strings.ToValidUTF8(text[:maxCommentBytes], "") + "…"
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	// Not tried again: a slow call may have done it.
	a, err := c.once(ctx, op, actor, []string{"comments", "add", "--json", "--", id, text})
	if err != nil {
		return err
	}
	var o struct {
		Issue string `json:"issue_id"`
	}
	if a.exit != 0 || json.Unmarshal(a.stdout, &o) != nil || o.Issue != id {
		return c.unproven(op, a)
	}
	return nil
}
