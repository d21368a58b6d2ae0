package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon/control"
	"claudeops/internal/store"
)

// pendingRow is what an upgrade of the database would do, as it is printed.
type pendingRow struct {
	Database   string   `json:"database"`
	Schema     int64    `json:"schema"`
	Newest     int64    `json:"newest_schema"`
	Migrations []string `json:"migrations"`
	Backup     string   `json:"backup,omitempty"`
	Hint       string   `json:"hint,omitempty"`
}

func (a *app) dbMigrate() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "migrate", Short: "Migrate the database to this version; the daemon does this when it starts",
		Long: `Brings the tables of an older database to what this version needs. A database in a file is backed up first, into the folder
"backups" beside it; the last two backups are kept. Without a backup nothing is migrated. A database on a PostgreSQL server is not
backed up: use pg_dump before an upgrade.

With --check nothing is changed: the missing migrations are printed, and the exit code is 5 if there are any, 0 if there are none, 4
if there is no database yet, and 1 if the database needs a newer version of claudeops.`,
		Example: `  claudeops db migrate --check     print what the next start would migrate
  claudeops db migrate             migrate now; stop the daemon first`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			o := a.storeOptions(cfg)
			row, err := a.pending(c.Context(), cfg, o)
			if err != nil {
				return err
			}
			if check || len(row.Migrations) == 0 {
				return a.printPending(row)
			}
			if process.InSession() {
				return errInSession
			}
			migrate := func() error { return migrateNow(c.Context(), o) }
			if cfg.DatabaseURL == "" {
				err = control.Offline(cfg.StateDir, migrate)
			} else {
				err = migrate()
			}
			if err != nil {
				return err
			}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "%s is migrated from schema %d to %d\n", row.Database, row.Schema, row.Newest)
				if row.Backup != "" {
					fmt.Fprintf(w, "The database as it was before is in %s\n", row.Backup)
				}
			})
		},
	}
	c.Flags().BoolVar(&check, "check", false, "print what would be migrated, change nothing; exit 5 if there is something")
	return a.withFlags(c, config.StateFlags)
}

func (a *app) pending(ctx context.Context, cfg *config.Config, o store.Options) (pendingRow, error) {
	p, err := store.FindPending(ctx, o)
	if err != nil {
		return pendingRow{}, err
	}
	row := pendingRow{Database: p.Database, Schema: p.Schema, Newest: p.Newest, Migrations: p.Migrations, Backup: p.Backup}
	if row.Migrations == nil {
		row.Migrations = []string{}
	}
	if cfg.DatabaseURL != "" && len(row.Migrations) > 0 {
		row.Hint = "claudeops does not back up a PostgreSQL server; first run: " +
			serverTool("pg_dump --format=custom --file=claudeops.dump", cfg.DatabaseURL)
	}
	return row, nil
}

func (a *app) printPending(row pendingRow) error {
	err := a.printOne(row, func(w io.Writer) {
		if len(row.Migrations) == 0 {
			fmt.Fprintf(w, "%s has schema %d; nothing to migrate\n", row.Database, row.Schema)
			return
		}
		fmt.Fprintf(w, "%s has schema %d; this version needs schema %d. To migrate:\n", row.Database, row.Schema, row.Newest)
		for _, name := range row.Migrations {
			fmt.Fprintln(w, "  "+name)
		}
		if row.Backup != "" {
			fmt.Fprintf(w, "Before that, the database is backed up to %s\n", filepath.Clean(row.Backup))
		}
		if row.Hint != "" {
			fmt.Fprintln(w, row.Hint)
		}
	})
	if err != nil || len(row.Migrations) == 0 {
		return err
	}
	return quietly(exitConflict)
}

func migrateNow(ctx context.Context, o store.Options) error {
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	return s.Close()
}
