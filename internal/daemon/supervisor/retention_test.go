package supervisor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// attic is a store of old records.
type attic struct {
	rows   map[ops.Record]int64 // batches that are left
	free   int64
	asked  []time.Time
	failed error
}

func (a *attic) RemoveOld(_ context.Context, what ops.Record, _ ops.Retention, now time.Time) (int64, bool, error) {
	a.asked = append(a.asked, now)
	if a.failed != nil {
		return 0, false, a.failed
	}
	if a.rows[what] == 0 {
		return 0, false, nil
	}
	a.rows[what]--
	return 100, true, nil
}

func (a *attic) GiveBack(context.Context) (int64, error) {
	if a.free == 0 {
		return 0, nil
	}
	a.free--
	return 1 << 20, nil
}

func full() *attic {
	a := &attic{rows: map[ops.Record]int64{}, free: 3}
	for _, what := range ops.Records() {
		a.rows[what] = 5
	}
	return a
}

func (a *attic) left() int64 {
	sum := a.free
	for _, n := range a.rows {
		sum += n
	}
	return sum
}

func TestRetentionRemovesEverythingThatIsDueWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := full()
		var log bytes.Buffer
		r := &Retention{Records: a, Clock: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		began := time.Now()
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.left() != 0 {
			t.Errorf("%d batches are left", a.left())
		}
		batches := time.Duration(5*len(ops.Records()) + 3)
		if took := time.Since(began); took < batches*retentionPause {
			t.Errorf("%d batches without a pause: %s", batches, took)
		}
		if !strings.Contains(log.String(), "kind=transcripts") || !strings.Contains(log.String(), "rows=500") {
			t.Errorf("the log says: %s", log.String())
		}
	})
}

func TestRetentionRunsByItselfUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := full()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
		defer cancel()
		(&Retention{Records: a, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		looks := 0
		for i, at := range a.asked {
			if i == 0 || at != a.asked[i-1] {
				looks++
			}
		}
		if looks != 3 || a.left() != 0 {
			t.Errorf("%d looks in two and a half hours, %d batches left", looks, a.left())
		}
	})
}

// A clock that is a year ahead makes everything look old. Nothing must go before somebody had time to notice.
func TestAClockThatJumpedRemovesNothingForADay(t *testing.T) {
	for name, jump := range map[string]time.Duration{"ahead": 365 * 24 * time.Hour, "back": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attic{}
				var offset time.Duration
				r := &Retention{Records: a, Clock: func() time.Time { return time.Now().Add(offset) }, Logger: slog.New(slog.DiscardHandler)}
				look := func() int {
					before := len(a.asked)
					if err := r.Look(t.Context()); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Hour)
					return len(a.asked) - before
				}
				if look() == 0 {
					t.Fatal("a steady clock removes nothing")
				}
				offset = jump
				for i := range 24 {
					if look() > 0 {
						t.Fatalf("something was removed %d hours after the jump", i)
					}
				}
				if look() == 0 {
					t.Error("a clock that was steady for a day is still not trusted")
				}
			})
		})
	}
}

func TestRetentionTellsWhatWentWrong(t *testing.T) {
	broken := errors.New("disk full")
	r := &Retention{Records: &attic{failed: broken}, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}
	if err := r.Look(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "transcripts") {
		t.Errorf("got %v", err)
	}
}
