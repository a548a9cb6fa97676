package sandbox

import (
	"os"
	"testing"

	"ralph/workers/proc"
)

// TestMain serves as the first process of the namespaces that commands run in, too.
func TestMain(m *testing.M) {
	proc.Init()
	os.Exit(m.Run())
}
