package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/plan/tree"
)

// prdForm is prd.json.
func prdForm() form {
	return form{
		name: "json", noun: "story", parse: tree.JSON, read: readPRD, change: changeStory,
		hint: "put it right and check it with: ralph plan check",
	}
}

// prdField gives the field that a key at the top of prd.json means.
func prdField(key string) string {
	switch key {
	case "project", "name", "branchName", "description", "userStories", "qualityGates":
		return key
	case "projectName", "project_name":
		return "project"
	case "title":
		return "name"
	case "branch", "branch_name":
		return "branchName"
	case "overview", "summary":
		return "description"
	case "user_stories", "stories", "tasks", "features":
		return "userStories"
	case "quality_gates":
		return "qualityGates"
	}
	return ""
}

// storyField gives the field that a key of a story means.
func storyField(key string) string {
	switch key {
	case "id", "title", "description", "acceptanceCriteria", "priority", "status", "dependsOn", "passes", "notes", "labels",
		"check", "clean", "agent", "epic", "phase", "type", "effort", "result", "steps", "category", "subtasks", "verification":
		return key
	case "storyId", "story_id", "taskId", "task_id", "key":
		return "id"
	case "name", "summary":
		return "title"
	case "acceptance_criteria", "acceptance", "criteria":
		return "acceptanceCriteria"
	case "depends_on", "dependencies", "blockedBy", "blocked_by", "after", "requires":
		return "dependsOn"
	case "tags":
		return "labels"
	case "subTasks", "sub_tasks", "tasks":
		return "subtasks"
	case "testCommand", "test_command", "verify":
		return "check"
	case "epicId", "epic_id", "parent", "parentId", "parent_id":
		return "epic"
	case "kind", "issueType", "issue_type":
		return "type"
	case "estimate", "estimatedEffort", "estimated_effort":
		return "effort"
	}
	return ""
}

func storyKeys() []string {
	return []string{"id", "title", "description", "acceptanceCriteria", "priority", "status", "dependsOn", "passes", "notes", "labels",
		"dependencies", "depends_on", "acceptance_criteria"}
}

// readPRD reads the forms of prd.json. A story's claim is the last line of its
// notes.
func readPRD(r *reader, t *tree.Tree) (*Plan, []*tree.Node) {
	p := &Plan{}
	list := readPRDTop(r, t.Root, p)
	if list == nil {
		return p, nil
	}
	if !slices.ContainsFunc(list.Items, hasID) && len(list.Items) > 0 {
		r.warn(list.Line, "", "the tasks have no ids: T-1, T-2, … name them by their place, which must stay as it is")
		r.byPlace = true
	}
	p.Tasks = make([]Task, 0, len(list.Items))
	nodes := make([]*tree.Node, 0, len(list.Items))
	deps := make([]*tree.Node, 0, len(list.Items))
	for i, n := range list.Items {
		if n.Kind != tree.Map {
			r.fault(n.Line, n.Column, "", "story %d must be an object, not %s", i+1, n.Kind)
			continue
		}
		task, after := readStory(r, n, i)
		p.Tasks, nodes, deps = append(p.Tasks, task), append(nodes, n), append(deps, after)
	}
	p.epicsByUse()
	r.check(p, func(i int, dep string) int { return dependencyLine(deps[i], dep) })
	r.unreadKeys(p, nodes, storyField)
	return p, nodes
}

func hasID(n *tree.Node) bool {
	return n.Kind != tree.Map || slices.ContainsFunc(n.Pairs, func(p tree.Pair) bool { return storyField(p.Key) == "id" })
}

