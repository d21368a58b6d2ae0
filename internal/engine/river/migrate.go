package river

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// migrationLock is the advisory lock that a host takes to migrate River's tables.
const migrationLock = 0x636c6f70_72697672

// migrate brings River's tables up to date, one host at a time.
func migrate(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(newThin(logger.Handler()))})
	if err != nil {
		return fmt.Errorf("prepare queue tables: %w", err)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("prepare queue tables: %w", err)
	}
	defer conn.Release()
	for {
		var ours bool
		// Polling leaves no open transaction that a migration would have to wait for.
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, migrationLock).Scan(&ours); err != nil {
			return fmt.Errorf("lock queue tables: %w", err)
		}
		if ours {
			break
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("lock queue tables: %w", context.Cause(ctx))
		}
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if _, unlock := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrationLock); unlock != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // closing the connection releases the lock
	}
	if err != nil {
		return fmt.Errorf("prepare queue tables: %w", err)
	}
	return nil
}
