package story

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Told is what became of the notices about something. Told means delivered: a notice that is only on record has told nobody.
type Told struct {
	Deliveries []ops.Delivery
	// Nobody says that the newest notice that should have reached somebody reached nobody, and why; empty otherwise.
	Nobody string
}

// ToldBy reads notices, oldest first.
func ToldBy(notices []ops.Notice) Told {
	var t Told
	var muted, waiting string
	for _, n := range notices {
		t.Deliveries = append(t.Deliveries, n.Deliveries...)
		switch {
		case n.Status == ops.NoticeSent || len(n.Deliveries) > 0:
			t.Nobody, muted, waiting = "", "", ""
		case n.Error == ops.SkippedMuted:
			muted = "Nobody was told: the route of the notice has no target"
		case n.Status == ops.NoticeSkipped:
			t.Nobody = "Nobody was told: no notification target"
		case n.Status == ops.NoticeDead:
			t.Nobody = "Nobody was told: the notice could not be delivered: " + ops.Cut(ops.Prose(n.Error), longest)
		case n.Error != "":
			waiting = "Nobody was told yet: the notice could not be delivered and is tried again: " + ops.Cut(ops.Prose(n.Error), longest)
		}
	}
	for _, why := range []string{waiting, muted} {
		if t.Nobody == "" && len(t.Deliveries) == 0 {
			t.Nobody = why
		}
	}
	return t
}

// ByRoute says by which route a notice went.
func ByRoute(d ops.Delivery) string {
	switch {
	case d.Route == "" || d.Route == "first":
		return "the default route"
	case d.Route == "second":
		return "the second contact"
	case strings.HasPrefix(d.Route, "route "):
		return d.Route
	}
	return "the " + d.Route
}

// Words are one sentence about the people who were told; empty if there is nothing to say.
func (t Told) Words() string {
	if t.Nobody != "" || len(t.Deliveries) == 0 {
		return t.Nobody
	}
	last := t.Deliveries[len(t.Deliveries)-1]
	words := fmt.Sprintf("Told: %s, by %s, at %s UTC", last.To, ByRoute(last), clock(last.At))
	if n := len(t.Deliveries); n > 1 {
		words += fmt.Sprintf(" (%d deliveries)", n)
	}
	return words
}
