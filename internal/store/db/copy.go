package db

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// numbered reports whether the database numbers the rows.
func (t Table) numbered() bool { return slices.Equal(t.Key, []string{"id"}) }

// rows chooses the rows to copy. The open flag belongs to a process, not to the data.
func (t Table) rows() Filter {
	var w Filter
	if t.Name == stateTable {
		w.Add(`name <> ?`, openFlag)
	}
	return w
}

// Copied is a table that was copied and compared.
type Copied struct {
	Table string
	Rows  int64
	Hash  string // of all values of all rows, the same on both sides
	// Replaced is how many texts contained bytes that PostgreSQL cannot store; a replacement character is stored instead.
	Replaced int64
}

// Copy copies all tables into an empty database, as they are at one moment, and compares the result. It copies everything or
// nothing. Neither database may be in use. progress is called as the rows of a table are copied. A target with rows is
// ops.ErrConflict.
func Copy(ctx context.Context, from, to *DB, progress func(table string, rows int64)) ([]Copied, error) {
	var out []Copied
	err := from.ReadLong(ctx, func(source Querier) error {
		return to.writeLong(ctx, "copy", func(target Querier) error {
			if err := requireEmpty(ctx, target, to.schema.Tables); err != nil {
				return err
			}
			c := copier{from: from.dialect, to: to.dialect, source: source, target: target, progress: progress}
			for _, t := range from.schema.Tables {
				copied, err := c.table(ctx, t)
				if err != nil {
					return fmt.Errorf("table %s: %w", t.Name, err)
				}
				out = append(out, copied)
			}
			return nil
		})
	})
	return ops.Returning(out, err, "copy %s to %s", from.name, to.name)
}

// requireEmpty refuses a database with rows.
func requireEmpty(ctx context.Context, q Querier, tables []Table) error {
	for _, t := range tables {
		w := t.rows()
		n, err := One(ctx, q, ScanInt, `SELECT COUNT(*) FROM `+t.Name+w.Where(), w.Args...)
		if err != nil {
			return err
		}
		if n > 0 {
			return ops.NewConflict(ops.ConflictTaken, "the target is not empty: %s has %d rows; give a new one", t.Name, n)
		}
	}
	return nil
}

// copier copies rows from one database to another.
type copier struct {
	from, to       numberer
	source, target Querier
	progress       func(table string, rows int64)
}

func (c copier) table(ctx context.Context, t Table) (Copied, error) {
	columns, err := columnsOf(ctx, c.source, t.Name)
	if err != nil {
		return Copied{}, err
	}
	there, err := columnsOf(ctx, c.target, t.Name)
	if err != nil {
		return Copied{}, err
	}
	if !slices.Equal(columns, there) {
		return Copied{}, errors.New("its columns are not the same in both databases")
	}
	sent := newDigest()
	err = t.read(ctx, c.source, columns, func(rows [][]any) error {
		for _, r := range rows {
			sent.add(r)
		}
		defer c.progress(t.Name, sent.rows)
		return t.insert(ctx, c.target, columns, rows)
	})
	if err == nil {
		err = c.refer(ctx, t, columns)
	}
	if err == nil && t.numbered() {
		err = c.number(ctx, t)
	}
	if err != nil {
		return Copied{}, err
	}
	arrived := newDigest()
	err = t.read(ctx, c.target, columns, func(rows [][]any) error {
		for _, r := range rows {
			arrived.add(r)
		}
		return nil
	})
	if err != nil {
		return Copied{}, fmt.Errorf("read it back: %w", err)
	}
	if arrived.rows != sent.rows || arrived.sum() != sent.sum() {
		return Copied{}, fmt.Errorf("the copy differs: %d rows with hash %s were sent, %d rows with hash %s arrived",
			sent.rows, sent.sum(), arrived.rows, arrived.sum())
	}
	return Copied{Table: t.Name, Rows: sent.rows, Hash: sent.sum(), Replaced: sent.replaced}, nil
}

