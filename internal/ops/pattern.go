package ops

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled when it is first used: all of them together would slow the start of every command.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
