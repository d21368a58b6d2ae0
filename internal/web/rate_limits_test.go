package web

import (
	"fmt"
	"testing"
	"time"
)

func TestALimiterKeepsItsMemoryBounded(t *testing.T) {
	l := newLimiter(2, time.Minute)
	now := time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC)
	for i := range maxBuckets + 100 {
		l.take(fmt.Sprint(i), now)
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d addresses are remembered", len(l.buckets))
	}
}

func TestAClockSetBackGivesNothingAway(t *testing.T) {
	l := newLimiter(1, time.Minute)
	now := time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC)
	if l.take("a", now) != 0 {
		t.Fatal("the first is refused")
	}
	if wait := l.take("a", now.Add(-time.Hour)); wait != time.Minute {
		t.Errorf("wait %s", wait)
	}
}

func TestStreamsHaveAnEnd(t *testing.T) {
	s := &NewHub().streams
	var leave []func()
	for range maxPeerStreams {
		f, ok := s.enter("192.0.2.1", maxStreams)
		if !ok {
			t.Fatal("refused too early")
		}
		leave = append(leave, f)
	}
	if _, ok := s.enter("192.0.2.1", maxStreams); ok {
		t.Error("one address may open more than its share")
	}
	if _, ok := s.enter("192.0.2.2", maxStreams); !ok {
		t.Error("another address is refused")
	}
	leave[0]()
	if _, ok := s.enter("192.0.2.1", maxStreams); !ok {
		t.Error("a place that was left is not given again")
	}
	for s.total < maxStreams {
		if _, ok := s.enter("127.0.0.1", maxStreams); !ok {
			t.Fatal("this machine's own are refused")
		}
	}
	if _, ok := s.enter("127.0.0.1", maxStreams); ok {
		t.Error("there is no end in all")
	}
	for path, want := range map[string]bool{
		"/stream": true, "/sessions/7/stream": true, "/streams": false, "/sessions": false,
		"/assets/stream": false,
	} {
		if isStream(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
