package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error is %v, want %v", err, target)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	t.Errorf("%s:\n got  %s\n want %s", what, g, w)
}

// snapshot is all that a refused write must leave as it was.
type snapshot struct {
	Claimed    ops.Claimed
	Events     []ops.Event
	Notices    []ops.Notice
	Transcript []ops.Line
	Judged     []ops.GuardRecord
	Cooldowns  []ops.Cooldown
}

func (f *Fixture) snapshot(t *testing.T, cycle ops.CycleID) snapshot {
	t.Helper()
	var s snapshot
	var err error
	s.Claimed, err = f.Store.Load(t.Context(), cycle)
	must(t, err)
	s.Events, err = f.Store.Events(t.Context(), store.EventFilter{})
	must(t, err)
	s.Notices, err = f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	for _, session := range s.Claimed.Journal.Sessions {
		lines, err := f.Store.Transcript(t.Context(), session.ID, 0, 0)
		must(t, err)
		s.Transcript = append(s.Transcript, lines...)
		judged, err := f.Store.GuardDecisions(t.Context(), session.ID)
		must(t, err)
		s.Judged = append(s.Judged, judged...)
	}
	s.Cooldowns, err = f.Store.Cooldowns(t.Context(), s.Claimed.Cycle.Environment, limits(), f.At)
	must(t, err)
	return s
}

// load reads a cycle with its own journal, without what only a claim loads.
func (f *Fixture) load(t *testing.T, cycle ops.CycleID) ops.Claimed {
	t.Helper()
	got, err := f.Store.Load(t.Context(), cycle)
	must(t, err)
	got.Journal.Spend, got.Journal.Windows, got.Journal.LastLook = ops.Spend{}, nil, nil
	return got
}

func ids[T any, ID comparable](rows []T, id func(T) ID) []ID {
	out := []ID{}
	for _, r := range rows {
		out = append(out, id(r))
	}
	return out
}

func cycleIDs(rows []ops.Cycle) []ops.CycleID {
	return ids(rows, func(c ops.Cycle) ops.CycleID { return c.ID })
}

func sessionIDs(rows []ops.Session) []ops.SessionID {
	return ids(rows, func(s ops.Session) ops.SessionID { return s.ID })
}

func eventIDs(rows []ops.Event) []int64 { return ids(rows, func(e ops.Event) int64 { return e.ID }) }

func noticeIDs(rows []ops.Notice) []int64 { return ids(rows, func(n ops.Notice) int64 { return n.ID }) }
