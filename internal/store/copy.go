package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// table is how the rows of a table are copied.
type table struct {
	name string
	key  []string // in whose order they are read; ids are counted on by the database
	// later names a column that refers to a row of the same table which may come after it.
	later string
	// skip is what belongs to a process and not to the journal.
	skip string
}

// tables lists all of them, those that others refer to first.
func tables() []table {
	id := []string{"id"}
	return []table{
		{name: "hosts", key: []string{"host"}},
		{name: "duties", key: []string{"name"}},
		{name: "store_state", key: []string{"name"}, skip: `name = '` + openFlag + `'`},
		{name: "cycles", key: id},
		{name: "sessions", key: id},
		{name: "transcript", key: []string{"session_id", "seq"}},
		{name: "escalations", key: id},
		{name: "recoveries", key: id},
		{name: "verifications", key: id},
		{name: "approvals", key: id},
		{name: "incidents", key: id},
		{name: "incident_waits", key: []string{"incident_id", "cycle_id"}},
		{name: "events", key: id},
		{name: "notifications", key: id},
		{name: "checks", key: id},
		{name: "check_hours", key: []string{"at", "environment", "service", "status"}},
		{name: "check_days", key: []string{"at", "environment", "service", "status"}},
		{name: "guard_decisions", key: id},
		{name: "cooldown_actions", key: id, later: "closed_by"},
		{name: "memories", key: id},
		{name: "silences", key: id},
		{name: "api_requests", key: []string{"caller", "key"}},
		{name: "logins", key: []string{"digest"}},
		{name: "alerts", key: id},
		{name: "probe_states", key: []string{"environment", "service", "probe"}},
		{name: "causes", key: id},
		{name: "withheld", key: []string{"environment", "service"}},
	}
}

// counted reports whether the database numbers the rows.
func (t table) counted() bool { return slices.Equal(t.key, []string{"id"}) }

// Copied is a table that was copied and read back.
type Copied struct {
	Table string
	Rows  int64
	Hash  string // of all values of all rows, the same on both sides
	// Mended is how many texts held bytes that a PostgreSQL text cannot hold; they hold a mark instead.
	Mended int64
}

