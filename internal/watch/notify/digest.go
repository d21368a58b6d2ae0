package notify

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

const (
	// digestFrom is how many notices that go the same way at once are sent as one message.
	digestFrom  = 4
	longestBody = 2000 // of one notice within a message of several
)

// parcels puts together what is sent as one message. What is tried again is sent alone: one bad notice must not hold the others.
func (o *Outbox) parcels(due []ops.Notice) [][]ops.Notice {
	var out [][]ops.Notice
	if o.route == nil {
		for _, n := range due {
			out = append(out, []ops.Notice{n})
		}
		return out
	}
	counts := map[string]int{}
	for _, n := range due {
		if n.Attempts == 0 {
			counts[o.route(n)]++
		}
	}
	at := map[string]int{}
	for _, n := range due {
		way := o.route(n)
		if n.Attempts > 0 || counts[way] < digestFrom {
			out = append(out, []ops.Notice{n})
			continue
		}
		if i, ok := at[way]; ok {
			out[i] = append(out[i], n)
			continue
		}
		at[way] = len(out)
		out = append(out, []ops.Notice{n})
	}
	return out
}

// digest is one message that tells several notices, the most urgent first.
func digest(parcel []ops.Notice) ops.Notice {
	if len(parcel) == 1 {
		return parcel[0]
	}
	sorted := slices.Clone(parcel)
	slices.SortStableFunc(sorted, func(a, b ops.Notice) int { return urgency(b.Level) - urgency(a.Level) })
	first := sorted[0]
	var b strings.Builder
	for _, n := range sorted {
		fmt.Fprintf(&b, "**%s**\n\n%s\n\n", strings.TrimPrefix(line(n.Title, longestTitle), "Claude Ops: "), cut(strings.TrimSpace(n.Body)))
	}
	return ops.Notice{
		ID: first.ID, Kind: first.Kind, Level: first.Level, Target: first.Target, Environment: first.Environment, Service: first.Service,
		Title: fmt.Sprintf("Claude Ops: %d notices, first: %s", len(sorted), strings.TrimPrefix(first.Title, "Claude Ops: ")), Body: b.String(),
	}
}

func cut(s string) string {
	if runes := []rune(s); len(runes) > longestBody {
		return string(runes[:longestBody]) + "…"
	}
	return s
}
