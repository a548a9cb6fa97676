package coordinator_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/workers/exec/exectest"
)

// actingState lists, for each program, files of its own in the home by which it runs or
// trusts something, from its maker's documentation: hooks, programs for notices, keys and
// status lines, servers of MCP, plugins and extensions, commands, agents, skills,
// instructions, trusted folders and rules of permission. The first is its credentials.
func actingState() map[string][]string {
	return map[string][]string{
		// code.claude.com/docs/en/{settings,hooks,mcp,plugins,skills,sub-agents,slash-commands,memory,output-styles}
		"claude": strings.Fields(`.claude/.credentials.json .claude/settings.json .claude/settings.local.json .claude.json .claude/CLAUDE.md .claude/agents/x.md .claude/commands/x.md
			.claude/skills/x/SKILL.md .claude/hooks/x.sh .claude/plugins/installed_plugins.json .claude/plugins/known_marketplaces.json .claude/plugins/marketplaces/m/x/hooks/hooks.json
			.claude/output-styles/x.md .claude/rules/x.md .claude/keybindings.json .claude/statusline.sh .claude/managed-settings.json`),
		// developers.openai.com/codex/{config-reference,hooks,mcp,skills,rules,prompts,guides/agents-md}
		"codex": strings.Fields(`.codex/auth.json .codex/config.toml .codex/AGENTS.md .codex/AGENTS.override.md .codex/prompts/x.md .codex/skills/x/SKILL.md .codex/hooks.json .codex/rules/default.rules
			.codex/agents/x.toml .codex/plugins/x/plugin.json .codex/requirements.toml .codex/work.config.toml`),
		// its docs/{reference/configuration,hooks,extensions,reference/policy-engine,cli/trusted-folders,cli/custom-commands,cli/gemini-md,cli/skills}.md
		"gemini": strings.Fields(`.gemini/oauth_creds.json .gemini/settings.json .gemini/trustedFolders.json .gemini/GEMINI.md .gemini/commands/x.toml .gemini/extensions/x/gemini-extension.json
			.gemini/extensions/extension-enablement.json .gemini/policies/x.toml .gemini/.env .gemini/skills/x/SKILL.md .gemini/agents/x.md .gemini/hooks/x.sh .gemini/mcp-server-enablement.json .gemini/system.md`),
		// opencode.ai/docs/{config,plugins,commands,agents,skills,custom-tools,mcp-servers,formatters,lsp,rules}
		"opencode": strings.Fields(`.local/share/opencode/auth.json .config/opencode/opencode.json .config/opencode/opencode.jsonc .config/opencode/config.json .config/opencode/tui.json .config/opencode/AGENTS.md
			.config/opencode/plugin/x.ts .config/opencode/plugins/x.js .config/opencode/command/x.md .config/opencode/agent/x.md .config/opencode/skills/x/SKILL.md .config/opencode/tool/x.ts
			.config/opencode/package.json .config/opencode/node_modules/x/index.js .local/share/opencode/bin/rg .local/share/opencode/mcp-auth.json`),
		// its docs/{settings,extensions,skills,prompt-templates,packages,models}.md
		"pi": strings.Fields(`.pi/agent/auth.json .pi/agent/settings.json .pi/agent/models.json .pi/agent/extensions/x.ts .pi/agent/skills/x/SKILL.md .pi/agent/prompts/x.md .pi/agent/AGENTS.md .pi/agent/SYSTEM.md
			.pi/agent/APPEND_SYSTEM.md .pi/agent/keybindings.json .pi/agent/bin/fd .pi/agent/npm/node_modules/x/index.js .pi/agent/git/x/index.ts .pi/agent/trust.json`),
	}
}

