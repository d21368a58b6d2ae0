package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// The rules by which the broker refuses.
const (
	ruleRequest = "docker.request"
	ruleNever   = "docker.never"
	ruleTier    = "docker.tier"
	ruleDryRun  = "docker.dry-run"
	ruleOutside = "docker.outside"
	ruleOff     = "docker.off"
	ruleLease   = "docker.lease"
	ruleRecord  = "docker.record"
	ruleEngine  = "docker.engine"
	ruleAllowed = "docker.allowed"
)

// refusal is why a request does not reach the engine. Its reason also says what would be allowed.
type refusal struct {
	status   int
	rule     string
	reason   string
	notified bool // the ledger has recorded it
}

func (r *refusal) Error() string { return r.reason }

func refuse(rule, format string, args ...any) *refusal {
	return &refusal{status: http.StatusForbidden, rule: rule, reason: fmt.Sprintf(format, args...)}
}

// permit finds the route of a request and checks everything that the request line says. Replaced says who replaces containers.
func permit(t target, tier ops.Tier, dryRun bool, replaced func() string) (route, *refusal) {
	known := routes()
	i := slices.IndexFunc(known, func(r route) bool { return r.method == t.method && r.matches(t.path) })
	if i < 0 {
		return route{}, refuse(ruleNever, "The Docker request %s is refused: %s", t.short(), never(t, replaced))
	}
	r := known[i]
	switch {
	case tier < r.tier:
		return r, refuse(ruleTier, "The Docker request %s is refused: it needs %s, and this session is at %s. %s",
			t.short(), r.tier, tier, "Hand over with what you found.")
	case r.action != look && dryRun:
		return r, refuse(ruleDryRun, "The Docker request %s is refused: this is a dry run. Report what you would do.", t.short())
	}
	for name, values := range t.query {
		allowed, ok := r.query[name]
		if !ok || !allowed(values[0]) {
			return r, refuse(ruleNever, "The Docker request %s is refused: the parameter %s=%q is not allowed. Leave it out.",
				t.short(), name, values[0])
		}
	}
	return r, nil
}

func (t target) short() string {
	t.query = nil
	return t.String()
}

// never says why a request is not in the allow list, and what to do instead.
func never(t target, replaced func() string) string {
	last := t.path[len(t.path)-1]
	switch {
	case last == "prune":
		return "nothing is deleted in bulk. Report what takes up the space."
	case last == "exec" || t.path[0] == "exec":
		return "no command runs inside a container. Use logs, top and inspect."
	case slices.Contains([]string{"attach", "ws", "session", "grpc"}, last):
		return "no connection to a container's input is opened. Use logs."
	case slices.Contains([]string{"archive", "export", "get", "load", "commit", "copy"}, last):
		return "no files are copied into or out of containers and images. Use logs and inspect."
	case t.path[0] == "volumes":
		return "volumes are neither created nor removed. Report it for a human."
	case t.path[0] == "build" || slices.Contains([]string{"push", "tag"}, last):
		return "images are not built, tagged or pushed. Report it for a human."
	case last == "kill" || last == "pause":
		return "use stop or restart."
	case t.method != http.MethodGet && slices.Contains([]string{"containers", "images", "networks"}, t.path[0]):
		return replaced()
	default:
		return "it is not in the list of allowed requests. Report it for a human."
	}
}

const (
	maxRecorded = 4 << 10
	recordLimit = 5 * time.Second
	// Tool is the name under which the decisions of the broker are recorded.
	Tool = "docker"
)

// record writes a decision about a change, or a refusal. Requests that only look are not recorded: the command that made them is.
func (s *Session) record(ctx context.Context, req request, no *refusal, p plan) (ops.GuardRecord, error) {
	input := req.String()
	digest := sha256.Sum256([]byte(input))
	r := ops.GuardRecord{
		At: s.b.o.Clock(), CycleID: s.scope.Session.CycleID, SessionID: s.scope.Session.ID, Tier: s.scope.Session.May(),
		Gate: ops.GateDocker, Tool: Tool, Digest: hex.EncodeToString(digest[:]),
		Input:   strings.ToValidUTF8(ops.Ends(s.b.o.Redact(input), maxRecorded, 0, "…"), "�"),
		Allowed: true, Rule: ruleAllowed, Mutating: true, Reason: "It belongs to the incident's service " + p.service + ".",
	}
	if len(req.path) > 1 && req.path[0] == "containers" {
		r.ToolUseID = Tool + ":" + req.path[1]
	}
	if no != nil {
		r.Allowed, r.Mutating, r.Rule, r.Reason = false, false, no.rule, s.b.o.Redact(no.reason)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer cancel()
	return s.b.o.Ledger.Reserve(ctx, r, p.want)
}

// note records a refusal. It is a refusal also when that fails.
func (s *Session) note(ctx context.Context, req request, no *refusal) {
	if no.notified {
		return
	}
	if _, err := s.record(ctx, req, no, plan{}); err != nil {
		s.b.o.Logger.WarnContext(ctx, "a refused Docker request could not be recorded", "session_id", s.scope.Session.ID, "error", err)
	}
}
