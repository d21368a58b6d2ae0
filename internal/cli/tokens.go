package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	may "claudeops/internal/access"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) tokensCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "tokens", Aliases: []string{"token"}, Short: "List, create and revoke named tokens",
		Long: `Each person or program that uses the API or the web pages can have a token of its own, besides the configured ones. What is done
with it is recorded under its name. Roles: read (look only), responder (also acknowledge, snooze and deny), admin (everything).

These commands open the database of the daemon, so they run on its machine and do not take --server. From elsewhere, an admin can make
and revoke tokens on the page Configuration.`,
	}
	c.AddCommand(a.tokensList(), a.tokensCreate(), a.tokensRevoke())
	a.withState(c)
	return c
}

// tokenRow is a token without its secret.
type tokenRow struct {
	Name       string     `json:"name"`
	Role       may.Role   `json:"role"`
	Status     string     `json:"status"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
}

func newTokenRow(t store.Token, now time.Time) tokenRow {
	row := tokenRow{
		Name: t.Name, Role: t.Role, Status: "works", CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
		LastUsedAt: t.LastUsedAt, RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy,
	}
	switch {
	case t.RevokedAt != nil:
		row.Status = "revoked"
	case !t.Works(now):
		row.Status = "expired"
	}
	return row
}

func (a *app) tokensList() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "List tokens with role, expiry and last use",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reading(c.Context(), func(s *store.Store, _ *config.Config) error {
				found, err := s.Tokens(c.Context(), all)
				if err != nil {
					return err
				}
				rows := make([]tokenRow, 0, len(found))
				for _, t := range found {
					rows = append(rows, newTokenRow(t, s.Clock()))
				}
				return printRows(a, rows, tabbed("NAME", "ROLE", "STATUS", "EXPIRES", "LAST USED", "CREATED", "BY"), func(t tokenRow) string {
					expires := "never"
					if t.ExpiresAt != nil {
						expires = a.screen.when(t.ExpiresAt)
					}
					used := "never"
					if t.LastUsedAt != nil {
						used = a.screen.when(t.LastUsedAt)
					}
					return tabbed(clean(t.Name), string(t.Role), t.Status, expires, used, a.screen.when(&t.CreatedAt), clean(t.CreatedBy))
				})
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "include revoked tokens")
	return c
}

func (a *app) tokensCreate() *cobra.Command {
	var role, expires string
	c := &cobra.Command{
		Use: "create NAME", Short: "Make a token and print it; it is not shown again", Args: cobra.ExactArgs(1),
		Example: `  claudeops tokens create phone --role responder --expires 90d
  claudeops tokens create grafana --role read --expires never`,
		RunE: func(c *cobra.Command, args []string) error {
			chosen, err := oneOf("role", role, may.Roles())
			if err != nil {
				return err
			}
			if chosen == may.RoleNone {
				return usage(errors.New("--role is missing: use read, responder or admin"))
			}
			life, err := lifetime(expires)
			if err != nil {
				return usage(err)
			}
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				t := store.Token{Name: args[0], Role: chosen, CreatedAt: s.Clock(), CreatedBy: person()}
				if life > 0 {
					t.ExpiresAt = ops.Ptr(t.CreatedAt.Add(life))
				}
				made, secret, err := s.AddToken(c.Context(), t)
				if err != nil {
					return err
				}
				end := "never expires"
				if made.ExpiresAt != nil {
					end = "expires " + stamp(made.ExpiresAt)
				}
				fmt.Fprintf(a.Stderr, "token %s with the role %s %s; keep it now, it is not shown again\n", made.Name, made.Role, end)
				row := struct {
					tokenRow
					Token string `json:"token"`
				}{newTokenRow(made, made.CreatedAt), secret}
				return a.printOne(row, func(w io.Writer) { fmt.Fprintln(w, secret) })
			})
		},
	}
	c.Flags().StringVar(&role, "role", "", "read, responder or admin (required)")
	c.Flags().StringVar(&expires, "expires", "90d", "how long it works: a duration (12h, 90d), or never")
	return c
}

// lifetime reads how long a token works; 0 means without an end.
func lifetime(text string) (time.Duration, error) {
	if text == "never" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil && n > 0 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("--expires is %q: give a duration such as 12h or 90d, or never", text)
}

func (a *app) tokensRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token: requests with it are refused at once", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				if err := s.RevokeToken(c.Context(), args[0], person(), s.Clock()); err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "token %s is revoked\n", clean(args[0]))
				return nil
			})
		},
	}
}

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Check that no audit record was changed or removed: verify"}
	c.AddCommand(a.auditVerify())
	return c
}

func (a *app) auditVerify() *cobra.Command {
	var expect string
	c := &cobra.Command{
		Use: "verify", Short: "Check the chain of audit records; exit 1 and the first broken record if it is not whole",
		Long: `Every audit record holds the hash of the record before it. This command computes all hashes again and compares them. Records from
before the upgrade to this version are not part of the chain, and records removed by retention no longer are. It prints the hash of the
newest record. Keep it in another place: --expect HASH:NUMBER later proves that nobody has written the whole chain again, and fails if the
record is no longer there. It opens the database of the daemon, so it runs on its machine and does not take --server.`,
		RunE: func(c *cobra.Command, _ []string) error {
			noted, err := auditMark(expect)
			if err != nil {
				return err
			}
			return a.reading(c.Context(), func(s *store.Store, _ *config.Config) error {
				report, err := s.VerifyAudit(c.Context(), noted)
				if err != nil {
					return err
				}
				err = a.printOne(report, func(w io.Writer) {
					switch {
					case report.Problem != "":
					case report.Records == 0:
						fmt.Fprintln(w, "No audit records yet.")
					default:
						fmt.Fprintf(w, "%s, from %d to %d, form a whole chain.\nHash of the newest: %s:%d\n",
							plural(report.Records, "audit record", "audit records"), report.FirstID, report.LastID, report.Hash, report.LastID)
					}
				})
				if err != nil || report.Problem == "" {
					return err
				}
				when := ""
				if report.BrokenAt != nil {
					when = " of " + stamp(report.BrokenAt)
				}
				return &codeError{exitError, fmt.Errorf("audit record %d%s: %s", report.BrokenID, when, report.Problem)}
			})
		},
	}
	c.Flags().StringVar(&expect, "expect", "", "HASH or HASH:NUMBER of a record that was noted before; exit 1 if it is not in the chain")
	return c
}

// auditMark reads the record that was noted.
func auditMark(text string) (m store.AuditMark, err error) {
	if text == "" {
		return m, nil
	}
	hash, number, numbered := strings.Cut(strings.ToLower(text), ":")
	sum, err := hex.DecodeString(hash)
	if numbered && err == nil {
		m.ID, err = strconv.ParseInt(strings.TrimPrefix(number, "#"), 10, 64)
	}
	if m.Hash = hash; err != nil || len(sum) != sha256.Size || numbered && m.ID <= 0 {
		return m, usage(errors.New("--expect takes a hash of 64 characters, or HASH:NUMBER, as audit verify prints it"))
	}
	return m, nil
}
