package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// sweepTime bounds how long the last processes of a session are looked for. One that is stuck in
	// the kernel cannot be killed at all.
	sweepTime = 3 * time.Second
	// spareTime bounds how long the first process of a session is left alive, which may start others.
	spareTime = time.Second
)

// Sweeper kills the processes of one session.
type Sweeper struct {
	Key   string
	Group *Cgroup
	Roots []Ident // what was seen alive: its descendants belong to the session too. They end last: what loses its parent becomes theirs
	Owned int     // the pid that another goroutine reaps
	found map[Ident]bool
}

// Run kills until a look finds nothing. A look that follows a find is made twice, because a process
// that is just being replaced by another program shows no environment for a moment.
func (s *Sweeper) Run(ctx context.Context) (int, error) {
	s.found = make(map[Ident]bool)
	begun, first := time.Now(), slices.Clone(s.Roots)
	quiet := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		all, err := PIDs()
		if err != nil {
			return len(s.found), err
		}
		// All are found before any is killed: the children of a dead process belong to another one.
		victims := withDescendants(all, slices.Concat(s.Roots, s.Group.members(), Holders(all, KeyName, s.Key)))
		s.Group.Kill()
		spare := len(victims) > len(first) && time.Since(begun) < spareTime
		for _, v := range victims {
			if !s.found[v] {
				s.found[v] = true
				s.Roots = append(s.Roots, v)
			}
			if !spare || !slices.Contains(first, v) {
				killIdent(v)
			}
		}
		s.reap()
		if len(victims) == 0 && !s.Group.populated() {
			if quiet++; quiet == 2 || len(s.found) == 0 {
				return len(s.found), nil
			}
		} else {
			quiet = 0
		}
		if err := context.Cause(ctx); err != nil {
			return len(s.found), fmt.Errorf("sweep session %s: %w", s.Key, err)
		}
		if time.Since(begun) > sweepTime {
			return len(s.found), fmt.Errorf("sweep session %s: %d processes do not end", s.Key, max(len(victims), 1))
		}
		time.Sleep(pause) //nolint:forbidigo // they are not our children, so their end cannot be awaited
	}
}

// reap takes the exit status of those that became our own children when their parent died.
func (s *Sweeper) reap() {
	for v := range s.found {
		if v.PID != s.Owned {
			_, _ = syscall.Wait4(v.PID, nil, syscall.WNOHANG, nil)
		}
	}
}

// killIdent kills a process unless its pid belongs to another one by now. The handle is taken before
// the start time is read, so that both are of the same process.
func killIdent(id Ident) {
	if id.PID == os.Getpid() {
		return
	}
	proc, err := os.FindProcess(id.PID)
	if err != nil {
		return
	}
	defer func() { _ = proc.Release() }()
	if id.Alive() {
		_ = proc.Signal(syscall.SIGKILL)
	}
}
