package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// corrupt flips bits in the pages of a database whose supervisor was killed. Whatever the next one makes of it, it must say so
// and repair nothing.
func (t *trying) corrupt(ctx context.Context, r *rand.Rand) error {
	b := t.box(ctx, setup{ladder: r.IntN(2) == 0})
	p := t.start(ctx, b, modeServe)
	check(p.until("the chain has ended", func() bool { return b.quiet(ctx) }))
	p.signal(syscall.SIGKILL)
	check(p.wait())
	flips := must(damage(ctx, sqliteFile{b.state}, r))
	b.service.set(false)
	acted := len(b.service.done())
	p = t.start(ctx, b, modeServe)
	how := must(b.stoppedRepairs(p))
	t.found = fmt.Sprintf("%d bits in %s", flips, how)
	if done := b.service.done(); len(done) > acted {
		return fmt.Errorf("%s was done with a damaged journal", done[acted].verb)
	}
	if !p.over() {
		p.signal(syscall.SIGTERM) // it need not be able to record that
		check(p.wait())
	}
	if left := b.orphans(); len(left) > 0 {
		return fmt.Errorf("processes are left: %s", strings.Join(left, ", "))
	}
	return nil
}

// stoppedRepairs waits until a page says that the database is damaged, and then asks for a repair.
func (b *box) stoppedRepairs(p *process) (string, error) {
	const word = "damaged"
	err := p.until("a page says that the database is damaged", func() bool {
		_, body := p.get("/config") // it reads no rows
		return strings.Contains(body, word)
	})
	if err != nil {
		return "", err
	}
	code, _ := p.submit("{}") // it may be queued or refused
	for begun := time.Now(); time.Since(begun) < 3*time.Second; <-time.After(50 * time.Millisecond) {
		if len(b.agents(ops.Tier2))+len(b.agents(ops.Tier3)) > 0 {
			return "", errors.New("a repair was started")
		}
	}
	if code == http.StatusOK {
		return "", errors.New("a cycle was answered with 200")
	}
	if ready, _ := p.get("/readyz"); ready != http.StatusOK {
		return "the file: too damaged to be worked on, the page says so", nil
	}
	return "the file: every page says so, nothing was started", nil
}

// damage flips bits until SQLite itself finds damage, and says how many.
func damage(ctx context.Context, d sqliteFile, r *rand.Rand) (int, error) {
	// What was written last is moved from the log into the file, where it can be hit.
	db, err := sql.Open("sqlite", "file:"+d.path()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	raw, err := os.ReadFile(d.path())
	if err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	const page = 4096
	for flips := 1; flips < 1000; flips++ {
		// The first page is spared: without it the file is no database at all.
		at := page + r.IntN(len(raw)-page)
		raw[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(d.path(), raw, 0o600); err != nil {
			return 0, fmt.Errorf("damage database: %w", err)
		}
		err := d.check(ctx)
		if store.Damaged(err) {
			return flips, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a thousand flipped bits did no damage")
}
