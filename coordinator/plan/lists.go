package plan

import (
	"slices"
	"strings"

	"ralph/coordinator/plan/tree"
)

// inner returns the object that has the field with the tasks: root, or one below it.
func (r *reader) inner(root *tree.Node, field func(key string) string, list string) *tree.Node {
	has := func(n *tree.Node) bool {
		return slices.ContainsFunc(n.Pairs, func(p tree.Pair) bool { return field(p.Key) == list && p.Value.Kind == tree.List })
	}
	if root.Kind != tree.Map || has(root) {
		return root
	}
	for _, p := range root.Pairs {
		if p.Value.Kind == tree.Map && has(p.Value) {
			r.warn(p.Value.Line, "", "the plan is read from the object under %q", clip(p.Key))
			return p.Value
		}
	}
	return root
}

// maxDepth bounds how deep lists of tasks are looked for.
const maxDepth = 4

// otherLists faults every list of tasks in a file but the one that is read, under the
// key taken. skip tells what is read already.
func (r *reader) otherLists(root *tree.Node, taken string, skip func(key string, n *tree.Node) bool) {
	var walk func(n *tree.Node, path string, depth int)
	walk = func(n *tree.Node, path string, depth int) {
		for _, p := range n.Pairs {
			v, at := p.Value, strings.TrimPrefix(path+"."+p.Key, ".")
			if depth == maxDepth || skip(p.Key, v) {
				continue
			}
			items := v.Items
			if v.Kind == tree.Map && len(v.Pairs) > 0 && taskLike(v.Pairs[0].Value) {
				items = []*tree.Node{v.Pairs[0].Value} // tasks by their ids
			}
			if slices.ContainsFunc(items, taskLike) {
				r.fault(p.Line, p.Column, "", "the file has two lists of tasks, %q and %q: keep one, or put the other into a file of its own", clip(taken), clip(at))
				continue
			}
			for _, item := range items {
				if p.Key == "phases" || p.Key == "milestones" || p.Key == "epics" {
					break // they group tasks
				}
				if title := titleOf(item); title != "" {
					r.warn(p.Line, "", "the list %q is not read as tasks: %q and what stands beside it are not worked", clip(at), clip(title))
					break
				}
			}
			walk(v, at, depth+1)
			for _, item := range v.Items {
				walk(item, at, depth+1)
			}
		}
	}
	walk(root, "", 0)
}

// taskLike reports whether an object can be nothing but a task.
func taskLike(n *tree.Node) bool {
	if n.Kind != tree.Map {
		return false
	}
	titled, work := false, false
	for _, p := range n.Pairs {
		switch storyField(p.Key) {
		case "passes":
			return p.Value.Kind == tree.Bool
		case "title", "description":
			titled = true
		case "acceptanceCriteria", "steps", "verification", "dependsOn":
			work = true
		}
	}
	return titled && work
}

// titleOf is the title of an object that may be a task: one with an id or a status.
func titleOf(n *tree.Node) string {
	title, sure := "", false
	for _, p := range n.Pairs {
		switch storyField(p.Key) {
		case "title":
			title = p.Value.Text
		case "id", "status":
			sure = true
		}
	}
	if !sure {
		return ""
	}
	return title
}

// unreadKeys warns of keys that have no meaning here and name other tasks.
func (r *reader) unreadKeys(p *Plan, nodes []*tree.Node, field func(key string) string) {
	for i, n := range nodes {
		if i >= len(p.Tasks) {
			return
		}
		for _, pair := range n.Pairs {
			if field(pair.Key) != "" || backward(pair.Key) {
				continue
			}
			texts := []*tree.Node{pair.Value}
			if pair.Value.Kind == tree.List {
				texts = pair.Value.Items
			}
			named := len(texts) > 0 && !slices.ContainsFunc(texts, func(t *tree.Node) bool {
				_, known := p.index[strings.TrimSpace(t.Text)]
				return t.Kind != tree.String || !known || t.Text == p.Tasks[i].ID
			})
			if named {
				r.warnOnce("names "+pair.Key, pair.Line, "%s %s: the key %q names %s and makes it wait for nothing; %s", r.noun, clip(p.Tasks[i].ID), clip(pair.Key), clip(texts[0].Text),
					r.howAfter(texts[0].Text))
			}
		}
	}
}

// backward reports whether a key names tasks that do not come before.
func backward(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"block", "unblock", "child", "relat", "supersede", "duplicate", "follow", "next"} {
		if strings.HasPrefix(key, word) && !strings.HasPrefix(key, "blocked") && !strings.HasPrefix(key, "blockers") {
			return true
		}
	}
	return false
}

// firstSentence is the beginning of a text that can be a title.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for i, c := range text {
		if end := strings.ContainsRune("。！？", c); end || strings.ContainsRune(".!?", c) && (i+1 == len(text) || text[i+1] == ' ') {
			text = text[:i]
			break
		}
	}
	if r := []rune(text); len(r) > 100 {
		text = string(r[:99]) + "…"
	}
	return text
}

// retitle takes the title of an object that has a short name besides; it reports false
// when neither key is that of a title.
func (o *object) retitle(other, p *tree.Pair) bool {
	if other.Key != "title" && p.Key != "title" {
		return false
	}
	o.r.warnOnce("name beside title", p.Line, "%s: has both %q and %q: the title counts", o.who, other.Key, p.Key)
	for k := range o.fields {
		if o.fields[k].field == "title" && p.Key == "title" {
			o.fields[k].pair = p
		}
	}
	return true
}
