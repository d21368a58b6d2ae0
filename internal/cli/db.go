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

	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) dbCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "db", Short: "Look after the database: backup, check, restore, prune, vacuum, copy",
		Example: `  claudeops db backup /srv/backup/claudeops.db     a complete copy, also while the daemon works
  claudeops db check                               is everything sound?
  claudeops db restore /srv/backup/claudeops.db    back to a copy; the daemon must be stopped`,
	}
	c.AddCommand(a.dbBackup(), a.dbCheck(), a.dbRestore(), a.dbPrune(), a.dbVacuum(), a.dbCopy())
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
		Use: "backup PATH", Short: "Write a complete, checked copy of the database, also while the daemon works", Args: cobra.ExactArgs(1),
		Long: `Writes the database as it is at this moment into one file, checks it, and gives it its name when it is whole and safe on disk.
The daemon is not held up. The copy holds what transcripts and prompts hold: keep it as safe as the state folder.`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if cfg.DatabaseURL != "" {
				return fmt.Errorf("the database is on a server, which has its own tools for this: %s", serverTool("pg_dump --format=custom --file="+quoted(args[0]), cfg.DatabaseURL))
			}
			began := time.Now()
			b, err := store.BackUp(c.Context(), daemon.DatabasePath(cfg), args[0], force)
			if err != nil {
				return err
			}
			row := backupRow{b.Path, b.Bytes, b.Schema, time.Since(began).Milliseconds()}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s, sound, written in %s\n", row.Path, megabytes(row.Bytes), time.Since(began).Round(time.Millisecond))
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file if there is one")
	return a.withSettings(c)
}

func (a *app) dbCheck() *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Look for damage, and for what breaks the rules of the journal; of a backup with FILE", Args: cobra.MaximumNArgs(1),
		Long: `Reads every page and index of the database, follows every reference, and looks for what the journal must never hold, such as
a session that runs in a cycle that has ended. Exit 1 when something is found. It also works beside the daemon.`,
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
	c.Flags().BoolVar(&quick, "quick", false, "leave out the indexes and the lines of transcripts, which takes a fraction of the time")
	return a.withSettings(c)
}

func (a *app) checkFile(ctx context.Context, path string) error {
	b, err := store.Examine(ctx, path)
	if errors.Is(err, store.ErrCorrupt) {
		return a.printFlaws([]store.Flaw{{Check: "the file is sound", Detail: err.Error()}})
	}
	if err != nil {
		return err
	}
	return a.printOne(backupRow{Path: b.Path, Bytes: b.Bytes, Schema: b.Schema}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s, schema %d, sound\n", b.Path, megabytes(b.Bytes), b.Schema)
	})
}

func (a *app) printFlaws(flaws []store.Flaw) error {
	if len(flaws) == 0 && a.output == "table" {
		fmt.Fprintln(a.Stdout, "sound")
		return nil
	}
	err := printRows(a, flaws, tabbed("RULE", "FOUND"), func(f store.Flaw) string { return tabbed(f.Check, clean(f.Detail)) })
	if len(flaws) > 0 {
		fmt.Fprintln(a.Stderr, "claudeops: the database is not sound. Stop claudeops, keep a copy of the state folder, and restore a backup: claudeops db restore PATH")
		return errors.Join(err, quietly(exitError))
	}
	return err
}

func (a *app) dbRestore() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "restore PATH", Short: "Put a backup in the place of the database; claudeops must be stopped", Args: cobra.ExactArgs(1),
		Long: `Checks the backup, puts the database aside as claudeops.db.before-restore, and the backup in its place. What ran when the
backup was made is taken as interrupted at the next start: finished tiers are not run again, and a repair is not repeated
without that knowledge.`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if cfg.DatabaseURL != "" {
				return fmt.Errorf("the database is on a server, which has its own tools for this: stop every claudeops, then %s",
					serverTool("pg_restore --clean --if-exists --exit-on-error "+quoted(args[0]), cfg.DatabaseURL))
			}
			if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
				return fmt.Errorf("create state folder: %w", err)
			}
			row := struct {
				Path string `json:"path"`
				Kept string `json:"kept,omitempty"`
			}{Path: daemon.DatabasePath(cfg)}
			err = daemon.Offline(cfg.StateDir, func() error {
				row.Kept, err = store.Restore(c.Context(), args[0], row.Path)
				return err
			})
			if err != nil {
				return err
			}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "%s is restored from %s\n", row.Path, args[0])
				if row.Kept != "" {
					fmt.Fprintf(w, "What was there before is kept as %s\n", row.Kept)
				}
			})
		},
	})
}

func (a *app) dbPrune() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "prune", Short: "Remove now what is older than it should be; the daemon does so by itself every hour",
		Long: `Removes what the retention settings say, in small batches, also beside the daemon. For those who only run 'claudeops once'.`,
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
			o.Clock, o.Logger = time.Now, a.quietLogger()
			s, err := store.Open(c.Context(), o)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return (&supervisor.Retention{Records: s, Keep: cfg.Retention, Clock: time.Now, Logger: a.logger()}).Look(c.Context())
		},
	})
}

func (a *app) dbVacuum() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "vacuum", Short: "Write the database anew without the gaps that removed rows left; claudeops must be stopped",
		Long: `Needed once after an upgrade from a version that kept everything for ever, if the space matters. From then on the daemon gives
space back by itself. It needs as much free space as the database is large.`,
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
			return daemon.Offline(cfg.StateDir, func() error { return a.vacuum(c.Context(), daemon.StoreOptions(cfg)) })
		},
	})
}

func (a *app) vacuum(ctx context.Context, o store.Options) (err error) {
	before := fileSize(o.Path)
	o.Logger = a.quietLogger()
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Vacuum(ctx); err != nil {
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

// serverTool is the command of PostgreSQL's own that does it, ready to be run: without the password, which it asks for.
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

// notThere turns a missing file into what scripts know.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ops.ErrNotFound, err)
	}
	return err
}
