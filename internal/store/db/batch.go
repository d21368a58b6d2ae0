package db

import (
	"context"
	"fmt"
	"strings"
)

// batchSizes are the numbers of rows that one statement writes. There are only a few, so that each of them stays prepared. Statements of
// more than 100 rows would cost the database more than they save, and the number of their arguments is limited.
func batchSizes() []int { return []int{100, 10, 1} }

// WriteRows runs statements that write rows of values: before + "(?, ?), (?, ?)" + after. The rows of one statement must have different
// keys.
func WriteRows(ctx context.Context, tx Querier, before, after string, rows [][]any) error {
	for _, n := range batchSizes() {
		if len(rows) < n {
			continue
		}
		row := `(` + Placeholders(len(rows[0])) + `)`
		statement := before + row + strings.Repeat(`, `+row, n-1) + after
		for ; len(rows) >= n; rows = rows[n:] {
			args := make([]any, 0, n*len(rows[0]))
			for _, r := range rows[:n] {
				args = append(args, r...)
			}
			if err := Later(ctx, tx, statement, args...); err != nil {
				return fmt.Errorf("write %d rows: %w", n, err)
			}
		}
	}
	return nil
}

// ForEachRow runs statements with a condition for each row: before + "(a = ? AND b = ?) OR (…)".
func ForEachRow(ctx context.Context, tx Querier, before, condition string, rows [][]any) error {
	for _, n := range batchSizes() {
		statement := before + `(` + condition + `)` + strings.Repeat(` OR (`+condition+`)`, n-1)
		for ; len(rows) >= n; rows = rows[n:] {
			var args []any
			for _, r := range rows[:n] {
				args = append(args, r...)
			}
			if err := Later(ctx, tx, statement, args...); err != nil {
				return fmt.Errorf("change %d rows: %w", n, err)
			}
		}
	}
	return nil
}

// Distinct splits rows into runs in which no key comes twice, in their order.
func Distinct[T any, K comparable](rows []T, key func(T) K) [][]T {
	var out [][]T
	seen := map[K]bool{}
	start := 0
	for i, r := range rows {
		k := key(r)
		if seen[k] {
			out = append(out, rows[start:i])
			start = i
			clear(seen)
		}
		seen[k] = true
	}
	if start < len(rows) {
		out = append(out, rows[start:])
	}
	return out
}
