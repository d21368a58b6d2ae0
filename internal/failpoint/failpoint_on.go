//go:build failpoint

// Package failpoint names the places where a crash must do no harm.
//
// In this build CLAUDEOPS_FAILPOINT="name:N" kills the process with SIGKILL at the N-th time the place called name is
// reached; the name "*" means any place. CLAUDEOPS_FAILPOINT_LOG=file appends the name of every place that is reached.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// plan is what the environment asked for.
type plan struct {
	mu   sync.Mutex
	name string
	left int
	log  *os.File
}

var current = sync.OnceValue(readPlan) //nolint:gochecknoglobals // reached from every layer with nothing passed in; test builds only

// Hit marks a named place and kills the process there if the environment asked for it.
func Hit(name string) { current().hit(name) }

func readPlan() *plan {
	p := &plan{}
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
	// The signal ends the process; nothing may run on until it does, so the lock is held for ever.
	select {}
}
