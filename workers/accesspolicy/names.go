package accesspolicy

import (
	"strings"

	"ralph/workers/exec/acts"
)

// ralphs says why a path, relative to the root of a project, is Ralph's own; "" for others.
func ralphs(name string) string {
	for part := range strings.SplitSeq(name, "/") {
		if acts.Fold(part) == ".ralph" {
			return name + " " + whyRalph
		}
	}
	return ""
}

const (
	whyAccess = "is a start-up or access file"
	whyRalph  = "is Ralph's own"
	whyGit    = "is git's own"
)

// rootName says why a folded name of one or two parts at the root is protected.
func rootName(name string) string {
	if name == ".ralph" {
		return whyRalph
	}
	if n, ok := (acts.Rules{}).Match(name); ok {
		return acts.Why(n.Class)
	}
	return ""
}

// guardedRepo knows the folded names in a git directory through which git runs
// programs, finds its configuration, or trusts objects from elsewhere.
func guardedRepo(name string) string {
	switch name {
	case "config", "config.worktree", "hooks", "info", "modules", "commondir", "gitdir", "remotes", "branches":
		return whyGit
	}
	return ""
}

// homeNames are the folded names in the home, by the directory in it, that are
// run or obeyed by programs of the user besides what is guarded everywhere and
// what holds secrets.
func homeNames() map[string][]string {
	names := map[string][]string{
		".": strings.Fields(`bin .vimrc .vim .gvimrc .exrc .emacs .emacs.d .tmux.conf .screenrc .gdbinit .lldbinit .pam_environment .xsession .xsessionrc .zlogout
 .oh-my-zsh .pythonrc .irbrc .pryrc .rvmrc .lesskey .mailcap .forward .rpmmacros .wgetrc .curlrc .sqliterc .psqlrc .my.cnf`),
		".config":      strings.Fields("nvim vim tmux zsh bash zellij environment.d code code-oss sublime-text helix emacs go pip autostart-scripts plasma-workspace"),
		".local":       {"bin"},
		".local/share": {"applications", "systemd", "nvim", "dbus-1", "bash-completion"},
		".cargo":       {"bin", "env", "config", "config.toml"},
		"go":           {"bin"},
	}
	for _, path := range secretsOfHome() {
		if !strings.ContainsAny(path, "/*") {
			names["."] = append(names["."], acts.Fold(path))
		}
	}
	return names
}
