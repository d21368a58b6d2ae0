//go:build failpoint

// Package failpoint marks the points where a crash must do no harm.
//
// In this build the environment selects the fault:
//
//	CLAUDEOPS_FAILPOINT=name:N     kills the process with SIGKILL the N-th time the failpoint is reached;
//	                               the name "*" means any failpoint
//	CLAUDEOPS_FAILPOINT_LOG=file   appends the name of every failpoint that is reached
//	CLAUDEOPS_FAULT_CLOCK=file     contains an offset for the clock, such as 8760h; read every time the clock is used
//	CLAUDEOPS_FAULT_WAITS=a=1s,b=0 shortens waits by their names
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// plan holds the faults that the environment selected.
type plan struct {
	mu    sync.Mutex
	name  string
	left  int
	log   *os.File
	clock string
	waits map[string]time.Duration
}

var current = sync.OnceValue(readPlan) //nolint:gochecknoglobals // reached from every layer with nothing passed in; test builds only

// Hit marks a failpoint and kills the process if the environment selected it. The parts are joined to one name.
func Hit(name ...string) { current().hit(strings.Join(name, "")) }

// Clock returns the clock, shifted by the offset in the file that the environment names.
func Clock(clock func() time.Time) func() time.Time {
	file := current().clock
	if file == "" {
		return clock
	}
	return func() time.Time { return clock().Add(offset(file)) }
}

// Wait returns the duration, or the shorter one that the environment gives for the name.
func Wait(name string, d time.Duration) time.Duration {
	if other, ok := current().waits[name]; ok {
		return other
	}
	return d
}

func offset(file string) time.Duration {
	raw, err := os.ReadFile(file)
	text := strings.TrimSpace(string(raw))
	if err != nil || text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("CLAUDEOPS_FAULT_CLOCK: %v", err))
	}
	return d
}

func readPlan() *plan {
	p := &plan{clock: os.Getenv("CLAUDEOPS_FAULT_CLOCK"), waits: readWaits(os.Getenv("CLAUDEOPS_FAULT_WAITS"))}
	if spec := os.Getenv("CLAUDEOPS_FAILPOINT"); spec != "" {
		name, count, ok := strings.Cut(spec, ":")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 {
			panic(fmt.Sprintf("CLAUDEOPS_FAILPOINT=%q: write it as name:N with N of 1 or more", spec))
		}
		p.name, p.left = name, n
	}
	if path := os.Getenv("CLAUDEOPS_FAILPOINT_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(fmt.Sprintf("CLAUDEOPS_FAILPOINT_LOG: %v", err))
		}
		p.log = f
	}
	return p
}

func readWaits(spec string) map[string]time.Duration {
	waits := map[string]time.Duration{}
	for pair := range strings.SplitSeq(spec, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			panic(fmt.Sprintf("CLAUDEOPS_FAULT_WAITS: %v", err))
		}
		waits[name] = d
	}
	return waits
}

func (p *plan) hit(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		if _, err := p.log.WriteString(name + "\n"); err != nil {
			panic(fmt.Sprintf("CLAUDEOPS_FAILPOINT_LOG: %v", err))
		}
	}
	if p.left == 0 || (p.name != "*" && p.name != name) {
		return
	}
	p.left--
	if p.left > 0 {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	// Nothing may run until the signal ends the process, so this never returns and keeps the lock.
	select {}
}
