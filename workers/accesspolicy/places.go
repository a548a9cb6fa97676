package accesspolicy

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/buildcache"
	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/publish"
)

// confinement says what one command may write, and what it does not see.
func (s *Sandbox) confinement(temp string, cache *buildcache.Cache, o Call) (*sandbox.Policy, error) {
	c := &sandbox.Policy{Temp: temp, Network: o.Network, Limits: sandbox.Limits{FileBytes: MaxFileBytes, MemoryBytes: s.o.Memory}}
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
	shown := slices.Concat([]string{s.o.Root}, s.tools().shown, s.snapshots(), s.workTree(), s.named(s.o.Read))
	c.Links, c.Files = s.tools().links, s.files()
	if s.o.ReadOnly {
		c.Protect = existing(shown)
		return c, nil
	}
	c.Write = append(c.Write, s.o.Root)
	c.Write = append(c.Write, s.named(s.o.Write)...)
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
		hides := func(h string) bool {
			return below(h, p) && !below(h, s.o.Root) && (loc == nil || !below(h, loc.CommonDir))
		}
		if slices.ContainsFunc(c.Hide, hides) {
			return true
		}
		return !below(s.o.Root, p) && (loc == nil || !below(loc.CommonDir, p))
	})
	c.Protect = append(existing(shown), c.Protect...)
	return c, nil
}

