package accesspolicy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/git"
)

// homeSecrets are files of a home that hold what a command has no use for, by the
// documentation of the program that keeps each.
func homeSecrets() []string {
	return strings.Fields(`
 .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .kshrc .cshrc .tcshrc .config/fish/config.fish .config/nushell/env.nu .xinitrc .xsession .pam_environment
 .bash_history .zsh_history .local/share/fish/fish_history .python_history .node_repl_history .psql_history .mysql_history .sqlite_history .lesshst .viminfo .local/state/bash/history
 .ssh/id_ed25519 .ssh/config .ssh/known_hosts .gnupg/private-keys-v1.d/x.key .gnupg/pubring.kbx .password-store/x.gpg .local/share/keyrings/login.keyring .local/share/kwalletd/kdewallet.kwl .pki/nssdb/key4.db
 .netrc .authinfo .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .msmtprc .fetchmailrc .config/rclone/rclone.conf .config/hub .config/gh/hosts.yml .config/glab-cli/config.yml .config/tea/config.yml
 .git-credentials .config/git/credentials .gitconfig.local .hgrc .subversion/auth/svn.simple/x
 .aws/credentials .aws/config .azure/msal_token_cache.json .config/gcloud/application_default_credentials.json .kube/config .docker/config.json .config/containers/auth.json .config/helm/registry/config.json
 .terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json .vault-token .config/doctl/config.yaml .config/hcloud/cli.toml .oci/config .fly/config.yml .config/netlify/config.json .local/share/com.vercel.cli/auth.json
 .wrangler/config/default.toml .railway/config.json .config/heroku/x .config/linode-cli .config/scw/config.yaml .databrickscfg .snowsql/config .kaggle/kaggle.json .cache/huggingface/token .huggingface/token .config/wandb/settings
 .npmrc .yarnrc .yarnrc.yml .config/pnpm/rc .bunfig.toml .pypirc .config/pip/pip.conf .pip/pip.conf .config/pypoetry/auth.toml .config/uv/uv.toml .condarc .cargo/credentials .cargo/credentials.toml .cargo/config.toml
 .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .gradle/init.gradle .ivy2/.credentials .sbt/1.0/credentials.sbt .config/coursier/credentials.properties .gem/credentials .bundle/config .config/composer/auth.json .composer/auth.json
 .nuget/NuGet/NuGet.Config .config/NuGet/NuGet.Config .hex/hex.config .cabal/config .stack/config.yaml .pub-cache/credentials.json .config/dart/pub-credentials.json .luarocks/upload_config.lua .julia/servers/pkg/auth.toml .nimble/github_api_token
 .platformio/appstate.json .config/go/env .local/share/uv/credentials/credentials.toml .config/mise/config.local.toml .foundry/keystores/k .config/solana/id.json .bitcoin/wallet.dat .ethereum/keystore/k .electrum/wallets/default_wallet
 .mozilla/firefox/x.default/logins.json .config/google-chrome/Default/Cookies .config/chromium/Default/Cookies .thunderbird/x.default/logins.json .config/Slack/Cookies .config/discord/Cookies .config/Signal/config.json .local/share/TelegramDesktop/tdata/key_datas
 .config/Code/User/settings.json .config/Code/User/globalStorage/state.vscdb .vscode/argv.json .config/JetBrains/x/options/security.xml .config/Cursor/User/globalStorage/state.vscdb .emacs.d/init.el .vimrc .config/nvim/init.lua .config/sublime-text/x
 .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .config/github-copilot/hosts.json .continue/config.json .aider.conf.yml .config/opencode/opencode.json .local/share/opencode/auth.json .ollama/id_ed25519 .openai/auth.json .config/io.datasette.llm/keys.json
 .config/ralph/config.yaml .local/state/ralph/projects/x .ralph/x .config/op/config .config/sops/age/keys.txt .config/Bitwarden/data.json .config/keepassxc/keepassxc.ini .config/filezilla/sitemanager.xml .config/remmina/x .putty/sessions/x .config/autostart/x
 .nvm/versions/node/v1/etc/npmrc .nvm/versions/node/v1/lib/node_modules/npm/npmrc .nvm/.git/config .n/etc/npmrc .local/share/fnm/node-versions/v1/installation/etc/npmrc .volta/tools/image/node/1/etc/npmrc .nodenv/versions/1/etc/npmrc .local/share/pnpm/global/5/.npmrc
 .asdf/installs/nodejs/1/etc/npmrc .asdf/installs/nodejs/1/.npmrc .asdf/plugins/x/.git/config .asdf/repository/.git/FETCH_HEAD .local/share/mise/installs/node/1/etc/npmrc .local/share/mise/plugins/x/.git/config .proto/plugins/x/.git/config .linuxbrew/etc/npmrc .linuxbrew/Homebrew/.git/config
 .pyenv/versions/3/pip.conf .pyenv/versions/3/envs/x/pip.conf .pyenv/.git/config .pyenv/plugins/x/.git/config .virtualenvs/x/pip.conf .local/share/virtualenvs/x/pip.conf .local/share/uv/python/x/pip.conf .local/share/uv/tools/x/pip.conf .local/share/pipx/venvs/x/pip.conf .local/pipx/venvs/x/pip.conf .rye/py/x/pip.conf
 .platformio/penv/pip.conf .venv/pip.conf .pixi/envs/x/.condarc .conda/envs/x/.condarc miniconda3/.condarc miniconda3/condarc miniconda3/condarc.d/x.yml miniconda3/envs/x/.condarc miniconda3/envs/x/pip.conf
 .sdkman/candidates/maven/3/conf/settings.xml .m2/wrapper/dists/apache-maven-3/conf/settings.xml .m2/wrapper/dists/apache-maven-3/x/conf/settings.xml .asdf/installs/maven/3/conf/settings.xml .sdkman/candidates/gradle/8/gradle.properties .sdkman/candidates/gradle/8/init.d/x.gradle
 .gradle/wrapper/dists/gradle-8/x/gradle-8/init.d/x.gradle .gradle/wrapper/dists/gradle-8/x/gradle-8/gradle.properties .rbenv/.git/config .rbenv/plugins/x/.git/config .rbenv/versions/3/etc/gemrc .rvm/.git/config .dotnet/corefx/cryptography/x509stores/my/x.pfx
 .env .envrc .config/direnv/direnv.toml .config/systemd/user/x.service .config/environment.d/x.conf .local/share/direnv/allow/x .tmux.conf .Xauthority .ICEauthority .screenrc .inputrc .config/unknown-tool/token .unknown-tool/credentials .unknown-tool.json .local/share/unknown/token .cache/unknown/token
 notes.txt Documents/tax.pdf Downloads/x Desktop/x Mail/inbox Pictures/x work/other/.env work/other/main.go work/other/.git/config src/other/config/secrets.yml go/src/example.com/other/main.go go/.netrc projects/other/node_modules/.bin/x .cache/pip/x .npm/_cacache/x .cache/yarn/x
`)
}

