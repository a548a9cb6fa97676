package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/regular"
)

// Checkout makes a repository of its own in dir, which is empty or not there. It
// holds one commit without its past, as CI systems check out, and of the
// configuration and attributes of r what says how files are written.
func (r *Repo) Checkout(ctx context.Context, commit, dir string) (*Repo, error) {
	if !isHash(commit) {
		return nil, fmt.Errorf("check out %q: %w", commit, errors.New("not the full hash of a commit"))
	}
	list, err := r.run(ctx, call{args: []string{"rev-list", "--no-walk", "--objects", commit}})
	if err != nil {
		return nil, err
	}
	config, err := r.run(ctx, call{args: []string{"config", "-z", "--get-regexp", `^core\.(autocrlf|eol|safecrlf|filemode|symlinks|ignorecase|precomposeunicode|attributesfile)$`}, allow: []int{1}})
	if err != nil {
		return nil, err
	}
	gitDir := filepath.Join(dir, ".git")
	for _, d := range []string{filepath.Join("objects", "pack"), filepath.Join("refs", "heads"), "info"} {
		if err := os.MkdirAll(filepath.Join(gitDir, d), 0o700); err != nil {
			return nil, fmt.Errorf("check out: %w", err)
		}
	}
	files := map[string]string{
		"HEAD": commit + "\n", "shallow": commit + "\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = false\n" + coreSettings(config),
	}
	if text, err := regular.Read(filepath.Join(r.commonDir, "info", "attributes"), maxSmallFile); err == nil { // mostly there are none
		files["info/attributes"] = string(text)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(gitDir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("check out: %w", err)
		}
	}
	if _, err := r.run(ctx, call{args: []string{"pack-objects", "-q", filepath.Join(gitDir, "objects", "pack", "pack")}, stdin: list}); err != nil {
		return nil, err
	}
	loc, err := Find(dir)
	if err != nil {
		return nil, err
	}
	made := Open(r.proc, loc)
	if _, err := made.run(ctx, call{args: []string{"read-tree", "--reset", "-u", commit}}); err != nil {
		return nil, err
	}
	return made, nil
}

// coreSettings are the lines of a section core for settings as git config -z lists
// them.
func coreSettings(list []byte) string {
	var b strings.Builder
	for _, kv := range splitNul(list) {
		key, value, set := strings.Cut(kv, "\n")
		if !set {
			value = "true"
		}
		if !strings.Contains(value, "\n") {
			fmt.Fprintf(&b, "\t%s = \"%s\"\n", strings.TrimPrefix(key, "core."), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
		}
	}
	return b.String()
}
