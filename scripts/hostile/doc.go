// Package hostile holds the corpus of attacks on Ralph: what a hostile model or
// a hostile repository does against each promise of safety.
//
// It owns a harness, which is all in tests, and the cases, which are data in
// testdata/hostile: one YAML file for each family, with the set-up of a project,
// a home and a place outside, the attack, and the proof of an escape. Each case
// runs twice: with Ralph's defences on, through the highest door there is (mostly
// a whole Ralph in a process of its own, with a scripted model), where nothing
// may be proven; and with the defence under attack off, done naively, where the
// proof must come, so that a case that attacks nothing is noticed.
//
// It refuses to reach beyond loopback and temporary directories, and to leave
// processes behind.
//
//	go test -v ./scripts/hostile                    # a part of each family; ends with the table
//	RALPH_HOSTILE=all go test -v ./scripts/hostile  # all of it
//	go test -v ./scripts/hostile -run 'Corpus/paths/'  # one family
package hostile
