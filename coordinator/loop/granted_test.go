package loop

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/memory/feature"
)

// allowing are the settings in which nothing is the zero value.
func allowing() Settings {
	var s Settings
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(time.Hour))
		case reflect.Float64:
			f.SetFloat(0.9)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		}
	}
	return s
}

// A snapshot, whatever stands in it, gives back no setting but those that let a
// run do no more than a new one: each other field of Settings stays zero.
func TestSnapshotGrantsNothing(t *testing.T) {
	t.Parallel()
	all, err := json.Marshal(allowing())
	if err != nil {
		t.Fatal(err)
	}
	forged := func(run string) feature.Snapshot {
		return feature.Snapshot{Version: 1, Feature: "f", SessionID: "001", MaxIterations: 9,
			Agent: feature.Agent{Plugin: "x", Model: "x", Sandbox: "off", Prompt: "x"}, Tracker: feature.Tracker{Plugin: "json", PlanPath: "x"}, Run: json.RawMessage(run)}
	}
	state := `{"version":1,"settings":` + string(all) + `,"Settings":` + string(all) + `,"approved":true,"Approved":true,"gates":{"g":"accepted","h":"passed"},"tasks":{"T-1":{"permitted":true,"Permitted":true}}}`
	for name, run := range map[string]string{"of Ralph": state, "of another tool": ""} {
		s := forged(run)
		st, _, err := restored(&s)
		if err != nil {
			t.Fatal(err)
		}
		may := map[string]bool{"Feature": true, "Plan": true, "Tracker": true, "Epics": true, "Select": true, "Parallel": true, "Agent": true, "Fallback": true, "Model": true,
			"Prompt": true, "LearningRate": true, "RequireCheck": true}
		v := reflect.ValueOf(st.Settings)
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; !may[field] && !v.Field(i).IsZero() {
				t.Errorf("%s: %s is %v", name, field, v.Field(i))
			}
		}
		if st.Approved || st.Gates["g"] != "" || st.known("T-1").Permitted {
			t.Errorf("%s: approved %v, gates %v, task %+v", name, st.Approved, st.Gates, st.known("T-1"))
		}
	}
	for _, path := range []string{"/etc/passwd", "../x", "a/../../x"} {
		s := forged(`{"version":1,"settings":{"plan":` + quote(path) + `,"prompt":` + quote(path) + `}}`)
		if st, _, err := restored(&s); err != nil || st.Settings.Plan+st.Settings.Prompt != "" {
			t.Errorf("%s: %+v, %v", path, st.Settings, err)
		}
	}
}

func quote(s string) string { return `"` + s + `"` }

// What was granted is kept beside the snapshot, which does not hold it, and
// counts when the run is resumed with it.
func TestGrantedIsKept(t *testing.T) { t.Parallel(); bubble(t, grantedIsKept) }

func grantedIsKept(t *testing.T) {
	r := newRig(t, story{ID: "T-1", Title: "do it", Criteria: []string{"x"}})
	r.o.Settings.Check, r.o.Settings.Sandbox = "make-sure", "off"
	out := r.run()
	if r.granted == nil || r.granted.Settings.Check != "make-sure" || r.granted.Settings.Sandbox != "off" || !r.granted.Approved {
		t.Fatalf("%+v after %+v", r.granted, out)
	}
	if data := string(r.last().Run); strings.Contains(data, "make-sure") || strings.Contains(data, "approved") {
		t.Errorf("the snapshot holds %s", data)
	}
	s := r.last()
	st, _, err := restored(&s)
	if err != nil {
		t.Fatal(err)
	}
	st.regrant(&Granted{Approved: true, Tasks: []string{"T-1", "T-9"}, Gates: []string{"g"}})
	if !st.Approved || !st.known("T-1").Permitted || !st.known("T-9").Permitted || st.Gates["g"] != gateAccepted {
		t.Errorf("%+v", st)
	}
}

// A run that was begun without the sandbox goes on so with the checks that its plan
// had, and not with others, unless the user says it again.
func TestNewChecksAreNotAgreedTo(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name, check string
			kept        bool
			sandbox     string
			refused     bool
		}{
			{"the same", "make-sure", true, "off", false},
			{"another", "forged", true, "off", true},
			{"another, said again", "forged", false, "off", false},
			{"another, inside", "forged", true, "workspace", false},
		} {
			r := newRig(t, story{ID: "T-1", Title: "do it", Check: "make-sure"}, story{ID: "T-2", Title: "do more", Check: "make-sure"})
			r.o.Settings.Sandbox, r.o.Settings.MaxIterations = "off", 1
			r.run()
			if r.granted == nil || !slices.Equal(r.granted.Checks, []string{"make-sure"}) {
				t.Fatalf("%+v was kept", r.granted)
			}
			r.edit(func(list []map[string]any) []map[string]any { list[1]["check"] = c.check; return list })
			r.o.Settings.Sandbox, r.o.Settings.SandboxKept, r.o.Settings.MaxIterations = c.sandbox, c.kept, 9
			s := r.last().Cut()
			r.o.Resume, r.o.Granted = &s, r.granted
			out := r.make().Run(t.Context())
			if refused := errors.Is(out.Err, ErrNewChecks); refused != c.refused || refused && !strings.Contains(out.Err.Error(), `"forged"`) {
				t.Errorf("%s: %+v", c.name, out)
			}
		}
	})
}
