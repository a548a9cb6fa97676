package accesspolicy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/buildcache"
	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
)

const (
	// maxHomes bounds how many homes of other users are hidden: where there are
	// more, they are on a server that knows its users.
	maxHomes = 50
)

// confinement says what one command may write, and what it does not see.
func (s *Sandbox) confinement(temp string, cache *buildcache.Cache, o Call) (*sandbox.Policy, error) {
	c := &sandbox.Policy{Temp: temp, Network: o.Network, Limits: sandbox.Limits{FileBytes: maxFileBytes}}
	c.Hide = append(existing(append(s.concealed(), filepath.Join(s.o.Project, ".ralph", "control.sock"))), s.hiding()...)
	if s.o.State != "" {
		c.Hide = append(c.Hide, existing([]string{filepath.Join(s.o.State, "history")})...)
	}
	if store := s.caches(); store != nil {
		c.Hide = append(c.Hide, filepath.Dir(store.Dir())) // what other commands and projects have put into theirs
	}
	if cache != nil {
		c.Write, c.Overlays = append(c.Write, cache.Path), overlays(cache)
	}
	shown := append([]string{s.o.Root}, s.seen()...)
	shown = append(shown, s.snapshots()...)
	if s.o.ReadOnly {
		c.Protect = existing(shown)
		return c, nil
	}
	c.Write = append(c.Write, s.o.Root)
	shown = shown[1:]
	if s.child() {
		shown = append(shown, s.o.Project)
	}
	loc := s.repository()
	nested, err := s.usersRepos()
	if err != nil {
		return nil, err
	}
	c.Protect = append(c.Protect, nested...)
	for _, d := range s.guardedDirs(loc) {
		names, _ := d.present() // what cannot be read is said after the command
		for name := range names {
			if !slices.ContainsFunc(o.Acts, func(class string) bool { return d.why(acts.Fold(name)) == acts.Why(class) }) {
				c.Protect = append(c.Protect, filepath.Join(d.path, name))
			}
		}
	}
	if !s.child() {
		held, err := s.heldActing(o)
		if err != nil {
			return nil, err
		}
		c.Protect = append(c.Protect, held...)
		c.Guard = s.guard(o)
	}
	switch {
	case s.child():
		c.Write = append(c.Write, s.clone()...)
		c.Protect = append(c.Protect, s.hooks()...)
	case loc != nil:
		s.confineGit(c, loc, o)
		if loc.GitDir != loc.CommonDir {
			shown = append(shown, loc.CommonDir)
		}
	default:
		c.Protect = append(c.Protect, filepath.Join(s.o.Root, ".git")) // whatever it is
	}
	// What may be written is named as it is: a link that a command has put there
	// must not open another place.
	c.Write = slices.DeleteFunc(c.Write, func(p string) bool {
		real, err := filepath.EvalSymlinks(p)
		return err != nil || real != p
	})
	// What is protected is seen, so a link of the repository must not show what is
	// hidden.
	c.Protect = slices.DeleteFunc(existing(c.Protect), func(p string) bool {
		if slices.ContainsFunc(c.Hide, func(h string) bool { return below(h, p) }) {
			return true
		}
		return !below(s.o.Root, p) && (loc == nil || !below(loc.CommonDir, p))
	})
	c.Protect = append(existing(shown), c.Protect...)
	return c, nil
}

// opened adds to what may be written, and takes from what is hidden, the places in
// state. A place that is a link is taken as where it leads.
func opened(write, hide, state []string) (w, h []string) {
	for _, p := range state {
		real, err := filepath.EvalSymlinks(p)
		if err != nil || !filepath.IsAbs(real) || real == string(filepath.Separator) {
			continue
		}
		write = append(write, real)
		hide = slices.DeleteFunc(slices.Clone(hide), func(x string) bool { return below(real, x) })
	}
	return write, hide
}

// covered says that a path is where a command sees nothing but what is named.
func covered(path string) bool {
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev/shm"} {
		if below(dir, path) && path != dir {
			return true
		}
	}
	return false
}