// opened adds places to a list of what may be written or is shown, and takes them from
// what is hidden. A place that is a link is taken as where it leads.
func opened(list, hide, places []string) (l, h []string) {
	for _, p := range places {
		real, err := filepath.EvalSymlinks(p)
		if err != nil || !filepath.IsAbs(real) || real == string(filepath.Separator) {
			continue
		}
		list = append(list, real)
		hide = slices.DeleteFunc(slices.Clone(hide), func(x string) bool { return below(real, x) })
	}
	return list, hide
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

// workTree returns the work tree that the root lies in, with its other modules, where that
// is more than the root and less than a home.
func (s *Sandbox) workTree() []string {
	if s.o.Git == nil || s.o.Git.Root == s.o.Root || slices.ContainsFunc(s.homes(), func(h string) bool { return below(s.o.Git.Root, h) }) {
		return nil
	}
	return []string{s.o.Git.Root}
}

// confineGit leaves of git, in the user's tree, what `git add`, `commit` and `switch` need. A work
// tree that has its repository for itself has all of it but what is guarded; a
// linked one has its own directory, the objects, and its own branch.
func (s *Sandbox) confineGit(c *sandbox.Policy, loc *git.Location, o Call) {
	if s.overlaid() {
		// Read-only, unless layer puts a layer there.
		c.Protect = append(c.Protect, filepath.Join(loc.Root, ".git"), loc.GitDir, loc.CommonDir)
		c.Protect = append(c.Protect, s.programs(loc)...)
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
	c.Protect = append(c.Protect, s.programs(loc)...)
	if loc.GitDir == loc.CommonDir {
		c.Protect = append(c.Protect, common("worktrees"))
		return
	}
	c.Write = append(c.Write, common("objects"))
	c.Write = append(c.Write, common("refs"), common("logs")) // the user's own linked worktree
}

// Guarded says why a path of the tree is not to be written without a yes, with the class
// of rules that allow it; see the function of that name.
func (s *Sandbox) Guarded(name string) (why, class string, exists bool) {
	return s.guardedBy(s.acting(), name)
}

func (s *Sandbox) guardedBy(rules acts.Rules, name string) (why, class string, exists bool) {
	full := filepath.Join(s.o.Root, filepath.FromSlash(name))
	if _, err := os.Lstat(full); err == nil {
		exists = true
	}
	if n, ok := rules.Match(name); ok {
		return name + " " + acts.Why(n.Class), n.Class, exists
	}
	if why := ralphs(name); why != "" {
		return why, "", exists
	}
	if dir := s.repositoryWith(full); dir != "" {
		return name + " makes " + dir + " a git repository, or is part of one", acts.Git, exists
	}
	return "", "", exists
}

// Taken says why a path that an agent, or a command by objects alone, made or changed in a
// repository is not taken over without a yes, with the class of rules that allow it; "" for
// other paths.
func (s *Sandbox) Taken(c publish.Change) (why, class string) {
	full := filepath.Join(c.Root, filepath.FromSlash(c.Path))
	rules, name := s.lately(), s.rel(full)
	if c.Repository != "" {
		return "makes " + c.Repository + " a git repository, or is part of one", acts.Git
	}
	if !below(s.o.Root, full) {
		n, _ := acts.Rules{}.Match(c.Path)
		return acts.Why(n.Class), n.Class
	}
	for dir := filepath.Dir(full); dir != c.Root && below(c.Root, dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return "lies in the repository " + s.rel(dir), acts.Git
		}
	}
	if n, leads := rules.Leads(name); c.Link && leads {
		return "is a link by the name of a directory that programs look into", n.Class
	}
	why, class, _ = s.guardedBy(rules, name)
	return strings.TrimPrefix(why, name+" "), class
}

// lately returns the names that act as they were at most lookEvery ago: a merge asks about
// each of its files.
func (s *Sandbox) lately() acts.Rules {
	s.mu.Lock()
	rules, at := s.rules, s.rulesAt
	s.mu.Unlock()
	if time.Since(at) < lookEvery {
		return rules
	}
	rules = s.acting()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.rulesAt = rules, time.Now()
	return rules
}

// repositoryWith returns the directory that git takes for a repository of its own once a
// path is there, by gitrepository-layout(5); "" for none.
func (s *Sandbox) repositoryWith(path string) string {
	for below(s.o.Root, filepath.Dir(path)) {
		dir, name := filepath.Split(path)
		has := func(n string) bool {
			_, err := os.Lstat(dir + n)
			return err == nil || n == name
		}
		if path = filepath.Clean(dir); has("HEAD") && (has("commondir") || has("objects") && has("refs")) {
			return s.rel(path)
		}
	}
	return ""
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
// toolchains. The project, below one of them, stays visible, and so does what the user
// names: of a directory with homes all of it, but for the secrets that are known.
func (s *Sandbox) secretPlaces() []string {
	named, homes := s.named(slices.Concat(s.o.Read, s.o.Write)), slices.Concat(s.homes(), s.toolDirs())
	return slices.DeleteFunc(existing(append(s.hiddenPlaces(), s.tools().secrets...)), func(p string) bool {
		names := func(n string) bool { return n == p || below(n, p) && slices.Contains(homes, p) }
		return p == "/" || slices.ContainsFunc(named, names) || p == s.o.Root || p == s.o.Project || s.o.Git != nil && (p == s.o.Git.GitDir || p == s.o.Git.CommonDir)
	})
}

// hiddenPlaces returns the homes, where secrets of users usually are in what may be shown
// of them, what the environment names of that kind elsewhere, and the sockets of programs that would do for a command what it may not do itself.
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
	add(s.o.UserConfig, ".")
	add("/", strings.Fields(`var/spool/cron var/mail run/docker.sock run/docker run/podman run/containerd run/crio run/libvirt run/lxd run/snapd.socket run/dbus run/systemd/private run/screen run/tmux
 run/user run/secrets var/run/secrets var/lib/docker var/lib/kubelet var/lib/lxd var/snap/lxd`)...)
	return slices.Concat(all, s.system(), s.homes(), s.toolDirs(), s.credentialPaths())
}

// closedPlaces returns what the system keeps from ordinary users in directories for configuration
// and data, such as /etc/shadow-, private keys and passwords of services: the superuser's commands
// have no use for it. Of a directory that ordinary users may not read it is the directory.
func closedPlaces(dirs ...string) []string {
	const (
		deepest  = 5
		maxPlace = 20_000 // names that are looked at
	)
	var out []string
	left := maxPlace
	for _, top := range dirs {
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error { // what cannot be read is not shown
			if left--; left < 0 {
				return fs.SkipAll
			}
			if err != nil || e.Type()&^fs.ModeDir != 0 {
				return nil
			}
			info, err := e.Info()
			switch {
			case err != nil:
			case info.Mode()&0o004 == 0:
				out = append(out, path)
				if e.IsDir() {
					return fs.SkipDir
				}
			case e.IsDir() && strings.Count(path, "/") > deepest:
				return fs.SkipDir
			}
			return nil
		})
	}
	return out
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
