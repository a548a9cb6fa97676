package trees

import (
	"fmt"
	"path"
	"strings"

	"ralph/workers/git"
)

// checkAgent keeps names to what is plain in a path and in a ref.
func checkAgent(name string) error {
	bad := name == "" || len(name) > 100 || name[0] == '.' || name[0] == '-' || strings.Contains(name, "..") ||
		strings.HasSuffix(name, ".") || strings.HasSuffix(name, ".lock")
	for i := range len(name) {
		c := name[i]
		bad = bad || (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
	}
	if bad {
		return fmt.Errorf("agent %q: %w", name, git.ErrBadName)
	}
	return nil
}

// secret says that a file is left out for its name: it usually holds a secret.
func secret(p string) bool {
	name := strings.ToLower(path.Base(p))
	if name == ".env" || strings.HasPrefix(name, ".env.") {
		switch strings.TrimPrefix(name, ".env.") {
		case "example", "sample", "template", "dist", "defaults":
			return false
		}
		return true
	}
	switch path.Ext(name) {
	case ".pem", ".p12", ".pfx", ".key", ".keystore", ".jks", ".kdbx", ".ppk", ".env":
		return true
	}
	switch name {
	case "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "credentials.json":
		return true
	}
	return false
}

// own says that a path is Ralph's: its directory, or one of its state files in
// the project's root or in that of the repository.
func (t *Trees) own(p string) bool {
	p = strings.TrimSuffix(p, "/")
	rel, below := strings.CutPrefix(p, t.prefix)
	for _, name := range []string{p, rel} {
		top, _, _ := strings.Cut(name, "/")
		if top == ".ralph" || stateFile(top) && (below || name == p) {
			return true
		}
	}
	return false
}

func stateFile(p string) bool {
	switch p {
	case "AGENT.md", "RALPH_GOALS.md", "RALPH_PROGRESS.md", "RALPH_TASKS.md", "RALPH_TODO.md":
		return true
	}
	return false
}

// dependencies says that an ignored directory holds what a build needs and does
// not make, so that the user's own is linked.
func dependencies(dir string) bool {
	switch path.Base(dir) {
	case "node_modules", ".venv", "venv", "vendor", "bower_components", "Pods", "deps":
		return true
	case "bundle":
		return path.Base(path.Dir(dir)) == "vendor"
	}
	return false
}

// reason adds why a path was left out.
func reason(p, why string) string { return p + " (" + why + ")" }

const (
	whyMoved   = "its new name is left out"
	whySecret  = "a secret by its name"
	whyState   = "Ralph's own state"
	whyNested  = "a repository of its own"
	whyFilter  = "its content goes through a filter that is not run"
	whyModule  = "the submodule has no commit of it"
	whyOutside = "a link that leads out of the tree"
	whyIgnored = "ignored"
	whyNewRule = "ignored by a rule that the work added; `git add -f` keeps it"
	whyDiffers = "not as a commit gives it"
	whyRefused = "git refuses it: " // with the identifier of git-fsck(1)
)
