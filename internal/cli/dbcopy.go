package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// copiedRow is a copied table as it is printed.
type copiedRow struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
	Mended int64  `json:"mended,omitempty"`
}

func (a *app) dbCopy() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use: "copy --from DATABASE --to DATABASE", Short: "Copy the database between SQLite and PostgreSQL; stop claudeops first",
		Long: `Copies every table into an empty database in one transaction, then reads everything back and compares counts and hashes.
A database is sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME; the password can also come from PGPASSWORD or a .pgpass file.
Then set CLAUDEOPS_DATABASE_URL, or unset it, and start claudeops.`,
		Example: `  claudeops db copy --from sqlite:/var/lib/claudeops/claudeops.db --to postgres://claudeops@db.example.org/claudeops`,
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" || to == "" {
				return usage(errors.New("db copy needs --from and --to"))
			}
			source, err := databaseAt(from)
			if err != nil {
				return usage(fmt.Errorf("--from: %w", err))
			}
			target, err := databaseAt(to)
			if err != nil {
				return usage(fmt.Errorf("--to: %w", err))
			}
			if process.InSession() {
				return errInSession
			}
			return a.copyDatabase(c.Context(), source, target)
		},
	}
	c.Flags().StringVar(&from, "from", "", "source database: sqlite:PATH or postgres://…")
	c.Flags().StringVar(&to, "to", "", "target database, which must be empty: sqlite:PATH or postgres://…")
	return c
}

func databaseAt(text string) (store.Options, error) {
	switch {
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return store.Options{URL: text}, nil
	case strings.HasPrefix(text, "sqlite:") && len(text) > len("sqlite:"):
		path := strings.TrimPrefix(strings.TrimPrefix(text, "sqlite:"), "//")
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "claudeops.db")
		}
		return store.Options{Path: path}, nil
	}
	return store.Options{}, errors.New("use sqlite:PATH or postgres://…")
}

// copyDatabase copies while no daemon uses either SQLite file.
func (a *app) copyDatabase(ctx context.Context, source, target store.Options) error {
	copying := func() error { return a.copyRows(ctx, source, target) }
	var locked []string
	for _, o := range []store.Options{source, target} {
		dir, err := filepath.Abs(filepath.Dir(o.Path))
		if err != nil {
			return fmt.Errorf("find %s: %w", o.Path, err)
		}
		if o.Path == "" || slices.Contains(locked, dir) {
			continue
		}
		locked = append(locked, dir)
		inner := copying
		copying = func() error { return control.Offline(dir, inner) }
	}
	return copying()
}

func (a *app) copyRows(ctx context.Context, source, target store.Options) (err error) {
	source.Logger, target.Logger = a.quietLogger(), a.quietLogger()
	from, err := store.OpenReadOnly(ctx, source)
	if errors.Is(err, store.ErrOlder) {
		return fmt.Errorf("%w: start this version once with it before you copy it", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := idle(ctx, from); err != nil {
		return err
	}
	to, err := store.Open(ctx, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	copied, err := store.Copy(ctx, from, to, a.progress())
	if err != nil {
		return err
	}
	var rows []copiedRow
	var mended int64
	for _, c := range copied {
		rows = append(rows, copiedRow{c.Table, c.Rows, c.Hash, c.Replaced})
		mended += c.Replaced
	}
	if mended > 0 {
		fmt.Fprintf(a.Stderr, "claudeops: %s bytes that PostgreSQL cannot store; they were replaced by U+FFFD\n",
			plural(mended, "text contains", "texts contain"))
	}
	return printRows(a, rows, tabbed("TABLE", "ROWS", "SHA-256 ON BOTH SIDES"), func(r copiedRow) string {
		return tabbed(r.Table, fmt.Sprint(r.Rows), r.SHA256[:16])
	})
}

// idle refuses a database that a host still uses: what it writes during the copy would be lost.
func idle(ctx context.Context, s *store.Store) error {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if h.Alive {
			return fmt.Errorf("host %s uses the database: stop it first: %w", h.Name, ops.ErrConflict)
		}
	}
	return nil
}

// progress reports the progress of the copy on stderr: on a terminal in one line, else every 100,000 rows.
func (a *app) progress() func(table string, rows int64) {
	if a.quiet {
		return func(string, int64) {}
	}
	live := terminal(a.Stderr)
	const every = 100_000
	return func(table string, rows int64) {
		switch {
		case live:
			fmt.Fprintf(a.Stderr, "\r\x1b[K%s: %d rows", table, rows)
		case rows%every == 0:
			fmt.Fprintf(a.Stderr, "%s: %d rows\n", table, rows)
		}
	}
}
