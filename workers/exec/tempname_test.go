package exec

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestLeftover(t *testing.T) {
	mine := TempName("write")
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	theirs := strings.Replace(mine, strconv.Itoa(os.Getpid()), strconv.Itoa(dead.Process.Pid), 1)
	for name, want := range map[string]bool{
		mine: false, theirs: true, theirs + "x": false, "x" + theirs: false, strings.Replace(theirs, "write", "index", 1): false,
		".ralph-write--" + strings.Repeat("A", 26): false, ".ralph-write-0-" + strings.Repeat("A", 26): false, ".ralph-write": false,
	} {
		if got := Leftover(name, "write"); got != want {
			t.Errorf("Leftover(%q) = %v", name, got)
		}
	}
}
