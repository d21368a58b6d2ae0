package store

import (
	"fmt"
	"testing"
)

// A batch of many rows prepares its statement once, for itself and for those that follow.
func TestABatchPreparesItsStatementOnce(t *testing.T) {
	s := openTemp(t)
	statements := s.dialect.(*sqliteFile).statements
	const query = `INSERT INTO check_hours (at, environment, service, status, checks) VALUES ('', 'home', ?, 'healthy', ?)`
	batch := func(from int) {
		t.Helper()
		err := s.write(t.Context(), "test", func(tx querier) error {
			for i := range 100 {
				if _, err := tx.ExecContext(t.Context(), query, fmt.Sprintf("m%d", from+i), i); err != nil {
					return err
				}
			}
			if own := tx.(cachedTx).own[query]; (own != nil) != (from == 0) {
				return fmt.Errorf("batch %d has a statement of its own: %t", from, own != nil)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	batch(0)
	if n := len(statements.wanted); n != 1 {
		t.Errorf("%d statements wait to be prepared", n)
	}
	batch(100)
	if n := len(statements.prepared); n != 1 || len(statements.wanted) != 0 {
		t.Errorf("%d statements are prepared, %d wait", n, len(statements.wanted))
	}
	var rows int
	if err := s.reader.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM check_hours`).Scan(&rows); err != nil || rows != 200 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
