package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/testtoken"
)

// box is a place where the program runs.
type box struct {
	dir      string // short, because sockets lie in it
	state    string
	program  string // the program under trial
	service  *service
	database database
	env      []string // of every start
	more     string   // of the configuration
	scenario string
	ladder   bool     // recovery is on
	actions  bool     // the service has actions
	refusals bool     // the fault makes the gates refuse calls
	wrap     []string // what starts the program, if it is not started directly
}

// setup is how a box differs from the usual one.
type setup struct {
	program  string
	ladder   bool   // recovery is on
	actions  bool   // the service has actions
	scenario string // empty: the chain
	more     string // added to the configuration
	state    string // where the state folder is; empty: in the box
	database database
	env      []string
}

func newBox(ctx context.Context, s setup) (b *box, err error) {
	dir, err := os.MkdirTemp("", "fault-")
	if err != nil {
		return nil, fmt.Errorf("make box: %w", err)
	}
	b = &box{dir: dir, program: s.program, more: s.more, scenario: s.scenario, ladder: s.ladder, actions: s.actions}
	defer func() {
		if err != nil {
			b.close(false)
		}
	}()
	if b.scenario == "" {
		b.scenario = chain
	}
	if b.service, err = startService(ctx); err != nil {
		return b, err
	}
	b.state = s.state
	if b.state == "" {
		b.state = b.file("state")
	}
	if b.database = s.database; b.database == nil {
		b.database = sqliteFile{state: b.state}
	}
	self, err := os.Executable()
	if err != nil {
		return b, fmt.Errorf("find myself: %w", err)
	}
	bin := b.file("bin")
	err = errors.Join(
		os.Mkdir(bin, 0o700), putProgram(self, filepath.Join(bin, ctlName)),
		os.WriteFile(b.file("scenario.yaml"), []byte(b.scenario), 0o600), os.WriteFile(b.file("rules.yaml"), []byte(rules+stormRule+printRule), 0o600),
		os.WriteFile(b.file("claudeops.yaml"), []byte(settings(b)), 0o600),
	)
	if err != nil {
		return b, fmt.Errorf("fill box: %w", err)
	}
	recovery := "off"
	if s.ladder {
		recovery = "on"
	}
	b.env = append([]string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "CLAUDEOPS_CONFIG=" + b.file("claudeops.yaml"),
		"CLAUDEOPS_STATE_DIR=" + b.state, "CLAUDEOPS_RECOVERY=" + recovery, "CLAUDEOPS_FAULT_WAITS=settle=200ms",
		serviceVar + "=" + b.service.url, "FAULT_DIR=" + dir, testtoken.Env,
	}, b.database.environ()...)
	b.env = append(b.env, s.env...)
	return b, nil
}

func (b *box) file(name string) string { return filepath.Join(b.dir, name) }

// close ends the box. One that is kept stays to be looked at.
func (b *box) close(keep bool) {
	if b.service != nil {
		b.service.close()
	}
	if keep {
		return
	}
	if b.database != nil {
		_ = b.database.drop()
	}
	_ = os.RemoveAll(b.dir)
}

// cycles reads all cycles with their sessions, the oldest first. Without a database there are none.
func (b *box) cycles(ctx context.Context) ([]store.CycleSummary, error) {
	s, err := b.database.open(ctx)
	if errors.Is(err, ops.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cycles: %w", err)
	}
	defer func() { _ = s.Close() }() // it was read only
	var out []store.CycleSummary
	for before := ops.CycleID(0); ; before = out[0].ID {
		page, err := s.Cycles(ctx, store.CycleFilter{Before: before, Limit: 500})
		if err != nil {
			return nil, fmt.Errorf("read cycles: %w", err)
		}
		for _, c := range page {
			out = append([]store.CycleSummary{c}, out...)
		}
		if len(page) < 500 {
			return out, nil
		}
	}
}

// settled reports whether there is a cycle and all have ended.
func (b *box) settled(ctx context.Context) bool {
	cycles, err := b.cycles(ctx)
	if err != nil || len(cycles) == 0 {
		return false
	}
	for _, c := range cycles {
		if !c.Status.Ended() {
			return false
		}
	}
	return true
}

// putProgram puts a program into a box. A symbolic link is not enough: go run may start this program from the build cache, which agents do not see.
func putProgram(program, path string) error {
	if err := os.Link(program, path); err == nil {
		return nil
	}
	raw, err := os.ReadFile(program) //nolint:gosec // this program
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o700) //nolint:gosec // it is run
}
