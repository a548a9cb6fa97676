package accesspolicy

import (
	"os"
	"testing"

	"ralph/workers/exec"
)

// TestMain serves as the first process of the namespaces that commands run in, too.
func TestMain(m *testing.M) {
	exec.Init()
	os.Exit(m.Run())
}