// readPRDTop reads what stands around the stories and returns their list.
func readPRDTop(r *reader, root *tree.Node, p *Plan) *tree.Node {
	whole := root
	root = r.inner(root, prdField, "userStories")
	switch root.Kind {
	case tree.List:
		return root
	case tree.Map:
	default:
		r.fault(root.Line, root.Column, "", "a plan is an object with userStories, or a list of stories, not %s", root.Kind)
		return nil
	}
	o := r.object(root, "the plan", prdField, []string{"project", "branchName", "description", "userStories", "qualityGates"})
	p.Name, p.Branch, p.Description = cmp.Or(o.text("project"), o.text("name")), o.text("branchName"), o.text("description")
	readGates(r, o.get("qualityGates"), p)
	list := o.get("userStories")
	switch {
	case list == nil:
		keys := make([]string, 0, len(root.Pairs))
		for _, pair := range root.Pairs[:min(len(root.Pairs), 12)] {
			keys = append(keys, clip(pair.Key))
		}
		if len(keys) == 0 {
			keys = []string{"none"}
		}
		r.fault(root.Line, root.Column, "", "the plan has no userStories; its keys: %s", strings.Join(keys, ", "))
	case list.Kind != tree.List:
		r.fault(list.Line, list.Column, "", "%s must be a list, not %s", o.key("userStories"), list.Kind)
		list = nil
	default:
		r.otherLists(whole, o.key("userStories"), func(key string, n *tree.Node) bool {
			return n == list || n != root && prdField(key) != "" && prdField(key) != "userStories"
		})
	}
	return list
}

func readStory(r *reader, n *tree.Node, i int) (Task, *tree.Node) {
	o := r.object(n, r.who(n, i, storyField, "id"), storyField, storyKeys())
	task := Task{ID: o.readID("id"), File: r.file, Line: n.Line}
	o.id = task.ID
	if p := o.pair("id"); r.byPlace {
		task.ID = fmt.Sprintf("T-%d", i+1)
		o.id = task.ID
	} else if p == nil || p.Value.Kind == tree.Null {
		o.fault(n, "has no id")
	}
	task.Title, task.Description = strings.TrimSpace(o.text("title")), o.text("description")
	if task.Title == "" && !o.broken("title") && !o.broken("description") {
		if task.Title = firstSentence(task.Description); task.Title == "" {
			o.fault(n, "has no title")
		} else {
			r.warnOnce("title", n.Line, "%s: has no title; it is the first sentence of its description", o.who)
		}
	}
	task.Criteria = slices.Concat(o.criteria("acceptanceCriteria"), o.criteria("steps"), o.criteria("verification"), o.criteria("subtasks"))
	task.Priority, task.Labels = o.priority("priority"), o.list("labels", true, "name")
	if category := strings.TrimSpace(o.text("category")); category != "" && !slices.Contains(task.Labels, category) {
		task.Labels = append(task.Labels, category)
	}
	task.After = dedupe(o.list("dependsOn", true, "id", "task_id", "story"))
	task.Check, task.Agent, task.Epic, task.Phase = o.text("check"), o.text("agent"), strings.TrimSpace(o.text("epic")), o.text("phase")
	task.Clean = o.yes("clean")
	task.Kind, task.Effort, task.Result = o.kind("type"), o.text("effort"), o.text("result")
	task.Notes, task.Assignee = cutClaim(o.text("notes"))
	task.Status = o.passes()
	if task.Status != InProgress {
		task.Assignee = ""
	}
	return task, o.get("dependsOn")
}

// broken reports whether a field has a value of the wrong kind, which was told.
func (o *object) broken(field string) bool {
	n := o.get(field)
	return n != nil && n.Kind != tree.String && n.Kind != tree.Number
}

func dedupe(ids []string) []string {
	out := ids[:0]
	for _, id := range ids {
		twice := false
		for _, have := range out {
			twice = twice || have == strings.TrimSpace(id)
		}
		if !twice {
			out = append(out, strings.TrimSpace(id))
		}
	}
	return out
}

// passes reads how a story stands: passes counts, and status tells what an open
// story is at.
func (o *object) passes() Status {
	s, told := o.status("status")
	p := passesPair(o.n)
	if p == nil || p.Value.Kind == tree.Null {
		return s
	}
	n := p.Value
	if p.Key != "passes" {
		o.r.warnOnce("key "+p.Key, p.Line, "the key %q is read as %q", p.Key, "passes")
	}
	if n.Kind != tree.Bool {
		o.fault(n, "passes must be true or false, not %s", told2(n))
		return s
	}
	done := n.Text == "true"
	if told && done != (s == Done) && (done || s == Done) {
		if !done || s != Pending {
			o.warn(n, "passes is %s but status is %q: passes counts", n.Text, clip(o.get("status").Text))
		}
	}
	switch {
	case done:
		return Done
	case s == Done:
		return Pending
	}
	return s
}

