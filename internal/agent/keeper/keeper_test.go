//go:build linux

package keeper

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// heard is a keeper that reads from a pipe and measures time with a clock that the test can move.
type heard struct {
	*keeper

	to, answers *os.File
	jumped      atomic.Int64
	why         chan string
}

func listen(t *testing.T, silence time.Duration, boot bool) *heard {
	t.Helper()
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{to: to, answers: answers, why: make(chan string, 1)}
	begun := time.Now()
	h.keeper = &keeper{
		sessions: map[string]*session{}, silence: silence, boot: boot, answer: int(out.Fd()),
		now: func() time.Duration { return time.Since(begun) + time.Duration(h.jumped.Load()) },
	}
	go func() { h.why <- h.watch(in) }()
	t.Cleanup(func() {
		for _, f := range []*os.File{in, to, answers, out} {
			_ = f.Close()
		}
	})
	return h
}

func (h *heard) say(t *testing.T, kind byte, fields ...string) {
	t.Helper()
	line := []byte{'\n'}
	if kind != 0 {
		var err error
		if line, err = Line(kind, fields...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.to.Write(line); err != nil {
		t.Fatal(err)
	}
}

func (h *heard) answered(t *testing.T) {
	t.Helper()
	if _, err := h.answers.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestTheEndOfThePipeIsTheEndOfTheSupervisor(t *testing.T) {
	h := listen(t, time.Hour, true)
	h.say(t, '+', "one", "/sys/fs/cgroup/one")
	h.say(t, '=', "one", "17", "4711")
	h.say(t, '+', "two", "")
	h.say(t, '-', "two")
	h.say(t, '?', "what a later version may say")
	for range 5 {
		h.answered(t)
	}
	h.say(t, '+', "last", "") // nobody waits for the answer
	_ = h.to.Close()
	if why := <-h.why; why != gone {
		t.Errorf("it ended because %s", why)
	}
	one := h.sessions["one"]
	if len(h.sessions) != 2 || h.sessions["last"] == nil || one.group.Path != "/sys/fs/cgroup/one" || len(one.roots) != 1 || one.roots[0].PID != 17 {
		t.Errorf("it knows %+v", h.sessions)
	}
	if _, err := Line('+', "a\nb", ""); err == nil {
		t.Error("a key with a line feed can be sent")
	}
}

func TestASilentSupervisorIsNoticed(t *testing.T) {
	h := listen(t, 80*time.Millisecond, false)
	if why := <-h.why; why != silent {
		t.Errorf("it ended because %s", why)
	}
}

// TestSuspendedTimeCountsWhereOthersCountIt: after an hour the first heartbeat comes too late on a host with others. Alone, the
// supervisor was suspended together with its keeper, and nobody has taken over.
func TestSuspendedTimeCountsWhereOthersCountIt(t *testing.T) {
	for _, boot := range []bool{true, false} {
		h := listen(t, time.Minute, boot)
		h.say(t, 0)
		h.answered(t)
		h.jumped.Store(int64(time.Hour))
		h.say(t, 0)
		if !boot {
			h.answered(t)
			_ = h.to.Close()
		}
		if why, want := <-h.why, map[bool]string{true: silent, false: gone}[boot]; why != want {
			t.Errorf("others=%t: it ended because %s", boot, why)
		}
	}
}
