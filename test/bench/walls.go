package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
)

const wallSessions = 40

// walls measures what the walls cost: for a command through the shell gate, and for the start of a session.
func (b *bench) walls() ([]figure, error) {
	without := must(b.askGates("unwalled", "CLAUDEOPS_SANDBOX=off"))
	with := must(b.askGates("walled"))
	bare, walled, err := b.sessionStarts()
	if err != nil {
		return nil, err
	}
	return []figure{
		{"command behind walls, more than without", fmt.Sprintf("p50 %.1f ms (%.1f and %.1f)", middle(with.shells)-middle(without.shells), middle(with.shells), middle(without.shells)), "p50 ≤ 2.5 ms"},
		{"start of a session behind walls, with the trial, more than without", fmt.Sprintf("p50 %.1f ms (%.1f and %.1f)", middle(walled)-middle(bare), middle(walled), middle(bare)), "p50 ≤ 15 ms"},
	}, nil
}

func middle(ms []float64) float64 {
	slices.Sort(ms)
	return ms[len(ms)/2]
}

// sessionStarts times a program that ends at once, without walls and with everything that a session's walls need.
func (b *bench) sessionStarts() (bare, walled []float64, err error) {
	state := filepath.Join(b.dir, "wall-state")
	check(os.MkdirAll(filepath.Join(state, "work"), 0o700))
	sandbox := wall.New(wall.Config{
		Confine: true, Auto: true, Relay: []string{b.binary, relay.Word}, StateDir: state, WorkDir: filepath.Join(state, "work"),
		ExtraReadOnly: []string{b.binary},
	})
	_ = sandbox.Layers(ops.Tier1) // bubblewrap is tried once in the life of a supervisor
	for i := range wallSessions {
		begun := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil { //nolint:noctx // it ends at once
			return nil, nil, err
		}
		bare = append(bare, milliseconds(begun))
		begun = time.Now()
		check(startWalled(sandbox, wall.Session{ID: strconv.Itoa(i + 1)}, state))
		walled = append(walled, milliseconds(begun))
	}
	return bare, walled, nil
}

func startWalled(sandbox *wall.Sandbox, session wall.Session, state string) error {
	check(errors.Join(sandbox.Check(ops.Tier1), sandbox.Prepare(ops.Tier1), sandbox.PrepareSession(ops.Tier1, session)))
	c := must(sandbox.WrapSession(ops.Tier1, session, wall.Command{Path: "/bin/true", Argv: []string{"true"}, Dir: filepath.Join(state, "work")}))
	cmd := exec.Command(c.Path, c.Argv[1:]...) //nolint:gosec,noctx // the program under measure
	cmd.Env, cmd.Dir = c.Env, c.Dir
	return cmd.Run()
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
