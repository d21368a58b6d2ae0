package alert

import "claudeops/internal/ops"

// ExpandSilence turns a silence with labels into one for each firing alert that has them. One without labels stays as it is.
func ExpandSilence(q ops.Silence, firing []ops.Alert) []ops.Silence {
	if len(q.Labels) == 0 {
		return []ops.Silence{q}
	}
	var out []ops.Silence
	for _, a := range firing {
		if !hasLabels(a, q.Labels) || !ops.MatchPattern(q.Service, a.Service) || !ops.MatchPattern(q.Probe, ProbeName(a)) {
			continue
		}
		one := q
		one.Service, one.Probe, one.Labels = a.Service, ProbeName(a), nil
		out = append(out, one)
	}
	return out
}

func hasLabels(a ops.Alert, patterns map[string]string) bool {
	for name, pattern := range patterns {
		if v, ok := a.Labels[name]; !ok || !ops.MatchPattern(pattern, v) {
			return false
		}
	}
	return true
}
