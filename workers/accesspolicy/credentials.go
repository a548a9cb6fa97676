package accesspolicy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ralph/workers/exec"
)

// credentialNames matches the variables whose value is a place of credentials whatever is
// there: by the words that vendors' documentation uses for them, and the directories that it
// calls otherwise.
var credentialNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)CRED|SECRET|TOKEN|KEYS?(_|$)|AUTH|PASS|CERT|VAULT|CONF(IG)?_?(DIR|HOME|PATH)?$` +
		`|^(MINIKUBE_HOME|HELM_DATA_HOME|TNS_ADMIN|SNOWFLAKE_HOME|TF_DATA_DIR|PULUMI_HOME|BITWARDENCLI_APPDATA_DIR|GNUPGHOME|CURL_HOME|MYSQL_HOME|HF_HOME|CODEX_HOME|RALPH_STATE_DIR` +
		`|CF_HOME|IBMCLOUD_HOME|CAROOT|STEPPATH|LEGO_PATH|CONAN_HOME|LEIN_HOME|ANDROID_USER_HOME|VAGRANT_HOME|DOTNET_CLI_HOME|XDG_RUNTIME_DIR|ZDOTDIR)$`)
})

// credentialPaths returns what variables of the user's environment name that a command does not
// get: files, which it then has no use for, sockets, and directories with credentials.
// What the project, the system or a program on PATH has is left out.
func (s *Sandbox) credentialPaths() []string {
	var out, installed []string
	for _, dir := range s.pathsIn(s.o.Getenv("PATH")) {
		for _, part := range programParts() {
			installed = append(installed, filepath.Join(filepath.Dir(dir), part))
		}
	}
	for _, kv := range exec.Last(s.o.Environ) {
		if len(Environ([]string{kv}, true)) > 0 {
			continue
		}
		name, value, _ := strings.Cut(kv, "=")
		known := credentialNames().MatchString(name)
		for _, path := range s.pathsIn(value) {
			info, err := os.Lstat(path)
			if err != nil {
				continue
			}
			mode := info.Mode()
			system := ofSystem(path) || slices.ContainsFunc(installed, func(dir string) bool { return below(dir, path) })
			switch {
			case mode.IsRegular():
				program := mode&0o111 != 0
				if program && strings.Contains(strings.ToUpper(name), "PASS") && !system || !program && (known || !system) {
					out = append(out, path)
				}
			case mode.IsDir() && known && !system, mode.Type() == fs.ModeSocket:
				out = append(out, path)
			}
		}
	}
	return out
}

// toolDirs returns the directories that variables of homeTools name and that hold more than a
// tool: as in a home, a command sees of each what the tool needs.
func (s *Sandbox) toolDirs() []string {
	var out []string
	for _, t := range parseHomeTools() {
		if t.shows[0] == "." {
			continue
		}
		for _, name := range t.env {
			out = append(out, slices.DeleteFunc(s.pathsIn(s.o.Getenv(name)), func(p string) bool { return !isDir(p) || ofSystem(p) })...)
		}
	}
	return out
}

// pathsIn returns the real paths that the value of a variable names, as a whole, in a list, in
// a URL or in a command. What lies in the project is the repository's.
func (s *Sandbox) pathsIn(value string) []string {
	words := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(":;,= \t\n\"'", r) })
	var out []string
	for _, word := range append(words, value) {
		if rest, found := strings.CutPrefix(word, "~/"); found {
			word = filepath.Join(s.home, rest)
		}
		if filepath.IsAbs(word) {
			out = append(out, filepath.Clean(word))
		}
	}
	own := []string{s.o.Root, s.o.Project, "/dev", "/proc", "/sys"}
	if s.o.Git != nil {
		own = append(own, s.o.Git.Root)
	}
	return slices.DeleteFunc(existing(out), func(p string) bool {
		return systems(p) || slices.ContainsFunc(own, func(dir string) bool { return below(dir, p) })
	})
}

// urlSecrets matches what a URL or a setting of git says to prove an identity.
var urlSecrets = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)https?://[^/\s"'@]+@|://[^/\s"'@:]*:[^/\s"'@]+@|extraheader|\b(password|token)["']?\s*[=:]`)
})

// cachedSecrets returns the files that caches of a directory of a toolchain keep of where they took
// something, and that hold credentials. The source is the layout that git-clone(1) gives to
// the repositories of Go's, Cargo's, pub's and Julia's caches, and Cargo's manual on indexes.
func cachedSecrets(dir string) []string {
	var out []string
	for _, repo := range strings.Fields(`mod/cache/vcs/* cache/vcs/* db/* checkouts/*/*/.git checkouts/*/*/.git/modules/* index/* index/*/.git cache/* git/* [0-9]* */bundler/gems/*/.git`) {
		for _, name := range strings.Fields("config FETCH_HEAD logs/HEAD logs/refs/heads/* config.json") {
			found, _ := filepath.Glob(filepath.Join(dir, repo, name)) // as for hide
			out = append(out, slices.DeleteFunc(found, func(path string) bool {
				text, err := readFile(path, maxConfigBytes)
				return err == nil && !urlSecrets().Match(text)
			})...)
		}
	}
	return out
}
