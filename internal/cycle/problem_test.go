package cycle_test

import (
	"context"
	"strings"
	"testing"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

func TestTheProblemOfACycleIsWhatTierOneFound(t *testing.T) {
	t.Parallel()
	s := newStage(t, policy(), escalating)
	s.advance(t)
	if got := s.journal.cycle.Problem; got != "web: HTTP 502" {
		t.Errorf("the problem is %q", got)
	}
	quiet := newStage(t, policy(), func(*stage) play {
		return func(context.Context, ops.SessionSpec) ops.RunResult { return success() }
	})
	quiet.advance(t)
	if got := quiet.journal.cycle.Problem; got != "" {
		t.Errorf("a healthy check has the problem %q", got)
	}
}

func TestTheProblemIsRedactedBeforeItIsCut(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("x", 60) + "hunter2" + strings.Repeat("y", 60)
	s := newStage(t, policy(), func(s *stage) play {
		return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
			if spec.Session.Tier == 1 {
				s.file.raw = []byte(strings.ReplaceAll(string(handoffJSON(2)), "HTTP 502", secret))
			}
			return success()
		}
	}, func(p *cycle.Parts) {
		p.Redact = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted: password]") }
	})
	s.advance(t)
	if got := s.journal.cycle.Problem; got != "web: [redacted: password]" {
		t.Errorf("the problem is %q", got)
	}
}
