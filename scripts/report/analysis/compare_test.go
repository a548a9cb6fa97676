package analysis

import (
	"fmt"
	"testing"

	"ralph/memory/session/folder"
)

// run is a session with these tasks and their results.
func run(id string, config map[string]any, tasks ...[3]string) Analysis {
	s := newStory()
	s.log(0, folder.SessionStart, "", "", 0, facts{"model": "m" + id})
	for i, x := range tasks {
		s.c.Event("", folder.Event{Time: at(float64(i)), Type: folder.TaskStart, TaskID: x[0], TaskName: x[1], Details: facts{}})
		if x[2] != "" {
			s.log(float64(i)+10, folder.TaskComplete, x[0], x[2], 0, nil)
		}
	}
	a := s.c.Result(folder.Data{Meta: folder.Meta{SessionID: id}})
	a.Session.Config = config
	return a
}

func TestCompare(t *testing.T) {
	a := run("1", map[string]any{"max_iterations": 3, "same": 1}, [3]string{"T-1", "One", "done"}, [3]string{"T-2", "Two", "failed"}, [3]string{"T-3", "Three", "done"})
	b := run("2", map[string]any{"max_iterations": 3.5, "same": 1.0}, [3]string{"T-1", "one", "done"}, [3]string{"T-2", "Two", "done"}, [3]string{"T-4", "Four", ""})
	c := Compare([]Analysis{a, b})
	if c.Common != 2 || len(c.Tasks) != 1 || c.Changed != 1 || c.Tasks[0].ID != "T-2" || *c.Tasks[0].Outcomes[0] != "error" || *c.Tasks[0].Outcomes[1] != "completed" {
		t.Errorf("%+v", c.Tasks)
	}
	if len(c.Only) != 2 || c.Only[0].N != 1 || c.Only[0].Tasks[0] != "T-3" || c.Only[1].Tasks[0] != "T-4" {
		t.Errorf("%+v", c.Only)
	}
	if got := fmt.Sprint(c.Config); got != "[{max_iterations [3 3.5]} {model [m1 m2]}]" {
		t.Errorf("the settings that differ are %s", got)
	}
	if len(c.Notes) != 0 {
		t.Errorf("%q", c.Notes)
	}
	for _, f := range c.Figures {
		if len(f.Values) != 2 || len(f.Deltas) != 2 || len(f.Percents) != 2 || f.Deltas[0] != nil || f.Percents[0] != nil {
			t.Errorf("%+v", f)
		}
		switch f.Group + " " + f.Name {
		case "tasks failed":
			is(t, f.Name, f.Deltas[1], -1)
			is(t, f.Name+", percent", f.Percents[1], -100)
		case "trouble errors":
			is(t, f.Name, f.Deltas[1], 0)
			is(t, f.Name+", percent", f.Percents[1], nil)
		case "tokens total":
			is(t, f.Name, f.Values[0], nil)
			is(t, f.Name, f.Deltas[1], nil)
		}
	}
}

func TestCompareStrangers(t *testing.T) {
	a, b := run("1", nil, [3]string{"T-1", "One", "done"}), run("2", nil, [3]string{"X-1", "One", "done"})
	if c := Compare([]Analysis{a, b}); c.Common != 0 || len(c.Notes) != 1 || c.Notes[0] != "the sessions have no task in common" {
		t.Errorf("%+v", c.Notes)
	}
	b = run("2", nil, [3]string{"T-1", "Other", "failed"})
	if c := Compare([]Analysis{a, b}); c.Common != 1 || len(c.Tasks) != 1 || len(c.Notes) != 1 {
		t.Errorf("%+v", c)
	}
	if c := Compare([]Analysis{a, a}); len(c.Notes) != 1 || c.Changed != 0 {
		t.Errorf("twice the same: %+v", c.Notes)
	}
	if c := Compare(nil); len(c.Sessions) != 0 || len(c.Notes) != 0 || len(c.Figures) == 0 {
		t.Errorf("none: %+v", c)
	}
	if c := Compare([]Analysis{a}); len(c.Notes) != 0 {
		t.Errorf("one: %+v", c.Notes)
	}
}

func TestCompareIsBounded(t *testing.T) {
	var a, b [][3]string
	for i := range 1000 {
		id := fmt.Sprintf("T-%04d", i)
		a, b = append(a, [3]string{id, "", "done"}), append(b, [3]string{id, "", "failed"})
		a = append(a, [3]string{"A" + id, "", "done"})
	}
	c := Compare([]Analysis{run("1", nil, a...), run("2", nil, b...)})
	if c.Changed != 1000 || len(c.Tasks) != maxChanges || c.Only[0].N != 1000 || len(c.Only[0].Tasks) != maxOnly || c.Common != 1000 {
		t.Errorf("%d %d %d", c.Changed, len(c.Tasks), c.Common)
	}
}
