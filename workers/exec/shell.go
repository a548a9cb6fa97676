package exec

import "os"

// Shell is the absolute path of the program that reads command lines: bash,
// which people and models write for, where PATH has it, else /bin/sh.
func Shell() string {
	for _, name := range []string{"bash", "sh"} {
		if path, err := search(Spec{Argv: []string{name}}, os.Getenv("PATH")); err == nil {
			return path
		}
	}
	return "/bin/sh"
}
