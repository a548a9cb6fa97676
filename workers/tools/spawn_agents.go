package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/workers/agent"
)

//go:embed spawn_agents.md
var spawnAgentsDoc string

type spawnArgs struct {
	Agents []SpawnAgent `json:"agents"`
}

func (b *box) spawnAgents() spec {
	return define("spawn_agents", spawnAgentsDoc,
		`{"agents":[{"name":"parser","task":"…","check":"go test ./parser"},{"name":"cli","task":"…","after":["parser"]}]}`, agent.EffectState,
		func(ctx context.Context, a spawnArgs) (agent.Result, error) {
			list, err := checkSpawn(a.Agents)
			if err != nil {
				return agent.Result{Failed: true, Brief: "bad arguments"}, fmt.Errorf("spawn_agents: %w; no agent was started", err)
			}
			answer, err := b.Crew.Spawn(ctx, list)
			return b.told("spawn_agents", answer, err)
		})
}

// checkSpawn returns the list in the form that SpawnAgent promises, or what is
// wrong with it.
func checkSpawn(given []SpawnAgent) ([]SpawnAgent, error) {
	switch {
	case len(given) == 0:
		return nil, errors.New("agents is empty: give each one a task")
	case len(given) > maxSpawned:
		return nil, fmt.Errorf("%d agents in one call; %d are allowed: give related work to one agent", len(given), maxSpawned)
	}
	list := slices.Clone(given)
	at := map[string]int{} // the agent of a name, in the call
	for i := range list {
		a := &list[i]
		name, err := agentName(a.Name)
		if err == nil {
			err = checkAgent(a)
		}
		if err != nil {
			return nil, fmt.Errorf("agents[%d]%s: %w", i, called(a.Name), err)
		}
		a.Name = name
		if name == "" {
			continue
		}
		if first, taken := at[name]; taken {
			return nil, fmt.Errorf("agents[%d] and agents[%d] are both named %s: give each its own name", first, i, name)
		}
		at[name] = i
	}
	for i := range list {
		list[i].After = afterNames(list[i].After, at)
	}
	if cycle := findCycle(list, at); len(cycle) == 1 {
		return nil, fmt.Errorf("%s cannot be after itself", cycle[0])
	} else if len(cycle) > 1 {
		return nil, fmt.Errorf("these agents would wait for each other for ever: %s", strings.Join(append(cycle, cycle[0]), " after "))
	}
	return list, nil
}

func called(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", cutText(name, 60))
}

func checkAgent(a *SpawnAgent) error {
	if err := handed("task", a.Task); err != nil {
		return err
	}
	a.Check = strings.TrimSpace(a.Check)
	a.Files = slices.DeleteFunc(slices.Clone(a.Files), func(f string) bool { return strings.TrimSpace(f) == "" })
	switch {
	case a.Check != "" && handed("check", a.Check) != nil:
		return handed("check", a.Check)
	case len(a.Files) > maxHints:
		return fmt.Errorf("files has %d globs; %d are allowed: name directories", len(a.Files), maxHints)
	}
	return nil
}

// agentName makes a name of what the model called an agent: it becomes a branch,
// a directory and what the user types.
func agentName(given string) (string, error) {
	var name strings.Builder
	for _, r := range strings.ToLower(given) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			name.WriteRune(r)
		case name.Len() > 0 && !strings.HasSuffix(name.String(), "_"):
			name.WriteByte('_')
		}
		if name.Len() == maxNameBytes {
			break
		}
	}
	made := strings.TrimRight(name.String(), "_")
	if made == "" && strings.TrimSpace(given) != "" {
		return "", errors.New("a name is made of a-z, 0-9 and _, for example implement_auth")
	}
	return made, nil
}

// afterNames brings each of after to the form of a name in the call, when it is
// one of those, and drops doubles. Names that came as one text are taken apart.
func afterNames(after []string, at map[string]int) []string {
	var all []string
	add := func(word string) {
		word = strings.TrimPrefix(strings.TrimSpace(word), "@")
		if name, err := agentName(word); err == nil {
			if _, here := at[name]; here {
				word = name
			}
		}
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	for _, word := range after {
		if name, _ := agentName(word); name != "" {
			if _, here := at[name]; here {
				add(word)
				continue
			}
		}
		for part := range strings.SplitSeq(word, ",") {
			add(part)
		}
	}
	return all
}

// findCycle returns the names of agents of the call of which each is after the
// next and the last after the first; nil when there is no such circle. One name
// is an agent that is after itself.
func findCycle(list []SpawnAgent, at map[string]int) []string {
	const (
		unseen = iota
		open   // on the path
		closed // leads to no circle
	)
	state := make([]int, len(list))
	var path []string
	var visit func(i int) []string
	visit = func(i int) []string {
		state[i], path = open, append(path, list[i].Name)
		for _, name := range list[i].After {
			j, here := at[name]
			switch {
			case !here || state[j] == closed:
			case state[j] == open:
				return slices.Clone(path[slices.Index(path, name):])
			default:
				if cycle := visit(j); cycle != nil {
					return cycle
				}
			}
		}
		state[i], path = closed, path[:len(path)-1]
		return nil
	}
	for i := range list {
		if state[i] == unseen {
			if cycle := visit(i); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}
