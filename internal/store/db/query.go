package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

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
func List[T any](ctx context.Context, q Querier, scan func(Row, *T) error, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

func collect[T any](rows Rows, scan func(Row, *T) error) ([]T, error) {
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	var out []T
	for rows.Next() {
		out = append(out, *new(T))
		if err := scan(rows, &out[len(out)-1]); err != nil {
			return nil, err
		}
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
func Into[T any](to *[]T, scan func(Row, *T) error, query string, args ...any) Part {
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

// ReadOnce is Read for what asks AtOnce, which on a server needs no transaction to be of one moment.
func (d *DB) ReadOnce(ctx context.Context, fn func(q Querier) error) error {
	if _, server := d.dialect.(*postgres); server {
		return fn(d.reader)
	}
	return d.Read(ctx, fn)
}

// AtOnce asks questions that only read. On a server they are one statement.
func AtOnce(ctx context.Context, q Querier, parts ...Part) error {
	_, inTx := q.(*serverTx)
	if p, ok := q.(*pool); !inTx && (!ok || !bool(p.numbered)) || len(parts) < 2 {
		return Together(ctx, q, parts...)
	}
	// Each question becomes a column: the list of its rows, each as a text.
	columns, lists, dest := make([]string, len(parts)), make([][]string, len(parts)), make([]any, len(parts))
	types := pgtype.NewMap()
	var args []any
	for i, p := range parts {
		columns[i] = `ARRAY(SELECT r::text FROM (` + p.query + `) r)`
		args = append(args, p.args...)
		if dest[i] = &lists[i]; !inTx {
			dest[i] = types.SQLScanner(&lists[i]) // package sql knows no lists
		}
	}
	if err := q.QueryRowContext(ctx, `SELECT `+strings.Join(columns, `, `), args...).Scan(dest...); err != nil {
		return err
	}
	for i, p := range parts {
		if err := p.read(&textRows{list: lists[i]}); err != nil {
			return err
		}
	}
	return nil
}

// textRows are rows as PostgreSQL writes them.
type textRows struct {
	list []string
	row  string
}

// Next goes to the next row.
func (r *textRows) Next() bool {
	if len(r.list) == 0 {
		return false
	}
	r.row, r.list = r.list[0], r.list[1:]
	return true
}

// Err is nil: all rows are here.
func (r *textRows) Err() error { return nil }

// Close has nothing to do.
func (r *textRows) Close() error { return nil }

// Scan reads the columns of a row.
func (r *textRows) Scan(dest ...any) error {
	fields := pgtype.NewCompositeTextScanner(nil, []byte(r.row))
	for i, d := range dest {
		if !fields.Next() {
			return errors.Join(fields.Err(), fmt.Errorf("read row: it has %d columns, not %d", i, len(dest)))
		}
		if err := scanText(d, fields.Bytes()); err != nil {
			return fmt.Errorf("read column %d: %w", i, err)
		}
	}
	if fields.Next() {
		return fmt.Errorf("read row: it has more than %d columns", len(dest))
	}
	return nil
}

// scanText reads a value; nil is NULL.
func scanText(dest any, value []byte) (err error) {
	if s, ok := dest.(sql.Scanner); ok {
		if value == nil {
			return s.Scan(nil)
		}
		return s.Scan(string(value))
	}
	to := reflect.ValueOf(dest).Elem()
	kind := to.Kind()
	switch {
	case value != nil:
	case kind == reflect.Pointer, kind == reflect.Slice:
		to.SetZero()
		return nil
	default:
		return fmt.Errorf("NULL does not fit %s", to.Type())
	}
	switch kind {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return scanText(to.Interface(), value)
	case reflect.Slice:
		to.SetBytes(value)
	case reflect.String:
		to.SetString(string(value))
	case reflect.Bool:
		to.SetBool(string(value) == "t")
	case reflect.Int, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(string(value), 10, 64)
		to.SetInt(n)
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(string(value), 64)
		to.SetFloat(f)
	default:
		err = fmt.Errorf("%s is not read", to.Type())
	}
	return err
}

// One reads the only row of a query; without a row the error is ops.ErrNotFound.
func One[T any](ctx context.Context, q Querier, scan func(Row, *T) error, query string, args ...any) (T, error) {
	var v T
	err := scan(q.QueryRowContext(ctx, query, args...), &v)
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
func ScanString(r Row, v *string) error {
	return r.Scan(v)
}

// ScanInt reads a row of one number.
func ScanInt(r Row, v *int64) error {
	return r.Scan(v)
}
