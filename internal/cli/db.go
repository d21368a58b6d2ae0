package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a databases) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "db", Short: "Maintain the database: backup, check, restore, copy",
		Example: `  claudeops db backup /srv/backup/claudeops.db     a complete copy, also while the daemon runs
  claudeops db check                               check for damage
  claudeops db restore /srv/backup/claudeops.db    restore a copy; stop the daemon first`,
	}
	c.AddCommand(a.backup(), a.check(), a.restore(), a.copy())
	return c
}

// backupRow is a backup as it is printed.
type backupRow struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	Schema int64  `json:"schema"`
	TookMS int64  `json:"took_ms,omitempty"`
}

func (a databases) backup() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "backup PATH", Short: "Write a complete, checked copy of the database, also while the daemon runs", Args: cobra.ExactArgs(1),
		Long: `Writes the current state of the database into one file and checks it. The file gets its name when it is complete and on disk.
The daemon keeps running. The copy contains transcripts and prompts: protect it like the state folder.`,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if cfg.DatabaseURL != "" {
				return fmt.Errorf("the database is on a PostgreSQL server; back it up with: %s",
					serverTool("pg_dump --format=custom --file="+quoted(args[0]), cfg.DatabaseURL))
			}
			began := time.Now()
			b, err := store.BackUp(c.Context(), daemon.DatabasePath(cfg), args[0], force)
			if err != nil {
				return err
			}
			row := backupRow{b.Path, b.Bytes, b.Schema, time.Since(began).Milliseconds()}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s, no damage found, written in %s\n", row.Path, megabytes(row.Bytes), time.Since(began).Round(time.Millisecond))
			})
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return a.withState(c)
}

func (a databases) check() *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Check the database, or the backup FILE, for damage and inconsistent rows", Args: cobra.MaximumNArgs(1),
		Long: `Reads every page and index of the database, follows every reference, and looks for rows that contradict each other, such as
a running session in a cycle that has ended. Exits 1 when something is found. The daemon can keep running.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.checkFile(c.Context(), args[0])
			}
			var flaws []store.Flaw
			err := a.reading(c.Context(), func(s *store.Store, _ *config.Config) error {
				var err error
				flaws, err = s.Journal.Verify(c.Context(), !quick)
				return err
			})
			if err != nil {
				return err
			}
			return a.printFlaws(flaws)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "skip indexes and transcripts; much faster")
	return a.withState(c)
}

func (a databases) checkFile(ctx context.Context, path string) error {
	b, err := store.Examine(ctx, path)
	if errors.Is(err, store.ErrCorrupt) {
		return a.printFlaws([]store.Flaw{{Check: "the file is not damaged", Detail: err.Error()}})
	}
	if err != nil {
		return err
	}
	return a.printOne(backupRow{Path: b.Path, Bytes: b.Bytes, Schema: b.Schema}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s, schema %d, no damage found\n", b.Path, megabytes(b.Bytes), b.Schema)
	})
}

func (a databases) printFlaws(flaws []store.Flaw) error {
	if len(flaws) == 0 && a.output == asTable {
		fmt.Fprintln(a.Stdout, "no damage found")
		return nil
	}
	err := printRows(a.app, flaws, tabbed("RULE", "FOUND"), func(f store.Flaw) string { return tabbed(f.Check, clean(f.Detail)) })
	if len(flaws) > 0 {
		fmt.Fprintln(a.Stderr, "claudeops: the database is damaged. Stop claudeops, copy the state folder, and restore a backup: "+
			"claudeops db restore PATH")
		return errors.Join(err, quietly(exitError))
	}
	return err
}

func (a databases) restore() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "restore PATH", Short: "Replace the database with a backup; stop claudeops first", Args: cobra.ExactArgs(1),
		Long: `Checks the backup, renames the database to claudeops.db.before-restore, and puts the backup in its place. Sessions that were
running when the backup was made count as interrupted at the next start: finished tiers do not run again, and the next session is told
which repair was interrupted.`,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if cfg.DatabaseURL != "" {
				return fmt.Errorf("the database is on a PostgreSQL server; stop every claudeops, then restore it with: %s",
					serverTool("pg_restore --clean --if-exists --exit-on-error "+quoted(args[0]), cfg.DatabaseURL))
			}
			if process.InSession() {
				return errInSession
			}
			if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
				return fmt.Errorf("create state folder: %w", err)
			}
			row := struct {
				Path string `json:"path"`
				Kept string `json:"kept,omitempty"`
			}{Path: daemon.DatabasePath(cfg)}
			err := control.Offline(cfg.StateDir, func() (err error) {
				row.Kept, err = store.Restore(c.Context(), args[0], row.Path)
				return err
			})
			if err != nil {
				return err
			}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "%s is restored from %s\n", row.Path, args[0])
				if row.Kept != "" {
					fmt.Fprintf(w, "The previous database is kept as %s\n", row.Kept)
				}
			})
		}),
	}, "state_dir", "database_url")
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// serverTool is the PostgreSQL command, ready to run. It asks for the password, which is left out.
func serverTool(command, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return command + " --dbname=…"
	}
	if _, secret := u.User.Password(); secret {
		u.User = url.User(u.User.Username())
	}
	return command + " --dbname=" + quoted(u.String())
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// copiedRow is a copied table as it is printed.
type copiedRow struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
	Mended int64  `json:"mended,omitempty"`
}

func (a databases) copy() *cobra.Command {
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
func (a databases) copyDatabase(ctx context.Context, source, target store.Options) error {
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

func (a databases) copyRows(ctx context.Context, source, target store.Options) (err error) {
	source.Logger, target.Logger = a.quietLogger(), a.quietLogger()
	from, err := store.OpenReadOnly(ctx, source)
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
	copied, err := store.Copy(ctx, from, to, a.progress)
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
			ops.Plural(mended, "text contains", "texts contain"))
	}
	return printRows(a.app, rows, tabbed("TABLE", "ROWS", "SHA-256 ON BOTH SIDES"), func(r copiedRow) string {
		return tabbed(r.Table, fmt.Sprint(r.Rows), r.SHA256[:16])
	})
}

// idle refuses a database that a host still uses: what it writes during the copy would be lost.
func idle(ctx context.Context, s *store.Store) error {
	hosts, err := s.Journal.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if h.Alive {
			return ops.NewConflict(ops.ConflictTaken, "host %s uses the database: stop it first", h.Name)
		}
	}
	return nil
}

// progress reports the progress of the copy on stderr.
func (a databases) progress(table string, rows int64) {
	const every = 100_000
	if !a.quiet && rows%every == 0 {
		fmt.Fprintf(a.Stderr, "%s: %d rows\n", table, rows)
	}
}
