package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Flaw is something in a database that is wrong.
type Flaw struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
}

// MaxFlaws is how many flaws of one kind are reported.
const MaxFlaws = 20

const fileCheck = "the file is not damaged"

// Damaged reports whether an error means that the database itself is damaged, and not only that one call failed.
func Damaged(err error) bool { return errors.Is(err, ErrCorrupt) || isCorrupt(err) }

// asDamage adds ErrCorrupt to an error with which the database says that it is damaged.
func asDamage(err error) error {
	if isCorrupt(err) && !errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	return err
}

// QuickCheck reads the whole file and reports damage as ErrCorrupt. A server checks its own files; there only the existence of the
// tables is checked.
func (d *DB) QuickCheck(ctx context.Context) error {
	if err := d.dialect.check(ctx); err != nil {
		return fmt.Errorf("check database %s: %w", d.name, err)
	}
	return nil
}

// Flaws lists the damage of a file. With full it checks every page and index. On a server it is QuickCheck.
func (d *DB) Flaws(ctx context.Context, full bool) ([]Flaw, error) {
	found, err := d.dialect.flaws(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("check database %s: %w", d.name, err)
	}
	return found, nil
}

func (f *sqliteFile) check(ctx context.Context) error {
	found, err := List(ctx, f.reader, ScanString, `PRAGMA quick_check(10)`)
	switch {
	case err != nil:
		return asDamage(err)
	case len(found) != 1 || found[0] != "ok":
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

func (f *sqliteFile) flaws(ctx context.Context, full bool) ([]Flaw, error) {
	return fileFlaws(ctx, f.reader, full)
}

// fileFlaws looks for damage in a SQLite file. A file that cannot be read is damaged too.
func fileFlaws(ctx context.Context, q Querier, full bool) ([]Flaw, error) {
	check := `quick_check`
	if full {
		check = `integrity_check`
	}
	found, err := List(ctx, q, ScanString, fmt.Sprintf(`PRAGMA %s(%d)`, check, MaxFlaws))
	if isCorrupt(err) {
		return []Flaw{{fileCheck, err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Flaw
	for _, detail := range found {
		if detail != "ok" {
			out = append(out, Flaw{fileCheck, detail})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	missing, err := List(ctx, q, scanMissingReference, `PRAGMA foreign_key_check`)
	if err != nil {
		return nil, asDamage(err)
	}
	for _, detail := range missing[:min(len(missing), MaxFlaws)] {
		out = append(out, Flaw{"every referenced row exists", detail})
	}
	return out, nil
}

func scanMissingReference(r Row) (string, error) {
	var table, parent string
	var id *int64
	var key int
	if err := r.Scan(&table, &id, &parent, &key); err != nil {
		return "", err
	}
	if id == nil {
		return fmt.Sprintf("a row of %s refers to a row of %s that does not exist", table, parent), nil
	}
	return fmt.Sprintf("row %d of %s refers to a row of %s that does not exist", *id, table, parent), nil
}
