package rehearse

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// because names the setting that makes a difference by itself: with it alone changed, the result is the new one. It is empty where
// no setting does.
func because(before, after ops.Policy, same func(ops.Policy) bool) string {
	from := reflect.ValueOf(after)
	for i := range from.NumField() {
		p := before
		to := reflect.ValueOf(&p).Elem().Field(i)
		was, err := decide.Sparse(to.Interface())
		is, err2 := decide.Sparse(from.Field(i).Interface())
		if err != nil || err2 != nil || bytes.Equal(was, is) {
			continue
		}
		if to.Set(from.Field(i)); same(p) {
			name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
			return setting(name)
		}
	}
	return ""
}

// setting is the key of a part of the policy in the configuration.
func setting(name string) string {
	key, other := map[string]string{
		"context_threshold": "escalation.resume_context_threshold", "windows": "models", "inventory": "services",
		"tell_escalated": "notify.routes", "process": "escalation.manager", "cooldowns": "cooldown",
	}[name]
	switch {
	case other:
		return key
	case strings.HasPrefix(name, "budget_"):
		return strings.Replace(name, "_", ".", 1)
	case slices.Contains(strings.Fields("max_depth mode routes approval_tier approval independence manager planner judge entry"), name):
		return "escalation." + name
	}
	return name
}
