package health

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// withDefaults fills in what a configuration leaves out.
func withDefaults(g ops.Grouping) ops.Grouping {
	g.Window = orDefault(g.Window, 30*time.Second)
	g.Grace = orDefault(g.Grace, 2*time.Minute)
	g.Pause = orDefault(g.Pause, 10*time.Minute)
	return g
}

// Picture is all that is known about one environment.
type Picture struct {
	Environment string
	States      []State
	Services    []ops.Service // those without group and dependencies may be left out
	Silences    []ops.Silence
	Windows     []Window
	// Causes have started their cycles. Keep each until Resolved names it and the pause between two cycles is over.
	Causes []ops.Cause
}

// NewCause is a cause that should start one cycle now, with the last results of its bad checks.
type NewCause struct {
	ops.Cause
	Checks []ops.Check
}

// Judgement says for every bad service whether it starts a cycle.
type Judgement struct {
	Causes []NewCause
	Held   []ops.Withheld
	// Flapping are the services that no agent works on because they flap, and of which a person should be told.
	Flapping []Flapping
	Next     time.Time // when to judge again even if nothing changes; zero: never
}

// Flapping is a service that changes between good and bad too often.
type Flapping struct {
	Service string
	Since   time.Time     // the first of the changes that made it flap
	Calm    time.Duration // how long it must be stable
	Error   string        // of its last result
}

// Resolved returns the causes whose services have all recovered.
func Resolved(p Picture) []ops.Cause {
	bad := map[string]bool{}
	for _, s := range p.States {
		bad[s.Service] = bad[s.Service] || s.Failing()
	}
	var out []ops.Cause
	for _, c := range p.Causes {
		still := false
		for _, s := range c.Services {
			still = still || bad[s]
		}
		if !still {
			out = append(out, c)
		}
	}
	return out
}

// causeKey names a cause by what failed first and when.
func causeKey(environment, group, first string, began time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", environment, group, first, began.UnixNano()))
	return hex.EncodeToString(sum[:8])
}
