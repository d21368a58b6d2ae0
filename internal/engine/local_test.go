package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
	"claudeops/test/enginetest"
)

func TestConformance(t *testing.T) {
	enginetest.Harness{
		In: func(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) },
		Open: func(t *testing.T) func(h *enginetest.Host) enginetest.Engine {
			return func(h *enginetest.Host) enginetest.Engine {
				e := engine.NewLocal(engine.LocalOptions{
					Journal: h, Advance: h.Advance, Known: h.Known, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
				})
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				return e
			}
		},
		Later: 90 * time.Second, Pause: time.Second, Patience: 10 * time.Minute, Quiet: 10 * time.Minute,
	}.Run(t)
}

func TestStopSaysWhenAWorkerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := enginetest.NewHost("a")
		h.Add(ops.Cycle{ID: 1, Environment: "a"})
		release := make(chan struct{})
		e := engine.NewLocal(engine.LocalOptions{
			Journal: h, Known: h.Known, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
			Advance: func(context.Context, ops.CycleID, string) error { <-release; return nil },
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e.Stop(ctx) == nil {
			t.Error("Stop returned although a worker hangs")
		}
		close(release)
	})
}

func TestNoMoreCyclesThanWorkersAndABegunOneIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := enginetest.NewHost("a", "b", "c", "d")
		for i, name := range h.Environments {
			h.Add(ops.Cycle{ID: ops.CycleID(i + 1), Environment: name})
		}
		h.Add(ops.Cycle{ID: 5, Environment: "d", Status: ops.CycleRunning, Owner: ops.Owner{Host: h.Name}})
		e := engine.NewLocal(engine.LocalOptions{
			Journal: h, Advance: h.Advance, Known: h.Known, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Workers: 2,
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := func(want ...ops.CycleID) {
			t.Helper()
			synctest.Wait()
			got := map[ops.CycleID]bool{}
			for range len(h.Began) {
				got[<-h.Began] = true
			}
			if len(got) != len(want) {
				t.Fatalf("began %v, want %v", got, want)
			}
			for _, id := range want {
				if !got[id] {
					t.Fatalf("began %v, want %v", got, want)
				}
			}
		}
		began(5, 1) // the one that had begun before comes first
		h.Finish["a"] <- nil
		began(2)
		h.Finish["d"] <- nil
		began(3)
		h.Finish["b"] <- nil
		began(4)
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
