package apitest

import (
	"time"

	"claudeops/internal/ops"
)

// Limits are the cooldowns a test counts by: two restarts in four hours.
func Limits() []ops.CooldownLimit {
	return []ops.CooldownLimit{{Action: "restart", Count: 2, Window: 4 * time.Hour}}
}

// Judge records a decision of the guard about a running session and reserves what it wants.
func (j *Journal) Judge(session ops.SessionID, r ops.GuardRecord, want ...ops.Reservation) ops.GuardRecord {
	j.t.Helper()
	r.SessionID, r.At = session, j.Now
	saved, err := j.Store.Acts.RecordGuard(j.t.Context(), j.owner, r, want, Limits())
	j.must(err)
	return saved
}
