package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // to take the lock that another process would take
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
func (t *trying) locked(ctx context.Context, ladder bool, length time.Duration) error {
	b := t.box(ctx, setup{ladder: ladder, scenario: slowChain(2 * time.Second)})
	b.refusals = true // what cannot be recorded is not allowed
	p := t.inTier2Of(ctx, b)
	release := must(lockDatabase(ctx, sqliteFile{b.state}.path()))
	before := len(b.service.done())
	slowest := time.Duration(0)
	var err error
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
	check(errors.Join(err, release()))
	return t.goesOn(ctx, b, p, fmt.Sprintf("pages answered within %s while it was locked", slowest.Round(time.Millisecond)))
}
