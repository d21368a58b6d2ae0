package db

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Querier is a pool or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) Row
}

// Row is one row of a result; without one, Scan returns sql.ErrNoRows.
type Row interface{ Scan(dest ...any) error }

// Rows are the rows of a result.
type Rows interface {
	Row
	Next() bool
	Err() error
	Close() error
}

// orNone is the result of a query, without a typed nil where it failed.
func orNone(rows *sql.Rows, err error) (Rows, error) {
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// sqlTx is a transaction of package sql.
type sqlTx struct {
	tx *sql.Tx
	numbered
}

func (t sqlTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args = t.bind(query, args)
	return t.tx.ExecContext(ctx, query, args...)
}

func (t sqlTx) QueryContext(ctx context.Context, query string, args ...any) (Rows, error) {
	query, args = t.bind(query, args)
	return orNone(t.tx.QueryContext(ctx, query, args...))
}

func (t sqlTx) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	query, args = t.bind(query, args)
	return t.tx.QueryRowContext(ctx, query, args...)
}

// List reads all rows of a query.
func List[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

func collect[T any](rows Rows, scan func(Row) (T, error)) ([]T, error) {
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Part is one of several questions.
type Part struct {
	query string
	args  []any
	read  func(Rows) error
}

// Into is a question whose rows are read into a list.
func Into[T any](to *[]T, scan func(Row) (T, error), query string, args ...any) Part {
	return Part{query, args, func(rows Rows) (err error) {
		*to, err = collect(rows, scan)
		return err
	}}
}

// Together asks several questions, on a server all with one way there and back.
func Together(ctx context.Context, q Querier, parts ...Part) error {
	if t, ok := q.(*serverTx); ok {
		return t.together(parts)
	}
	for _, p := range parts {
		rows, err := q.QueryContext(ctx, p.query, p.args...)
		if err == nil {
			err = p.read(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// One reads the only row of a query; without a row the error is ops.ErrNotFound.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = ops.ErrNotFound
	}
	return v, err
}

// Changed reports whether a statement changed a row.
func Changed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

// Exec runs a statement. On a server its error may come with a later statement of the transaction, or the commit.
func Exec(ctx context.Context, tx Querier, query string, args ...any) error {
	if t, ok := tx.(*serverTx); ok {
		return t.later(query, args)
	}
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// Affected runs a statement and returns how many rows it changed.
func Affected(ctx context.Context, tx Querier, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Filter collects conditions and their arguments.
type Filter struct {
	conds []string
	Args  []any
}

// Add adds a condition; all of them must hold.
func (f *Filter) Add(cond string, args ...any) {
	f.conds = append(f.conds, cond)
	f.Args = append(f.Args, args...)
}

// Given adds a condition for a value, unless that is the zero one. A pointer stands for what it leads to.
func (f *Filter) Given(cond string, value any) {
	v := reflect.ValueOf(value)
	if v.IsZero() {
		return
	}
	if v.Kind() == reflect.Pointer {
		value = v.Elem().Interface()
	}
	if at, ok := value.(time.Time); ok {
		value = Time(at)
	}
	f.Add(cond, value)
}

// Where is the WHERE clause, empty without a condition.
func (f *Filter) Where() string {
	if len(f.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conds, " AND ")
}

const defaultLimit = 50

// PageSize is how many rows a list returns: the given limit, or a default.
func PageSize(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return limit
}

// Placeholders is a list of n placeholders for arguments.
func Placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// Contains is the LIKE pattern, with \ as its escape character, that finds a text inside a lower-case one.
func Contains(text string) string {
	return `%` + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(text)) + `%`
}

// ScanString reads a row of one text.
func ScanString(r Row) (string, error) {
	var v string
	err := r.Scan(&v)
	return v, err
}

// ScanInt reads a row of one number.
func ScanInt(r Row) (int64, error) {
	var v int64
	err := r.Scan(&v)
	return v, err
}
