package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
)

// nowLine is one sentence about what is being done or is about to happen.
type nowLine struct {
	Badge       badge
	Environment string // empty if there is only one
	Parts       []nowPart
	Link        *pageLink
}

// nowPart is a piece of a sentence: text, a time, or a duration that the script keeps up to date.
type nowPart struct {
	Text  string
	At    *stamp
	Since string
}

// pageLink is a link with its words.
type pageLink struct {
	Path, Word string
}

// bannerView is a fact above everything else, with a link to where one can act.
type bannerView struct {
	ID, Tone, Icon, Text string
	Link                 pageLink
}

// addSituation adds what is being done, what is about to happen, and the banners that follow from it.
func (s *server) addSituation(ctx context.Context, m moment, view *overviewView, services []serviceEntry, readOnly bool) error {
	facts, err := situation.Read(ctx, s.Store, s.Environments, badServices(services), m.now)
	if err != nil {
		return err
	}
	facts.NextChecks, facts.ReadOnly = s.NextCheck(), readOnly
	told := map[ops.CycleID]bool{}
	for _, l := range situation.Doing(facts) {
		told[l.Cycle] = true
		view.Doing = append(view.Doing, s.nowLine(m, l))
	}
	// The page says elsewhere why these need a person.
	view.NeedsYou = slices.DeleteFunc(view.NeedsYou, func(c cycleLine) bool { return told[c.ID] })
	ahead := situation.Ahead(facts)
	if len(ahead) == 1 && ahead[0].Tone == situation.ToneCalm && len(ahead[0].Services) == 0 {
		ahead = nil // the time of the next check is in the head of the page
	}
	for _, l := range ahead {
		view.Ahead = append(view.Ahead, s.nowLine(m, l))
	}
	s.addBanners(view, facts)
	return nil
}

// badServices are the first of the services whose last check was bad, worst first, as the list is sorted.
func badServices(services []serviceEntry) []situation.Service {
	var out []situation.Service
	for _, e := range services {
		status := ops.Down
		switch e.badge.Tone {
		case "bad":
		case "warn":
			status = ops.Degraded
		default:
			continue
		}
		if out = append(out, situation.Service{Environment: e.environment, Name: e.service, Status: status}); len(out) > situation.MostServices {
			break
		}
	}
	return out
}

func (s *server) nowLine(m moment, l situation.Line) nowLine {
	out := nowLine{Badge: toneBadge(l.Tone), Link: linkOf(l)}
	if len(s.Environments) > 1 {
		out.Environment = plain(l.Environment)
	}
	for _, p := range l.Parts {
		switch {
		case p.At != nil:
			out.Parts = append(out.Parts, nowPart{At: m.maybe(p.At)})
		case p.Since != nil:
			out.Parts = append(out.Parts, nowPart{Text: span(m.now.Sub(*p.Since)), Since: p.Since.UTC().Format(time.RFC3339)})
		default:
			out.Parts = append(out.Parts, nowPart{Text: plain(p.Text)})
		}
	}
	return out
}

func toneBadge(t situation.Tone) badge {
	switch t {
	case situation.ToneRun:
		return badge{"run", "loader", "Running"}
	case situation.ToneHand:
		return badge{"hand", "hand", "Needs you"}
	case situation.ToneWarn:
		return badge{"warn", "triangle-alert", "Warning"}
	case situation.ToneCalm:
	}
	return badge{"unknown", "clock", "Waiting"}
}

// linkOf leads to where one can act on a line.
func linkOf(l situation.Line) *pageLink {
	switch {
	case l.Approval > 0:
		return &pageLink{fmt.Sprintf("/approvals/%d", l.Approval), "Review"}
	case l.Incident > 0:
		return &pageLink{fmt.Sprintf("/incidents/%d", l.Incident), "Open incident"}
	case l.Session > 0:
		return &pageLink{fmt.Sprintf("/sessions/%d", l.Session), fmt.Sprintf("Session #%d", l.Session)}
	case l.Cycle > 0:
		return &pageLink{cyclePath(l.Cycle), fmt.Sprintf("C-%d", l.Cycle)}
	case l.Silences:
		return &pageLink{"/silences", "Silences"}
	}
	return nil
}

func (s *server) addBanners(view *overviewView, facts situation.Facts) {
	var spent []string
	for _, e := range s.Environments {
		if facts.Spent[e.Name] {
			spent = append(spent, plain(e.Name))
		}
	}
	if len(spent) > 0 {
		where := ""
		if len(s.Environments) > 1 {
			where = " in " + strings.Join(spent, ", ")
		}
		view.Banners = append(view.Banners, bannerView{
			ID: "banner-budget", Tone: "warn", Icon: "coins", Text: "Daily budget reached" + where + ". No session starts until 00:00 UTC.",
			Link: pageLink{"/config?q=budget_day", "Raise limit"},
		})
	}
	view.Walls, view.Hole = situation.Walls(s.Walls())
	if view.Hole {
		view.Banners = append(view.Banners, bannerView{
			ID: "banner-walls", Tone: "warn", Icon: "shield", Text: view.Walls + ".", Link: pageLink{"/config#walls", "See why"},
		})
	}
	dry := 0
	for _, e := range s.Environments {
		if e.Policy.DryRun {
			dry++
		}
	}
	switch {
	case dry == len(s.Environments):
		view.DryRun = situation.DryRun
	case dry > 0:
		view.DryRun = fmt.Sprintf("Dry run in %d of %d environments: agents only look there", dry, len(s.Environments))
	}
}

// textView is a text that may be too long to be shown at once.
type textView struct {
	Short string
	Full  string // empty if nothing was cut
}

// clamp shortens a text at the end of a word.
func clamp(text string, limit int) textView {
	short, cut := clip(text, limit)
	if !cut {
		return textView{Short: text}
	}
	if i := strings.LastIndexAny(short, " \n"); i > limit/2 {
		short = short[:i]
	}
	return textView{Short: strings.TrimRight(short, " \n,;:.") + "…", Full: text}
}
