package cycle

import (
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// PreviewPrompt renders what a session would be told, without starting or writing anything. Gated means that the guard is on.
func PreviewPrompt(env ops.Environment, now ops.Claimed, s ops.Session, gated bool) (string, error) {
	handler, _ := now.Cycle.Policy.Handler(s.Handler)
	d := &draft{env: env, now: now, handler: handler, brief: decide.BriefFor(now, s, time.Now()), gated: gated, spec: ops.SessionSpec{
		Session: s, DryRun: now.Cycle.Policy.DryRun,
	}}
	if s.ContextMode == ops.ContextResume {
		d.spec.Resume = "preview" // any conversation: only whether there is one matters
	}
	if err := prompt(d); err != nil {
		return "", err
	}
	return d.spec.Prompt, nil
}
