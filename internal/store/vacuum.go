package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	incremental  = 2    // PRAGMA auto_vacuum: pages are given back when asked for
	givenPages   = 250  // so many at a time, a megabyte
	reservePages = 2000 // stay in the file: what comes next needs them again
)

// GiveBack returns a little of the space that removed rows left to the system, as long as the file has more of it than a
// reserve. It says how many bytes went; none means that there is nothing more to give. A server does this by itself.
func (s *Store) GiveBack(ctx context.Context) (int64, error) {
	f, ok := s.dialect.(*sqliteFile)
	if !ok {
		return 0, nil
	}
	if s.writer == nil {
		return 0, errReadOnly
	}
	freed, err := f.giveBack(ctx)
	if err != nil {
		return 0, fmt.Errorf("give back free space of %s: %w", s.name, err)
	}
	return freed, nil
}

func (f *sqliteFile) giveBack(ctx context.Context) (int64, error) {
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
		return 0, err // made by an earlier version: the command db vacuum turns it on
	}
	free, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	pages, err := figure(`page_count`)
	if err != nil || free-givenPages < max(reservePages, pages/10) {
		return 0, err
	}
	if err := readOut(ctx, conn, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenPages)); err != nil {
		return 0, err
	}
	left, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	size, err := figure(`page_size`)
	return (free - left) * size, err
}

// readOut runs a statement to its end: this one does a page of its work for each row that is asked for.
func readOut(ctx context.Context, conn *sql.Conn, statement string) error {
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

// Vacuum writes the whole database anew, without gaps, and lets it give back space by itself from then on. On a file nobody else
// may use it meanwhile.
func (s *Store) Vacuum(ctx context.Context) error {
	err := errReadOnly
	if s.writer != nil {
		err = s.vacuum(ctx)
	}
	if err != nil {
		return fmt.Errorf("vacuum database %s: %w", s.name, err)
	}
	return nil
}

func (s *Store) vacuum(ctx context.Context) (err error) {
	if p, server := s.dialect.(*postgres); server {
		db := p.unhurried()
		defer func() { err = errors.Join(err, db.Close()) }()
		_, err = db.ExecContext(ctx, `VACUUM (ANALYZE)`)
		return err
	}
	for _, statement := range []string{`PRAGMA auto_vacuum = INCREMENTAL`, `VACUUM`, `PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := s.writer.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