// A place for a home that is not where a command sees a directory of its own anyway.
func plainPlace(t *testing.T) string {
	for _, dir := range []string{"/srv", "/opt", "/var/lib", os.Getenv("HOME")} {
		if at, err := os.MkdirTemp(dir, "ralph-test-"); err == nil && dir != "" {
			t.Cleanup(func() {
				if err := os.RemoveAll(at); err != nil {
					t.Error(err)
				}
			})
			return at
		}
	}
	t.Skip("no place to write to but /tmp")
	return ""
}

// TestHomeIsHidden plants the secrets of a home, and of another project next to the
// user's, where homes and projects can lie, and counts what a command reads.
func TestHomeIsHidden(t *testing.T) {
	for _, c := range []struct{ name, home, project, other string }{
		{"project elsewhere", "home", "project", "home/project"},
		{"project in the home", "home", "home/a", "home/b"},
		{"project deep in the home", "home", "home/work/x/a", "home/work/x/b"},
		{"home of projects", "dev", "dev/a", "dev/b"},
		{"home above a home", ".", "u/work/a", "u/work/b"},
	} {
		for _, method := range []string{"", "session"} {
			for _, plain := range []bool{true, false} {
				t.Run(c.name+" "+method+map[bool]string{true: "", false: " in tmp"}[plain], func(t *testing.T) {
					w := newWorld(t, false)
					base := filepath.Dir(w.home)
					if plain {
						base = plainPlace(t)
					}
					w.home, w.root = filepath.Join(base, c.home), filepath.Join(base, c.project)
					w.env["HOME"] = w.home
					w.file(filepath.Join(w.root, "a.txt"), "a\n")
					w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n[http]\n\textraHeader = s3cret-header\n")
					w.git("init", "-q")
					planted := []string{filepath.Join(base, c.other, ".env"), filepath.Join(base, c.other, ".git", "config"), filepath.Join(base, c.other, "main.go")}
					for _, name := range homeSecrets() {
						planted = append(planted, filepath.Join(w.home, name))
					}
					for _, path := range planted {
						w.file(path, "s3cret "+path+"\n")
					}
					planted = append(planted, filepath.Join(w.home, ".gitconfig"))
					w.runner = exec.New(exec.Options{Init: exec.Self(), Method: method})
					defer w.runner.Close(t.Context())
					st := accesspolicy.Check(w.runner)
					if st.None() || method == "" && !st.Active("mount namespace") {
						t.Skip(st)
					}
					loc, err := git.Find(w.root)
					if err != nil {
						t.Fatal(err)
					}
					s, err := accesspolicy.Open(accesspolicy.Options{Proc: w.runner, Root: w.root, Git: &loc, Agent: "main", Getenv: func(k string) string { return w.env[k] }, Environ: w.environ()})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					var read []string
					o := w.run(s, w.root, "cat '"+strings.Join(planted, "' '")+"' 2>&1", accesspolicy.Call{})
					for _, path := range planted {
						if strings.Contains(o.out, "s3cret "+path+"\n") {
							read = append(read, path)
						}
					}
					if o := w.run(s, w.root, "grep -rs s3cret ~ '"+base+"' | head -5", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
						read = append(read, o.out)
					}
					t.Logf("%d planted", len(planted))
					if len(read) > 0 {
						t.Errorf("%d of %d can be read: %.600q", len(read), len(planted), read)
					}
					w.works(s, "test \"$(git config user.name)\" = Ann && cat a.txt && cd .. && cd ~")
					if plain {
						w.fails(s, "cat ~/notes.txt", "--sandbox-read ~/notes.txt")
					}
				})
			}
		}
	}
	if names := homeSecrets(); len(names) != len(slices.Compact(slices.Sorted(slices.Values(names)))) {
		t.Error("a name comes twice")
	}
}

