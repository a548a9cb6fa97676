package work

// Variable is one thing that a template of a task's prompt can name.
type Variable struct {
	Name  string // as it is written: ".Task.Title"
	About string
}

// Variables lists what a template can name, in the order of Facts.
func Variables() []Variable {
	return []Variable{
		{".Task.ID", "the id of the task"},
		{".Task.Title", "its title, one line"},
		{".Task.Description", "its description, Markdown; may be empty"},
		{".Task.Criteria", "its acceptance criteria: each has .Text and .Done"},
		{".Task.Kind", "task, bug, feature or chore; may be empty"},
		{".Task.Phase", "the id of its phase"},
		{".Task.Epic", "the id of its epic"},
		{".Task.Labels", "a list"},
		{".Task.Priority", "0 is the most urgent"},
		{".Task.Check", "the command that proves it"},
		{".Task.Files", "the files that it should stay in, a list"},
		{".Task.Inputs", "the files that it reads, a list"},
		{".Task.Outputs", "the files that it makes, a list"},
		{".Task.Metrics", "by what its success is seen, a list"},
		{".Task.Notes", "notes of the plan"},
		{".Task.System", "what a yaml plan says under prompts.system"},
		{".Task.Prompt", "what a yaml plan says under prompts.task"},
		{".Task.Fallback", "what to do when it cannot be done, in words"},
		{".Plan.Name", "the name of the plan"},
		{".Plan.Description", "what the plan is about"},
		{".Plan.Branch", "the branch that the plan names"},
		{".Plan.Tracker", "markdown, json, yaml, beads or beads-bv"},
		{".Plan.Path", "the plan's file"},
		{".Plan.Done", "how many tasks are done"},
		{".Plan.Total", "how many tasks there are, epics not counted"},
		{".Phase", "the phase of the plan, in words"},
		{".Iteration", "of the run, from 1; 0 in a preview"},
		{".Attempt", "at this task, from 1"},
		{".Attempts", "the most that there will be; 0: not told"},
		{".LastChecks", "the checks that the last attempt failed: .Command, .ExitCode, .TimedOut, .Output, .Rest, .Bytes"},
		{".LastProblem", "what else the last attempt failed by"},
		{".LastAnswer", "what the agent of the last attempt said at its end"},
		{".Dependencies", "what it builds on, merged already: .ID, .Title, .Result, .Commit, .Files"},
		{".Checks", "the commands that Ralph runs afterwards, a list"},
		{".Gates", "the quality gates: .Name, .Condition, .Check"},
		{".Guidance", "what the user said during this run, a list"},
		{".Progress", "the newest of RALPH_PROGRESS.md"},
		{".Learned", "the newest of AGENT.md"},
		{".External", "true when the agent is another program"},
		{".Promise", "the line by which another program declares the end"},
		{".OwnTree", "true when the agent has a tree of its own"},
	}
}
