package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) dbCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "db", Short: "Maintain the database: backup, check, restore, migrate, prune, vacuum, copy",
		Example: `  claudeops db backup /srv/backup/claudeops.db     a complete copy, also while the daemon runs
  claudeops db check                               check for damage
  claudeops db restore /srv/backup/claudeops.db    restore a copy; stop the daemon first`,
	}
	c.AddCommand(a.dbBackup(), a.dbCheck(), a.dbRestore(), a.dbMigrate(), a.dbPrune(), a.dbVacuum(), a.dbCopy())
	return c
}

// backupRow is a backup as it is printed.
type backupRow struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	Schema int64  `json:"schema"`
	TookMS int64  `json:"took_ms,omitempty"`
}

func (a *app) dbBackup() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "backup PATH", Short: "Write a complete, checked copy of the database, also while the daemon runs", Args: cobra.ExactArgs(1),
		Long: `Writes the current state of the database into one file and checks it. The file gets its name when it is complete and on disk.
The daemon keeps running. The copy contains transcripts and prompts: protect it like the state folder.`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
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
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return a.withFlags(c, config.StateFlags)
}

func (a *app) dbCheck() *cobra.Command {
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
				flaws, err = s.Verify(c.Context(), !quick)
				return err
			})
			if err != nil {
				return err
			}
			return a.printFlaws(flaws)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "skip indexes and transcripts; much faster")
	return a.withFlags(c, config.StateFlags)
}

func (a *app) checkFile(ctx context.Context, path string) error {
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

func (a *app) printFlaws(flaws []store.Flaw) error {
	if len(flaws) == 0 && a.output == asTable {
		fmt.Fprintln(a.Stdout, "no damage found")
		return nil
	}
	err := printRows(a, flaws, tabbed("RULE", "FOUND"), func(f store.Flaw) string { return tabbed(f.Check, clean(f.Detail)) })
	if len(flaws) > 0 {
		fmt.Fprintln(a.Stderr, "claudeops: the database is damaged. Stop claudeops, copy the state folder, and restore a backup: "+
			"claudeops db restore PATH")
		return errors.Join(err, quietly(exitError))
	}
	return err
}

func (a *app) dbRestore() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "restore PATH", Short: "Replace the database with a backup; stop claudeops first", Args: cobra.ExactArgs(1),
		Long: `Checks the backup, renames the database to claudeops.db.before-restore, and puts the backup in its place. Sessions that were
running when the backup was made count as interrupted at the next start: finished tiers do not run again, and the next session is told
which repair was interrupted.`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
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
			err = control.Offline(cfg.StateDir, func() error {
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
		},
	}, config.StateFlags)
}

func (a *app) dbPrune() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "prune", Short: "Remove old records now; the daemon does this every hour",
		Long: `Removes records that are older than the retention settings allow, in small batches, also while the daemon runs. You need it only
if you run 'claudeops once' without a daemon.`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			o := daemon.StoreOptions(cfg)
			if o.Path != "" {
				if _, err := os.Stat(o.Path); err != nil {
					return fmt.Errorf("find database: %w", notThere(err))
				}
			}
			o.Logger = a.quietLogger()
			s, err := store.Open(c.Context(), o)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			err = (&supervisor.Retention{Records: s, Keep: cfg.Retention, Clock: s.Clock, Logger: a.logger()}).Look(c.Context())
			return errors.Join(err, a.audit(c.Context(), s, err))
		},
	}, config.RetentionFlags)
}

func (a *app) dbVacuum() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "vacuum", Short: "Rewrite the database to free unused space; stop claudeops first",
		Long: `Needed once after an upgrade from a version without retention, to free disk space. After that the daemon frees space by itself.
It needs as much free disk space as the size of the database.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if cfg.DatabaseURL != "" {
				return a.vacuum(c.Context(), daemon.StoreOptions(cfg))
			}
			if _, err := os.Stat(daemon.DatabasePath(cfg)); err != nil {
				return fmt.Errorf("find database: %w", notThere(err))
			}
			return control.Offline(cfg.StateDir, func() error { return a.vacuum(c.Context(), daemon.StoreOptions(cfg)) })
		},
	}, config.StateFlags)
}

func (a *app) vacuum(ctx context.Context, o store.Options) (err error) {
	if process.InSession() {
		return errInSession
	}
	before := fileSize(o.Path)
	o.Logger = a.quietLogger()
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.Vacuum(ctx)
	if err := errors.Join(err, a.audit(ctx, s, err)); err != nil {
		return err
	}
	row := struct {
		Before int64 `json:"bytes_before,omitempty"`
		After  int64 `json:"bytes_after,omitempty"`
	}{before, fileSize(o.Path)}
	return a.printOne(row, func(w io.Writer) {
		if o.Path == "" {
			fmt.Fprintln(w, "done")
			return
		}
		fmt.Fprintf(w, "%s before, %s after\n", megabytes(row.Before), megabytes(row.After))
	})
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
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

// notThere turns a missing file into the error for exit code 4.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ops.ErrNotFound, err)
	}
	return err
}