// TestNamedPlaces has the user show places of the home and let them be written.
func TestNamedPlaces(t *testing.T) {
	w := newWorld(t, false)
	for _, name := range []string{"data/x", "out/x", ".npmrc", "all/notes", "work/b/.env", ".ssh/id"} {
		w.file(filepath.Join(w.home, name), "s3cret\n")
	}
	s := w.open(func(o *accesspolicy.Options) {
		o.Read, o.Write = []string{"~/data", "~/.npmrc", "~/absent", "/"}, []string{"~/out"}
	})
	w.works(s, "cat ~/data/x ~/out/x ~/.npmrc && echo y > ~/out/y && ! cat ~/all/notes")
	w.fails(s, "echo y > ~/data/y", "sandbox_write")
	w.fails(s, "cat ~/work/b/.env", "--sandbox-read ~/work/b/.env")
	s = w.open(func(o *accesspolicy.Options) { o.Read = []string{w.home} })
	w.works(s, "cat ~/data/x ~/all/notes ~/work/b/.env && ! cat ~/.ssh/id")
}

// TestHomeKeepsWhatToolsNeed has what homeTools lists in sight, by links, too, and the files
// that are made in place of the user's.
func TestHomeKeepsWhatToolsNeed(t *testing.T) {
	w := newWorld(t, false)
	files := strings.Fields(`go/pkg/mod/x go/bin/x .cargo/bin/x .cargo/registry/x dotfiles/rustup/toolchains/x .m2/repository/x .nvm/versions/node/v1/lib/x .pyenv/versions/3/lib/x .sdkman/candidates/java/1/lib/x
 .local/bin/x .local/lib/python3/x .local/share/uv/python/x .local/share/uv/tools/x .local/share/pipx/venvs/x .asdf/shims/x .asdf/installs/x .local/share/mise/shims/x .tool-versions .rbenv/versions/x .nuget/packages/x`)
	for _, name := range files {
		w.file(filepath.Join(w.home, name), "data\n")
	}
	if err := os.Symlink("dotfiles/rustup", filepath.Join(w.home, ".rustup")); err != nil {
		t.Fatal(err)
	}
	w.file(filepath.Join(w.home, "dotfiles", "secret"), "s3cret\n")
	w.file(filepath.Join(w.home, ".config", "mise", "config.toml"), "[env]\nTOKEN = 's3cret'\n[tools]\nnode = '20'\n[settings]\nx = 's3cret'\n")
	w.file(filepath.Join(w.home, ".config", "go", "env"), "GOFLAGS=-mod=mod\nGOPROXY=https://u:s3cret@example.org\nGOAUTH=s3cret\n")
	w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = \"A \\\"b\\\" \\\\ c\"\n\temail = ann@example.com\n[include]\n\tpath = more\n[core]\n\texcludesFile = ~/ignored\n[alias]\n\tx = s3cret\n[url \"https://s3cret@x\"]\n\tinsteadOf = y\n")
	w.file(filepath.Join(w.home, "more"), "[user]\n\tsigningKey = k\n")
	w.file(filepath.Join(w.home, "ignored"), "*.tmp\n")
	s := w.open(nil)
	w.works(s, "cd ~ && cat "+strings.Join(files, " ")+" .rustup/toolchains/x")
	w.works(s, `test "$(git config user.name)" = 'A "b" \ c' && git config user.signingKey && ! git config alias.x && git init -q . && touch a.tmp && ! git status --short | grep tmp`)
	w.works(s, `grep -q node ~/.config/mise/config.toml && grep -q GOFLAGS ~/.config/go/env`)
	if o := w.run(s, w.root, "grep -rs s3cret ~", accesspolicy.Call{}); strings.Contains(o.out, "s3cret") {
		t.Error(o.out)
	}
}

