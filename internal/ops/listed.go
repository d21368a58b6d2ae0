package ops

import (
	"fmt"
	"strings"
)

// mostListed is how many names a sentence lists.
const mostListed = 20

// Listed joins names for a sentence: "web, db", and of very many the first ones and how many more there are.
func Listed(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}
