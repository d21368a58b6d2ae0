package decide_test

import (
	"testing"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

func TestALessonHasNoNumbersOfSessions(t *testing.T) {
	for is, want := range map[string]string{
		"session 12 (Tier 2) found a full disk":         "an earlier session found a full disk",
		"See Session #3 and cycles 4, not session keys": "See an earlier session and an earlier cycle, not session keys",
		"incident 7: port 5432 is taken":                "an earlier incident: port 5432 is taken",
	} {
		if got := decide.CleanLesson(ops.Lesson{Observation: is}).Observation; got != want {
			t.Errorf("%q became %q, want %q", is, got, want)
		}
	}
}
