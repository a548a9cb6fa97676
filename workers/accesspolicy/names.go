package accesspolicy

import (
	"path"
	"strings"
	"unicode"
)

// Fold maps the spellings that some filesystem takes for the same name to one:
// case is dropped, and so are the code points that HFS+ and the casefold of ext4
// and f2fs ignore, and the dots and spaces that Windows cuts from the end.
func Fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r < 0x80:
		case r == 'ſ':
			return 's'
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		}
		return r
	}, name)
	if cut := strings.TrimRight(name, ". "); cut != "" {
		name = cut
	}
	return strings.ToLower(strings.ToUpper(name))
}

// Guarded says why a path, relative to the root of a project, is not to be
// written without a yes: something runs it, or takes orders from it, outside of
// Ralph and without the user's doing. "" means that it may be.
func Guarded(name string) string {
	name = path.Clean("/" + name)[1:]
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, Fold(part))
		for dir := at; ; {
			if why := guardedName(dir); why != "" {
				return name + " " + why
			}
			_, rest, more := strings.Cut(dir, "/")
			if !more {
				break
			}
			dir = rest
		}
	}
	return ""
}

const (
	whyCI     = "is run by continuous integration"
	whyAccess = "is a start-up or access file"
	whyEditor = "is what editors run and obey"
	whyRalph  = "is Ralph's own"
	whyGit    = "is git's own"
)

// guardedName knows folded names of one or two parts.
func guardedName(name string) string {
	switch name {
	case ".github/workflows", ".github/actions", ".circleci", ".buildkite", ".gitlab", ".woodpecker", ".forgejo", ".gitea", ".teamcity", ".azure-pipelines",
		".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml",
		"appveyor.yml", ".appveyor.yml", "cloudbuild.yaml", "cloudbuild.yml", ".cirrus.yml":
		return whyCI
	case ".ssh", ".config/fish", ".config/git", ".config/autostart", ".config/systemd",
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xinitrc", ".inputrc", ".envrc", ".gitconfig", ".netrc", ".npmrc", ".pypirc":
		return whyAccess
	case ".vscode", ".idea":
		return whyEditor
	case ".ralph":
		return whyRalph
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
			names["."] = append(names["."], Fold(path))
		}
	}
	return names
}
