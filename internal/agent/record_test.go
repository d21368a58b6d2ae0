package agent

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// batches is a recorder that tells of each batch and may hold one up.
type batches struct {
	got  chan []ops.Line
	hold chan struct{}
	err  error
}

func (b *batches) Started(context.Context, int, string) error { return nil }

func (b *batches) Lines(ctx context.Context, lines []ops.Line) error {
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if b.err != nil {
		return b.err
	}
	b.got <- lines
	return nil
}

func TestLinesAreFlushedAfterFiftyMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{got: make(chan []ops.Line, 10)}
		r := startRecording(t.Context(), b, time.Now, func(error) {})
		begun := time.Now()
		r.add("a")
		r.add("b")
		got := <-b.got
		if len(got) != 2 || time.Since(begun) != flushAfter {
			t.Errorf("%d lines came after %v", len(got), time.Since(begun))
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestManyOrBigLinesAreFlushedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{got: make(chan []ops.Line, 10)}
		r := startRecording(t.Context(), b, time.Now, func(error) {})
		begun := time.Now()
		for i := range flushLines {
			r.add(strconv.Itoa(i))
		}
		if got := <-b.got; len(got) != flushLines || got[255].Text != "255" || got[255].Seq != 256 {
			t.Errorf("%d lines came", len(got))
		}
		r.add(strings.Repeat("x", flushBytes))
		if got := <-b.got; len(got) != 1 {
			t.Errorf("%d lines came", len(got))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
		r.add("the last")
		if err := r.close(); err != nil || len(<-b.got) != 1 || time.Since(begun) != 0 {
			t.Errorf("close: %v after %v", err, time.Since(begun))
		}
	})
}

func TestReadersWaitForASlowRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{got: make(chan []ops.Line, 100), hold: make(chan struct{})}
		r := startRecording(t.Context(), b, time.Now, func(error) {})
		added := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for added < 5000 {
				r.add("line")
				added++
			}
		}()
		synctest.Wait()
		if added > 2*pendingLines { // one batch on its way, one waiting
			t.Errorf("%d lines are held in memory", added)
		}
		close(b.hold)
		<-done
		if err := r.close(); err != nil {
			t.Error(err)
		}
		close(b.got)
		stored := 0
		for batch := range b.got {
			stored += len(batch)
		}
		if stored != 5000 {
			t.Errorf("%d lines were stored", stored)
		}
	})
}

func TestAFailureToStoreIsToldOnceAndEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{err: errors.New("disk full"), hold: make(chan struct{})}
		told := 0
		r := startRecording(t.Context(), b, time.Now, func(error) { told++ })
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 5000 {
				r.add("line")
			}
		}()
		synctest.Wait()
		close(b.hold)
		<-done
		if err := r.close(); !errors.Is(err, b.err) || told != 1 {
			t.Errorf("got %v, told %d times", err, told)
		}
	})
}

func TestARecorderThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{hold: make(chan struct{})}
		r := startRecording(t.Context(), b, time.Now, func(error) {})
		r.add("line")
		if err := r.close(); err == nil || !strings.Contains(err.Error(), "longer than 30s") {
			t.Errorf("got %v", err)
		}
	})
}
