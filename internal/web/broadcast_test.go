package web

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestChangesCloseTogetherWakeEveryReaderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub()
		b := &broadcaster{hub: hub}
		leaveFirst, leaveSecond := b.join(), b.join()
		first, second := b.next(), b.next()
		hub.Nudge()
		hub.Nudge()
		synctest.Wait()
		if closed(first) {
			t.Error("it does not wait for what comes with it")
		}
		<-time.After(batchWindow)
		synctest.Wait()
		if !closed(first) || !closed(second) {
			t.Error("not everybody is told")
		}
		// The second change came before the first was broadcast; another wake-up may follow.
		after := b.next()
		<-time.After(3 * batchWindow)
		hub.Nudge()
		<-time.After(2 * batchWindow)
		synctest.Wait()
		if !closed(after) {
			t.Error("a later change is not told")
		}
		leaveFirst()
		leaveSecond() // waits for the goroutine; synctest reports one that is left
		leave := b.join()
		again := b.next()
		hub.Nudge()
		<-time.After(2 * batchWindow)
		synctest.Wait()
		if !closed(again) {
			t.Error("who comes after everybody left is not told")
		}
		leave()
	})
}

func TestWithoutAHubNothingIsBroadcast(t *testing.T) {
	b := &broadcaster{}
	defer b.join()()
	if closed(b.next()) {
		t.Error("it is lit")
	}
}

func TestManyReadersShareWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{broadcaster: &broadcaster{}}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/stream", nil)
		e, end := s.openStream(httptest.NewRecorder(), r, time.Second)
		defer end()
		took := func(readers int64) time.Duration {
			s.readers.Store(readers)
			if err := e.send(message{id: "1", data: newDataBlock(string(make([]byte, 12<<10)))}); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := e.throttle(); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		if alone := took(1); alone > 2*time.Millisecond {
			t.Errorf("a reader alone waits %s for 12 kB", alone)
		}
		if one := took(1000); one < 900*time.Millisecond || one > 1200*time.Millisecond {
			t.Errorf("one of a thousand waits %s for 12 kB", one)
		}
	})
}
