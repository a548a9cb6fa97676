package coordinator

import "testing"

// TestProse lists names of files that people read, and names like them on which
// builds and tests depend.
func TestProse(t *testing.T) {
	for name, want := range map[string]bool{
		"README.md": true, "docs/guide.markdown": true, "docs/api.rst": true, "NOTES.txt": true, "LICENSE": true, "docs/Changelog": true, "a/b.adoc": true,
		"main.go": false, "CMakeLists.txt": false, "sub/CMakeLists.txt": false, "requirements.txt": false, "requirements-dev.txt": false, "constraints.txt": false,
		"testdata/golden.md": false, "pkg/TestData/a.txt": false, "tests/expected.txt": false, "spec/fixtures/a.md": false, "page.mdx": false, "Makefile": false, "robots": false, "data.json": false,
	} {
		if prose(name) != want {
			t.Errorf("prose(%q) is %v", name, !want)
		}
	}
}
