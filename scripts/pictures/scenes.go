package main

import "strings"

// scene is what a person does at a terminal. The prompts that wait for a command
// that never ends make what is on the screen certain.
type scene struct {
	name       string
	cols, rows int
	project    string            // the name of its directory
	files      map[string]string // of the project, by path
	play       func(p *person)
}

func scenes() []scene {
	return []scene{
		{name: "chat", cols: 96, rows: 32, project: "shop", files: shop(), play: chatScene},
		{name: "complete", cols: 96, rows: 18, project: "shop", files: shop(), play: completeScene},
		{name: "pick", cols: 96, rows: 16, project: "shop", files: shop(), play: pickScene},
		{name: "run", cols: 96, rows: 22, project: "shop", files: planned(), play: runScene},
		{name: "oneshot", cols: 96, rows: 26, project: "shop", files: shop(), play: oneShotScene},
	}
}

// shop is a small project with tests, of which some take their time.
func shop() map[string]string {
	return map[string]string{
		"README.md":     "# Shop\n\nA small shop for the shell: a cart, a search and an export.\n",
		"CHANGELOG.md":  "# Changes\n\n- first version\n",
		".gitignore":    ".ralph/\nRALPH_*.md\nAGENT.md\n",
		"Makefile":      ".PHONY: test\ntest: test-cart\ntest-%:\n\t@sh test/$*.sh\n",
		"lib/cart.sh":   "# total adds up the prices of a cart, in cents.\ntotal() {\n\tsum=0\n\tfor price in \"$@\"; do sum=$price; done\n\techo $sum\n}\n",
		"lib/search.sh": "# find prints the lines that hold a word.\nfind_word() {\n\tgrep \"$1\" \"$2\"\n}\n",
		"lib/export.sh": "# export writes a cart as CSV.\nexport_cart() {\n\techo \"$1;$2\"\n}\n",
		"test/cart.sh":  ". lib/cart.sh\n[ \"$(total 150 250)\" = 400 ] || { echo 'FAIL total 150 250: want 400'; exit 1; }\necho 'ok cart'\n",
		// These two wait for services that never come up.
		"test/search.sh": "echo 'waiting for the index …'\nexec sleep 900\n",
		"test/export.sh": "echo 'waiting for the printer …'\nexec sleep 900\n",
	}
}

func planned() map[string]string {
	files := shop()
	var b strings.Builder
	b.WriteString("# Tasks\n\n## Cart\n\n- [ ] **T-1** Add up all prices of a cart\n  - check: `make test-cart`\n- [ ] **T-2** Print a receipt of the cart\n  - depends on: T-1\n  - check: `make test-export`\n")
	b.WriteString("\n## Search\n\n- [ ] **T-3** Find words whatever their case\n  - check: `make test-search`\n- [ ] **T-4** Quote what is written as CSV\n  - check: `make test-export`\n- [ ] **T-5** Search the export too\n  - depends on: T-3, T-4\n- [ ] **T-6** Say all of it in the README\n  - depends on: T-2, T-5\n")
	files["RALPH_TASKS.md"] = b.String()
	files[".gitignore"] = ".ralph/\n"
	return files
}

// chatScene has three agents at work while the person types, and then stops them.
func chatScene(p *person) {
	p.command("ralph chat")
	p.sees("❯")
	p.command("The tests of cart, search and export fail. Mend the three side by side.")
	p.sees("make test-search", "make test-export", "fix_cart")
	p.until("the work of fix_cart is in", func(screen string) bool {
		return strings.Contains(screen, "fix_cart") && strings.Contains(screen, "merged")
	})
	p.keys("/ask how does the test of search go?")
	p.picture("chat", "Ralph's chat with three agents at work: one is done and merged, two run their tests, and a question is being typed", "make test-search", "make test-export", "/ask how does the test of search go?")
	p.keys("\x15\x03")
	p.until("all is at rest", func(screen string) bool { return strings.Contains(screen, "/go") })
	p.kept("fix_search", "fix_export")
	p.command("What were you doing?")
	p.picture("stop", "Ctrl-C stopped everything; then Ralph only talks, and says what was done and what was not", "not proven")
	p.command("/exit")
	p.back()
}

// completeScene shows what Tab offers.
func completeScene(p *person) {
	p.command("ralph chat")
	p.sees("❯")
	p.keys("/s\t\t")
	p.picture("complete", "Tab after /s lists the commands of the chat that begin so", "/status", "/stop", "/sessions")
	p.keys("\x15")
	p.command("/exit")
	p.back()
}

// pickScene goes on with an earlier session, found by a few letters.
func pickScene(p *person) {
	for i, task := range []string{"why is the total of a cart wrong?", "find words whatever their case", "quote the fields of the export"} {
		p.tape(i)
		p.command("ralph --quiet --session new '" + task + "'")
		p.back()
	}
	p.tape(3)
	p.command("clear")
	p.until("an empty screen", func(screen string) bool { return strings.TrimSpace(screen) == "$" })
	p.command("ralph chat --resume")
	p.sees("quote the fields", "total of a cart")
	p.keys("\t\t")
	p.picture("pick", "ralph chat --resume lets one pick an earlier session", "total of a cart", "find words", "quote the fields")
	p.keys("\r")
	p.sees("❯")
	p.command("/exit")
	p.back()
}

// runScene works through a plan.
func runScene(p *person) {
	p.command("ralph run --parallel 3 --human-intervention never")
	p.picture("run", "ralph run works through a plan: above what is done, below the tasks at work and how far it all is", "T-1 done", "T-2", "T-3", "T-4", "1/6")
	p.keys("\x03")
	p.back()
}

// oneShotScene does one task for a script.
func oneShotScene(p *person) {
	p.command(`ralph --json --check 'make test' 'the total of a cart is wrong' | jq '{status, verified, result, files_changed}'`)
	p.picture("oneshot", "a one-shot: progress on standard error, one JSON document on standard output, read by jq", `"verified": true`, "files_changed")
	p.back()
}
