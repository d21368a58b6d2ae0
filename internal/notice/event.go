package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

// Did is the sentence of what a person did by a page or the API: what it was, or the request itself where its own event tells it.
func Did(name, from string, e ops.Event, what string) ops.Rendered {
	switch e.Verb {
	case ops.VerbSessionStopped:
		return ops.Render(fmt.Sprintf("%s stopped session #%s", name, e.Subject.ID))
	case ops.VerbCycleStopped:
		return ops.Render(fmt.Sprintf("%s cancelled C-%s", name, e.Subject.ID))
	case ops.VerbHostDrained:
		return ops.Render(fmt.Sprintf("%s changed whether host %s takes work", name, e.Subject.ID))
	case ops.VerbLoginChanged:
		if from != name {
			what += " from " + from
		}
		return ops.Render(name + " " + what)
	}
	if from != name {
		name += " from " + from
	}
	return ops.Render(name + ": " + what)
}
