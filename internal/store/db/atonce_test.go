package db

import (
	"database/sql"
	"reflect"
	"testing"
	"time"

	"claudeops/test/pgtest"
)

// What is read at once reads like one question after the other, whatever a column holds.
func TestRowsReadAtOnceAreThoseOfTheQuestions(t *testing.T) {
	type kind string
	type row struct {
		id     int64
		text   kind
		opt    *int64
		bytes  []byte
		share  float64
		part   *float64
		yes    bool
		maybe  *bool
		opted  string
		number int
		at     *time.Time
	}
	for name, d := range map[string]*DB{"a file": openTemp(t), "a server": openItems(t, pgtest.URL(t))} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{"plain", "", `with "quotes", \ and (brackets),`, "lines\nand ü\t", "NULL", "2026-11-19T04:14:44.000001Z"} {
				must(t, d.Write(t.Context(), "test", func(tx Querier) error {
					return Exec(t.Context(), tx, `INSERT INTO items (name) VALUES (?)`, text)
				}))
			}
			scan := func(r Row, v *row) error {
				return r.Scan(&v.id, &v.text, &v.opt, &v.bytes, &v.share, &v.part, &v.yes, &v.maybe, ToText(&v.opted), &v.number, ToOptTime(&v.at))
			}
			const query = `SELECT id, name, CASE WHEN id > 2 THEN id END, CASE WHEN id > 1 THEN name END, CAST(id AS DOUBLE PRECISION) / 3, CASE WHEN id > 1 THEN 0.1 END,
				id > ?, CASE WHEN id > 1 THEN id > 2 END, CASE WHEN id > 3 THEN name END, 7,
				CASE WHEN name LIKE '2026%' THEN name END FROM items WHERE id <> ? ORDER BY id DESC`
			one, err := List(t.Context(), d.reader, scan, query, 2, 100)
			must(t, err)
			var all, none []row
			var last []int64
			parts := []Part{
				Into(&all, scan, query, 2, 100), Into(&none, scan, query+` LIMIT 0`, 2, 100), Into(&last, ScanInt, `SELECT MAX(id) FROM items`),
			}
			ask := func(tx Querier) error { return AtOnce(t.Context(), tx, parts...) }
			for how, read := range map[string]func() error{
				"the database":  func() error { return d.ReadOnce(t.Context(), ask) },
				"a transaction": func() error { return d.Write(t.Context(), "test", ask) },
			} {
				must(t, read())
				if len(none) > 0 || len(last) != 1 || last[0] != 6 {
					t.Errorf("%s finds %v and %v", how, none, last)
				}
				if !reflect.DeepEqual(all, one) {
					t.Errorf("%s reads\n%+v\nwant\n%+v", how, all, one)
				}
			}
			var wrong []int64
			for what, part := range map[string]Part{
				"a NULL":          Into(&wrong, ScanInt, `SELECT CASE WHEN id < 0 THEN id END FROM items`),
				"a text":          Into(&wrong, ScanInt, `SELECT name FROM items`),
				"too many":        Into(&wrong, ScanInt, `SELECT id, id FROM items`),
				"what is missing": Into(&wrong, ScanInt, `SELECT nothing FROM items`),
			} {
				if err := AtOnce(t.Context(), d.reader, parts[0], part); err == nil {
					t.Errorf("%s is read as a number", what)
				}
			}
			var few []int64
			two := func(r Row, n *int64) error { return r.Scan(n, new(sql.NullString)) }
			if err := AtOnce(t.Context(), d.reader, parts[0], Into(&few, two, `SELECT id FROM items`)); err == nil {
				t.Error("one column is read as two")
			}
		})
	}
}
