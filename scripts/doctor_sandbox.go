package scripts

import (
	"context"
	"fmt"
	"os"
	"strings"

	"ralph/coordinator/policy"
	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// doctorSandbox is what confines commands on this machine.
type doctorSandbox struct {
	Setting  string        `json:"setting"`
	Complete bool          `json:"complete"`
	Layers   []doctorLayer `json:"layers"`
}

type doctorLayer struct {
	Name   string `json:"name"`
	Active bool   `json:"active"`
	Detail string `json:"detail"`
	// Means is what it means that it is missing.
	Means *string `json:"means"`
}

// sandbox tries out what confines commands, and lists what is missing, what that
// means, and the way out. It closes the runner.
func (d *doctor) sandbox(ctx context.Context, runner *exec.Runner) {
	st := accesspolicy.Check(runner)
	if err := runner.Close(context.WithoutCancel(ctx)); err != nil {
		d.add("sandbox", checkFail, "", "%s", err)
		return
	}
	setting := string(policy.SandboxWorkspace)
	if d.inv.cfg != nil {
		setting = d.inv.cfg.Sandbox
	}
	d.cage = doctorSandbox{Setting: setting, Complete: st.Complete, Layers: []doctorLayer{}}
	lines := []string{setting + " (" + st.String() + ")"}
	for _, l := range st.Layers {
		layer := doctorLayer{Name: l.Name, Active: l.Active, Detail: l.Detail}
		mark := "holds:"
		if !l.Active {
			means := accesspolicy.Means(l.Name)
			layer.Means, mark = &means, "lacks:"
		}
		d.cage.Layers = append(d.cage.Layers, layer)
		lines = append(lines, fmt.Sprintf("%s %s: %s", mark, l.Name, l.Detail))
		if !l.Active {
			lines = append(lines, "       so "+accesspolicy.Means(l.Name))
		}
	}
	status, hint := checkOK, ""
	switch {
	case st.NoRoom != nil:
		lines, status, hint = []string{setting + ": " + st.String()}, checkFail, st.WaysOut()
	case setting == string(policy.SandboxOff):
		lines[0] = "off: commands run unsandboxed, with your rights; it could be workspace (" + st.String() + ")"
		if os.Geteuid() == 0 {
			lines = append(lines, "       and you are root, whose commands could read Ralph's own environment, with the API key in it")
		}
		status, hint = checkWarn, "run Ralph in a container or a VM when the task or the project is not to be trusted"
	case st.None():
		lines[0] = setting + ", but commands run unsandboxed: needs --sandbox off or a yes on a terminal"
		status, hint = checkWarn, st.WaysOut()
	case !st.Complete:
		lines[0] += ": needs --sandbox off or a yes on a terminal"
		status, hint = checkWarn, st.WaysOut()
	}
	if d.inv.Getenv("RALPH_PROC") != "" && status == checkWarn && setting != string(policy.SandboxOff) {
		hint = "take RALPH_PROC out of the environment, which leaves the namespaces out; " + hint
	}
	d.add("sandbox", status, hint, "%s", strings.Join(lines, "\n"))
}
