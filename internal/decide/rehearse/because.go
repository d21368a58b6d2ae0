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
		if unchanged(to.Interface(), from.Field(i).Interface()) {
			continue
		}
		to.Set(from.Field(i))
		if !same(p) {
			continue
		}
		name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
		if name == "inventory" {
			return service(before, after, same)
		}
		return setting(name)
	}
	return ""
}

// service names the one service whose settings make the difference.
func service(before, after ops.Policy, same func(ops.Policy) bool) string {
	for _, s := range after.Inventory.Services {
		p := before
		i := slices.IndexFunc(p.Inventory.Services, func(o ops.Service) bool { return o.Name == s.Name })
		if i < 0 || unchanged(p.Inventory.Services[i], s) {
			continue
		}
		p.Inventory.Services = slices.Clone(p.Inventory.Services)
		p.Inventory.Services[i] = s
		if same(p) {
			if unchanged(withTrust(before.Inventory.Services[i], s.Trust), s) {
				return "services." + s.Name + ".trust"
			}
			return "services." + s.Name
		}
	}
	return "services"
}

func withTrust(s ops.Service, t ops.Trust) ops.Service {
	s.Trust = t
	return s
}

func unchanged(a, b any) bool {
	x, errA := decide.Sparse(a)
	y, errB := decide.Sparse(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// setting is the key of a part of the policy in the configuration.
func setting(name string) string {
	if rest, ok := strings.CutPrefix(name, "budget_"); ok {
		return "budget." + rest
	}
	switch name {
	case "context_threshold":
		return "escalation.resume_context_threshold"
	case "windows":
		return "models"
	case "cooldowns":
		return "guard.cooldowns"
	case "tell_escalated":
		return "notify.routes"
	case "process":
		return "escalation.manager"
	case "max_depth", "mode", "routes", "approval_tier", "approval", "independence", "manager", "planner", "judge", "entry":
		return "escalation." + name
	}
	return name
}
