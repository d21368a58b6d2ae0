package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a hosts) commands() *cobra.Command {
	c := &cobra.Command{Use: "hosts", Aliases: []string{"host"}, Short: "Hosts that share this database: list, drain, resume"}
	c.AddCommand(a.list(), a.drain(), a.resume())
	return c
}

// hostStatus says in one word whether a host works. A host whose database is not shared holds no lease, so its row does not say.
func hostStatus(h api.Host, shared bool) string {
	switch {
	case h.LeaseEndsAt == nil && shared:
		return "stopped"
	case h.Draining:
		return "draining"
	case h.LeaseEndsAt == nil:
		return "unknown"
	case h.Alive:
		return "alive"
	}
	return "lost"
}

func (a hosts) list() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "list", Short: "List the hosts that use, or used, this database",
		RunE: on(a.read, func(c *cobra.Command, s *client, _ []string) error {
			found, err := items[api.Host](c.Context(), s, "/hosts", query(), mostItems)
			if err != nil {
				return err
			}
			shared := slices.ContainsFunc(found, func(h api.Host) bool { return h.LeaseEndsAt != nil })
			header := tabbed("HOST", "STATUS", "VERSION", "LABELS", "ENVIRONMENTS", "RUNNING", "SINCE", "SEEN", "CLOCK")
			return printRows(a.app, found, header, func(h api.Host) string {
				return tabbed(clean(h.Name), hostStatus(h, shared), clean(orDash(h.Version)), or(strings.Join(h.Labels, ","), "-"),
					or(strings.Join(h.Environments, ","), "-"), fmt.Sprint(h.Running), a.screen.when(&h.RegisteredAt), a.screen.when(h.SeenAt),
					clockColumn(h))
			})
		}),
	})
}

// clockColumn shows a clock that differs from the database's.
func clockColumn(h api.Host) string {
	ahead := time.Duration(h.ClockAheadMS) * time.Millisecond
	if h.LeaseEndsAt == nil {
		return "-"
	}
	if ahead.Abs() <= ops.MaxClockSkew {
		return "ok"
	}
	return strings.TrimSuffix(ops.ClockDifference(ahead), " of")
}

func (a hosts) drain() *cobra.Command {
	var timeout time.Duration
	var yes bool
	c := a.withState(&cobra.Command{
		Use: "drain [HOST]", Short: "Drain a host before an upgrade: it takes no new cycles; wait until none is left",
		Long: `The host takes no new cycles. Running cycles end, or are handed over when their current session ends: another host, or the next
start of this one, continues them. The web pages stay up. The command returns when no cycle is left; then stop and upgrade the host. The
next start takes cycles again, and so does 'claudeops hosts resume'. On a terminal the command asks first.`,
		Example: `  claudeops hosts drain && systemctl restart claudeops`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			host, err := a.named(args)
			if err != nil {
				return err
			}
			if !yes && !a.agreed(fmt.Sprintf("Drain %s? It takes no new cycles until its next start or 'claudeops hosts resume'.", host)) {
				return &codeError{exitError, errors.New("not drained")}
			}
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				if err := s.Journal.Drain(c.Context(), host, true); err != nil {
					return err
				}
				if err := a.wake(c.Context()); err != nil {
					return err
				}
				return a.awaitDrained(c.Context(), s, host, timeout)
			})
		},
	})
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, exit 124 (0 = never)")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a hosts) resume() *cobra.Command {
	return a.withState(&cobra.Command{
		Use: "resume [HOST]", Short: "Undo a drain: the host takes cycles again", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			host, err := a.named(args)
			if err != nil {
				return err
			}
			return a.writing(c.Context(), func(s *store.Store, _ *config.Config) error {
				if err := s.Journal.Drain(c.Context(), host, false); err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "%s takes cycles again\n", host)
				return a.wake(c.Context())
			})
		},
	})
}

// hostNamed is the host that a command line names, or this one.
func (a hosts) named(args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cfg, err := a.load()
	if err != nil {
		return "", err
	}
	return cfg.Host.Name, nil
}

// agreed asks a person who sits at a terminal. Scripts are not asked.
func (a hosts) agreed(question string) bool { return !terminal(a.Stdin) || a.yes(question) }

// reasonFlag adds the flag for a reason. Where it is missing a person is asked; a script need not give one.
func (a *app) reasonFlag(c *cobra.Command, name string) *string {
	given := c.Flags().String(name, "", "why, for the record (asked on a terminal)")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if strings.TrimSpace(*given) == "" && terminal(a.Stdin) {
			fmt.Fprint(a.Stderr, "Why? (for the record; Enter gives no reason) ")
			*given, _ = bufio.NewReader(a.Stdin).ReadString('\n') // without an answer there is none
		}
		*given = or(strings.TrimSpace(*given), "no reason given")
		return run(c, args)
	}
	return given
}

// yes asks and reads the answer; only yes is one.
func (a hosts) yes(question string) bool {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // without an answer it is no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// awaitDrained returns when no cycle runs on the host.
func (a hosts) awaitDrained(ctx context.Context, s *store.Store, host string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	var asked *time.Time // when it last renewed its lease before it can have read the request
	for last := -1; ; {
		hosts, err := s.Journal.Hosts(ctx)
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
			fmt.Fprintf(a.Stderr, "%s is drained: stop it now; the next start, or 'claudeops hosts resume', takes cycles again\n", host)
			return nil
		case !hosts[i].Draining:
			return errors.New("the host was restarted, or the drain was undone, before it had ended")
		case hosts[i].Running != last:
			last = hosts[i].Running
			fmt.Fprintf(a.Stderr, "%s still runs %s\n", host, ops.Plural(last, "cycle", "cycles"))
		}
		if !ops.Pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// othersAlive reports whether a host is alive that takes new cycles.
func (a runs) othersAlive(ctx context.Context, cfg *config.Config) (bool, error) {
	if cfg.DatabaseURL == "" {
		return false, nil // nobody shares it
	}
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if errors.Is(err, ops.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	hosts, err := s.Journal.Hosts(ctx)
	alive := slices.ContainsFunc(hosts, func(h ops.Host) bool { return h.Alive && !h.Draining })
	return alive, errors.Join(err, s.Close())
}
