package daemon

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/story"
	"claudeops/internal/watch/notify"
)

// Sender is the way notices without a route leave this host, without buttons.
func Sender(c *config.Config) *notify.Several { return sender(c, c.AppriseURLs, "", native(c)) }

// sender reaches some targets. The name is that of a private folder of the apprise program.
func sender(c *config.Config, urls []string, name string, n notify.Native) *notify.Several {
	return notify.NewSender(notify.AppriseOptions{URLs: urls, API: c.AppriseAPI, Dir: filepath.Join(c.StateDir, "notify", name)}, n)
}

func native(c *config.Config) notify.Native {
	return notify.Native{
		TelegramSenders: c.Edges.TelegramSenders, TelegramResponders: c.Edges.TelegramResponders,
		ApproveByNtfy: approveByNtfy(c),
	}
}

// approveByNtfy reports whether a button of ntfy may approve. An agent that nothing separates from this program could read the key of the
// tokens, so the setting has no effect there.
func approveByNtfy(c *config.Config) bool { return c.Edges.ApproveByNtfy && AgentsSeparated(c) }

// unstored are notices that the database cannot keep: that it is gone, for example.
type unstored struct {
	mu  sync.Mutex
	all []ops.Notice
}

func (u *unstored) add(n ops.Notice) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n.ID = int64(len(u.all) + 1)
	u.all = append(u.all, n)
}

// DueNotices implements notify.Store.
func (u *unstored) DueNotices(_ context.Context, now time.Time, limit int) (out []ops.Notice, _ error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, n := range u.all {
		if n.Status == ops.NoticePending && !n.NextAt.After(now) && len(out) < limit {
			out = append(out, n)
		}
	}
	return out, nil
}

// SettleNotice implements notify.Store.
func (u *unstored) SettleNotice(_ context.Context, n ops.Notice, _ *ops.Event) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[n.ID-1] = n
	return nil
}

// PendingNotices implements notify.Store.
func (u *unstored) PendingNotices(ctx context.Context) (int, error) {
	due, err := u.DueNotices(ctx, time.Unix(1<<40, 0), math.MaxInt)
	return len(due), err
}

// letters is what a plan tells people, and hears from them.
type letters struct{ *plan }

// unstoredOptions are those of an outbox that reads nothing from the database.
func (p letters) unstoredOptions() notify.OutboxOptions {
	r := p.router(native(p.Config))
	return notify.OutboxOptions{Store: &p.unstored, Sender: r, Clock: p.Clock, Logger: p.Logger, Route: r.Route, Quiet: r.Quiet}
}

// outboxOptions say how this host sends notices: by which routes, and with a link if the pages have a public address.
func (p letters) outboxOptions() notify.OutboxOptions {
	c := p.Config
	with := native(c)
	with.Answers = p.store.People
	router := p.router(with)
	o := notify.OutboxOptions{
		Store: p.store.People, Sender: router, Clock: p.Clock, Logger: p.Logger, Route: router.Route, Quiet: router.Quiet,
	}
	o.Story = p.story
	if c.Edges.PublicURL != "" {
		o.Link = p.link
		o.Answers = func(ctx context.Context, n ops.Notice) []ops.AnswerLink {
			links, err := notify.AnswerLinks(ctx, p.store.People, c.Edges.PublicURL, router.Route(n), n)
			if err != nil { // the notice is sent without them
				p.Logger.WarnContext(ctx, "make answer links failed", "notice", n.ID, "error", err)
			}
			return links
		}
	}
	return o
}

// router sends notices by the configured routes.
func (p letters) router(with notify.Native) notify.Router {
	c := p.Config
	router := notify.Router{First: sender(c, c.AppriseURLs, "", with)}
	if len(c.Edges.SecondURLs) > 0 {
		router.Second = sender(c, c.Edges.SecondURLs, "second", with)
	}
	for i, r := range c.NoticeRoutes {
		routed := notify.Routed{NoticeRoute: r}
		switch {
		case r.Default:
			routed.Sender = router.First
		case len(r.URLs) > 0:
			routed.Sender = sender(c, r.URLs, fmt.Sprintf("route%d", i), with)
		}
		router.Routes = append(router.Routes, routed)
	}
	return router
}

// targetNames are those of the targets of all routes, without secrets.
func (p letters) targetNames() []string {
	return sender(p.Config, targets(p.Config), "", notify.Native{}).Names()
}

// replies reads the answers that people give with buttons.
func (p letters) replies() *notify.Replies {
	c, urls := p.Config, targets(p.Config)
	return notify.NewReplies(notify.RepliesOptions{
		Native: native(c), Store: p.store.People, URLs: urls, Clock: p.Clock, Logger: p.Logger,
		Desk: p.newDesk(),
	})
}

// newDesk is where people are answered that do not come by a page.
func (p letters) newDesk() *desk.Desk {
	return &desk.Desk{Store: p.store, Control: p.supervisor, Clock: p.Clock, Environments: p.envs, Changed: p.hub.Nudge}
}

// story tells how an incident went, for the notice that it is over. If it cannot be read, the notice is sent without it.
func (p letters) story(ctx context.Context, n ops.Notice) string {
	if n.Kind != ops.NoticeResolved || n.CycleID == nil {
		return ""
	}
	incident := n.Incident
	if incident == 0 {
		found, err := p.store.Reports.CycleIncidents(ctx, *n.CycleID)
		if err != nil || len(found) != 1 {
			return "" // the notice is about several
		}
		incident = found[0].ID
	}
	told, err := p.store.Reports.IncidentStory(ctx, incident)
	if err != nil {
		p.Logger.WarnContext(ctx, "tell the story of an incident failed", "incident", incident, "error", err)
		return ""
	}
	return story.Tell(told, p.Clock()).Text()
}

// link is the page on which a person can act on a notice: the question, the incident, or the cycle.
func (p letters) link(ctx context.Context, n ops.Notice) string {
	base := p.Config.Edges.PublicURL
	if n.CycleID == nil {
		return base + "/"
	}
	if n.Kind == ops.NoticeTrust {
		return base + "/services/" + url.PathEscape(n.Environment) + "/" + url.PathEscape(n.Service)
	}
	loaded, err := p.store.Journal.Load(ctx, *n.CycleID)
	if err != nil {
		return base + "/"
	}
	for _, a := range loaded.Journal.Approvals {
		if a.Status == ops.ApprovalPending {
			return fmt.Sprintf("%s/approvals/%d", base, a.ID)
		}
	}
	for _, i := range loaded.Journal.Incidents {
		if i.LastCycle == *n.CycleID {
			return fmt.Sprintf("%s/incidents/%d", base, i.ID)
		}
	}
	return fmt.Sprintf("%s/cycles/%d", base, *n.CycleID)
}
