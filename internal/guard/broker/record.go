package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	maxRecorded = 4 << 10
	recordLimit = 5 * time.Second
	// Tool is the name under which the decisions of the broker are recorded.
	Tool = "docker"
)

// record writes a decision about a change, or a refusal. Requests that only look are not recorded: the command that made them is.
func (s *Session) record(ctx context.Context, req request, no *refusal, p plan) (ops.GuardRecord, error) {
	input := req.String()
	if len(req.body) > 0 {
		if text, err := write(req.body); err == nil {
			if again, err := parseObject(text); err == nil { // a copy, because hiding changes it
				input += " " + canonical(hideSecrets(again))
			}
		}
	}
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
	if no.told {
		return
	}
	if _, err := s.record(ctx, req, no, plan{}); err != nil {
		s.b.o.Logger.WarnContext(ctx, "a refused Docker request could not be recorded", "session_id", s.scope.Session.ID, "error", err)
	}
}
