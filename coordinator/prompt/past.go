package prompt

// Past is what Ralph tells the model about messages that it does not see.
type Past struct {
	// Title is the first line, by which the message is known.
	Title string
	// Note is one sentence about what is left out.
	Note    string
	Summary string // by the model, of what is left out
	Working string // active files, results of checks, notes, tasks
	// Earlier are excerpts of messages that are left out.
	Earlier []Document
}

// Earlier renders the message that stands for messages which are left out.
func Earlier(p Past) (string, error) { return render("past.md", p) }

// Part is a part of a conversation that is to be summarised.
type Part struct {
	Before string // the summary that the new one takes the place of
	Text   string
	Cut    string // what of the part is not shown, in words
	Words  int    // how long the summary may be
}

// Summarize renders what the model is asked that writes a summary.
func Summarize(p Part) (system, user string, err error) {
	if system, err = render("summarize.md", map[string]any{"Words": p.Words}); err != nil {
		return "", "", err
	}
	user, err = render("part.md", map[string]any{"Before": p.Before, "Part": p.Text, "Cut": p.Cut})
	return system, user, err
}

// Aside renders what the model is asked beside the work.
func Aside(question, state string) (string, error) {
	return render("aside.md", map[string]any{"Question": question, "State": state})
}

// Stopped renders what the model is told of work that the user stopped: while
// they only talk, or, with goes, when it goes on. instruction says that the user
// said what to do instead.
func Stopped(facts string, goes, instruction bool) (string, error) {
	return render("stopped.md", map[string]any{"Facts": facts, "Go": goes, "Instruction": instruction})
}
