package db

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// After a notification, more of them are awaited for burstPause, and in all no longer than burstMax, so that a burst of writes
	// is reported once.
	burstPause = 5 * time.Millisecond
	burstMax   = 50 * time.Millisecond

	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
)

// listen uses a connection of its own and reconnects when it breaks.
func (p *postgres) listen(ctx context.Context, changed func()) error {
	pause := reconnectMin
	for {
		connected, err := p.listenOnce(ctx, changed)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // this is how it ends
		}
		if connected {
			pause = reconnectMin
		}
		p.log.WarnContext(ctx, "listening for changes of other hosts failed; reconnecting", "database", p.name, "after", pause, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMax)
	}
}

// listenOnce listens on one connection until it breaks.
func (p *postgres) listenOnce(ctx context.Context, changed func()) (connected bool, err error) {
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
		if err := drain(ctx, conn); err != nil {
			return true, err
		}
		changed()
	}
}

// drain takes the notifications that follow closely.
func drain(ctx context.Context, conn *pgx.Conn) error {
	for end := time.Now().Add(burstMax); time.Now().Before(end); {
		soon, cancel := context.WithTimeout(ctx, burstPause)
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