// contents are the files below a directory, with a sum of each.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = fmt.Sprintf("%s %x", d.Type(), sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// What a program writes to its settings, plugins and whatever else it runs or trusts is
// gone with its run, in a sandbox and without. A token that it refreshes comes back.
func TestAnotherProgramChangesNothingOfTheUsers(t *testing.T) {
	const (
		before = `{"account":"me","claudeAiOauth":{"accessToken":"old-1","refreshToken":"old-2","expiresAt":1},"tokens":{"access_token":"old-1"},"access_token":"old-1","x":{"type":"oauth","access":"old-1"}}`
		// It replaces each file, as one that is there and as one that is new.
		script = `cat > /dev/null
creds=$HOME/FIRST
for f in REST; do
  mkdir -p "$(dirname "$HOME/$f")"
  rm -rf "$HOME/$f.new" "$HOME/$f"
  echo '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"id"}]}]}}' > "$HOME/$f"
  echo planted > "$HOME/$f.new"
  echo planted > "$(dirname "$HOME/$f")/planted"
done
TOKEN
`
	)
	for _, sandbox := range []string{"workspace", "off"} {
		for name, files := range actingState() {
			for kind, token := range map[string]string{
				"refresh": `sed -i 's/old-1/new-1/g; s/"me"/"the attacker"/; s/{"account"/{"hooks":"id","account"/' "$creds"`,
				"link":    `ln -sf "$HOME/.ssh/id_rsa" "$creds"`,
				"no JSON": `echo 'a = 1' > "$creds"`,
			} {
				if kind != "refresh" && name != "gemini" {
					continue // it is the same for all: see package home
				}
				t.Run(sandbox+"/"+name+"/"+kind, func(t *testing.T) {
					if sandbox != "off" {
						needsSandbox(t)
					}
					p := foreign(t, "exit 1\n")
					home, program := t.TempDir(), filepath.Join(t.TempDir(), name)
					write := func(path, text string, mode fs.FileMode) {
						t.Helper()
						if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
							t.Fatal(err)
						}
						if err := exectest.WriteProgram(path, []byte(text), mode); err != nil {
							t.Fatal(err)
						}
					}
					write(program, "#!/bin/sh\n"+strings.NewReplacer("FIRST", files[0], "REST", strings.Join(files[1:], " "), "TOKEN", token).Replace(script), 0o755)
					write(filepath.Join(home, ".ssh/id_rsa"), "a secret", 0o600)
					write(filepath.Join(home, files[0]), before, 0o600)
					for i, f := range files[1:] {
						if i%2 == 0 {
							write(filepath.Join(home, f), "the user's\n", 0o600)
						}
					}
					was := contents(t, home)
					p.userConfig = ""
					p.flags["sandbox"] = []string{sandbox}
					for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": t.TempDir(), "PATH": filepath.Dir(program) + ":" + os.Getenv("PATH"), "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": ""} {
						t.Setenv(name, value)
					}
					opt := p.options()
					opt.Getenv = os.Getenv
					c, err := coordinator.Open(t.Context(), opt)
					if err != nil {
						t.Fatal(err)
					}
					out := c.Run(t.Context(), coordinator.Job{Task: "run", Loop: &loop.Settings{Agent: name, Retries: -1}})
					p.shut(c)
					now := contents(t, home)
					creds, err := os.ReadFile(filepath.Join(home, files[0]))
					if kind == "refresh" {
						if want := strings.ReplaceAll(before, "old-1", "new-1"); err != nil || !sameJSON(string(creds), want) {
							t.Errorf("its credentials are %s, %v; %v", creds, err, out.Warnings)
						}
						delete(now, files[0])
						delete(was, files[0])
					} else if !p.warned("was not taken") {
						t.Errorf("it is not said that its credentials were not taken: %v; %v", out.Warnings, out.Failure)
					}
					for f := range now {
						if now[f] != was[f] && !strings.HasPrefix(f, ".cache/") {
							t.Errorf("%s has changed, or is new", f)
						}
					}
					for f := range was {
						if now[f] == "" {
							t.Errorf("%s is gone", f)
						}
					}
				})
			}
		}
	}
}
