package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// ErrMuted means that the route of a notice has no target, as configured.
var ErrMuted = errors.New(ops.SkippedMuted)

// Routed is a route with its own sender; nil sends to nobody.
type Routed struct {
	ops.NoticeRoute
	Sender Sender
}

// Router sends each notice by its route.
type Router struct {
	First  Sender
	Second Sender // nil: the first
	Routes []Routed
}

// Send delivers one notice by the first route that matches.
func (r Router) Send(ctx context.Context, n ops.Notice) ([]string, error) {
	sender := r.way(n).sender
	if sender == nil {
		return nil, ErrMuted
	}
	return sender.Send(ctx, n)
}

// Route names the route of a notice; notices of one route can be sent together.
func (r Router) Route(n ops.Notice) string { return r.way(n).name }

// Quiet returns the quiet hours of the route that a notice goes by, if it has any.
func (r Router) Quiet(n ops.Notice) *ops.QuietHours { return r.way(n).quiet }

// way is how a notice goes; without a sender to nobody.
type way struct {
	name   string
	sender Sender
	quiet  *ops.QuietHours
}

func (r Router) way(n ops.Notice) way {
	if n.Target == ops.TargetSecond && r.Second != nil {
		return way{name: "second", sender: r.Second}
	}
	for _, route := range r.Routes {
		if matches(route.NoticeRoute, n) {
			return way{"route " + route.Name, route.Sender, route.Quiet}
		}
	}
	if n.Kind == ops.NoticeEscalated {
		return way{name: "nobody"} // sent only where a route names it
	}
	return way{name: "first", sender: r.First}
}

func matches(r ops.NoticeRoute, n ops.Notice) bool {
	return urgency(n.Level) >= urgency(r.Level) &&
		r.Takes(n.Kind) &&
		(len(r.Services) == 0 || slices.ContainsFunc(r.Services, func(pattern string) bool {
			return pattern != "" && n.Service != "" && ops.MatchPattern(pattern, n.Service)
		}))
}

// urgency orders levels; no level is the lowest.
func urgency(l ops.Level) int {
	return slices.Index([]ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical}, l)
}

// digestFrom is how many notices of one route at once are sent as one message.
const digestFrom = 4

// batches groups the notices that are sent as one message. A retry is sent alone: one bad notice must not delay the others. A question is
// sent alone too, so that it has its buttons.
func (o *Outbox) batches(due []ops.Notice) [][]ops.Notice {
	var out [][]ops.Notice
	if o.Route == nil {
		for _, n := range due {
			out = append(out, []ops.Notice{n})
		}
		return out
	}
	alone := func(n ops.Notice) bool { return n.Attempts > 0 || n.Kind.AsksPeople() }
	counts := map[string]int{}
	for _, n := range due {
		if !alone(n) {
			counts[o.Route(n)]++
		}
	}
	at := map[string]int{}
	for _, n := range due {
		way := o.Route(n)
		if alone(n) || counts[way] < digestFrom {
			out = append(out, []ops.Notice{n})
			continue
		}
		if i, ok := at[way]; ok {
			out[i] = append(out[i], n)
			continue
		}
		at[way] = len(out)
		out = append(out, []ops.Notice{n})
	}
	return out
}

// digest is one message with several notices, the most urgent first.
func digest(batch []ops.Notice) ops.Notice {
	if len(batch) == 1 {
		return batch[0]
	}
	sorted := slices.Clone(batch)
	for i, n := range sorted {
		if n.Link != "" {
			sorted[i].Body = notice.WithLink(n.Body, n.Link)
		}
	}
	slices.SortStableFunc(sorted, func(a, b ops.Notice) int { return urgency(b.Level) - urgency(a.Level) })
	first, text := sorted[0], notice.Digest(sorted)
	return ops.Notice{
		ID: first.ID, Kind: first.Kind, Level: first.Level, Target: first.Target, Environment: first.Environment, Service: first.Service,
		Title: text.Title, Body: text.Body,
	}
}

// Native says how the targets that are served here are used.
type Native struct {
	HTTPClient *http.Client
	// Answers makes the buttons; nil sends none.
	Answers Subjects
	// TelegramSenders may answer by Telegram, TelegramResponders may only acknowledge, snooze and deny. If there are neither, its
	// messages have no buttons.
	TelegramSenders, TelegramResponders []int64
	// ApproveByNtfy lets a button of ntfy approve.
	ApproveByNtfy bool
}

func (n Native) bot(t TelegramTarget) telegramBot {
	return telegramBot{api: t.API, token: t.Token, client: newClient(n.HTTPClient)}
}

func (n Native) ntfy(t NtfyTarget) ntfy {
	return ntfy{target: t, client: newClient(n.HTTPClient), answers: n.Answers, approve: n.ApproveByNtfy}
}

func (n Native) telegram(t TelegramTarget) telegram {
	s := telegram{target: t, bot: n.bot(t), answers: n.Answers}
	if !n.answeredByTelegram() {
		s.answers = nil
	}
	return s
}

// answeredByTelegram reports whether anybody may answer by Telegram.
func (n Native) answeredByTelegram() bool {
	return len(n.TelegramSenders)+len(n.TelegramResponders) > 0
}

// recipient is one of the targets of a sender. The name is on record with what it took, so it must not hold a secret.
type recipient struct {
	name   string
	sender interface {
		Send(ctx context.Context, n ops.Notice) error
	}
}

// Several sends each notice to several targets. What a target took is not sent to it again when another target failed.
type Several struct {
	targets []recipient
}

// NewSender sends to ntfy and Telegram itself, and to all other targets through Apprise.
func NewSender(a AppriseOptions, n Native) *Several {
	s := &Several{}
	targets := ParseTargets(a.URLs)
	for _, t := range targets.Ntfy {
		s.targets = append(s.targets, recipient{t.name(), n.ntfy(t)})
	}
	for _, t := range targets.Telegram {
		s.targets = append(s.targets, recipient{t.name(), n.telegram(t)})
	}
	// Without URLs an Apprise API server has targets of its own.
	if len(targets.Apprise) > 0 || targets.Native() == 0 {
		a.URLs = targets.Apprise
		rest := New(a)
		s.targets = append(s.targets, recipient{rest.name(), rest})
	}
	return s
}

// Send delivers a notice to every target that does not have it yet.
func (s *Several) Send(ctx context.Context, n ops.Notice) ([]string, error) {
	var failed error
	var took []string
	for _, t := range s.targets {
		if slices.ContainsFunc(n.Deliveries, func(d ops.Delivery) bool { return d.To == t.name }) {
			continue
		}
		err := t.sender.Send(ctx, n)
		switch {
		case err == nil:
			took = append(took, t.name)
		case failed == nil:
			failed = err
		default:
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return took, failed
}

// Names are the targets as people know them; none if nothing is configured.
func (s *Several) Names() []string {
	var out []string
	for _, t := range s.targets {
		if t.name != "" {
			out = append(out, t.name)
		}
	}
	return out
}