// passesPair finds the pair that says whether a story is done: passes, or true or false under
// another name. It returns nil when there is none.
func passesPair(n *tree.Node) *tree.Pair {
	for _, key := range [...]string{"passes", "passed", "done", "completed", "complete"} {
		for i := range n.Pairs {
			if p := &n.Pairs[i]; p.Key == key && (key == "passes" || p.Value.Kind == tree.Bool) {
				return p
			}
		}
	}
	return nil
}

func told2(n *tree.Node) string {
	if n.Kind == tree.String {
		return told(n) + " in quotes"
	}
	return told(n)
}

// claimMark begins the line of a story's notes that says who has claimed it.
const claimMark = "ralph: claimed by "

// cutClaim splits the claim off a story's notes.
func cutClaim(notes string) (rest, actor string) {
	at := strings.LastIndex(notes, claimMark)
	if at < 0 || at > 0 && notes[at-1] != '\n' || strings.Contains(notes[at:], "\n") {
		return notes, ""
	}
	return strings.TrimSuffix(notes[:at], "\n"), strings.TrimSpace(notes[at+len(claimMark):])
}

// changeStory says what a mark changes of a story: passes, status and notes, as
// the words of prd.json go. A story that is given up is open, with a note.
func changeStory(t *Task, n *tree.Node, m Mark) ([]tree.Change, error) {
	notes := t.Notes
	word := "open"
	switch m.Status {
	case InProgress:
		if err := claim(t, m.Actor); err != nil {
			return nil, err
		}
		word = "in_progress"
	case Done:
		word = "done"
	case Failed, Skipped:
		notes = addNote(notes, joinWords(string(m.Status), m.Result))
	}
	notes = addNote(notes, m.Note)
	if m.Back != nil {
		notes = m.Back.Notes
	}
	if m.Status == InProgress && m.Actor != "" {
		notes = strings.TrimPrefix(notes+"\n"+claimMark+oneLine(m.Actor), "\n")
	}
	var changes []tree.Change
	if p := passesPair(n); p != nil && p.Value.Kind == tree.Bool {
		changes = append(changes, tree.Change{Key: p.Key, Value: m.Status == Done})
	} else if m.Status == Done {
		changes = append(changes, tree.Change{Key: "passes", Value: true})
	}
	if old := n.Get("status"); old != nil || m.Status == InProgress {
		// A word of the file's own that says the same stays.
		want, _ := statusOf(word)
		have, ok := Pending, old != nil && old.Kind == tree.String
		if ok {
			have, ok = statusOf(old.Text)
		}
		if !ok || have != want {
			changes = append(changes, tree.Change{Key: "status", Value: word})
		}
	}
	if old := n.Get("notes"); notes != "" || old != nil && old.Text != "" {
		if old == nil || old.Text != notes {
			changes = append(changes, tree.Change{Key: "notes", Value: notes})
		}
	}
	return changes, nil
}

func joinWords(word, text string) string {
	if text = oneLine(text); text != "" {
		return word + ": " + text
	}
	return word
}

// addNote puts a line at the end of notes, unless it is the last already.
func addNote(notes, line string) string {
	line = oneLine(line)
	if line == "" || notes == line || strings.HasSuffix(notes, "\n"+line) {
		return notes
	}
	return strings.TrimPrefix(notes+"\n"+line, "\n")
}

// maxNote bounds what one mark adds to a plan.
const maxNote = 500

// oneLine makes foreign text a part of a line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, " ")), " ")
	if r := []rune(s); len(r) > maxNote {
		return string(r[:maxNote]) + "…"
	}
	return s
}
