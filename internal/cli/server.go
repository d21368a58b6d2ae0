package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	may "claudeops/internal/access"
	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// mostAnswer is far above the longest page of a transcript.
	mostAnswer = 256 << 20
	// mostItems is far above the longest list that is read whole.
	mostItems = 100_000
	// mostSilences is how many silences are listed at most.
	mostSilences = 200
)

// errLocalOnly is what a command says that needs the state folder.
var errLocalOnly = errors.New("this command works on the local state folder only: " +
	"run it on the machine of the daemon, without --server and CLAUDEOPS_SERVER")

// Session returns one session.
func (c *client) Session(ctx context.Context, id ops.SessionID) (api.SessionReport, error) {
	return get[api.SessionReport](ctx, c, "/sessions/"+digits(id))
}

// Transcript returns the lines after a given one.
func (c *client) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]api.Line, error) {
	return items[api.Line](ctx, c, "/sessions/"+digits(id)+"/transcript", query("cursor", digits(after)), limit)
}

// Cycle returns one cycle with everything that was decided in it.
func (c *client) Cycle(ctx context.Context, id ops.CycleID) (api.CycleReport, error) {
	return get[api.CycleReport](ctx, c, "/cycles/"+digits(id))
}

// because is the body of a request that only gives a reason. The server records the name that belongs to the token.
func because(reason string) map[string]any { return map[string]any{"reason": reason} }

// Approval returns one approval.
func (c *client) Approval(ctx context.Context, id int64) (api.Approval, error) {
	return get[api.Approval](ctx, c, "/approvals/"+digits(id))
}

// Approve says yes.
func (c *client) Approve(ctx context.Context, id int64, hash string, steps []int, reason string) (api.Approval, error) {
	body := map[string]any{"reason": reason, "plan_hash": hash}
	if len(steps) > 0 {
		body["steps"] = steps
	}
	return post[api.Approval](ctx, c, "/approvals/"+digits(id)+"/approve", body)
}

// Services returns the state of every watched service.
func (c *client) Services(ctx context.Context, environment string) ([]api.ServiceState, error) {
	return items[api.ServiceState](ctx, c, "/services", query("environment", environment), mostItems)
}

func (a serving) openCommand() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use:   "open [CYCLE]",
		Short: "Print a link that signs your browser in to the web pages",
		Args:  cobra.MaximumNArgs(1),
		Long: `Asks the running daemon for a link to the web pages and prints it. Open it in your browser: it signs you in, without the token. The
link works once, within ten minutes; treat it like a password until then. With the id of a cycle it leads to the page of that cycle. The
command must run as the user of the daemon, as root, or as a member of the group claudeops, on the machine of the daemon.`,
		Example: `  claudeops open
  claudeops open 57
  xdg-open "$(claudeops open)"
  ssh ops.lan -L 8080:127.0.0.1:8080 claudeops open`,
		RunE: func(c *cobra.Command, args []string) error {
			next := ""
			if len(args) == 1 {
				id, err := cycleNumber(args[0])
				if err != nil {
					return err
				}
				next = "&next=" + url.QueryEscape(fmt.Sprintf("/cycles/%d", id))
			}
			if process.InSession() {
				return errInSession
			}
			cfg, err := a.load()
			if err != nil {
				return err
			}
			reply, err := control.SignIn(c.Context(), cfg.StateDir)
			if errors.Is(err, control.ErrNoDaemon) {
				return fmt.Errorf("%w: %s; start it with 'claudeops serve', or name the folder with --state-dir", err, cfg.StateDir)
			}
			if err != nil {
				return err
			}
			link := reply.Link + next
			return a.printOne(map[string]string{"link": link}, func(w io.Writer) { fmt.Fprintln(w, link) })
		},
	}, "state_dir", "database_url")
}