// reading returns places that tools read, as far as they lie where a command sees
// nothing: the toolchains, and the home.
func (s *Sandbox) reading() []string {
	paths := slices.Clone(s.tools().shown)
	for _, p := range existing([]string{s.home, s.o.Getenv("XDG_CONFIG_HOME"), s.o.Getenv("XDG_DATA_HOME")}) {
		if covered(p) && (p == s.home || !below(p, s.o.Root)) && !below(s.o.Root, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// confineGit leaves of git, in the user's tree, what `git add`, `commit` and `switch` need. A work
// tree that has its repository for itself has all of it but what is guarded; a
// linked one has its own directory, the objects, and its own branch.
func (s *Sandbox) confineGit(c *sandbox.Policy, loc *git.Location, o Call) {
	if s.overlaid() {
		// Read-only, unless layer puts a layer there.
		c.Protect = append(c.Protect, filepath.Join(loc.Root, ".git"), loc.GitDir, loc.CommonDir)
		c.Protect = append(c.Protect, hooksInTree(loc)...)
		return
	}
	c.Write = append(c.Write, loc.GitDir)
	common := func(parts ...string) string { return filepath.Join(append([]string{loc.CommonDir}, parts...)...) }
	if entry := filepath.Join(loc.Root, ".git"); loc.GitDir != entry {
		c.Protect = append(c.Protect, entry) // the file that says where the repository is
	}
	c.Protect = append(c.Protect, common("objects", "info", "alternates"), common("objects", "info", "http-alternates"))
	// Checkpoints and what children have done are Ralph's to move.
	c.Protect = append(c.Protect, common("refs", "ralph"), common("logs", "refs", "ralph"))
	if !o.Network {
		// Only what is fetched comes as a pack; what was packed is history.
		c.Protect = append(c.Protect, common("objects", "pack"))
	}
	c.Protect = append(c.Protect, hooksInTree(loc)...)
	if loc.GitDir == loc.CommonDir {
		c.Protect = append(c.Protect, common("worktrees"))
		return
	}
	c.Write = append(c.Write, common("objects"))
	c.Write = append(c.Write, common("refs"), common("logs")) // the user's own linked worktree
}

// hooksInTree are the hooks and further configuration that the repository's
// configuration takes from the work tree, where a command could write them. What
// is spelled in a way that is not read here stays writable.
func hooksInTree(loc *git.Location) []string {
	text, err := readFile(filepath.Join(loc.CommonDir, "config"), maxConfigBytes)
	if err != nil {
		return nil
	}
	var out []string
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.Trim(line, "[]"))
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
		from := loc.Root
		switch {
		case value == "":
			continue
		case section == "core" && key == "hookspath":
			if filepath.Base(value) == "_" { // husky's, which reads the hooks from above it
				value = filepath.Dir(value)
			}
		case strings.HasPrefix(section, "include") && key == "path":
			from = loc.CommonDir
		default:
			continue
		}
		if !filepath.IsAbs(value) {
			value = filepath.Join(from, value)
		}
		if real, err := filepath.EvalSymlinks(value); err == nil && real != loc.Root && below(loc.Root, real) {
			out = append(out, real)
		}
	}
	return out
}

// Guarded says why a path of the tree is not to be written without a yes, with the class
// of rules that allow it; see the function of that name. It also knows the hooks and
// configuration that the repository has in the tree.
func (s *Sandbox) Guarded(name string) (why, class string, exists bool) {
	full := filepath.Join(s.o.Root, filepath.FromSlash(name))
	if _, err := os.Lstat(full); err == nil {
		exists = true
	}
	if n, ok := s.acting().Match(name); ok {
		return name + " " + acts.Why(n.Class), n.Class, exists
	}
	if why := ralphs(name); why != "" {
		return why, "", exists
	}
	for _, own := range s.hooks() {
		if below(acts.Fold(own), acts.Fold(full)) {
			return name + " is what git runs or obeys here", acts.Hook, exists
		}
	}
	return "", "", exists
}

// existing leaves the paths that are there, each once, without symbolic links:
// of a link it is the target that is hidden or protected. That a protected name
// which is a link stays that link is seen to by the check after a command.
func existing(paths []string) []string {
	var out []string
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err == nil && !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out
}

// hideEvery is how long the places of secrets are taken to be the same.
const hideEvery = 10 * time.Second

// hiding are the places of secrets as they are about now.
func (s *Sandbox) hiding() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.hidden == nil || now.Sub(s.hiddenAt) > hideEvery {
		s.hidden, s.hiddenAt = s.secretPlaces(), now
	}
	return slices.Clone(s.hidden)
}

// secretPlaces returns the hidden places that exist, with the credentials of the
// toolchains. What holds the project stays visible.
func (s *Sandbox) secretPlaces() []string {
	return slices.DeleteFunc(existing(append(s.hiddenPlaces(), s.tools().secrets...)), func(p string) bool {
		holds := func(path string) bool { return path != "" && below(p, path) }
		return p == "/" || p == s.home || holds(s.o.Root) || holds(s.o.Project) || s.o.Git != nil && (holds(s.o.Git.GitDir) || holds(s.o.Git.CommonDir))
	})
}

