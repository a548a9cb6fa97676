package prompt

// Weakened renders what an agent is told whose changes make a check or a test
// prove less; each of list says where and what.
func Weakened(list []string) (string, error) {
	return render("weakened.md", map[string]any{"List": list})
}