// welcome says how to sign in. The link is only shown on a terminal: agents may read logs.
func (a serving) welcome(ctx context.Context, signIn daemon.SignIn, logger *slog.Logger) {
	var screen io.Writer
	switch {
	case terminal(a.Stderr):
		screen = a.Stderr
	case terminal(a.Stdout):
		screen = a.Stdout
	default:
		logger.InfoContext(ctx, "to sign in to the web pages, run 'claudeops open'")
		return
	}
	link, err := signIn(ctx, person())
	if err != nil {
		return // there are no pages
	}
	fmt.Fprintf(screen, "\n  Open %s\n  The link signs you in once, within ten minutes. Later: claudeops open\n\n", link)
}

func (a tokens) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "tokens", Aliases: []string{"token"}, Short: "List, create and revoke named tokens",
		Long: `Each person or program that uses the API or the web pages can have a token of its own, besides the configured ones. What is done
with it is recorded under its name. Roles: read (look only), responder (also acknowledge, snooze and deny), admin (everything).

These commands open the database of the daemon, so they run on its machine and do not take --server. From elsewhere, an admin can make
and revoke tokens on the page Configuration.`,
	}
	c.AddCommand(a.list(), a.create(), a.revoke())
	return c
}

// ownTokens marks a command on the tokens of this machine: it must not seem to be about those of the server that a variable names.
func (a tokens) own(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{atServer: neverAsk}
	return a.withState(c)
}

// tokenRow is a token without its secret.
type tokenRow struct {
	Name       string     `json:"name"`
	Role       string     `json:"role"`
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

func (a tokens) list() *cobra.Command {
	var all bool
	c := a.own(&cobra.Command{
		Use: "list", Short: "List tokens with role, expiry and last use",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reading(c.Context(), func(s *store.Store, _ *config.Config) error {
				found, err := s.People.Tokens(c.Context(), all)
				if err != nil {
					return err
				}
				rows := make([]tokenRow, 0, len(found))
				for _, t := range found {
					rows = append(rows, newTokenRow(t, s.Clock()))
				}
				return printRows(a.app, rows, tabbed("NAME", "ROLE", "STATUS", "EXPIRES", "LAST USED", "CREATED", "BY"), func(t tokenRow) string {
					expires := "never"
					if t.ExpiresAt != nil {
						expires = a.screen.when(t.ExpiresAt)
					}
					used := "never"
					if t.LastUsedAt != nil {
						used = a.screen.when(t.LastUsedAt)
					}
					return tabbed(clean(t.Name), t.Role, t.Status, expires, used, a.screen.when(&t.CreatedAt), clean(t.CreatedBy))
				})
			})
		},
	})
	c.Flags().BoolVar(&all, "all", false, "include revoked tokens")
	return c
}

func (a tokens) create() *cobra.Command {
	var role, expires string
	c := a.own(&cobra.Command{
		Use: "create NAME", Short: "Make a token and print it; it is not shown again", Args: cobra.ExactArgs(1),
		Example: `  claudeops tokens create phone --role responder --expires 90d
  claudeops tokens create grafana --role read --expires never`,
		RunE: func(c *cobra.Command, args []string) error {
			if role == "" {
				return usage(errors.New("--role is missing: use read, responder or admin"))
			}
			life, err := lifetime(expires)
			if err != nil {
				return usage(err)
			}
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				t := store.Token{Name: args[0], Role: role, CreatedAt: s.Clock(), CreatedBy: person()}
				if life > 0 {
					t.ExpiresAt = ops.Ptr(t.CreatedAt.Add(life))
				}
				made, secret, err := s.People.AddToken(c.Context(), t)
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
	})
	choose(c, &role, "role", "read, responder or admin (required)", wordsOf(may.Roles()))
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

func (a tokens) revoke() *cobra.Command {
	return a.own(&cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token: requests with it are refused at once", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				if err := s.People.RevokeToken(c.Context(), args[0], person(), s.Clock()); err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "token %s is revoked\n", clean(args[0]))
				return nil
			})
		},
	})
}
