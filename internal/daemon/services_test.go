package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEveryServiceMayFailAtOnce: the daemon is told of the first one and ends; all of them are named in the log.
func TestEveryServiceMayFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		life, end := context.WithCancel(t.Context())
		s, stopped := newServices(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		var list []service
		for i := range 50 {
			list = append(list, service{name: fmt.Sprintf("service-%d.", i), run: func(context.Context) error {
				return fmt.Errorf("failure %d", i)
			}})
		}
		s.start(life, list...)
		<-stopped.Done()
		if err := context.Cause(stopped); err == nil || !strings.Contains(err.Error(), ".: failure") {
			t.Errorf("the cause is %v", err)
		}
		synctest.Wait()
		end()
		if err := s.wait(t.Context()); err != nil {
			t.Error(err)
		}
		for _, one := range list {
			if !strings.Contains(log.String(), "service="+one.name) {
				t.Errorf("%s is not named", one.name)
			}
		}
	})
}

func TestWhatEndsWithTheDaemonDidNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		life, end := context.WithCancelCause(t.Context())
		s, stopped := newServices(ctx, slog.New(slog.DiscardHandler))
		s.start(life,
			service{name: "canceled", run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			service{name: "told why", run: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }},
			service{name: "early", run: endless(func(context.Context) {})})
		synctest.Wait()
		if stopped.Err() != nil {
			t.Fatalf("stopped by %v", context.Cause(stopped))
		}
		cancel()
		end(errors.New("shutting down"))
		if err := s.wait(t.Context()); err != nil || !errors.Is(context.Cause(stopped), context.Canceled) {
			t.Errorf("%v, %v", err, context.Cause(stopped))
		}
	})
}

// TestAServiceThatDoesNotEndIsNamed: it does not keep the daemon from ending.
func TestAServiceThatDoesNotEndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		life, end := context.WithCancel(t.Context())
		s, _ := newServices(t.Context(), slog.New(slog.DiscardHandler))
		s.start(life,
			service{name: "hangs", run: endless(func(context.Context) { <-release })},
			service{name: "ends", run: endless(func(ctx context.Context) { <-ctx.Done() })})
		end()
		patience, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.wait(patience)
		if err == nil || !strings.HasSuffix(err.Error(), ": hangs") {
			t.Errorf("waited: %v", err)
		}
		close(release)
	})
}
