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
	bubble := func(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
	enginetest.Run(t, bubble, func(t *testing.T, h *enginetest.Host) engine.Engine {
		e := local.New(local.Options{
			Journal: h, Advance: h.Advance, Known: h.Known, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e
	})
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
