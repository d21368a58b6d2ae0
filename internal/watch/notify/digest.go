package notify

import (
	"slices"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// digestFrom is how many notices of one route at once are sent as one message.
const digestFrom = 4

// batches groups the notices that are sent as one message. A retry is sent alone: one bad notice must not delay the others.
func (o *Outbox) batches(due []ops.Notice) [][]ops.Notice {
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

// digest is one message with several notices, the most urgent first.
func digest(batch []ops.Notice) ops.Notice {
	if len(batch) == 1 {
		return batch[0]
	}
	sorted := slices.Clone(batch)
	slices.SortStableFunc(sorted, func(a, b ops.Notice) int { return urgency(b.Level) - urgency(a.Level) })
	first, text := sorted[0], notice.Digest(sorted)
	return ops.Notice{
		ID: first.ID, Kind: first.Kind, Level: first.Level, Target: first.Target, Environment: first.Environment, Service: first.Service,
		Title: text.Title, Body: text.Body,
	}
}