// hiddenPlaces returns where secrets of users usually are, the homes of other users,
// and the sockets of programs that would do for a command what it may not do itself.
func (s *Sandbox) hiddenPlaces() []string {
	var all []string
	add := func(base string, names ...string) {
		if !filepath.IsAbs(base) {
			return
		}
		for _, n := range names {
			if strings.ContainsAny(n, "*") {
				found, _ := filepath.Glob(filepath.Join(base, n)) // the pattern is ours
				all = append(all, found...)
				continue
			}
			all = append(all, filepath.Join(base, n))
		}
	}
	home, get := s.home, s.o.Getenv
	or := func(name, fallback string) string {
		if v := get(name); filepath.IsAbs(v) {
			return v
		}
		return filepath.Join(home, fallback)
	}
	if home != "" {
		add(home, secretsOfHome()...)
	}
	for _, config := range slices.Compact([]string{filepath.Join(home, ".config"), or("XDG_CONFIG_HOME", ".config")}) {
		add(config, secretsOfConfig()...)
	}
	for _, data := range slices.Compact([]string{filepath.Join(home, ".local/share"), or("XDG_DATA_HOME", ".local/share")}) {
		add(data, "keyrings", "kwalletd", "password-store", "fish/fish_history", "TelegramDesktop", "Trash", "recently-used.xbel", "gnome-shell", "evolution")
	}
	add(or("XDG_STATE_HOME", ".local/state"), "ralph", "bash", "zsh", "python_history")
	if dir := get("RALPH_STATE_DIR"); filepath.IsAbs(dir) {
		add(dir, ".")
	}
	add(or("CARGO_HOME", ".cargo"), "credentials", "credentials.toml")
	add(or("GNUPGHOME", ".gnupg"), ".")
	add(or("GRADLE_USER_HOME", ".gradle"), "gradle.properties")
	add(s.o.UserConfig, ".")
	add(get("RALPH_STATE_DIR"), ".")
	add("/", strings.Fields(`etc/shadow etc/gshadow etc/ssh/ssh_host_*_key etc/sudoers etc/sudoers.d var/spool/cron var/mail
 run/docker.sock run/docker run/podman run/containerd run/crio run/libvirt run/lxd run/snapd.socket run/dbus run/systemd/private run/screen run/tmux
 run/user run/secrets var/run/secrets var/lib/docker var/lib/kubelet var/lib/lxd var/snap/lxd`)...)
	return append(all, s.otherHomes()...)
}

func secretsOfHome() []string {
	return strings.Fields(`.ssh .gnupg .aws .azure .kube .docker .podman .oci .bluemix .netrc _netrc .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc .gem/credentials
 .cargo/credentials .cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .terraform.d .terraformrc .vault-token .password-store
 .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .databricks .databrickscfg .snowflake .snowsql .kaggle .huggingface .cache/huggingface/token .ivy2/.credentials .sbt/.credentials .hgrc
 .composer/auth.json .nuget/NuGet/NuGet.Config .bundle/config .fly .heroku .netlify .vercel .wrangler .circleci .travis .config/configstore .local/share/keyrings
 .bash_history .zsh_history .zhistory .sh_history .histfile .python_history .node_repl_history .psql_history .mysql_history .sqlite_history .rediscli_history
 .irb_history .lesshst .viminfo .wget-hsts .mozilla .thunderbird .pki .electrum .bitcoin .ethereum .monero .Xauthority .ICEauthority .dbus .putty .cert
 .claude .claude.json .codex .gemini .ollama/id_ed25519 .openai .anthropic .continue .cursor .aider* .env .envrc .authinfo .authinfo.gpg .msmtprc .mbsyncrc .fetchmailrc
 .foundry/keystores .hex/hex.config .julia/logs .julia/servers .local/share/uv/credentials .luarocks/upload_config.lua .nimble/github_api_token .platformio/appstate.json
 .pub-cache/credentials.json .pulumi/credentials.json .stack/upload .cabal/config .vscode-server/data .config/composer/auth.json
 .local/share/ralph .ralph Library/Keychains Library/Cookies Library/Safari Library/Messages Library/Mail snap/firefox snap/chromium .var/app`)
}

func secretsOfConfig() []string {
	return strings.Fields(`gcloud gh hub glab rclone ralph op 1Password Bitwarden doctl hcloud heroku netlify vercel stripe sops age containers/auth.json configstore git/credentials pip/pip.conf
 pypoetry/auth.toml composer/auth.json NuGet github-copilot openai anthropic claude codex gemini io.datasette.llm google-chrome chromium BraveSoftware microsoft-edge vivaldi opera
 Slack discord Signal Element Code/User/globalStorage Cursor/User/globalStorage keybase helm/registry helm/repositories.yaml argocd linode-cli scw yandex-cloud
 filezilla remmina evolution goa-1.0 KeePass keepassxc sublime-merge GitKraken JetBrains teleport tsh tea`)
}

// otherHomes are the homes of other users.
func (s *Sandbox) otherHomes() []string {
	out := []string{"/root"}
	for _, base := range []string{"/home", "/Users"} {
		entries, err := os.ReadDir(base)
		if err != nil || len(entries) > maxHomes {
			continue
		}
		for _, e := range entries {
			out = append(out, filepath.Join(base, e.Name()))
		}
	}
	return slices.DeleteFunc(out, func(p string) bool { return s.home != "" && below(p, s.home) })
}
