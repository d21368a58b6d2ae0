package store_test

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

func answered(service string, at time.Time, ms int64, status ops.Health) ops.Check {
	return ops.Check{
		At: at, Environment: "home", Purpose: ops.ProbeObserve, Service: service, Probe: "tcp", Type: ops.CheckService, Status: status,
		Error: map[bool]string{true: "refused"}[status != ops.Healthy], ResponseTimeMS: ms,
	}
}

func timesOf(t *testing.T, s *store.Store, over, bucket time.Duration) []store.TimesBucket {
	t.Helper()
	found, err := s.Reports.ResponseTimes(t.Context(), "home", "web", store.HealthFilter{
		Since: storetest.Start.Add(-over), Until: storetest.Start, Bucket: bucket,
	})
	succeeds(t, err)
	return found
}

func TestResponseTimesArePercentilesOfAllResults(t *testing.T) {
	s := openFile(t, storetest.NewFile(t))
	hour := storetest.Start.UTC().Truncate(time.Hour).Add(-time.Hour)
	// A hundred results from 10 to 109 ms, in several batches, of which some are only counted; and one that waited for its deadline.
	for i := range int64(100) {
		c := answered("web", hour.Add(time.Duration(i)*time.Second), 10+i, ops.Healthy)
		kept, counted := []ops.Check{c}, []ops.Check(nil)
		if i%3 > 0 {
			kept, counted = counted, kept
		}
		succeeds(t, s.Watch.RecordResults(t.Context(), "home", kept, counted, nil, nil, nil))
	}
	succeeds(t, s.Watch.AddChecks(t.Context(), []ops.Check{answered("web", hour, 10_000, ops.Down), answered("other", hour, 7, ops.Healthy)}))
	for _, bucket := range []time.Duration{time.Hour, 4 * time.Hour} {
		var with []store.TimesBucket
		for _, b := range timesOf(t, s, 4*time.Hour, bucket) {
			if b.Checks > 0 {
				with = append(with, b)
			}
		}
		if len(with) != 1 || with[0].Checks != 100 {
			t.Fatalf("with buckets of %s: %+v", bucket, with)
		}
		within(t, "half", with[0].P50, 60*time.Millisecond)
		within(t, "almost all", with[0].P95, 105*time.Millisecond)
	}
}

// within allows a tenth: that is how exact the histogram is.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if off := (got - want).Abs(); off > want/10 {
		t.Errorf("%s of the results take at most %s, want about %s", what, got, want)
	}
}

func TestEqualResponseTimesAreExact(t *testing.T) {
	s := openFile(t, storetest.NewFile(t))
	at := storetest.Start.Add(-time.Minute)
	for _, ms := range []int64{9, 9, 9} {
		succeeds(t, s.Watch.AddChecks(t.Context(), []ops.Check{answered("web", at, ms, ops.Healthy)}))
	}
	found := timesOf(t, s, time.Hour, time.Hour)
	last := found[len(found)-1]
	if last.P50 != 9*time.Millisecond || last.P95 != 9*time.Millisecond || last.Checks != 3 {
		t.Errorf("they are %+v", last)
	}
	if _, err := s.Reports.ResponseTimes(t.Context(), "home", "web", store.HealthFilter{Bucket: time.Minute}); err == nil {
		t.Error("a bucket of a minute is accepted")
	}
}

func TestChecksAndErrorsOfOneService(t *testing.T) {
	s := openFile(t, storetest.NewFile(t))
	at := storetest.Start.Add(-time.Hour)
	second := answered("web", at, 5, ops.Degraded)
	second.Probe = "http"
	err := s.Watch.AddChecks(t.Context(), []ops.Check{
		answered("web", at.Add(-time.Hour), 1, ops.Down), answered("web", at, 2, ops.Healthy), second, answered("web2", at, 3, ops.Down),
	})
	succeeds(t, err)
	found, err := s.Watch.ChecksOf(t.Context(), "home", "web")
	if err != nil || len(found) != 2 || found[0].Probe != "http" || found[1].Status != ops.Healthy || found[1].ResponseTimeMS != 2 {
		t.Errorf("checks are %+v, %v", found, err)
	}
	bad, err := s.Reports.BadChecks(t.Context(), "home", []string{"web"}, at.Add(-2*time.Hour))
	if err != nil || len(bad) != 2 || bad[0].Status != ops.Degraded || bad[1].Error != "refused" {
		t.Errorf("bad checks are %+v, %v", bad, err)
	}
	if bad, err := s.Reports.BadChecks(t.Context(), "home", []string{"web"}, at); err != nil || len(bad) != 1 {
		t.Errorf("later bad checks are %+v, %v", bad, err)
	}
	if found, err := s.Watch.ChecksOf(t.Context(), "home", "nothing"); err != nil || len(found) != 0 {
		t.Errorf("checks of nothing are %+v, %v", found, err)
	}
	until := storetest.Start.Add(time.Hour)
	succeeds(t, s.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: ops.HoldSilenced, Reason: "silenced", Until: until}}))
	if h, err := s.Watch.Withheld(t.Context(), "home"); err != nil || len(h) != 1 || h[0].Why != ops.HoldSilenced || !h[0].Until.Equal(until) {
		t.Errorf("withheld is %+v, %v", h, err)
	}
}