// Copy copies a whole journal into an empty database, as it is at one moment, and compares what arrived: all of it is there, or
// nothing. Nobody may work on either of them. Progress hears how far a table is. A target with rows is ops.ErrConflict.
func Copy(ctx context.Context, from, to *Store, progress func(table string, rows int64)) ([]Copied, error) {
	var out []Copied
	err := from.takingLong(ctx, true, func(source querier) error {
		return to.takingLong(ctx, false, func(target querier) error {
			if err := empty(ctx, target); err != nil {
				return err
			}
			for _, t := range tables() {
				c, err := carrier{from: from, to: to, source: source, target: target, progress: progress}.table(ctx, t)
				if err != nil {
					return fmt.Errorf("table %s: %w", t.name, err)
				}
				out = append(out, c)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("copy %s to %s: %w", from.name, to.name, err)
	}
	return out, nil
}

// empty refuses a database that holds something.
func empty(ctx context.Context, q querier) error {
	for _, t := range tables() {
		n, err := one(ctx, q, scanInt, `SELECT COUNT(*) FROM `+t.name+t.where())
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("the target is not empty: %s has %d rows; give a new one: %w", t.name, n, ops.ErrConflict)
		}
	}
	return nil
}

func (t table) where() string {
	if t.skip == "" {
		return ""
	}
	return ` WHERE NOT (` + t.skip + `)`
}

// carrier carries rows from one database to another.
type carrier struct {
	from, to       *Store
	source, target querier
	progress       func(table string, rows int64)
}

func (c carrier) table(ctx context.Context, t table) (Copied, error) {
	columns, err := columnsOf(ctx, c.source, t.name)
	if err != nil {
		return Copied{}, err
	}
	there, err := columnsOf(ctx, c.target, t.name)
	if err != nil {
		return Copied{}, err
	}
	if !slices.Equal(columns, there) {
		return Copied{}, errors.New("its columns are not the same on both sides")
	}
	sent := newDigest()
	err = t.read(ctx, c.source, columns, func(rows [][]any) error {
		for _, r := range rows {
			sent.add(r)
		}
		defer c.progress(t.name, sent.rows)
		return t.insert(ctx, c.target, columns, rows)
	})
	if err == nil {
		err = c.refer(ctx, t, columns)
	}
	if err == nil && t.counted() {
		err = c.count(ctx, t)
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
		return Copied{}, fmt.Errorf("what arrived is not what was sent: %d rows %s, and %d rows %s", sent.rows, sent.sum(), arrived.rows, arrived.sum())
	}
	return Copied{Table: t.name, Rows: sent.rows, Hash: sent.sum(), Mended: sent.mended}, nil
}

// columnsOf are the names of a table's columns, in one order on both sides.
func columnsOf(ctx context.Context, q querier, table string) ([]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT * FROM `+table+` LIMIT 0`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err below reports what Close would
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	slices.Sort(columns)
	return columns, rows.Err()
}

// copiedRows is how many rows are read at once.
const copiedRows = 500

// read hands over all rows in the order of their key, some at a time.
func (t table) read(ctx context.Context, q querier, columns []string, take func(rows [][]any) error) error {
	key := quoteAll(t.key)
	var last []any
	for {
		var w filter
		if t.skip != "" {
			w.add(`NOT (` + t.skip + `)`)
		}
		if last != nil {
			w.add(`(`+key+`) > (`+marks(len(t.key))+`)`, last...)
		}
		rows, err := list(ctx, q, func(r row) ([]any, error) { return scanValues(r, columns) },
			`SELECT `+quoteAll(columns)+` FROM `+t.name+w.where()+` ORDER BY `+key+` LIMIT ?`, append(w.args, copiedRows)...)
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
		for _, k := range t.key {
			last = append(last, rows[len(rows)-1][slices.Index(columns, k)])
		}
	}
}

// scanValues reads a row as plain values: nothing, a number, a truth value or a text.
func scanValues(r row, columns []string) ([]any, error) {
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
func columnTypes(r row) ([]string, error) {
	rows, ok := r.(*sql.Rows)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", r)
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = t.DatabaseTypeName()
	}
	return out, nil
}

// plain is a value as both databases mean it: SQLite has no truth values of its own, and takes a text for bytes.
func plain(v any, declared string) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return string(v), nil
	case string, bool:
		return v, nil
	case int64:
		switch {
		case strings.HasPrefix(declared, "BOOL"):
			return v != 0, nil
		case strings.HasPrefix(declared, "DOUBLE"), strings.HasPrefix(declared, "FLOAT"):
			return float64(v), nil
		}
		return v, nil
	case float64:
		return v, nil
	}
	return nil, fmt.Errorf("unexpected %T", v)
}

// mostArguments is what one statement of either database takes.
const mostArguments = 10_000

func (t table) insert(ctx context.Context, q querier, columns []string, rows [][]any) error {
	later := slices.Index(columns, t.later)
	for part := range slices.Chunk(rows, max(1, mostArguments/len(columns))) {
		args := make([]any, 0, len(part)*len(columns))
		for _, r := range part {
			for i, v := range r {
				if i == later {
					v = nil
				}
				args = append(args, v)
			}
		}
		values := strings.Repeat(`, (`+marks(len(columns))+`)`, len(part))[2:]
		if _, err := q.ExecContext(ctx, `INSERT INTO `+t.name+` (`+quoteAll(columns)+`) VALUES `+values, args...); err != nil {
			return err
		}
	}
	return nil
}

// refer sets what refers to a row that comes later, now that all rows are there.
func (c carrier) refer(ctx context.Context, t table, columns []string) error {
	if t.later == "" {
		return nil
	}
	at := slices.Index(columns, t.later)
	id := slices.Index(columns, "id")
	return t.read(ctx, c.source, columns, func(rows [][]any) error {
		for _, r := range rows {
			if r[at] == nil {
				continue
			}
			if _, err := c.target.ExecContext(ctx, `UPDATE `+t.name+` SET `+t.later+` = ? WHERE id = ?`, r[at], r[id]); err != nil {
				return err
			}
		}
		return nil
	})
}

// count lets the target go on where the source would: a number is never given twice, also that of a row that was removed.
func (c carrier) count(ctx context.Context, t table) error {
	last, err := c.from.lastNumber(ctx, c.source, t.name)
	if err != nil {
		return err
	}
	newest, err := one(ctx, c.source, scanInt, `SELECT COALESCE(MAX(id), 0) FROM `+t.name)
	if err != nil {
		return err
	}
	return c.to.goOnAfter(ctx, c.target, t.name, max(last, newest))
}

func quoteAll(columns []string) string { return `"` + strings.Join(columns, `", "`) + `"` }
