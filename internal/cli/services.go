package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a services) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "services", Aliases: []string{"service"}, Short: "Watched services and their state: list, show, heartbeat, forget",
	}
	c.AddCommand(a.list(), a.show(), a.heartbeat(), a.forget())
	return c
}

func (a services) list() *cobra.Command {
	var environment, state string
	c := a.anywhere(&cobra.Command{
		Use: "list", Short: "List services, worst state first",
		Example: `  claudeops services list
  claudeops services list --state down -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.read(c.Context(), func(s *client) error {
				found, err := s.Services(c.Context(), environment)
				if err != nil {
					return err
				}
				found = slices.DeleteFunc(found, func(x api.ServiceState) bool { return state != "" && x.State != state })
				slices.SortStableFunc(found, func(x, y api.ServiceState) int { return severity(y.State) - severity(x.State) })
				header := tabbed("ENVIRONMENT", "SERVICE", "STATE", "UP 24H", "CHECKED", "PROBLEM")
				return printRows(a.app, found, header, func(x api.ServiceState) string {
					return tabbed(x.Environment, clean(x.Name), x.State, share(x.Uptime24h), or(a.screen.when(x.CheckedAt), "never"),
						shorten(problem(x), 70))
				})
			})
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "list this environment only")
	choose(c, &state, "state", "list this state only: healthy, degraded, down, unknown or stale", states())
	return c
}

func (a services) show() *cobra.Command {
	var environment string
	c := a.anywhere(&cobra.Command{
		Use: "show NAME", Short: "Show a service: checks, history, cooldowns", Args: cobra.ExactArgs(1),
		RunE: on(a.read, func(c *cobra.Command, s *client, args []string) error {
			x, err := get[api.ServiceState](c.Context(), s,
				"/services/"+url.PathEscape(args[0])+"?"+query("environment", environment).Encode())
			if err != nil {
				return noService(c.Context(), s, args[0], environment, err)
			}
			if a.output != asTable {
				return a.printOne(x, nil)
			}
			q := query("environment", x.Environment, "days", digits(shownDays))
			past, err := get[api.ServiceHistory](c.Context(), s, "/services/"+url.PathEscape(x.Name)+"/history?"+q.Encode())
			if err != nil {
				return err
			}
			cooldowns, err := items[api.Cooldown](c.Context(), s, "/cooldowns", query("environment", x.Environment), mostItems)
			if err != nil {
				return err
			}
			now, err := get[api.Situation](c.Context(), s, "/situation?"+query("service", x.Name).Encode())
			if err != nil {
				return err
			}
			stop, err := get[api.Standstill](c.Context(), s, "/stop")
			if err != nil {
				return err
			}
			if stop.Stopped {
				fmt.Fprintf(a.Stdout, "Stopped %s; 'claudeops resume' lets agents work again\n", a.stoppedBy(stop))
			}
			printService(a.Stdout, x, past, cooldowns, now.Doing)
			return nil
		}),
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one with this service)")
	return c
}

func (a services) heartbeat() *cobra.Command {
	var environment, probe string
	c := a.anywhere(&cobra.Command{
		Use: "heartbeat NAME", Short: "Make the address that a job calls when it has run; a former one no longer works", Args: cobra.ExactArgs(1),
		Example: `  claudeops services heartbeat backup
  claudeops services heartbeat backup --probe weekly -o json`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			made, err := post[api.HeartbeatAddress](c.Context(), s, "/services/"+url.PathEscape(args[0])+"/heartbeat",
				map[string]any{"environment": environment, "probe": probe})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "the %s of %s is called with this command; keep it now, it is not shown again\n",
				clean(made.Probe), clean(made.Service))
			return a.printOne(made, func(w io.Writer) { fmt.Fprintln(w, made.Curl) })
		}),
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().StringVar(&probe, "probe", "", "name of the heartbeat, where the service has several")
	return c
}

func (a services) forget() *cobra.Command {
	var environment string
	c := a.anywhere(&cobra.Command{
		Use: "forget NAME", Short: "Remove what is kept of a service that is not configured; cycles, incidents and events stay",
		Args: cobra.ExactArgs(1), Example: `  claudeops services forget old-web`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			path := "/services/" + url.PathEscape(args[0]) + "?" + query("environment", environment).Encode()
			err := s.ask(c.Context(), http.MethodDelete, path, nil, nil)
			if err == nil {
				fmt.Fprintf(a.Stderr, "%s is forgotten\n", clean(args[0]))
			}
			return err
		}),
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	return c
}

// noService proposes a service that exists.
func noService(ctx context.Context, s *client, name, environment string, err error) error {
	if !errors.Is(err, ops.ErrNotFound) {
		return err
	}
	names, _ := serviceNames(ctx, s, environment) // without them nothing is proposed
	return fmt.Errorf("%w%s; claudeops services list names them", err, didYouMean(name, names))
}

func serviceNames(ctx context.Context, s *client, environment string) (names []string, err error) {
	found, err := s.Services(ctx, environment)
	for _, x := range found {
		names = append(names, clean(x.Name))
	}
	return names, err
}

// shownDays is how many days of a service's history are shown.
const shownDays = 30

func printService(w io.Writer, x api.ServiceState, past api.ServiceHistory, cooldowns []api.Cooldown, doing []api.StatusLine) {
	fmt.Fprintf(w, "%s: %s\nEnvironment: %s   Checked: %s   Up in 24 hours: %s\n",
		clean(x.Name), x.State, x.Environment, or(stamp(x.CheckedAt), "never"), share(x.Uptime24h))
	for _, l := range doing {
		if l.Environment == x.Environment && slices.Contains(l.Services, x.Name) {
			fmt.Fprintln(w, clean(l.Sentence(time.Now())))
		}
	}
	for _, c := range x.Checks {
		fmt.Fprintf(w, "  %s  %s  %d ms", c.Status, clean(c.Probe), c.ResponseTimeMS)
		if c.Error != nil {
			fmt.Fprintf(w, "  %s", shorten(*c.Error, 200))
		}
		if c.Note != nil {
			fmt.Fprintf(w, "  (%s)", *c.Note)
		}
		fmt.Fprintln(w)
	}
	for _, h := range x.Heartbeats {
		fmt.Fprintf(w, "  %s: %s\n", clean(h.Probe), lastCall(h))
		for line := range strings.Lines(value(h.Output)) {
			fmt.Fprintf(w, "    | %s\n", clean(strings.TrimRight(line, "\r\n")))
		}
	}
	if len(past.Days) > 0 {
		fmt.Fprintf(w, "%d days  %s  now   %s up (one character per day: # healthy, = degraded, _ down, . not checked)\n",
			shownDays, drawn(past.Days), share(past.Uptime))
	}
	for _, c := range cooldowns {
		if c.Service != x.Name {
			continue
		}
		fmt.Fprintf(w, "Cooldown: %s, %d left", c.Action, c.Left)
		if c.Until != nil {
			fmt.Fprintf(w, ", next possible %s", stamp(c.Until))
		}
		fmt.Fprintln(w)
	}
}

// lastCall says when a job last called, and what it said.
func lastCall(h api.Heartbeat) string {
	switch {
	case !h.Addressed:
		return "no job can call yet; claudeops services heartbeat makes its address"
	case h.StartedAt != nil:
		return "running since " + stamp(h.StartedAt)
	case h.EndedAt == nil:
		return "no call yet"
	case h.ExitCode != 0:
		return fmt.Sprintf("failed with exit code %d at %s", h.ExitCode, stamp(h.EndedAt))
	case h.Failed:
		return "failed at " + stamp(h.EndedAt)
	}
	return "last call at " + stamp(h.EndedAt)
}

// drawn shows the worst state of each day.
func drawn(days []api.ServiceDay) string {
	var b strings.Builder
	for _, d := range days {
		switch {
		case d.Down > 0:
			b.WriteByte('_')
		case d.Degraded > 0:
			b.WriteByte('=')
		case d.Healthy > 0:
			b.WriteByte('#')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

// severity orders states, the worst highest; -1 means that it is not a state.
func severity(state string) int {
	return slices.Index(states(), state)
}

// states lists the states of a service, the best first.
func states() []string { return []string{"healthy", "unknown", api.HealthStale, "degraded", "down"} }

// problem is the first problem that a check found.
func problem(x api.ServiceState) string {
	for _, c := range x.Checks {
		if c.Status != string(ops.Healthy) {
			if c.Error != nil {
				return *c.Error
			}
			return c.Probe
		}
	}
	return "-"
}

// share is a fraction in percent; only a whole one is shown as 100%.
func share(v *float64) string {
	switch {
	case v == nil:
		return "unknown"
	case *v == 1:
		return "100%"
	}
	return fmt.Sprintf("%.1f%%", min(99.9, 100**v))
}

func (a notifications) list() *cobra.Command {
	header := tabbed("ID", "STATUS", "LEVEL", "KIND", "AT", "TRIES", "TITLE", "ERROR")
	short := "List notifications, newest first; --status dead lists failed ones"
	return newListing(a.app, short, "/notifications", header, func(n api.Notification) string {
		return tabbed(fmt.Sprint(n.ID), n.Status, n.Level, string(n.Kind), a.screen.when(&n.CreatedAt), fmt.Sprint(n.Attempts),
			shorten(n.Title, 60), shorten(value(n.Error), 60))
	}).by("status", "list this status only: pending, sent, dead or skipped", noticeStatuses()...).limit(50)
}

func noticeStatuses() []string {
	return wordsOf([]ops.NoticeStatus{ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped})
}

// recordTest records who took a test: it is the proof that people are told.
func (a notifications) recordTest(ctx context.Context, n ops.Notice, took []string) error {
	return a.writing(ctx, func(s *store.Store, _ *config.Config) (err error) {
		now := s.Clock()
		n.CreatedAt, n.NextAt = now, now.Add(time.Hour) // nobody else is to send it
		if n.ID, err = s.People.AddNotice(ctx, n); err != nil {
			return err
		}
		n.Status, n.Attempts, n.SentAt = ops.NoticeSent, 1, &now
		for _, to := range took {
			n.Deliveries = append(n.Deliveries, ops.Delivery{Route: "first", To: to, At: now})
		}
		return s.People.SettleNotice(ctx, n, nil)
	})
}

func (a notifications) commands() *cobra.Command {
	c := &cobra.Command{Use: "notify", Short: "Notifications: test, list"}
	c.AddCommand(&cobra.Command{
		Use: "test", Short: "Send a test notification to every configured target",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			if len(cfg.AppriseURLs) == 0 && cfg.AppriseAPI == "" {
				return &codeError{exitConfig, errors.New("no target is configured: add one to notify.apprise_urls (CLAUDEOPS_APPRISE_URLS), such as " +
					"ntfys://ntfy.sh/a-name-nobody-guesses")}
			}
			text := notice.Test()
			sent := ops.Notice{Kind: ops.NoticeTest, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, CreatedAt: time.Now()}
			took, err := daemon.Sender(cfg).Send(c.Context(), sent)
			if err != nil {
				return fmt.Errorf("send test notification: %w", err)
			}
			fmt.Fprintf(a.Stderr, "sent to %s\n", strings.Join(took, ", "))
			if err := a.recordTest(c.Context(), sent, took); err != nil && !errors.Is(err, ops.ErrNotFound) {
				fmt.Fprintf(a.Stderr, "it is not in the list of notifications: %s\n", clean(err.Error()))
			}
			return nil
		}),
	})
	c.AddCommand(a.list())
	return c
}

func (a silences) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "silences", Aliases: []string{"silence"}, SuggestFor: []string{"mute", "maintenance", "pause"},
		Short: "Mute a failing service: list, add, rm",
	}
	c.AddCommand(a.list(), a.add(), a.remove())
	return c
}

// matcher shows what a silence matches, as it is given on the command line.
func matcher(q api.Silence) string {
	var parts []string
	for _, p := range []struct {
		name    string
		pattern *string
	}{{"service", q.Service}, {"group", q.Group}, {"probe", q.Probe}} {
		if p.pattern != nil {
			parts = append(parts, p.name+"="+*p.pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		parts = append(parts, "label "+name+"="+q.Labels[name])
	}
	return strings.Join(parts, " ")
}

func (a silences) list() *cobra.Command {
	header := tabbed("ID", "ENVIRONMENT", "MATCHES", "FROM", "UNTIL", "BY", "REASON")
	l := newListing(a.app, "List silences that have not ended", "/silences", header, func(q api.Silence) string {
		return tabbed(fmt.Sprint(q.ID), or(value(q.Environment), "all"), clean(matcher(q)), a.screen.when(&q.From), a.screen.when(&q.Until),
			clean(q.Author), shorten(q.Reason, 60))
	})
	l.most = ops.Ptr(mostSilences)
	return l.all("include silences that have ended", "all", "", "true").
		by("environment", "list silences that apply to this environment only").Command
}

func (a silences) add() *cobra.Command {
	var q ops.Silence
	var span time.Duration
	var from, until string
	var labels []string
	var reason *string
	c := a.anywhere(&cobra.Command{
		Use: "add [SERVICE]", Short: "Mute a service, group, probe or alert: no cycle starts for it, and nothing escalates",
		Args: cobra.MaximumNArgs(1),
		Example: `  claudeops silences add jellyfin --for 2h --reason "disk is replaced"
  claudeops silences add --label alertname=HighLoad --label severity=warn* --for 24h --reason "known, see the notes"`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if q.Service != "" {
					return usage(fmt.Errorf("the service is given twice, as %q and with --service", clean(args[0])))
				}
				q.Service = args[0]
			}
			q.Reason = *reason
			var err error
			if q.Labels, err = pairs(labels); err != nil {
				return usage(err)
			}
			if q.From, err = at("from", from); err != nil {
				return err
			}
			if q.Until, err = at("until", until); err != nil {
				return err
			}
			return a.change(c.Context(), func(s *client) error {
				added, err := addSilence(c.Context(), s, q, span)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "silence %d lasts until %s\n", added.ID, stamp(&added.Until))
				a.unheard(c.Context(), s, q.Service)
				return a.wake(c.Context())
			})
		},
	})
	f := c.Flags()
	f.StringVar(&q.Environment, "environment", "", "environment (default: all)")
	f.StringVar(&q.Service, "service", "", "service name, * matches any text")
	f.StringVar(&q.Group, "group", "", "group of services")
	f.StringVar(&q.Probe, "probe", "", "name of a probe")
	f.StringArrayVar(&labels, "label", nil, "label of an alert, as name=pattern; can be repeated")
	f.DurationVar(&span, "for", 0, "duration, such as 2h")
	f.StringVar(&from, "from", "", "start time, such as 2026-03-14T22:00:00Z (default: now)")
	f.StringVar(&until, "until", "", "end time, instead of --for")
	reason = a.reasonFlag(c, "reason")
	return c
}

// addSilence adds a silence. One that begins now begins by the server's clock, not by ours.
func addSilence(ctx context.Context, s *client, q ops.Silence, span time.Duration) (api.Silence, error) {
	body := map[string]any{"environment": q.Environment, "service": q.Service, "group": q.Group, "probe": q.Probe, "reason": q.Reason}
	if len(q.Labels) > 0 {
		body["labels"] = q.Labels
	}
	if !q.From.IsZero() {
		body["from"] = q.From
	}
	if span != 0 {
		body["for"] = span.String()
	}
	if !q.Until.IsZero() {
		body["until"] = q.Until
	}
	return post[api.Silence](ctx, s, "/silences", body)
}

// unheard says that nothing on record has the name that was silenced. It may come, in an alert for example.
func (a silences) unheard(ctx context.Context, s *client, service string) {
	if service == "" || strings.Contains(service, "*") {
		return
	}
	names, err := serviceNames(ctx, s, "")
	if err != nil || slices.Contains(names, service) {
		return
	}
	fmt.Fprintf(a.Stderr, "note: no service is called %q%s\n", clean(service), didYouMean(service, names))
}

// pairs reads name=pattern.
func pairs(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // no labels is a valid result
	}
	out := map[string]string{}
	for _, w := range words {
		name, pattern, ok := strings.Cut(w, "=")
		if !ok || name == "" || pattern == "" {
			return nil, fmt.Errorf("--label is %q: give name=pattern", w)
		}
		out[name] = pattern
	}
	return out, nil
}

// at reads the time of a flag; none is zero.
func at(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage(fmt.Errorf("--%s is %q: give a time such as 2026-03-14T22:00:00Z", flag, text))
	}
	return t, nil
}

func (a silences) remove() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "rm ID", Short: "End a silence now", Args: cobra.ExactArgs(1),
		RunE: changeOne(a.app, func(ctx context.Context, s *client, id int64) error {
			q, err := post[api.Silence](ctx, s, "/silences/"+digits(id)+"/end", nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "silence %d has ended\n", q.ID)
			return a.wake(ctx)
		}),
	})
}
