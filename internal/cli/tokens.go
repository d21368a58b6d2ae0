package cli

import (
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
