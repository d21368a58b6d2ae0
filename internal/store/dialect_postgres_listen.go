package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// gather is how long more notifications are waited for after one, so that a burst of writes is told once; gatherMost is how
	// long that may go on.
	gather     = 5 * time.Millisecond
	gatherMost = 50 * time.Millisecond

	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// listen has a connection of its own, which is made again when it breaks.
func (p *postgres) listen(ctx context.Context, changed func()) error {
	pause := reconnectFirst
	for {
		connected, err := p.hear(ctx, changed)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // this is how it ends
		}
		if connected {
			pause = reconnectFirst
		}
		p.log.WarnContext(ctx, "other hosts' changes are not heard; they show when the next one is read, and the connection is tried again",
			"database", p.name, "after", pause, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMost)
	}
}

// hear listens on one connection until it breaks.
func (p *postgres) hear(ctx context.Context, changed func()) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, p.config.ConnConfig.Copy())
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it was only read from
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return false, err
	}
	changed()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		if n.Payload == p.token {
			continue
		}
		if err := more(ctx, conn); err != nil {
			return true, err
		}
		changed()
	}
}

// more takes the notifications that follow closely.
func more(ctx context.Context, conn *pgx.Conn) error {
	for end := time.Now().Add(gatherMost); time.Now().Before(end); {
		soon, cancel := context.WithTimeout(ctx, gather)
		_, err := conn.WaitForNotification(soon)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil
		default:
			return err
		}
	}
	return nil
}
