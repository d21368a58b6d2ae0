package access_test

import (
	"slices"
	"strings"
	"testing"

	"claudeops/internal/access"
)

func TestEveryRoleMayDoExactlyItsOperations(t *testing.T) {
	for role, want := range map[access.Role][]access.Operation{
		access.RoleNone:      nil,
		"unknown":            nil,
		access.RoleRead:      {access.Look, access.Personal},
		access.RoleResponder: {access.Look, access.Personal, access.Acknowledge, access.Snooze, access.Deny},
		access.RoleAdmin:     operations(),
	} {
		for _, o := range operations() {
			if got := role.May(o); got != slices.Contains(want, o) {
				t.Errorf("role %q may %s: %v", role, o, got)
			}
		}
		if role.May("invented") != (role == access.RoleAdmin) {
			t.Errorf("role %q and an unknown operation", role)
		}
	}
}

func TestARequestIsOneOperation(t *testing.T) {
	for request, want := range map[string]access.Operation{
		"GET /config":                           access.Look,
		"HEAD /":                                access.Look,
		"POST /approvals/7/deny":                access.Deny,
		"POST /api/v1/approvals/7/deny":         access.Deny,
		"POST /approvals/7/approve":             access.Approve,
		"POST /api/v1/approvals/7/approve":      access.Approve,
		"POST /incidents/7/ack":                 access.Acknowledge,
		"POST /api/v1/incidents/7/snooze":       access.Snooze,
		"POST /incidents/7/resolve":             access.Resolve,
		"DELETE /api/v1/memories/1":             access.Remember,
		"POST /config/tokens/a%2Fb/revoke":      access.Administer,
		"POST /invented":                        access.Administer,
		"PUT /incidents/7/ack":                  access.Administer,
		"POST /approvals/7%2Fdeny":              access.Administer, // the router takes it for one part
		"POST /approvals//deny":                 access.Administer,
		"POST //approvals/7/deny":               access.Administer,
		"POST /approvals/7/deny/":               access.Administer,
		"POST /approvals/7/deny/../approve":     access.Administer,
		"POST /api/v1/api/v1/incidents/7/ack":   access.Administer,
		"POST /approvals/7/%64eny":              access.Deny,
		"POST /approvals/7/deny%":               access.Administer,
		"POST /api/v1/webhooks/alertmanager":    access.Administer,
		"POST /approvals/7/approve%2F..%2Fdeny": access.Administer,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := access.OperationOf(method, path); got != want {
			t.Errorf("%s is %s, want %s", request, got, want)
		}
	}
}

func TestARefusalSaysWhatIsNeeded(t *testing.T) {
	for _, r := range []access.Role{access.RoleRead, access.RoleResponder} {
		for _, o := range operations() {
			if text := access.Refusal(r, o); !r.May(o) && !strings.Contains(text, "role") {
				t.Errorf("%s, %s: %q", r, o, text)
			}
		}
	}
}

func operations() []access.Operation {
	return []access.Operation{
		access.Look, access.Personal, access.Acknowledge, access.Snooze, access.Deny, access.Approve, access.Resolve, access.Run, access.Stop,
		access.Silence, access.Clear, access.Remember, access.Resend, access.Drain, access.Administer,
	}
}
