package prompt

// Child is what came of an agent, for the one that asked for it. Its texts are
// the child's own words: they are fenced.
type Child struct {
	ID, Standing    string
	Problem, Result string
	Cut             bool // Result was cut off
	Files           []string
	Branch, Commit  string
}

// Children renders what came of agents; left is how many are still at work.
func Children(list []Child, left int) (string, error) {
	return render("children.md", map[string]any{"List": list, "Left": left})
}

// Said is what one agent tells another. Its text is fenced.
type Said struct{ From, Text string }

// FromAgents renders what an agent is told by others.
func FromAgents(said []Said) (string, error) {
	return render("said.md", map[string]any{"Said": said})
}

// ChildResumed renders what a stopped agent is told when it goes on; text is
// what the user adds, "" for nothing.
func ChildResumed(text string) (string, error) {
	return render("resumed.md", map[string]any{"Text": text})
}

// Resolve renders the task of the agent that resolves the conflict of another.
func Resolve(id, task string, files []string) (string, error) {
	return render("resolve.md", map[string]any{"ID": id, "Task": task, "Files": files})
}

// Assignment is what an agent is told with its task.
type Assignment struct {
	ID, Parent, Task string
	Check            string   // that has to pass, "" for none
	Hints            []string // files that it should stay in
	OwnTree          bool     // it has a tree of its own
	Helpers          bool     // it may have agents of its own
	// Planned says that Task is that of a plan, and tells all but who the agent is.
	Planned bool
}

// Assign renders the first message of an agent.
func Assign(a Assignment) (string, error) { return render("assign.md", a) }
