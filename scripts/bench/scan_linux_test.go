package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The scanner finds a leak of each kind by descent alone, and none where there
// is none.
func TestScannerFindsPlantedLeaks(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	scan, err := newScanner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{ctx: t.Context(), dir: scan.dir, stopping: stopping{scan: scan}}
	t.Cleanup(func() {
		if err := scan.clear(); err != nil {
			t.Error(err)
		}
	})
	if list, err := scan.survivors(); err != nil || len(list) > 0 {
		t.Fatalf("before anything was planted: %v %v", list, err)
	}
	if err := l.plant(); err != nil {
		t.Error(err)
	}
}

// A process that the bench started itself is none, until it is not owned.
func TestOwnProcessIsNoSurvivor(t *testing.T) {
	scan, err := newScanner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sleep", "600")
	c.Env = []string{markVariable + "=test"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed
	})
	if err := scan.owns(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if list, err := scan.survivors(); err != nil || len(list) > 0 {
		t.Errorf("own: %v %v", list, err)
	}
	delete(scan.own, c.Process.Pid)
	list, err := scan.survivors()
	if err != nil || len(list) != 1 || list[0].pid != c.Process.Pid || !slices.Contains(list[0].clues, "descent") {
		t.Errorf("not own: %v %v", list, err)
	}
}

func TestLook(t *testing.T) {
	me, ok := look(os.Getpid())
	if !ok || me.parent != os.Getppid() || me.start == 0 || me.dead() {
		t.Errorf("%+v %v", me, ok)
	}
	if _, ok := look(1 << 30); ok {
		t.Error("a process that is not there")
	}
	if !strings.Contains(commandOf(me.pid), "test") {
		t.Errorf("%q", commandOf(me.pid))
	}
}

func TestPercentiles(t *testing.T) {
	var list []float64
	for i := 200; i > 0; i-- {
		list = append(list, float64(i))
	}
	if at(list, 50) != 100 || at(list, 99) != 198 || at(list, 100) != 200 || at(nil, 99) != 0 || at([]float64{7}, 99) != 7 {
		t.Errorf("%v %v %v", at(list, 50), at(list, 99), at(list, 100))
	}
}

func TestPromptStates(t *testing.T) {
	y, err := openTTY()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.close)
	for _, tt := range []struct {
		shown                      string
		echoed, told, rest, atWork bool
	}{
		{"\r\x1b[Kralph ⠋ shell sleep ❯ q", true, false, false, true},
		{"\r\x1b[Kralph ⠋ stopping ❯ q", true, true, false, true},
		{"\r\x1b[Kralph ❯ q", true, true, true, false},
		{"\r\x1b[Kralph ❯ ", false, false, false, false},
		{"\r\x1b[Ksome output", false, false, false, false},
	} {
		if _, err := y.slave.WriteString(tt.shown + "\x1b]0;done\a"); err != nil {
			t.Fatal(err)
		}
		want := tt.shown[len("\r\x1b[K"):]
		<-y.expect(func(y *tty) bool { return y.row(y.model.Cursor().Y) == strings.TrimRight(want, " ") }).at
		y.mu.Lock()
		got := []bool{echoed("q")(y), stopTold("q")(y), atRest("q")(y), atWork(y)}
		y.mu.Unlock()
		if !slices.Equal(got, []bool{tt.echoed, tt.told, tt.rest, tt.atWork}) {
			t.Errorf("%q: echoed, told, rest, at work: %v", tt.shown, got)
		}
	}
}
