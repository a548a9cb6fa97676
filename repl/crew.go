package repl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/permission"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/repl/render"
)

// howAgentsCome is what /agents says while there are none.
const howAgentsCome = "there are no agents yet: Ralph starts some when parts of the work can be done side by side, each in a copy of the project of its own; ask for it, as in \"fix the three failing packages in parallel\""

// active says that an agent works, or will.
func active(a crew.Agent) bool {
	switch a.State {
	case crew.Waiting, crew.Queued, crew.Running, crew.Paused, crew.Stopping:
		return true
	}
	return false
}

// isChild says that an agent is one of the children, and not the coordinator or a
// helper of the conversation.
func isChild(a crew.Agent) bool {
	return a.ID != mainAgent && (a.Task != "" || a.Branch != "" || a.Worktree != "" || a.State == crew.Orphaned)
}

// childrenOf picks the children.
func childrenOf(list []crew.Agent) []crew.Agent {
	var found []crew.Agent
	for _, a := range list {
		if isChild(a) {
			found = append(found, a)
		}
	}
	return found
}

// children is how many work, or wait for their turn, as far as known.
func (s *Shell) children() int {
	n := 0
	for _, a := range s.standing.Agents {
		if isChild(a) && active(a) {
			n++
		}
	}
	return n
}

// known returns the coordinator and all children. It may wait for the disk.
func (s *Shell) known(ctx context.Context) []crew.Agent {
	live := s.mind.Control.Live().Agents
	if s.mind.Crew == nil {
		return together(live, nil)
	}
	found, err := s.mind.Crew.Agents(ctx)
	if err != nil {
		s.post(func() {
			s.ink.say(func(r *render.Renderer) string {
				return r.Warning("agents of earlier sessions may be missing: " + err.Error())
			})
		})
	}
	list := together(live, found)
	s.knows(list)
	return list
}

// together is the coordinator, when it works, and all children: as they are now,
// where that is known.
func together(live, found []crew.Agent) []crew.Agent {
	var list []crew.Agent
	for _, a := range live {
		if a.ID == mainAgent || isChild(a) {
			list = append(list, a)
		}
	}
	for _, a := range found {
		if _, ok := find(list, a.ID); !ok {
			list = append(list, a)
		}
	}
	return list
}

// names are the words that name agents.
func names(list []crew.Agent) []string {
	var words []string
	for _, a := range childrenOf(list) {
		words = append(words, a.ID)
	}
	return words
}

func find(list []crew.Agent, id string) (crew.Agent, bool) {
	i := slices.IndexFunc(list, func(a crew.Agent) bool { return a.ID == id })
	if i < 0 {
		return crew.Agent{}, false
	}
	return list[i], true
}

// noAgent says that there is no agent of that name, and which it may have been.
func (s *Shell) noAgent(id string, list []crew.Agent) {
	hint := "no agent was started yet; /agents says how they come to be"
	words := names(list)
	if word := text.Closest(id, words); word != "" {
		hint = "did you mean " + word + "?"
	} else if len(words) > 0 {
		hint = "there are: " + strings.Join(words[:min(len(words), shownQueue)], ", ")
	}
	s.fail(fmt.Sprintf("there is no agent %q", id), hint)
}

// agents does /agents.
func (s *Shell) agents(args string) {
	words := strings.Fields(args)
	switch {
	case len(words) == 0:
		s.tree()
	case words[0] == "merge" && len(words) == 2:
		s.mergeAgent(words[1])
	case words[0] == "merge":
		s.fail("/agents merge needs the name of one agent", "/agents lists them")
	case words[0] == "prune":
		s.prune(words[1:])
	case len(words) == 1:
		s.agent(words[0])
	default:
		s.fail("/agents "+args+": there is no such thing", "/help agents says what there is")
	}
}

// tree shows all agents.
func (s *Shell) tree() {
	s.aside(func(ctx context.Context) func() {
		list := s.known(ctx)
		return func() {
			if len(names(list)) == 0 {
				s.note(howAgentsCome)
				return
			}
			s.ink.say(func(r *render.Renderer) string { return r.Agents(list, time.Now()) })
		}
	})
}

// agent shows one.
func (s *Shell) agent(id string) {
	s.withAgent(id, func(_ context.Context, a crew.Agent) func() {
		return func() {
			s.ink.say(func(r *render.Renderer) string { return r.Agent(a, time.Now()) })
		}
	})
}

// withAgent does something with an agent that there is, beside the loop.
func (s *Shell) withAgent(id string, f func(context.Context, crew.Agent) func()) {
	s.aside(func(ctx context.Context) func() {
		list := s.known(ctx)
		a, ok := find(list, id)
		if !ok {
			return func() { s.noAgent(id, list) }
		}
		return f(ctx, a)
	})
}

// mergeAgent brings in the work of one, when nothing else runs.
func (s *Shell) mergeAgent(id string) {
	if s.running() != nil {
		s.wait("/agents merge "+id, "/agents merge")
		return
	}
	s.start("merge", false, func(ctx context.Context) func() {
		list := s.known(ctx)
		if _, ok := find(list, id); !ok || s.mind.Crew == nil {
			return func() { s.noAgent(id, list) }
		}
		text, err := s.mind.Crew.Merge(ctx, id)
		return func() {
			if err != nil {
				s.explain(err)
				return
			}
			s.note(text)
		}
	})
}

