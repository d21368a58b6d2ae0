package db

import (
	"fmt"
	"testing"
)

// A batch of many rows prepares its statement once, for itself and for those that follow.
func TestABatchPreparesItsStatementOnce(t *testing.T) {
	d := openTemp(t)
	statements := d.dialect.connector.(*sqliteFile).statements
	const query = `INSERT INTO items (name, id) VALUES (?, ?)`
	batch := func(from int) {
		t.Helper()
		err := d.Write(t.Context(), "test", func(tx Querier) error {
			for i := range 100 {
				if _, err := tx.ExecContext(t.Context(), query, fmt.Sprintf("m%d", from+i), from+i); err != nil {
					return err
				}
			}
			if own := tx.(cachedTx).own[query]; (own != nil) != (from == 0) {
				return fmt.Errorf("batch %d has a statement of its own: %t", from, own != nil)
			}
			return nil
		})
		must(t, err)
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
	if err := d.reader.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM items`).Scan(&rows); err != nil || rows != 200 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
