package storetest

import (
	"errors"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func canaryCases() []testCase {
	return []testCase{{"a trial of an agent CLI is kept for its host, version and settings", canaryIsKept}}
}

func canaryIsKept(t *testing.T, f *Fixture) {
	c := ops.Canary{
		Host: "a", Profile: "opencode", Version: "1.0", Settings: "s", Program: "/p", Model: "m", Passed: true, Detail: "it asks",
		CostUSD: ops.Ptr(0.25), At: Start,
	}
	must(t, f.Store.SaveCanary(t.Context(), c))
	got, err := f.Store.Canary(t.Context(), "a", "opencode", "1.0", "s")
	must(t, err)
	if !got.Passed || got.Detail != "it asks" || got.Program != "/p" || got.Model != "m" || *got.CostUSD != 0.25 || !got.At.Equal(Start) {
		t.Errorf("kept %+v", got)
	}
	for _, other := range [][4]string{{"b", "opencode", "1.0", "s"}, {"a", "qwen-code", "1.0", "s"}, {"a", "opencode", "1.1", "s"}, {"a", "opencode", "1.0", "t"}} {
		if _, err := f.Store.Canary(t.Context(), other[0], other[1], other[2], other[3]); !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("%v is trusted, too: %v", other, err)
		}
	}
	c.Passed, c.Detail, c.CostUSD, c.At = false, "it ran a command without asking", nil, Start.Add(time.Hour)
	must(t, f.Store.SaveCanary(t.Context(), c))
	c.Version = "1.1"
	c.At = Start
	must(t, f.Store.SaveCanary(t.Context(), c))
	all, err := f.Store.Canaries(t.Context(), "a")
	must(t, err)
	if len(all) != 2 || all[0].Version != "1.0" || all[0].Passed || all[0].CostUSD != nil || all[1].Version != "1.1" {
		t.Errorf("all are %+v", all)
	}
}
