package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// olderProgram builds the program of the commit before the newest migration.
func olderProgram(ctx context.Context) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "fault-older-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	// On the way that releases were made, not in a branch that was merged later.
	script := `commit=$(git log --first-parent --diff-merges=first-parent --diff-filter=A --format=%H -- internal/store/migrations | sed -n "/^[0-9a-f]\{40\}$/p" | head -1)
test -n "$commit" && git archive "$commit^1" | tar -x -C "$1"
cd "$1" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -tags failpoint -ldflags '-X main.version=older' -o claudeops ./cmd/claudeops`
	if out, err := exec.CommandContext(ctx, "sh", "-ec", script, "sh", dir).CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build earlier version: %w\n%s", err, out)
	}
	return filepath.Join(dir, "claudeops"), remove, nil
}

// mixedVersions starts this version on the database of an earlier one that is at work in Tier 2. The earlier one must end its chain, or leave
// it to this one, and must not start again.
func (t *trying) mixedVersions(ctx context.Context, older string) error {
	if older == "" {
		built, remove, err := olderProgram(ctx)
		if err != nil {
			return err
		}
		defer remove()
		older = built
	}
	d := must(newServer(ctx))
	b := t.box(ctx, setup{program: older, ladder: true, scenario: slowChain(10 * time.Second), database: d})
	old := t.start(ctx, b, modeServe, "CLAUDEOPS_HOST=old")
	// The database cannot be read by this version before it has been migrated.
	check(old.until("the agent of Tier 2 runs", func() bool { return len(b.agents(ops.Tier2)) > 0 }))
	b.program = t.program
	next := t.start(ctx, b, modeServe, "CLAUDEOPS_HOST=next", "CLAUDEOPS_STATE_DIR="+b.file("next"))
	begun := time.Now()
	check(next.ready())
	joined := time.Since(begun)
	check(next.until("every cycle has ended", func() bool { return b.settled(ctx) }))
	first := b.summary(ctx)
	if old.over() {
		return fmt.Errorf("the earlier version ended:\n%s", old.out.tail())
	}
	if code, body := old.get("/"); code != 200 {
		return fmt.Errorf("a page of the earlier version answers %d: %.300s", code, body)
	}
	check(old.stop())
	b.program = older
	again := t.start(ctx, b, modeServe, "CLAUDEOPS_HOST=old")
	check(again.wait())
	if said := again.out.String(); again.code() == 0 || !strings.Contains(said, "newer version") {
		return fmt.Errorf("the earlier version exits %d on the newer database:\n%s", again.code(), again.out.tail())
	}
	b.program = t.program
	t.found = fmt.Sprintf("this version was ready %s after its start beside an earlier one in Tier 2: %s; the earlier one was refused after that", joined.Round(10*time.Millisecond), first)
	check(next.until("every notice is sent", func() bool { return b.quiet(ctx) }))
	check(next.stop())
	return errors.Join(b.verdict(ctx, true))
}
