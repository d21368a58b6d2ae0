package store

import (
	"context"
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
	// It has to be read to its end: each row is a page that went.
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenPages))
	if err != nil {
		return 0, err
	}
	for rows.Next() { //nolint:revive // nothing is in them
	}
	if err := rows.Close(); err != nil {
		return 0, err
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	left, err := figure(`freelist_count`)
	if err != nil {
		return 0, err
	}
	size, err := figure(`page_size`)
	return (free - left) * size, err
}

// Vacuum writes the whole database anew, without gaps, and lets it give back space by itself from then on. On a file nobody else
// may use it meanwhile.
func (s *Store) Vacuum(ctx context.Context) error {
	if s.writer == nil {
		return fmt.Errorf("vacuum database %s: %w", s.name, errReadOnly)
	}
	statements := []string{`VACUUM (ANALYZE)`}
	if _, file := s.dialect.(*sqliteFile); file {
		statements = []string{`PRAGMA auto_vacuum = INCREMENTAL`, `VACUUM`, `PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`}
	}
	for _, statement := range statements {
		if _, err := s.writer.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("vacuum database %s: %w", s.name, err)
		}
	}
	return nil
}
