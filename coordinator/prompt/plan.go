package prompt

// PlanFacts is what a conversation that makes a plan is told.
type PlanFacts struct {
	About   string // what the user wants, in their words; "" when they did not say
	Target  string // the file that the plan is written to, relative to the root
	Check   string // the project's check, as detected; "" for none
	Project string // one sentence about the project
	Exists  bool   // Target is there already
}

// PlanCreate renders the opening instruction of a conversation that makes a
// plan: questions first, then a document that ralph plan convert reads whole.
func PlanCreate(f PlanFacts) (string, error) { return render("plan_create.md", f) }
