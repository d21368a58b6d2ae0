package notice

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// longestDigest limits one notice within a message of several.
const longestDigest = 400

// Digest is one message of several notices, in the given order. Of each it has the title, the first line and the link.
func Digest(all []ops.Notice) Text {
	var b strings.Builder
	for _, n := range all {
		heading := strings.TrimSuffix(short(n.Title), ".")
		first, _, _ := strings.Cut(strings.TrimSpace(n.Body), "\n")
		if !strings.HasPrefix(first, heading) {
			first = heading + ". " + first
		}
		fmt.Fprintf(&b, "- %s\n", ops.Cut(first, longestDigest))
	}
	return Text{title(fmt.Sprintf("%d notices, first: %s", len(all), short(all[0].Title))), b.String()}
}

func short(heading string) string {
	return strings.TrimPrefix(line(heading, longestFact), "Claude Ops: ")
}

// WithLink puts the address of the page on which a person can act at the end of the first line.
func WithLink(text, address string) string {
	first, rest, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	first = strings.TrimRight(first, " ")
	if trimmed := strings.TrimSuffix(first, "."); strings.HasSuffix(trimmed, "?") {
		first = trimmed + " "
	} else if trimmed != "" {
		first = trimmed + ": "
	}
	return strings.TrimRight(first+address+"\n"+rest, "\n") + "\n"
}
