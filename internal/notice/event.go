package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

// Did is the sentence of what a person did by a page or the API: what it was, or the request itself where its own event tells it.
func Did(name, from string, e ops.Event, what string) ops.Rendered {
	say, own := map[ops.Verb]string{
		ops.VerbSessionStopped: "%s stopped session #%s",
		ops.VerbCycleStopped:   "%s cancelled C-%s",
		ops.VerbHostDrained:    "%s changed whether host %s takes work",
	}[e.Verb]
	at := ""
	if from != name {
		at = " from " + from
	}
	switch {
	case own:
		return ops.Render(fmt.Sprintf(say, name, e.Subject.ID))
	case e.Verb == ops.VerbLoginChanged:
		return ops.Render(name + " " + what + at)
	}
	return ops.Render(name + at + ": " + what)
}
