package transcript

import (
	"regexp"
	"strings"
	"sync"
)

// refusals are the sentences in which programs say that the kernel refused them a file or an address, which is their first or
// second group. Lines of logs, which say so of others, do not begin with the name of a program and a colon.
var refusals = sync.OnceValue(func() []*regexp.Regexp {
	const (
		why     = `(?i:permission denied|read-only file system|operation not permitted)`
		program = `^(?:/[\w./+-]*/)?[\w.+-]+: (?:line )?(?:\d+: )?`
	)
	var out []*regexp.Regexp
	for _, text := range []string{
		program + `.*connect to (?:host )?([\w.:-]+) (port \d+).*: ` + why + `$`, // nc, ssh
		program + `.*['"‘“]([^'"‘’“”]+)['"’”](?:: [\w ]+)?: ` + why + `$`,        // touch: cannot touch 'x'
		program + `(?:[\w ]+ )?(/[^:]*): ` + why + `$`,                           // cat: /x, sh: 1: cannot create /x, open /x
		`^\w*Error: \[Errno \d+\] ` + why + `: '([^']+)'$`,                       // Python
		`\bE(?:ACCES|ROFS|PERM): [\w -]+, \w+ '([^']+)'`,                         // Node, and with it the tools of Claude Code
	} {
		out = append(out, regexp.MustCompile(text))
	}
	return out
})

// Refused returns the files and addresses that the kernel refused to the tools whose answers are in the line, by what they say.
func Refused(line string) []string {
	if !strings.Contains(line, "ermission denied") && !strings.Contains(line, "ead-only file system") &&
		!strings.Contains(line, "not permitted") {
		return nil
	}
	var out []string
	for _, p := range Read(line) {
		if p.Kind != Output && p.Kind != Stderr {
			continue
		}
		for text := range strings.Lines(p.Text) {
			if what := refusedIn(strings.TrimSpace(text)); what != "" {
				out = append(out, what)
			}
		}
	}
	return out
}

func refusedIn(text string) string {
	const longest = 1024
	if len(text) > longest {
		return ""
	}
	for _, sentence := range refusals() {
		if found := sentence.FindStringSubmatch(text); found != nil {
			return strings.Join(found[1:], " ")
		}
	}
	return ""
}
