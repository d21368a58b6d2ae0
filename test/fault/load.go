package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// cli runs another command of the program in the box.
func (b *box) cli(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("claudeops %v: %w\n%s", args, err, out)
	}
	return nil
}

// accepted are the cycles that were answered with an id.
type accepted struct {
	mu  sync.Mutex
	ids []int64
}

func (a *accepted) add(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, id)
}

func (a *accepted) all() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ids)
}

// underLoad backs up and prunes the database as often as it can while cycles and alerts are written to it. Every backup must be whole and
// hold what was accepted before it, and nobody who writes may notice.
func (t *trying) underLoad(ctx context.Context, length time.Duration) error {
	const side = 3
	more := "observe: agent\nretention: {transcripts: 1s, checks: 1s, events: 1s}\nenvironments:\n"
	for i := range side {
		more += fmt.Sprintf("  - name: env%d\n", i)
	}
	b := t.box(ctx, setup{scenario: loud(5), more: more})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	check(p.until("the first cycles have ended", func() bool { return b.settled(ctx) && b.count(ctx) >= side }))
	load, end := context.WithTimeout(ctx, length)
	defer end()
	var taken accepted
	var slowest time.Duration
	var alerts int
	failures := make([]error, 2)
	var writers sync.WaitGroup
	writers.Go(func() { slowest, failures[0] = p.submitAll(load, b, side, &taken) })
	writers.Go(func() { alerts, failures[1] = p.alertAll(load) })
	backups := 0
	var kept error
	for load.Err() == nil && kept == nil {
		before := taken.all()
		file := b.file(fmt.Sprintf("backup-%d.db", backups))
		kept = errors.Join(b.cli(ctx, "db", "backup", file), b.cli(ctx, "db", "check", file), b.holds(ctx, file, before), b.cli(ctx, "db", "prune"))
		backups++
	}
	end()
	writers.Wait()
	check(errors.Join(append(failures, kept)...))
	check(p.until("every cycle has ended", func() bool { return b.quiet(ctx) }))
	cycles := must(b.cycles(ctx))
	errs := []error{b.holds(ctx, sqliteFile{b.state}.path(), taken.all())}
	lines := 0
	for _, c := range cycles {
		if c.Status != ops.CycleHealthy {
			errs = append(errs, fmt.Errorf("cycle %d ended %s: %s", c.ID, c.Status, c.Reason))
		}
		if found, err := b.transcript(ctx, c.Sessions[0].ID); err == nil && len(found) > 0 {
			lines++
		}
	}
	t.found = fmt.Sprintf("%d backups, each checked, and as many prunings, beside %d cycles and %d alerts in %s; the slowest answer took %s; the output of %d of %d sessions is left",
		backups, len(cycles), alerts, length, slowest.Round(time.Millisecond), lines, len(cycles))
	if backups < 2 || len(taken.all()) < 5 || lines == len(cycles) || slowest > 10*time.Second {
		errs = append(errs, errors.New(t.found))
	}
	errs = append(errs, p.stop())
	return errors.Join(append(errs, b.leftovers(ctx, cycles)...)...)
}

// submitAll asks for cycles until the load ends, and returns how long the slowest answer took.
func (p *process) submitAll(load context.Context, b *box, side int, taken *accepted) (slowest time.Duration, err error) {
	for i := 0; load.Err() == nil; i++ {
		begun := time.Now()
		code, body := p.submit(fmt.Sprintf(`{"environment":"env%d"}`, i%side))
		slowest = max(slowest, time.Since(begun))
		var answer struct {
			ID int64 `json:"id"`
		}
		if err := json.Unmarshal([]byte(body), &answer); code != 202 || err != nil || answer.ID == 0 {
			return slowest, fmt.Errorf("submitting answers %d: %.300s", code, body)
		}
		taken.add(answer.ID)
		if i%side == side-1 {
			if err := p.until("the cycles have ended", func() bool { return b.settled(load) || load.Err() != nil }); err != nil {
				return slowest, err
			}
		}
	}
	return slowest, nil
}

// alertAll sends alerts that have ended, so that they start nothing.
func (p *process) alertAll(load context.Context) (sent int, err error) {
	for load.Err() == nil {
		body := fmt.Sprintf(`{"alerts":[{"name":"Down","service":"other-%d","status":"resolved","severity":"critical"}]}`, sent)
		if code, said := p.post("/api/v1/webhooks/generic", body); code != 202 && code != 429 {
			return sent, fmt.Errorf("an alert answers %d: %.300s", code, said)
		}
		sent++
		<-time.After(20 * time.Millisecond)
	}
	return sent, nil
}

// holds reports whether the database in the file has these cycles.
func (b *box) holds(ctx context.Context, file string, ids []int64) error {
	other := *b
	other.database = copyOf{sqliteFile{filepath.Dir(file)}, file}
	cycles, err := other.cycles(ctx)
	if err != nil {
		return err
	}
	have := map[int64]bool{}
	for _, c := range cycles {
		have[int64(c.ID)] = true
	}
	for _, id := range ids {
		if !have[id] {
			return fmt.Errorf("cycle %d was accepted and is not in %s", id, filepath.Base(file))
		}
	}
	return nil
}
