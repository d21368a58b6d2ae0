package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // to take the lock that another process would take

	"claudeops/internal/ops"
)

// slowChain is the chain with a Tier 2 that takes its time before it does anything.
func slowChain(pause time.Duration) string {
	return replaceOnce(chain, "      - bash: 'webctl restart'\n", fmt.Sprintf("      - pause: %s\n      - bash: 'webctl restart'\n", pause))
}

// lockDatabase keeps everybody else from writing to the database until release is called.
func lockDatabase(ctx context.Context, path string) (release func() error, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock database: %w", err), db.Close())
	}
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock database: %w", err), conn.Close(), db.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, conn.Close(), db.Close())
	}, nil
}

// locked keeps the database locked in the middle of Tier 2.
func (t *trying) locked(ctx context.Context, ladder bool, length time.Duration) (err error) {
	b, err := newBox(ctx, setup{program: t.program, ladder: ladder, scenario: slowChain(2 * time.Second)})
	if err != nil {
		return err
	}
	defer func() { t.leave(b, err) }()
	b.refusals = true // what cannot be recorded is not allowed
	p, err := b.start(ctx, modeServe)
	if err != nil {
		return err
	}
	defer p.signal(syscall.SIGKILL)
	if err := p.until("Tier 2 runs", func() bool { return b.running(ctx, ops.Tier2) }); err != nil {
		return err
	}
	release, err := lockDatabase(ctx, sqliteFile{b.state}.path())
	if err != nil {
		return err
	}
	before := len(b.service.done())
	slowest := time.Duration(0)
	for begun := time.Now(); time.Since(begun) < length; <-time.After(time.Second) {
		asked := time.Now()
		if code, body := p.get("/"); code != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("a page answers %d while the database is locked: %.200s", code, body))
			break
		}
		slowest = max(slowest, time.Since(asked))
	}
	if done := b.service.done(); len(done) > before {
		err = errors.Join(err, fmt.Errorf("%s was done although nothing could be reserved", done[before].verb))
	}
	if err = errors.Join(err, release()); err != nil {
		return err
	}
	released := time.Now()
	if err := p.until("every cycle has ended", func() bool { return b.quiet(ctx) }); err != nil {
		return err
	}
	t.recovery = time.Since(released)
	t.found = fmt.Sprintf("pages answered within %s while it was locked; %s after it the chain had ended: %s",
		slowest.Round(time.Millisecond), t.recovery.Round(10*time.Millisecond), b.summary(ctx))
	if err := p.stop(); err != nil {
		return err
	}
	return b.verdict(ctx, ladder)
}
