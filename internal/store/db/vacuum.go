package db

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	incremental  = 2    // PRAGMA auto_vacuum: free pages are returned on request
	batchPages   = 250  // pages returned at a time at most, about a megabyte
	reservePages = 2000 // free pages that stay in the file for new rows
)

// GiveBack returns some of the file's free space to the system, as long as it has more than a reserve. It reports how many bytes;
// 0 means that there is nothing more to return. A server does this by itself.
func (d *DB) GiveBack(ctx context.Context) (int64, error) {
	if d.writer == nil {
		return 0, errReadOnly
	}
	freed, err := d.dialect.giveBack(ctx, &d.pace)
	if err != nil {
		return 0, fmt.Errorf("give back free space of %s: %w", d.name, err)
	}
	return freed, nil
}

func (f *sqliteFile) giveBack(ctx context.Context, pace *Pace) (int64, error) {
	conn, err := f.writer.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // it goes back to its pool
	figure := func(pragma string) (n int64, err error) {
		err = conn.QueryRowContext(ctx, `PRAGMA `+pragma).Scan(&n)
		return n, err
	}
	mode, err := figure(`auto_vacuum`)
	if err != nil || mode != incremental {
		return 0, err // created by an earlier version: the command db vacuum turns it on
	}
	free, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	pages, err := figure(`page_count`)
	if err != nil || free-batchPages < max(reservePages, pages/10) {
		return 0, err
	}
	began := time.Now()
	if err := runToEnd(ctx, conn, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, pace.Of(batchPages))); err != nil {
		return 0, err
	}
	pace.Took(time.Since(began))
	f.checkpoints.committed() //nolint:contextcheck // a checkpoint goes on when the caller is gone
	left, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	size, err := figure(`page_size`)
	return (free - left) * size, err
}

// runToEnd reads all rows of a statement: incremental_vacuum frees one page for each row that is read.
func runToEnd(ctx context.Context, conn *sql.Conn, statement string) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	for rows.Next() {
		continue
	}
	return rows.Err()
}

// Vacuum rewrites the whole database without gaps and turns on GiveBack for it. Nothing else may use a file meanwhile.
func (d *DB) Vacuum(ctx context.Context) error {
	err := errReadOnly
	if d.writer != nil {
		err = d.dialect.vacuum(ctx)
	}
	if err != nil {
		return fmt.Errorf("vacuum database %s: %w", d.name, err)
	}
	return nil
}

func (f *sqliteFile) vacuum(ctx context.Context) error {
	for _, statement := range []string{
		`PRAGMA auto_vacuum = INCREMENTAL`, `VACUUM`, `PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`,
	} {
		if _, err := f.writer.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