// TestBoundsAreNamed has commands meet the bounds of memory and of processes, and their
// results name what bounds them.
func TestBoundsAreNamed(t *testing.T) {
	w := newWorld(t, false)
	s := w.open(func(o *accesspolicy.Options) { o.Memory = 512 << 20 })
	for script, words := range map[string]string{
		"perl -e '$x = \"x\" x (700 << 20)'": "command_memory",
		"python3 -c 'bytearray(700 << 20)'":  "command_memory",
		"echo 'int main(void) { return 0; }' > /tmp/m.c && cc -fsanitize=address -o /tmp/m /tmp/m.c && /tmp/m": "--command-memory 0",
	} {
		program, _, _ := strings.Cut(script, " ")
		if program == "echo" {
			program = "cc"
		}
		if w.shell("command -v "+program+" || true", w.root) == "" {
			continue
		}
		w.fails(s, script, words)
	}
	w.works(s, "go version >/dev/null 2>&1; node -e '1' 2>&1; java -version 2>&1; true")
}

// TestClosedFilesOfTheSystem has a command of the superuser read what only the superuser may.
func TestClosedFilesOfTheSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("for others the system keeps them closed")
	}
	w := newWorld(t, false)
	find := "find /etc /usr/local/etc /var -xdev -maxdepth 5 -type f ! -perm -004 -size +0 2>/dev/null || true"
	if w.shell(find, w.root) == "" {
		t.Skip("there are none")
	}
	o := w.run(w.open(nil), w.root, "cat /etc/shadow /etc/shadow- 2>/dev/null | wc -c; "+find+" | while read -r f; do wc -c \"$f\"; done", accesspolicy.Call{})
	if got := strings.TrimSpace(o.out); got != "0" {
		t.Errorf("it reads:\n%s", got)
	}
}
