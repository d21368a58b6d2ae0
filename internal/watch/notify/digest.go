package notify

import (
	"slices"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// digestFrom is how many notices of one route at once are sent as one message.
const digestFrom = 4

// batches groups the notices that are sent as one message. A retry is sent alone: one bad notice must not delay the others. A question is
// sent alone too, so that it has its buttons.
func (o *Outbox) batches(due []ops.Notice) [][]ops.Notice {
	var out [][]ops.Notice
	if o.route == nil {
		for _, n := range due {
			out = append(out, []ops.Notice{n})
		}
		return out
	}
	alone := func(n ops.Notice) bool { return n.Attempts > 0 || n.Kind.AsksPeople() }
	counts := map[string]int{}
	for _, n := range due {
		if !alone(n) {
			counts[o.route(n)]++
		}
	}
	at := map[string]int{}
	for _, n := range due {
		way := o.route(n)
		if alone(n) || counts[way] < digestFrom && !notice.Bundled(o.ruleOf(n), n) {
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
	for i, n := range sorted {
		if n.Link != "" {
			sorted[i].Body = notice.WithLink(n.Body, n.Link)
		}
	}
	slices.SortStableFunc(sorted, func(a, b ops.Notice) int { return urgency(b.Level) - urgency(a.Level) })
	first, text := sorted[0], notice.Digest(sorted)
	return ops.Notice{
		ID: first.ID, Kind: first.Kind, Level: first.Level, Target: first.Target, Environment: first.Environment, Service: first.Service,
		Title: text.Title, Body: text.Body,
	}
}
