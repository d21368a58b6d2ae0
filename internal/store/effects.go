package store

import (
	"context"

	"claudeops/internal/ops"
)

// maxEffects is how many judgements of a kind another attempt is told about.
const maxEffects = 20

// effectsOfCycle reads what the gates let the sessions of a cycle change, and what they refused. A tool call that passed both
// gates is told once, as the first of them saw it.
func effectsOfCycle(ctx context.Context, q querier, cycle ops.CycleID) (map[ops.SessionID]ops.Effects, error) {
	judged, err := list(ctx, q, scanGuard, selectGuard+` WHERE g.session_id IN (SELECT id FROM sessions WHERE cycle_id = ?)
		AND (g.verdict = ? OR g.mutating) ORDER BY g.id`, cycle, verdictDeny)
	if err != nil || len(judged) == 0 {
		return nil, err
	}
	type call struct {
		session ops.SessionID
		use     string
	}
	told := map[call]bool{}
	out := map[ops.SessionID]ops.Effects{}
	for _, g := range judged {
		e := out[g.SessionID]
		key := call{g.SessionID, g.ToolUseID}
		switch {
		case !g.Allowed:
			e.Denied = append(e.Denied, g)
		case g.ToolUseID != "" && told[key]:
		default:
			told[key] = true
			e.Mutating = true
			e.Done = append(e.Done, g)
		}
		out[g.SessionID] = e
	}
	for id, e := range out {
		e.Done, e.Denied = latest(e.Done), latest(e.Denied)
		out[id] = e
	}
	return out, nil
}

func latest(records []ops.GuardRecord) []ops.GuardRecord {
	return records[max(0, len(records)-maxEffects):]
}