// columnsOf are the names of a table's columns, in the same order for both databases.
func columnsOf(ctx context.Context, q Querier, table string) ([]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT * FROM `+table+` LIMIT 0`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	named, ok := rows.(*sql.Rows)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", rows)
	}
	columns, err := named.Columns()
	if err != nil {
		return nil, err
	}
	slices.Sort(columns)
	return columns, rows.Err()
}

// copiedRows is how many rows are read at a time.
const copiedRows = 500

// read passes all rows to take, in the order of their key and some at a time.
func (t Table) read(ctx context.Context, q Querier, columns []string, take func(rows [][]any) error) error {
	key := quoteAll(t.Key)
	var last []any
	for {
		w := t.rows()
		if last != nil {
			w.Add(`(`+key+`) > (`+Placeholders(len(t.Key))+`)`, last...)
		}
		rows, err := List(ctx, q, func(r Row, to *[]any) (err error) {
			*to, err = scanValues(r, columns)
			return err
		},
			`SELECT `+quoteAll(columns)+` FROM `+t.Name+w.Where()+` ORDER BY `+key+` LIMIT ?`, append(w.Args, copiedRows)...)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		if err := take(rows); err != nil {
			return err
		}
		last = nil
		for _, k := range t.Key {
			last = append(last, rows[len(rows)-1][slices.Index(columns, k)])
		}
	}
}

// scanValues reads a row as plain values: nil, a number, a bool or a text.
func scanValues(r Row, columns []string) ([]any, error) {
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := r.Scan(into...); err != nil {
		return nil, err
	}
	types, err := columnTypes(r)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if values[i], err = plain(v, types[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", columns[i], err)
		}
	}
	return values, nil
}

// columnTypes are the declared types of the columns of a result.
func columnTypes(r Row) ([]string, error) {
	rows, ok := r.(*sql.Rows)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", r)
	}
	types, err := rows.ColumnTypes()
	return ops.Map(types, (*sql.ColumnType).DatabaseTypeName), err
}

// plain is a value as it is in both databases: SQLite has no booleans of its own and returns some texts as bytes.
func plain(v any, declared string) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return string(v), nil
	case string, bool, float64:
		return v, nil
	case int64:
		switch {
		case strings.HasPrefix(declared, "BOOL"):
			return v != 0, nil
		case strings.HasPrefix(declared, "DOUBLE"), strings.HasPrefix(declared, "FLOAT"):
			return float64(v), nil
		}
		return v, nil
	}
	return nil, fmt.Errorf("unexpected %T", v)
}

// maxArguments is how many arguments one statement takes in either database.
const maxArguments = 10_000

func (t Table) insert(ctx context.Context, q Querier, columns []string, rows [][]any) error {
	later := slices.Index(columns, t.SelfReference)
	for part := range slices.Chunk(rows, max(1, maxArguments/len(columns))) {
		args := make([]any, 0, len(part)*len(columns))
		for _, r := range part {
			for i, v := range r {
				if i == later {
					v = nil
				}
				args = append(args, v)
			}
		}
		values := strings.Repeat(`, (`+Placeholders(len(columns))+`)`, len(part))[2:]
		if _, err := q.ExecContext(ctx, `INSERT INTO `+t.Name+` (`+quoteAll(columns)+`) VALUES `+values, args...); err != nil {
			return err
		}
	}
	return nil
}

// refer sets the references to later rows, when all rows are there.
func (c copier) refer(ctx context.Context, t Table, columns []string) error {
	if t.SelfReference == "" {
		return nil
	}
	at := slices.Index(columns, t.SelfReference)
	id := slices.Index(columns, "id")
	return t.read(ctx, c.source, columns, func(rows [][]any) error {
		for _, r := range rows {
			if r[at] == nil {
				continue
			}
			if _, err := c.target.ExecContext(ctx, `UPDATE `+t.Name+` SET `+t.SelfReference+` = ? WHERE id = ?`, r[at], r[id]); err != nil {
				return err
			}
		}
		return nil
	})
}

// number makes the target number new rows where the source would: an id is never used twice, not even that of a removed row.
func (c copier) number(ctx context.Context, t Table) error {
	last, err := c.from.lastNumber(ctx, c.source, t.Name)
	if err != nil {
		return err
	}
	newest, err := One(ctx, c.source, ScanInt, `SELECT COALESCE(MAX(id), 0) FROM `+t.Name)
	if err != nil {
		return err
	}
	if last = max(last, newest); last == 0 {
		return nil
	}
	return c.to.setLastNumber(ctx, c.target, t.Name, last)
}

func quoteAll(columns []string) string { return `"` + strings.Join(columns, `", "`) + `"` }

// digest hashes rows. The same rows give the same hash, whichever database they come from.
type digest struct {
	hash     hash.Hash
	rows     int64
	replaced int64 // texts with bytes that PostgreSQL cannot store
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

// add adds a row of plain values. Each is hashed with its kind and its length, so that different rows never give the same input.
func (d *digest) add(values []any) {
	d.rows++
	for _, v := range values {
		if text, ok := v.(string); ok {
			clean, same := storable(text)
			if v = clean; !same {
				d.replaced++
			}
		}
		text := fmt.Sprint(v)
		_, _ = fmt.Fprintf(d.hash, "%T %d %s", v, len(text), text) // a hash takes everything
	}
}

func (d *digest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }
