package config

import "testing"

// TestPaths holds sandbox_read and sandbox_write to absolute paths, wherever they come from.
func TestPaths(t *testing.T) {
	for _, k := range Keys() {
		if k.Name != "sandbox_read" && k.Name != "sandbox_write" {
			continue
		}
		if k.Project {
			t.Errorf("%s: a project may set it", k.Name)
		}
		for value, good := range map[string]bool{"/srv/data": true, "~/data": true, "../x": false, "x": false, "/": false, "/..": false, "~bob/x": false} {
			l := &loader{cfg: &Config{origins: map[string]Origin{}}}
			if err := l.set(&k, []string{value}, Origin{}); (err == nil) != good {
				t.Errorf("%s %q: %v", k.Name, value, err)
			}
		}
	}
}
