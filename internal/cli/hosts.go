package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) hostsCommand() *cobra.Command {
	c := &cobra.Command{Use: "hosts", Aliases: []string{"host"}, Short: "Who works on this database: list, drain"}
	c.AddCommand(a.hostsList(), a.hostsDrain())
	return c
}

// hostRow is a host as it is printed.
type hostRow struct {
	Name         string     `json:"name"`
	Status       string     `json:"status"`
	Version      string     `json:"version"`
	Labels       []string   `json:"labels"`
	Environments []string   `json:"environments"`
	Running      int        `json:"running"`
	Since        time.Time  `json:"since"`
	SeenAt       *time.Time `json:"seen_at,omitempty"`
}

// hostRowOf shows a host. Without a lease nobody can tell from the rows whether it runs.
func hostRowOf(h ops.Host, shared bool) hostRow {
	status := "stopped"
	switch {
	case !shared:
		status = "alone"
	case h.Alive:
		status = "alive"
	case h.ExpiresAt != nil:
		status = "silent"
	}
	if h.Draining && status != "stopped" {
		status = "draining"
	}
	return hostRow{h.Name, status, h.Version, h.Labels, h.Environments, h.Running, h.RegisteredAt, h.SeenAt}
}

func (a *app) hostsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the hosts that work, or worked, on this database",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reading(c.Context(), func(s *store.Store, cfg *config.Config) error {
				found, err := s.Hosts(c.Context())
				if err != nil {
					return err
				}
				var rows []any
				for _, h := range found {
					rows = append(rows, hostRowOf(h, cfg.DatabaseURL != ""))
				}
				return a.print(rows, tabbed("HOST", "STATUS", "VERSION", "LABELS", "ENVIRONMENTS", "RUNNING", "SINCE", "SEEN"), func(i int) string {
					r := hostRowOf(found[i], cfg.DatabaseURL != "")
					return tabbed(clean(r.Name), r.Status, clean(or(r.Version, "-")), or(strings.Join(r.Labels, ","), "-"), or(strings.Join(r.Environments, ","), "-"),
						fmt.Sprint(r.Running), stamp(&r.Since), stamp(r.SeenAt))
				})
			})
		},
	}
}

func (a *app) hostsDrain() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "drain [HOST]", Short: "Let a host take no new work, and wait until it has none, before an upgrade",
		Long: `From now on the host takes no new cycles. Running ones end, or are given away where a session ends; other hosts, or its next
start, continue them. The pages stay up. Stop and upgrade it then: the next start works again.`,
		Example: `  claudeops hosts drain && systemctl restart claudeops`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			host := cfg.Host.Name
			if len(args) == 1 {
				host = args[0]
			}
			return a.writing(c.Context(), func(s *store.Store) error {
				if err := s.Drain(c.Context(), host, true); err != nil {
					return err
				}
				if err := a.wake(c.Context()); err != nil {
					return err
				}
				return a.awaitDrained(c.Context(), s, host, timeout)
			})
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, exit 124 (0 = never)")
	return c
}

// awaitDrained returns when the host advances nothing any more.
func (a *app) awaitDrained(ctx context.Context, s *store.Store, host string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var asked *time.Time // its last sign of life before it can have heard
	for last := -1; ; {
		hosts, err := s.Hosts(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		i := slices.IndexFunc(hosts, func(h ops.Host) bool { return h.Name == host })
		switch {
		case i < 0:
			return fmt.Errorf("drain host %s: %w", host, ops.ErrNotFound)
		case hosts[i].Alive && asked == nil:
			asked = hosts[i].SeenAt
		case hosts[i].Running == 0 && (!hosts[i].Alive || hosts[i].SeenAt.After(*asked)):
			fmt.Fprintf(a.Stderr, "%s is drained; stop it now, its next start works again\n", host)
			return nil
		case !hosts[i].Draining:
			return errors.New("the host was started anew while it was drained")
		case hosts[i].Running != last:
			last = hosts[i].Running
			fmt.Fprintf(a.Stderr, "%s still works on %d\n", host, last)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// othersAlive reports whether some host would take up a row.
func (a *app) othersAlive(ctx context.Context, cfg *config.Config) (bool, error) {
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if errors.Is(err, ops.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open database: %w", err)
	}
	hosts, err := s.Hosts(ctx)
	alive := slices.ContainsFunc(hosts, func(h ops.Host) bool { return h.Alive && !h.Draining })
	return alive, errors.Join(err, s.Close())
}
