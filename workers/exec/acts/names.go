package acts

import (
	"path"
	"strings"
	"sync"
)

// Names returns all names that act. The sources are the manuals and sites named above
// each group.
func Names() []Name { return all().list }

// table is the list, and the list by the first part of each path.
type table struct {
	list    []Name
	first   map[string][]Name
	last    map[string]bool
	pattern []Name // those with an asterisk
}

var all = sync.OnceValue(func() table {
	t := table{first: map[string][]Name{}, last: map[string]bool{}}
	add := func(n Name, paths string) {
		for _, p := range strings.Fields(paths) {
			n.Path = p
			t.list = append(t.list, n)
			if strings.HasPrefix(p, "*") {
				t.pattern = append(t.pattern, n)
			} else {
				first, _, _ := strings.Cut(p, "/")
				t.first[first] = append(t.first[first], n)
				t.last[path.Base(p)] = true
			}
		}
	}
	// githooks(5). Those of a repository in a dependency act as well.
	for _, hook := range strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase
 post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite
 sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change`) {
		add(Name{Class: Hook, Repo: true}, ".git/hooks/"+hook)
	}
	// husky, lefthook, pre-commit, overcommit, simple-git-hooks, captainhook, git-hooks.nix, cargo-husky
	add(Name{Class: Hook}, `.husky lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json .lefthook .lefthook-local
 lefthook-local.yml .lefthook-local.yml .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml .overcommit.yml .git-hooks .huskyrc .huskyrc.json .huskyrc.js .huskyrc.yml
 .simple-git-hooks.json .simple-git-hooks.js .simple-git-hooks.cjs captainhook.json .cargo-husky`)
	// hgrc(5) and "hg help share", sapling-scm.com, "jj help -k config", pijul.org (hooks), the darcs manual
	// (prefs: test, posthook), breezy-vcs.org (gpg_signing_command), fossil-scm.org (pgp-command, hooks),
	// monotone.ca (monotonerc), "p4 help environment" (P4PORT=rsh:)
	add(Name{Class: Hook}, `.hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .sl/sharedpath .jj/repo/config.toml .jj/workspace-config.toml .pijul/config
 _darcs/prefs/defaults _darcs/prefs/prefs .bzr/branch/branch.conf .fslckout _fossil_ _mtn/monotonerc .p4config .p4rc`)
	// git-config(1). What .gitmodules of gitmodules(5) says is copied by "git submodule init" alone,
	// which takes no command from it (since git 2.20).
	add(Name{Class: Git}, ".gitconfig .config/git")
	// code.visualstudio.com, jetbrains.com, zed.dev, containers.dev, learn.microsoft.com/visualstudio, nova.app, vim(1) and :help exrc, emacs Directory Variables,
	// gdb and lldb manuals, sublimetext.com, eclipse.org, gitpod.io, codesandbox.io, replit.com, helix-editor.com, kakoune, neoconf, theia-ide.org
	add(Name{Class: Editor}, `.vscode .vscode-insiders .vscodium .idea .zed .devcontainer .devcontainer.json .fleet .vs .nova .exrc .vimrc .gvimrc _vimrc _exrc .nvimrc .nvim.lua .nvim .vim .lvimrc
 .local.vimrc .vimspector.json .ycm_extra_conf.py .dir-locals.el .dir-locals-2.el .emacs .emacs.d .gdbinit .gdbearlyinit .lldbinit .kakrc .helix .neoconf.json .lazy.lua .theia .settings .project .cproject
 .externaltoolbuilders *.code-workspace *.sublime-project *.sublime-workspace .gitpod.yml .gitpod.dockerfile .codesandbox .replit .idx .devfile.yaml .rstudio *.rproj .spyproject .bsp .kdev4 .atom .brackets.json`)
	// direnv(1), mise, asdf, rvm, autoenv, shadowenv, bash(1), zsh(1), ksh(1), csh(1), readline(3), tmux(1), screen(1), ssh(1)
	add(Name{Class: Shell}, `.envrc .envrc.local .direnvrc mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .mise-tasks .config/mise.toml .config/mise .rtx.toml .tool-versions .rvmrc .autoenv
 .autoenv.zsh .autoenv_leave.zsh .shadowenv.d .zsh_local .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc
 .cshrc .tcshrc .login .logout .xprofile .xinitrc .xsession .xsessionrc .inputrc .editrc .tmux.conf .screenrc .zellij .ssh .netrc _netrc .pam_environment .config/fish .config/autostart .config/systemd .config/environment.d
 .config/direnv .config/tmux .smartcd .enter.sh .ondirrc`)
	// docs.anthropic.com/claude-code, modelcontextprotocol.io, cursor.com, gemini-cli, openai/codex, opencode.ai, windsurf.com, cline.bot, roocode.com, continue.dev, aider.chat, block/goose,
	// aws Q and Kiro, jetbrains junie, augmentcode.com, qwen-code, charmbracelet/crush, factory.ai, ampcode.com, kilocode.ai, openhands.dev, trae.ai, sourcegraph cody, github copilot
	add(Name{Class: Agent}, `.claude .claude.json .mcp.json .mcp.yaml .cursor .cursorrules .gemini .codex .opencode opencode.json opencode.jsonc .windsurf .windsurfrules .clinerules .cline .roo .roorules .roomodes .continue
 .continuerc.json .aider.conf.yml .aider.conf.yaml .aider.model.settings.yml .goose .goosehints .amazonq .kiro .junie .augment .augmentcode .trae .qwen .crush crush.json .crush.json .factory .amp .kilocode .kilocodemodes .openhands .devin
 .jules .zencoder .codeium .tabnine .cody .codegpt .agents .agent .pi .warp .copilot .github/copilot-instructions.md .github/copilot .github/prompts .github/instructions .github/chatmodes .github/agents .github/hooks .firebender .rovodev
 .codebuddy .plandex-v2 .serena .taskmaster .superclaude .swe-agent`)
	// npmrc(5), yarnpkg.com, pnpm.io, bun.sh, cargo config, rustup overrides, maven.apache.org, bazel.build, buck, bundler, rubygems, irb, pry, byebug, R Startup, ghc, ocaml(1), erl(1), iex(1), perldebug(1),
	// docs.ansible.com (configuration settings), prove(1), valgrind(1), latexmk(1), octave, sbt, pdb, pypi, pip, composer, jvm options. Not .pnp.cjs and .pnp.loader.mjs: each `yarn install` writes them, and what loads them loads
	// the packages in node_modules elsewhere.
	add(Name{Class: Build}, `.npmrc .yarnrc .yarnrc.yml .yarn/plugins .yarn/releases .yarn/sdks .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js pnpmfile.cjs bunfig.toml .bunfig.toml .cargo/config .cargo/config.toml rust-toolchain
 rust-toolchain.toml .mvn .bazelrc .bazeliskrc .bazelversion user.bazelrc tools/bazel .buckconfig .buckconfig.local .bundle/config .gemrc .irbrc .pryrc .byebugrc .rprofile .renviron .rdata .ghci .ocamlinit .utoprc .erlang .iex.exs .perldb
 ansible.cfg .proverc .valgrindrc .latexmkrc latexmkrc .octaverc .sbtopts .jvmopts .sbtrc .pdbrc .pdbrc.py .pypirc .user.ini .ctags.d .npm-init.js .juliarc.jl .config/cargo-nextest.toml
                `)
	// docs of GitHub, GitLab, CircleCI, Buildkite, Woodpecker, Forgejo, Gitea, TeamCity, Azure Pipelines, Jenkins, Bitbucket, Drone, Travis, AppVeyor, Cloud Build, Cirrus, Semaphore, Harness,
	// sourcehut, Codefresh, CodeBuild, Tekton, Zuul, Screwdriver, OneDev, Read the Docs, Bitrise, Codemagic, Xcode Cloud, Wercker, Shippable, Scrutinizer, Netlify, Vercel, Render
	add(Name{Class: CI, Root: true}, `.github/workflows .github/actions .gitlab-ci.yml .gitlab .gitlab-ci .circleci .buildkite .woodpecker .woodpecker.yml .woodpecker.yaml .forgejo .gitea
 .teamcity .azure-pipelines azure-pipelines.yml azure-pipelines.yaml .azure-pipelines.yml .azuredevops .vsts-ci.yml .pipelines jenkinsfile .jenkins bitbucket-pipelines.yml .drone.yml .drone.yaml .drone.star .drone.jsonnet .travis.yml 
 appveyor.yml .appveyor.yml .appveyor cloudbuild.yaml cloudbuild.yml cloudbuild.json .cloudbuild .cirrus.yml .cirrus.star .semaphore .semaphoreci .harness .build.yml .builds codefresh.yml .codefresh buildspec.yml buildspec.yaml .tekton .zuul.yaml
 .zuul.yml .zuul.d zuul.yaml zuul.d screwdriver.yaml .screwdriver .onedev-buildspec.yml .readthedocs.yaml .readthedocs.yml readthedocs.yml .bitrise.yml bitrise.yml codemagic.yaml ci_scripts wercker.yml .shippable.yml shippable.yml
 .scrutinizer.yml netlify.toml vercel.json render.yaml .cnb.yml .gocd.yaml .cds .concourse .prow .prow.yaml .lgtm.yml .sourcery.yaml .pre-commit-ci.yaml .ci-operator.yaml .packit.yaml .copr fly.toml .platform.app.yaml .gitlab-pages.yml
 .agola .earthly-ci .spacelift .atlantis.yaml atlantis.yaml`)
	return t
})

// DependencyDirs returns the names of directories in which package managers put the files
// of others, folded.
func DependencyDirs() []string {
	return strings.Fields(`node_modules bower_components jspm_packages .pnpm-store .venv venv .virtualenv virtualenv .tox .nox .eggs __pypackages__ site-packages vendor target pods carthage .gradle .m2 .ivy2
 deps _deps _build elm-stuff .stack-work dist-newstyle .bundle .dart_tool .pub-cache .build deriveddata .terraform .nuget .cpcache .cache .bazel bazel-out build third_party .spago .psci_modules zig-cache .zig-cache cmakefiles`)
}
