package gate

import (
	"path/filepath"
	"strings"
)

// Matches lists the files that a shell would find for an absolute pattern, for Facts.Glob: a leading dot must be written
// out.
func Matches(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // not a pattern: the shell takes it as it is, and so does the judge
	}
	wanted := strings.Split(pattern, "/")
	var out []string
	for _, name := range found {
		if !hidesDot(strings.Split(name, "/"), wanted) {
			out = append(out, name)
		}
	}
	return out
}

// hidesDot reports a match of which a wildcard took a leading dot.
func hidesDot(parts, wanted []string) bool {
	for i, p := range parts {
		if i < len(wanted) && strings.HasPrefix(p, ".") && !strings.HasPrefix(wanted[i], ".") {
			return true
		}
	}
	return false
}