// diffAgent shows what one changed.
func (s *Shell) diffAgent(id string) {
	s.withAgent(id, func(ctx context.Context, a crew.Agent) func() {
		if s.mind.Trees == nil {
			branch := strings.TrimPrefix(a.Branch, "refs/heads/")
			if branch == "" {
				return func() { s.note(id + " has no branch of its own: its work is in your files") }
			}
			return func() { s.note("git diff HEAD..." + branch + " shows it") }
		}
		text, err := s.mind.Trees.AgentDiff(ctx, id)
		return func() { s.showDiff(text, err, id+" changed nothing") }
	})
}

// resumeAgent lets one agent go on; text is what it is told, "" for nothing.
func (s *Shell) resumeAgent(id, text string) {
	s.withAgent(id, func(context.Context, crew.Agent) func() {
		return func() {
			if s.running() != nil {
				s.wait(strings.TrimSpace("/resume "+id+" "+text), "/resume")
				return
			}
			s.run(coordinator.Job{Task: text, Chat: true, Go: true, Agent: id}, nil)
		}
	})
}

// spent says that nothing is lost with the tree of an agent.
func spent(a crew.Agent) bool {
	return isChild(a) && !active(a) && (a.Landing == crew.Merged || a.Landing == crew.Unchanged)
}

// prune removes what agents left behind, when the user says so: by default only
// what is merged.
func (s *Shell) prune(ids []string) {
	if s.running() != nil {
		s.wait(strings.TrimSpace("/agents prune "+strings.Join(ids, " ")), "/agents prune")
		return
	}
	s.start("prune", false, func(ctx context.Context) func() {
		list := s.known(ctx)
		var gone []crew.Agent
		for _, id := range ids {
			a, ok := find(list, id)
			switch {
			case !ok:
				return func() { s.noAgent(id, list) }
			case active(a):
				return func() { s.fail(id+" is "+string(a.State)+": it is not removed", "/stop "+id+" stops it first") }
			}
			gone = append(gone, a)
		}
		for _, a := range list {
			if len(ids) == 0 && spent(a) {
				gone = append(gone, a)
			}
		}
		if len(gone) == 0 || s.mind.Crew == nil {
			return func() {
				s.note("nothing is left of agents whose work is in; /agents prune AGENT removes one whose work is not")
			}
		}
		return s.pruned(ctx, gone)
	})
}

// pruned asks, and removes.
func (s *Shell) pruned(ctx context.Context, list []crew.Agent) func() {
	text := "Remove the worktrees and branches of these agents?"
	var ids []string
	for _, a := range list {
		what := "its work is merged"
		switch {
		case a.Landing == crew.Unchanged:
			what = "it changed nothing"
		case !spent(a):
			what = "its work is NOT merged and is lost"
		}
		text += fmt.Sprintf("\n%s (%s): %s", a.ID, a.State, what)
		ids = append(ids, a.ID)
	}
	answer, err := s.ask(ctx, permission.Question{Kind: "question", Text: text, Options: []string{"no", "yes"}})
	if err != nil || answer != "yes" {
		return func() { s.note("nothing was removed") }
	}
	ids, err = s.mind.Crew.Prune(ctx, ids)
	return func() {
		if len(ids) > 0 {
			s.note("removed: " + strings.Join(ids, ", "))
		}
		if err != nil {
			s.explain(err)
		}
	}
}

// toAgent sends a line that is addressed to an agent. It reports whether it took
// the line: with the name of the coordinator, or of a file, it does not.
// otherwise takes a line that turns out later to be for none.
func (s *Shell) toAgent(class interrupts.Class, text string, otherwise func()) bool {
	to, rest, ok := slash.Addressed(text)
	if !ok || to == mainAgent {
		return false
	}
	if a, ok := find(s.standing.Agents, to); ok {
		s.tell(class, a, rest)
		return true
	}
	root := s.mind.About.Project().Root
	s.aside(func(ctx context.Context) func() {
		list := s.known(ctx)
		a, ok := find(list, to)
		_, missing := os.Lstat(filepath.Join(root, to))
		return func() {
			switch {
			case ok:
				s.tell(class, a, rest)
			case missing == nil:
				otherwise()
			default:
				s.noAgent(to, list)
			}
		}
	})
	return true
}

// mainAgent is the coordinator's name.
const mainAgent = "ralph"

// tell says something to one agent.
func (s *Shell) tell(class interrupts.Class, a crew.Agent, text string) {
	switch {
	case text == "":
		s.fail("@"+a.ID+": needs what you want to say", "@"+a.ID+": text is delivered after the tool that it runs")
	case !active(a):
		s.fail(fmt.Sprintf("%s is %s: nobody is there to read it", a.ID, a.State), "/resume "+a.ID+" goes on with it, /agents "+a.ID+" shows what came of it")
	default:
		s.speakTo(class, a.ID, text)
	}
}

// interrupted names the agents of earlier sessions that can go on.
func interrupted(list []crew.Agent) string {
	var words []string
	for _, a := range list {
		if isChild(a) && (a.State == crew.Interrupted || a.State == crew.Orphaned) {
			words = append(words, a.ID)
		}
	}
	if len(words) == 0 {
		return ""
	}
	text := "1 agent was interrupted"
	if n := len(words); n > 1 {
		text = fmt.Sprintf("%d agents were interrupted", n)
	}
	return fmt.Sprintf("%s: %s; /agents shows what there is, /resume %s goes on with it", text, render.Brief(strings.Join(words, ", ")), words[0])
}
