package local_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/engine/enginetest"
	"claudeops/internal/engine/local"
	"claudeops/internal/ops"
)

func TestConformance(t *testing.T) {
	enginetest.Harness{
		In: func(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) },
		Open: func(t *testing.T) func(h *enginetest.Host) engine.Engine {
			return func(h *enginetest.Host) engine.Engine {
				e := local.New(local.Options{
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
		e := local.New(local.Options{
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
