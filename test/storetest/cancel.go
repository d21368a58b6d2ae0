package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func cancelCases() []testCase {
	return []testCase{
		{"the first request sets time and reason", firstCancelCounts},
		{"an ended cycle cannot be cancelled", endedCycleIsNotCancelled},
	}
}

func firstCancelCounts(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	first, err := f.Store.RequestCancel(t.Context(), id, "wrong host", Start)
	must(t, err)
	equal(t, "time", first.CancelRequestedAt, ops.Ptr(Start))
	equal(t, "reason", first.CancelReason, "wrong host")
	equal(t, "status", first.Status, ops.CycleRunning)
	second, err := f.Store.RequestCancel(t.Context(), id, "another reason", Start.Add(time.Hour))
	must(t, err)
	equal(t, "time", second.CancelRequestedAt, ops.Ptr(Start))
	equal(t, "reason", second.CancelReason, "wrong host")
	if first.WakeSeq != 1 || second.WakeSeq != 2 {
		t.Errorf("wake numbers are %d and %d, want 1 and 2", first.WakeSeq, second.WakeSeq)
	}
	// A request needs no owner and takes nothing from the one that runs the cycle.
	f.EndCycle(t, id)
}

func endedCycleIsNotCancelled(t *testing.T, f *Fixture) {
	id := f.Claim(t, "home").Cycle.ID
	f.EndCycle(t, id)
	_, err := f.Store.RequestCancel(t.Context(), id, "too late", Start)
	wantErr(t, err, ops.ErrConflict)
	if err == nil || !strings.Contains(err.Error(), string(ops.CycleHealthy)) {
		t.Errorf("%v does not say how the cycle ended", err)
	}
	_, err = f.Store.RequestCancel(t.Context(), 999, "nothing there", Start)
	wantErr(t, err, ops.ErrNotFound)
}
